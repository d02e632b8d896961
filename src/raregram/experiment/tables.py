"""Results -> tables and findings, with the paper's own numbers beside ours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

Results = dict[str, Any]

EQUAL = 0.005  # F1 values nearer than this count as equal
ALMOST_TWICE = 1.7  # or more
SMALL = 5_000  # spans of each length of a smaller back-off model
TAGGERS = {"stanford": "Stanford NER as in the paper", "spacy": "spaCy"}

# Kikuchi et al. 2021, N = 10: types and contexts; seconds to score the test types and bytes to hold the frequencies.
PAPER_DATA = {
    ("train", "all"): (3_906_050, 3_922_930), ("train", "LOC"): (62_228, 62_532), ("train", "PER"): (66_667, 66_766),
    ("valid", "all"): (392_746, 393_445), ("valid", "LOC"): (5_950, 5_957), ("valid", "PER"): (7_348, 7_350),
    ("test", "all"): (394_850, 395_145), ("test", "LOC"): (5_713, 5_716), ("test", "PER"): (7_520, 7_522),
}  # fmt: skip
PAPER_CRITERIA = ("random", "tf", "cet", "chi2", "gss")  # what its findings are about
PAPER_COSTS = {
    ("LOC", "all used lam*"): (30.18, 4.45e8),
    ("LOC", "selective"): (15.95, 2.63e7),  # CET, 10,000 items a position
    ("PER", "all used lam*"): (29.94, 4.45e8),
    ("PER", "selective"): (9.00, 2.61e7),  # chi-square, 5,000
}


@dataclass(frozen=True)
class Table:
    """A table of plain values; None is an empty cell."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, name: str, title: str, rows: Iterable[dict[str, Any]]) -> Table:
        """Make a table of rows with the same names."""
        rows = list(rows)
        return cls(name, title, tuple(rows[0]) if rows else (), tuple(tuple(row.values()) for row in rows))

    def is_text(self, column: int) -> bool:
        """Whether a column holds words rather than numbers."""
        return any(isinstance(row[column], str) for row in self.rows)


@dataclass(frozen=True)
class Finding:
    """A claim, whether it held here, and the numbers."""

    target: str
    claim: str
    held: bool
    numbers: str


def show(value: Any) -> str:
    """Write a value for people: numbers with three digits, and whole ones with all of them.

    >>> [show(value) for value in (None, "LOC", 394850, 0.3, 0.09326, 1e-05, 30.18, 4.45e8)]
    ['', 'LOC', '394,850', '0.300', '0.0933', '1e-05', '30.2', '445,000,000']
    """
    if value is None:
        return ""
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if 0.1 <= abs(value) < 1:
        return f"{value:.3f}"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.3g}"


def corpus_name(config: dict[str, Any]) -> str:
    """Return the name of an experiment's corpus and of its tagger."""
    if config["corpus"] != "reuters":
        return ", ".join([config["corpus"]] if isinstance(config["corpus"], str) else config["corpus"])
    return f"Reuters-21578, tagged by {TAGGERS[config['tags']]}"


# --- parts of the results ----------------------------------------------------------------------------------------
def curve(results: Results, target: str, criterion: str | None) -> dict[int | None, dict[str, Any]]:
    """Return, for each size of a criterion in ascending order, the cell whose lam was tuned on validation."""
    found = [
        cell
        for cell in results["cells"]
        if cell["target"] == target and cell["criterion"] == criterion and cell["test_f1"] is not None
        and (criterion is not None or (cell["estimator"] == "product" and cell["lam"] > 0))
    ]  # fmt: skip
    return {cell["size"]: cell for cell in sorted(found, key=lambda cell: cell["size"] or 0)}


def backoff_curve(results: Results, target: str) -> list[dict[str, Any]]:
    """Return the cells of the back-off estimator by size."""
    cells = (cell for cell in results["cells"] if cell["target"] == target and cell["estimator"] == "backoff")
    return sorted((cell for cell in cells if cell["size"]), key=lambda cell: int(cell["size"]))


def chosen(results: Results, target: str, family: str) -> dict[str, Any]:
    """Return the cell that was chosen for a family of estimators."""
    found = (entry for entry in results["chosen"] if entry["target"] == target and entry["family"] == family)
    return dict(next(found))


# --- findings ----------------------------------------------------------------------------------------------------
def findings(results: Results) -> list[Finding]:
    """Check each of the paper's findings."""
    targets = results["config"]["targets"]
    found = [finding for target in targets for finding in _findings_of(results, target)]
    if {"LOC", "PER"} <= set(targets):
        per, loc = (chosen(results, target, "selective")["test_f1"] for target in ("PER", "LOC"))
        times = _times(per, loc)
        numbers = f"F1 of selective: PER {show(per)}, LOC {show(loc)}, {show(times)} times"
        found.append(Finding("PER", "F1 is almost twice that of LOC", times >= ALMOST_TWICE, numbers))
    return found


def _findings_of(results: Results, target: str) -> Iterator[Finding]:
    plain, tuned = (chosen(results, target, family)["test_f1"] for family in ("all used lam=0", "all used lam*"))
    numbers = f"F1 {show(tuned)} against {show(plain)}"
    yield Finding(target, "a tuned lam beats lam = 0 (all used)", tuned > plain, numbers)
    f1 = {  # by criterion and size
        name: {size or 0: cell["test_f1"] for size, cell in curve(results, target, name).items()}
        for name in results["config"]["criteria"]
        if name in PAPER_CRITERIA
    }
    if "random" in f1:
        means = {name: sum(values.values()) / len(values) for name, values in f1.items()}
        held = means["random"] == min(means.values())
        numbers = f"mean F1 over all sizes: {_listed(means)}"
        yield Finding(target, "random is the worst criterion (chi2 as printed aside)", held, numbers)
    if "tf" in f1:
        smallest = min(results["config"]["sizes"])
        others = {name: values[smallest] for name, values in f1.items() if name not in ("random", "tf")}
        tf = f1["tf"][smallest]
        numbers = f"F1 at {smallest:,}: {_listed({'tf': tf, **others})}"
        yield Finding(target, "tf is weak at small sizes", tf < min(others.values(), default=1.0), numbers)
    for name in ("cet", "gss"):
        if name in f1:
            worst = min((value - tuned for size, value in f1[name].items() if size >= 1000), default=0.0)
            numbers = f"smallest difference in F1 {worst:+.3f} (equal: within {EQUAL})"
            yield Finding(target, f"{name} from 1,000 up equals or beats all used lam*", worst >= -EQUAL, numbers)
    costs = results["targets"][target]["costs"]
    selective, all_used = costs["selective"], costs["all used lam*"]
    share = selective["bytes"] / all_used["bytes"]
    numbers = (
        f"{show(selective['bytes'] / 1e6)} MB of {show(all_used['bytes'] / 1e6)} MB, a share of {show(share)}; "
        f"of the frequencies themselves it holds {show(selective['frequencies'] / all_used['frequencies'])}"
    )
    yield Finding(target, "a selected model needs about a tenth of the memory or less", share <= 0.12, numbers)


def ours(results: Results) -> Iterator[Finding]:
    """Compare the back-off estimator with the paper's best, both chosen on validation, and with a smaller one."""
    for target in results["config"]["targets"]:
        paper, backoff = (chosen(results, target, family)["test_f1"] for family in ("selective", "backoff"))
        numbers = f"F1 {show(backoff)} against {show(paper)}, {show(_times(backoff, paper))} times"
        yield Finding(target, "the back-off estimator beats the paper's best", backoff > paper, numbers)
        for small in (cell for cell in backoff_curve(results, target) if cell["size"] == SMALL):
            kept = small["test_f1"] / backoff if backoff else 0.0
            of_whole = f"F1 {show(small['test_f1'])} of {show(backoff)}, {kept:.1%}"
            claim = f"a back-off model of {SMALL:,} spans of each length keeps 95 % of its F1"
            yield Finding(target, claim, kept >= 0.95, f"{of_whole}, in {show(small['bytes'] / 1e6)} MB")


def _times(value: float, other: float) -> float:
    return float(value / other) if other else float("inf")


def _listed(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {show(value)}" for name, value in values.items())


def findings_table(found: Iterable[Finding], title: str = "") -> Table:
    """Return findings as a table."""
    rows = [
        {
            "target": each.target,
            "finding": each.claim,
            "here": "held" if each.held else "not held",
            "numbers": each.numbers,
        }
        for each in found
    ]
    return Table.of("findings", title, rows)


# --- tables ------------------------------------------------------------------------------------------------------
def tables(results: Results) -> list[Table]:
    """Return all tables of a report."""
    both = "Findings of the paper, and of the back-off estimator"
    made = (_chosen, _table_2, _tuned, _costs, _bands, _sizes, _calibration, _ratio_bins)
    return [
        findings_table([*findings(results), *ours(results)], both),
        Table.of("table-1", "Two estimates of rare ratios", results["table_1"]),
        *(make(results) for make in made),
    ]


def _models(results: Results, part: str) -> Iterator[tuple[dict[str, str], dict[str, Any]]]:
    """Yield target and model, as the beginning of a row, and what one part of the results says of it."""
    for target in results["config"]["targets"]:
        for model, found in results["targets"][target][part].items():
            yield {"target": target, "model": model}, found


def _chosen(results: Results) -> Table:
    columns = ("target", "family", "criterion", "size", "lam", "tau", "valid_f1", "test_f1")
    rows = ({name: entry[name] for name in columns} for entry in results["chosen"])
    return Table.of("chosen", "Best settings of each method", rows)


def _table_2(results: Results) -> Table:
    paper = PAPER_DATA if results["config"]["n"] == 10 else {}
    rows = []
    for row in results["table_2"]:
        types, contexts = paper.get((row["split"], row["target"]), (None, None))
        unseen = {"unseen_share": row.get("unseen_share")}
        rows.append({**row, **unseen, "paper_types": types, "paper_contexts": contexts})
    return Table.of("table-2", "Data", rows)


def _tuned(results: Results) -> Table:
    cells = []
    for target in results["config"]["targets"]:
        for criterion in (*results["config"]["criteria"], None):
            cells += [(criterion or "all used", cell) for cell in curve(results, target, criterion).values()]
        cells += [("backoff", cell) for cell in backoff_curve(results, target)]
    columns = ("size", "lam", "valid_f1", "test_f1")
    rows = (
        {"target": cell["target"], "criterion": name, **{column: cell[column] for column in columns}}
        for name, cell in cells
    )
    return Table.of("tuned", "F1 by number of selected items, as a table with the tuned lam", rows)


def _costs(results: Results) -> Table:
    paper = PAPER_COSTS if results["config"]["n"] == 10 else {}
    rows = []
    for head, cost in _models(results, "costs"):
        seconds, size = paper.get((head["target"], head["model"]), (None, None))
        rows.append({**head, **cost, "paper_seconds": seconds, "paper_bytes": size})
    return Table.of("tables-3-4", "Time and memory", rows)


def _bands(results: Results) -> Table:
    rows = (
        {**head, "seen": band, **metrics}
        for head, evaluation in _models(results, "evaluations")
        for band, metrics in {"all": evaluation["overall"], **evaluation["bands"]}.items()
    )
    return Table.of("bands", "Results by how often an N-gram was seen in training", rows)


def _sizes(results: Results) -> Table:
    rows = []
    for target in results["config"]["targets"]:
        backoff = [*backoff_curve(results, target), chosen(results, target, "backoff")]
        models = [("backoff", "spans of each length", cell) for cell in backoff]
        models += [(cell["criterion"], "items a position", cell) for cell in results["targets"][target]["rooms"]]
        for name, unit, cell in models:
            limit = f"{show(cell['size'])} {unit}" if cell["size"] else "none"
            rows.append(
                {"target": target, "model": name, "limit": limit, "bytes": cell["bytes"], "test_f1": cell["test_f1"]}
            )
    return Table.of("model-size", "F1 by model size, as a table", rows)


def _calibration(results: Results) -> Table:
    measured = [(head, evaluation["calibration"]) for head, evaluation in _models(results, "evaluations")]
    measured += [
        (head, drawn["measures"])
        for head, drawn in _models(results, "calibration")
        if head["model"].endswith(", calibrated")
    ]
    rows = ({**head, "seen": band, **measures} for head, bands in measured for band, measures in bands.items())
    return Table.of("calibration", "Whether the ratios mean what they say", rows)


def _ratio_bins(results: Results) -> Table:
    rows = ({**head, **each} for head, drawn in _models(results, "calibration") for each in drawn["bins"])
    return Table.of("ratio-bins", "Predicted and real ratios, as a table", rows)
