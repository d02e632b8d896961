"""Results -> tables and findings, with the paper's own numbers beside ours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

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
    note: str = ""

    def is_text(self, column: int) -> bool:
        """Whether a column holds words rather than numbers."""
        return any(isinstance(row[column], str) for row in self.rows)


@dataclass(frozen=True)
class Finding:
    """A claim of the paper, whether it held here, and the numbers."""

    target: str
    claim: str
    held: bool
    numbers: str


def corpus_name(config: dict[str, Any]) -> str:
    """Return the name of an experiment's corpus and of its tagger."""
    if config["corpus"] != "reuters":
        return ", ".join([config["corpus"]] if isinstance(config["corpus"], str) else config["corpus"])
    return f"Reuters-21578, tagged by {TAGGERS[config['tags']]}"


def tables(results: dict[str, Any]) -> list[Table]:
    """Return all tables of a report."""
    return [
        _findings_table(results),
        _chosen(results),
        _table_1(results),
        _table_2(results),
        _tuned(results),
        _costs(results),
        _bands(results),
        _sizes(results),
        _calibration(results),
        _ratio_bins(results),
    ]


def curve(results: dict[str, Any], target: str, criterion: str | None) -> dict[int | None, dict[str, Any]]:
    """Return, for each size of a criterion, the cell whose lam was tuned on validation."""
    return {
        cell["size"]: cell
        for cell in results["cells"]
        if cell["target"] == target and cell["criterion"] == criterion and cell["test_f1"] is not None
        and (criterion is not None or (cell["estimator"] == "product" and cell["lam"] > 0))
    }  # fmt: skip


def backoff_curve(results: dict[str, Any], target: str) -> list[dict[str, Any]]:
    """Return the cells of the back-off estimator by size."""
    cells = (cell for cell in results["cells"] if cell["target"] == target and cell["estimator"] == "backoff")
    return sorted((cell for cell in cells if cell["size"]), key=lambda cell: int(cell["size"]))


def chosen(results: dict[str, Any], target: str, family: str) -> dict[str, Any]:
    """Return the cell that was chosen for a family of estimators."""
    found = (entry for entry in results["chosen"] if entry["target"] == target and entry["family"] == family)
    return dict(next(found))


def findings(results: dict[str, Any]) -> list[Finding]:
    """Check each of the paper's findings."""
    targets = results["config"]["targets"]
    found = [finding for target in targets for finding in _findings_of(results, target)]
    if {"LOC", "PER"} <= set(targets):
        per, loc = (chosen(results, target, "selective")["test_f1"] for target in ("PER", "LOC"))
        times = per / loc if loc else float("inf")
        numbers = f"F1 of selective: PER {per:.3f}, LOC {loc:.3f}, {times:.2f} times"
        found.append(Finding("PER", "F1 is almost twice that of LOC", times >= ALMOST_TWICE, numbers))
    return found


def _findings_of(results: dict[str, Any], target: str) -> Iterator[Finding]:
    plain, tuned = (chosen(results, target, family)["test_f1"] for family in ("all used lam=0", "all used lam*"))
    numbers = f"F1 {tuned:.3f} against {plain:.3f}"
    yield Finding(target, "a tuned lam beats lam = 0 (all used)", tuned > plain, numbers)
    f1 = {  # by criterion and size
        name: {size: cell["test_f1"] for size, cell in curve(results, target, name).items()}
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
        tf = f1["tf"][smallest]
        others = {name: values[smallest] for name, values in f1.items() if name not in ("random", "tf")}
        held = all(tf < value for value in others.values())
        numbers = f"F1 at {smallest:,}: {_listed({'tf': tf, **others})}"
        yield Finding(target, "tf is weak at small sizes", held, numbers)
    for name in [name for name in ("cet", "gss") if name in f1]:
        worst = min((value - tuned for size, value in f1[name].items() if (size or 0) >= 1000), default=0.0)
        claim = f"{name} from 1,000 up equals or beats all used lam*"
        numbers = f"smallest difference in F1 {worst:+.3f} (equal: within {EQUAL})"
        yield Finding(target, claim, worst >= -EQUAL, numbers)
    costs = results["targets"][target]["costs"]
    selective, all_used = costs["selective"], costs["all used lam*"]
    share = selective["bytes"] / all_used["bytes"]
    numbers = (
        f"{selective['bytes'] / 1e6:.2f} MB of {all_used['bytes'] / 1e6:.2f} MB, a share of {share:.2f}; "
        f"of the frequencies themselves it holds {selective['frequencies'] / all_used['frequencies']:.2f}"
    )
    yield Finding(target, "a selected model needs about a tenth of the memory or less", share <= 0.12, numbers)


def _listed(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.3f}" for name, value in values.items())


def ours(results: dict[str, Any]) -> list[Finding]:
    """Compare the back-off estimator with the paper's best, both chosen on validation, and with a smaller one."""
    found = []
    for target in results["config"]["targets"]:
        paper, backoff = (chosen(results, target, family)["test_f1"] for family in ("selective", "backoff"))
        times = backoff / paper if paper else float("inf")
        numbers = f"F1 {backoff:.3f} against {paper:.3f}, {times:.2f} times"
        found.append(Finding(target, "the back-off estimator beats the paper's best", backoff > paper, numbers))
        for small in (cell for cell in backoff_curve(results, target) if cell["size"] == SMALL):
            kept = small["test_f1"] / backoff if backoff else 0.0
            numbers = f"F1 {small['test_f1']:.3f} of {backoff:.3f}, {kept:.1%}, in {small['bytes'] / 1e6:.1f} MB"
            claim = f"a back-off model of {SMALL:,} spans of each length keeps 95 % of its F1"
            found.append(Finding(target, claim, kept >= 0.95, numbers))
    return found


def _findings_table(results: dict[str, Any]) -> Table:
    all_findings = [*findings(results), *ours(results)]
    rows = tuple((f.target, f.claim, "held" if f.held else "not held", f.numbers) for f in all_findings)
    title = "Findings of the paper, and of the back-off estimator"
    return Table("findings", title, ("target", "finding", "here", "numbers"), rows)


def _chosen(results: dict[str, Any]) -> Table:
    columns = ("target", "family", "criterion", "size", "lam", "tau", "valid_f1", "test_f1")
    rows = tuple(tuple(entry[column] for column in columns) for entry in results["chosen"])
    note = "Chosen on validation; where a row says so, the size is read off the test curve, as in the paper."
    return Table("chosen", "Best settings of each method", columns, rows, note)


def _table_1(results: dict[str, Any]) -> Table:
    columns = ("n_de", "f_de", "n_nu", "f_nu", "mle", "direct")
    rows = tuple(tuple(row[column] for column in columns) for row in results["table_1"])
    return Table("table-1", "Two estimates of rare ratios", columns, rows, "Table I of the paper, lam = 1e-5.")


def _table_2(results: dict[str, Any]) -> Table:
    paper = PAPER_DATA if results["config"]["n"] == 10 else {}
    columns = ("split", "target", "types", "contexts", "unseen_share", "paper_types", "paper_contexts")
    rows = tuple(
        (row["split"], row["target"], row["types"], row["contexts"], row.get("unseen_share"),
         *paper.get((row["split"], row["target"]), (None, None)))
        for row in results["table_2"]
    )  # fmt: skip
    note = (
        f"Table II of the paper, N = {results['config']['n']}. unseen_share is the share of test types that do not "
        f"occur in the training data{'; in the paper it is above 0.99' if paper else ''}."
    )
    return Table("table-2", "Data", columns, rows, note)


def _tuned(results: dict[str, Any]) -> Table:
    columns = ("target", "criterion", "size", "lam", "valid_f1", "test_f1")
    rows = tuple(
        (target, criterion or "all used", size, cell["lam"], cell["valid_f1"], cell["test_f1"])
        for target in results["config"]["targets"]
        for criterion in (*results["config"]["criteria"], None)
        for size, cell in sorted(curve(results, target, criterion).items(), key=lambda entry: entry[0] or 0)
    )
    rows += tuple(
        (target, "backoff", cell["size"], cell["lam"], cell["valid_f1"], cell["test_f1"])
        for target in results["config"]["targets"]
        for cell in backoff_curve(results, target)
    )
    return Table("tuned", "F1 by number of selected items, as a table with the tuned lam", columns, rows)


def _costs(results: dict[str, Any]) -> Table:
    paper = PAPER_COSTS if results["config"]["n"] == 10 else {}
    measured = ("ngrams", "seconds", "seconds_from_text", "frequencies", "bytes")
    rows = tuple(
        (target, name, *(cost[column] for column in measured), *paper.get((target, name), (None, None)))
        for target in results["config"]["targets"]
        for name, cost in results["targets"][target]["costs"].items()
    )
    note = (
        "Tables III and IV of the paper. Processor seconds to score all test N-grams: the mean of 10 runs on encoded "
        "N-grams, and of 3 runs from text. Selection is not included."
    )
    columns = ("target", "model", *measured, "paper_seconds", "paper_bytes")
    return Table("tables-3-4", "Time and memory", columns, rows, note)


def _bands(results: dict[str, Any]) -> Table:
    columns = ("target", "model", "seen", "types", "relevant", "returned", "hits", "precision", "recall", "f1",
               "average_precision")  # fmt: skip
    rows = tuple(
        (target, name, band, *(metrics[column] for column in columns[3:]))
        for target in results["config"]["targets"]
        for name, evaluation in results["targets"][target]["evaluations"].items()
        for band, metrics in {"all": evaluation["overall"], **evaluation["bands"]}.items()
    )
    title = "Results by how often an N-gram was seen in training"
    return Table("bands", title, columns, rows, f"Of the top {results['config']['k']:,} N-grams.")


def _calibration(results: dict[str, Any]) -> Table:
    columns = ("target", "model", "seen", "targets", "others", "cllr", "least", "loss", "slope", "offset")
    rows = tuple(
        (target, name, band, *(measures[column] for column in columns[3:]))
        for target in results["config"]["targets"]
        for name, found in _measures(results["targets"][target]).items()
        for band, measures in found.items()
    )
    note = (
        "On all test contexts, by how often an N-gram was seen in training. cllr is 0 for perfect ratios, and 1 for "
        "ratios that say nothing; least is its least value under any monotone map, and loss the difference. slope "
        "and offset are those of the log ratio: 1 and 0 if it is right. In a band, ratios are over the band's own."
    )
    return Table("calibration", "Whether the ratios mean what they say", columns, rows, note)


def _measures(result: dict[str, Any]) -> dict[str, Any]:
    """Return how right the ratios of each model of a target are, also when calibrated."""
    calibrated = {name: drawn["measures"] for name, drawn in result["calibration"].items() if "measures" in drawn}
    return {name: evaluation["calibration"] for name, evaluation in result["evaluations"].items()} | calibrated


def _ratio_bins(results: dict[str, Any]) -> Table:
    columns = ("target", "model", "low", "high", "targets", "others", "predicted", "real", "real_low", "real_high")
    rows = tuple(
        (target, name, *(each[column] for column in columns[2:]))
        for target in results["config"]["targets"]
        for name, drawn in results["targets"][target]["calibration"].items()
        for each in drawn["bins"]
    )
    note = "low and high are the log ratios of a bin. Intervals are of 95 %, for independent contexts."
    return Table("ratio-bins", "Predicted and real ratios, as a table", columns, rows, note)


def _sizes(results: dict[str, Any]) -> Table:
    columns = ("target", "model", "limit", "bytes", "test_f1")
    rows: list[tuple[Any, ...]] = []
    for target in results["config"]["targets"]:
        for cell in [*backoff_curve(results, target), chosen(results, target, "backoff")]:
            limit = f"{cell['size']:,} spans of each length" if cell["size"] else "none"
            rows.append((target, "backoff", limit, cell["bytes"], cell["test_f1"]))
        for cell in results["targets"][target]["rooms"]:
            limit = f"{cell['size']:,} items a position" if cell["size"] else "none"
            rows.append((target, cell["criterion"], limit, cell["bytes"], cell["test_f1"]))
    return Table("model-size", "F1 by model size, as a table", columns, tuple(rows))
