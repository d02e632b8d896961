"""Numbers that must stay, whatever happens to the code: computed anew, and compared with the files beside this one.

    python -m golden            # compare all of them (in tests/)
    python -m golden --write    # write them anew: only where a number was wrong and is said to be
    python -m golden paper      # the full experiment, both taggers, n = 10 and n = 2 (half an hour), compared
    python -m golden interface  # print the commands, options and public names

Frequencies agree exactly, ratios within 1e-9, calibration and comparison within 1e-6. Every option is named, since
defaults may change, and the files are JSON lines and Parquet of plain columns.
"""

from __future__ import annotations

import inspect
import json
import random
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import raregram as rg

FOLDER = Path(__file__).parent
EXACT, RATIO, LEARNED = 0.0, 1e-9, 1e-6  # tolerances
LAYOUT = {"n": 4, "side": "left", "kind": "words", "tokenize": "whitespace", "lower": False, "pad": False}
SPANS = ["units", "suffixes:3", "shapes:3", "whole"]
TARGETS = ["LOC", "PER"]


TELLING = ["in", "near", "the", "mr", "said", "by"]  # more often before names than elsewhere


# --- documents ---------------------------------------------------------------------------------------------------
def make_documents(number: int, seed: int) -> list[dict[str, Any]]:
    """Return documents in which places and people stand after words that tell of them, more or less."""
    source = random.Random(seed)
    syllables = ["ba", "ne", "ti", "ro", "su", "lan", "der", "king", "é", "mo"]
    spelled = random.Random(0)
    words = ["".join(spelled.choices(syllables, k=spelled.randint(1, 3))) for _ in range(150)]
    made = []
    for index in range(number):
        items: list[str] = []
        spans: list[dict[str, Any]] = []
        while len(items) < source.randint(40, 90):
            for _ in range(source.randint(2, 7)):
                word = words[min(int(source.paretovariate(0.6)), 150) - 1]
                word = source.choice(TELLING) if source.random() < 0.15 else word
                shape = source.random()
                items.append(word.title() if shape < 0.1 else str(source.randint(1, 999)) if shape < 0.14 else word)
            label = source.choice(["LOC", "PER", None])
            if label:
                near = {"LOC": ["in", "near", "in the"], "PER": ["mr", "said", "by"]}[label]
                items += source.choice(near if source.random() < 0.8 else words).split()
                width = source.randint(1, 2)
                spans.append({"start": len(items), "end": len(items) + width, "label": label})
                items += [source.choice(words).title() for _ in range(width)]
            items[-1] += source.choice(["", "", ",", "."])
        made.append({"id": f"d{index}", "items": items, "spans": spans})
    return made


def read_documents(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text().splitlines()]


@cache
def train() -> list[dict[str, Any]]:
    return read_documents("train")


@cache
def test() -> list[dict[str, Any]]:
    return read_documents("test")


def texts(documents: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"text": " ".join(document["items"])} for document in documents]


@cache
def contexts() -> list[str]:
    """Return 500 contexts: of the test documents, shorter ones, and some of which nothing was seen."""
    found = [
        " ".join(document["items"][end - 4 : end])
        for document in test()
        for end in range(4, len(document["items"]) + 1, 3)
    ]
    found = list(dict.fromkeys(found))[:470]
    short = [" ".join(context.split()[-length:]) for length in (1, 2, 3) for context in found[:9]]
    return [*found, *short, "never seen before this", "? ! ; :", ""]


# --- what is computed --------------------------------------------------------------------------------------------
def count(source: Any = None, **options: Any) -> rg.Counts:
    given = {**LAYOUT, "targets": TARGETS, "spans": SPANS, "folds": 0, "documents": False, "min_count": 1, **options}
    return rg.count(train() if source is None else source, **given)


def rows(counts: rg.Counts) -> pa.Table:
    """Return the rows of a count table in an order of their own, and its totals as a first row."""
    table = counts.to_arrow()
    totals = {"start": [-1], "end": [-1], "items": [[]]}
    totals |= {name: [int(total)] for name, total in zip(table.column_names[3:], counts.totals, strict=True)}
    keyed = sorted(table.to_pylist(), key=lambda row: (row["start"], row["end"], row["items"]))
    return pa.concat_tables([pa.table(totals, schema=table.schema), pa.Table.from_pylist(keyed, table.schema)])


def labelled() -> tuple[list[str], list[str | None]]:
    """Return contexts with a label each."""
    labels = [("LOC" if context.split()[-1] in ("in", "near") else None) for context in contexts()[:470]]
    return contexts()[:470], labels


def weighted() -> rg.Counts:
    f_nu = [index * 7 % 5 for index in range(470)]
    f_de = [index * 11 % 13 for index in range(470)]
    return rg.Counts.from_ngrams(
        contexts()[:470], f_nu, f_de, n_nu=2000, n_de=9000, target="target", denominator="complement",
        spans=["units", "suffixes:2", "whole"], n=4, side="left", kind="words", tokenize="whitespace", lower=False,
    )  # fmt: skip


def of_contexts() -> rg.Counts:
    return rg.Counts.from_contexts(
        *labelled(), targets=["LOC"], spans=["units", "whole"], n=4, side="left", kind="words",
        tokenize="whitespace", lower=False, folds=0,
    )  # fmt: skip


def two_samples() -> rg.Counts:
    return rg.count(
        numerator=texts(train()[:30]), denominator=texts(train()[30:60]), n=2, side="left", kind="words",
        tokenize="words", lower=True, pad=False, spans=["units", "whole"], folds=0, documents=False, min_count=1,
    )  # fmt: skip


TABLES: dict[str, Callable[[], rg.Counts]] = {
    "plain": count,
    "fold": lambda: count(folds=3).of_folds([1]),
    "documents": lambda: count(train()[:40], documents=True, n=3, spans=["units", "suffixes:2"]),
    "letters": lambda: count(texts_with_names(), kind="letters", n=4, spans=["units", "suffixes:3"]),
    "right": lambda: count(train()[:60], side="right"),
    "min_count": lambda: count(min_count=3),
    "pad": lambda: count(train()[:40], pad=True, n=3, spans=["units", "suffixes:2"]),
    "words": lambda: count(train()[:60], tokenize="words", lower=True, n=3, spans=["units", "suffixes:2"]),
    "contexts": of_contexts,
    "weighted": weighted,
    "samples": two_samples,
    "merged": lambda: count(train()[:50]) + count(train()[50:]) - count(train()[:20]),
}


def texts_with_names() -> list[dict[str, Any]]:
    return [{"items": document["items"], "spans": document["spans"]} for document in train()[:25]]


LAM = 1e-3
SELECTIVE = {"estimator": "selective", "size": 20, "lam": LAM, "unseen": "neutral", "seed": 3}
BACKOFF = {"estimator": "backoff", "lam": 6 / 4000, "unit_lam": 60 / 4000}
MODELS: dict[str, dict[str, Any]] = {
    "mle": {"estimator": "mle"},
    "direct": {"estimator": "direct", "lam": LAM},
    "smoothed": {"estimator": "smoothed", "lam": 0.5},
    "product": {"estimator": "product", "lam": 0.0, "unseen": "neutral"},
    "product_formula": {"estimator": "product", "lam": LAM, "unseen": "formula"},
    **{
        criterion: {**SELECTIVE, "criterion": criterion}
        for criterion in ("random", "tf", "cet", "chi2", "chi2_printed", "gss", "gss_abs")
    },
    "backoff": {**BACKOFF, "tau": 0.5, "longest": 3, "shapes": True},
    "no_shapes": {**BACKOFF, "tau": 0.8, "longest": 2, "shapes": False},
    "sized": {**BACKOFF, "tau": 0.5, "longest": 3, "shapes": True, "criterion": "gain", "size": 30},
}
CALIBRATED = ("product", "cet", "backoff")


@cache
def folded() -> rg.Counts:
    return count(folds=5)


@cache
def model(name: str, target: str = "LOC", calibrate: bool = False) -> rg.Model:
    return rg.fit(folded(), target, denominator="complement", calibrate=calibrate, **MODELS[name])


def scores() -> pa.Table:
    """Return the log ratios of all models, and intervals of those that have them."""
    columns: dict[str, Any] = {"context": contexts()}
    for name in MODELS:
        columns[name] = model(name).log_ratio(contexts())
        if name not in ("mle", "direct", "smoothed"):
            columns[f"{name}_low"], columns[f"{name}_high"] = model(name).interval(contexts(), 0.9).T
    return pa.table(columns)


def calibrated_scores() -> pa.Table:
    columns: dict[str, Any] = {"context": contexts()}
    for target in TARGETS:
        for name in CALIBRATED:
            middle, low, high = model(name, target, True).with_interval(contexts(), 0.9)
            columns |= {f"{name}_{target}": middle, f"{name}_{target}_low": low, f"{name}_{target}_high": high}
    return pa.table(columns)


def explanations() -> pa.Table:
    """Return the terms of some contexts."""
    found = []
    for name, calibrate in (("product", False), ("cet", False), ("backoff", False), ("backoff", True)):
        for context in contexts()[:480:40]:
            for order, term in enumerate(model(name, "LOC", calibrate).explain(context).terms):
                found.append({
                    "model": f"{name}{' calibrated' * calibrate}", "context": context, "order": order,
                    "start": term.start, "end": term.end, "items": list(term.items), "kind": term.kind,
                    "f_nu": term.f_nu, "f_de": term.f_de, "value": term.value,
                })  # fmt: skip
    return pa.Table.from_pylist(found)


def evaluation() -> pa.Table:
    """Return the measures of a plain and of a calibrated model on the test documents."""
    found = []
    for calibrate in (False, True):
        result = rg.evaluate(model("backoff", "LOC", calibrate), test(), k=20).to_dict()
        measures = {**result["overall"], **result["calibration"]["all"]}
        found += [
            {"calibrated": calibrate, "measure": name, "value": float(value)}
            for name, value in sorted(measures.items())
            if isinstance(value, int | float)
        ]
    return pa.Table.from_pylist(found)


def experiment() -> pa.Table:
    """Return the cells and the chosen ones of an experiment on 300 documents."""
    from raregram.experiment.run import Config, load_corpus, run

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "made.jsonl")
        path.write_text("".join(json.dumps(document) + "\n" for document in make_documents(300, seed=9)))
        config = Config(
            corpus=(str(path),), seed=1, train=200, valid=50, test=50, n=4, side="left", kind="words",
            targets=("LOC", "PER"), denominator="complement", unseen="neutral", k=150,
            criteria=("random", "tf", "cet", "chi2", "chi2_printed", "gss", "gss_abs"), sizes=(5, 20, 100),
            lams=(1e-5, 1e-3, 1e-1), suffixes=3, shapes=3, priors=(3.0, 10.0), taus=(0.5, 0.8),
        )  # fmt: skip
        return cells_of(run(config, load_corpus(config), processes=1))


CELL = ("target", "estimator", "criterion", "size", "lam", "valid_f1", "test_f1")


def cells_of(results: dict[str, Any]) -> pa.Table:
    """Return the cells of an experiment, and the chosen ones, as a table."""
    found = [{"family": None, **{name: cell.get(name) for name in CELL}} for cell in results["cells"]]
    for target, families in chosen_of(results):
        found += [
            {"family": family, **{name: cell.get(name) for name in CELL}, "target": target}
            for family, cell in families
        ]
    order = sorted(found, key=lambda row: json.dumps([row[name] for name in ("family", *CELL[:5])]))
    schema = pa.schema(
        [
            ("family", pa.string()),
            ("target", pa.string()),
            ("estimator", pa.string()),
            ("criterion", pa.string()),
            ("size", pa.int64()),
            ("lam", pa.float64()),
            ("valid_f1", pa.float64()),
            ("test_f1", pa.float64()),
        ]
    )
    return pa.Table.from_pylist(order, schema)


def without_byte_limits(cells: pa.Table) -> pa.Table:
    """Return the cells of an experiment without the back-off models that were limited in bytes, as none is any more.

    These are the family "backoff, 1 MB" and, of the cells without a size that were measured on test, all but the
    first of each target, which has no limit.
    """
    kept, whole = [], set()
    for row in cells.to_pylist():
        if row["family"] == "backoff, 1 MB":
            continue
        unlimited = (row["family"], row["estimator"], row["size"]) == (None, "backoff", None)
        if unlimited and row["test_f1"] is not None:
            if row["target"] in whole:
                continue
            whole.add(row["target"])
        kept.append(row)
    return pa.Table.from_pylist(kept, cells.schema)


def chosen_of(results: dict[str, Any]) -> Iterable[tuple[str, list[tuple[str, dict[str, Any]]]]]:
    for target in results["config"]["targets"]:
        yield target, [(cell["family"], cell) for cell in results["chosen"] if cell["target"] == target]


def comparison() -> pa.Table:
    """Return the comparison of two genres of the Brown corpus."""
    from raregram.corpus.fetch import fetch_corpus

    found = rg.compare(
        str(fetch_corpus("brown").folder), by="genre", names=("fiction", "news"), n=(1, 2), min_count=30,
        min_documents=2, tokenize="words", lower=True,
    )  # fmt: skip
    return found.table.sort_by("ngram")


FILES: dict[str, tuple[Callable[[], pa.Table], float]] = {
    **{f"counts-{name}": (lambda make=make: rows(make()), EXACT) for name, make in TABLES.items()},
    "scores": (scores, RATIO),
    "calibrated": (calibrated_scores, LEARNED),
    "explanations": (explanations, LEARNED),
    "evaluation": (evaluation, LEARNED),
    "experiment": (experiment, LEARNED),
    "comparison": (comparison, LEARNED),
}


# --- comparing ---------------------------------------------------------------------------------------------------
def differences(expected: pa.Table, found: pa.Table, tolerance: float) -> list[str]:
    """Return in which columns two tables differ by more than a tolerance; a column that is new does not."""
    if len(expected) != len(found):
        return [f"{len(found)} rows instead of {len(expected)}"]
    wrong = []
    for name in expected.column_names:
        if name not in found.column_names:
            wrong.append(f"no column {name}")
        elif pa.types.is_floating(expected[name].type):
            a, b = (np.asarray(table[name].cast(pa.float64()), dtype=np.float64) for table in (expected, found))
            with np.errstate(invalid="ignore"):
                close = np.abs(a - b) <= tolerance * np.maximum(1, np.abs(a))
            same = (a == b) | (np.isnan(a) & np.isnan(b)) | close
            if not same.all():
                first = int(np.argmin(same))
                wrong.append(f"{name}: {(~same).sum()} of {len(same)} differ, row {first}: {b[first]} not {a[first]}")
        elif expected[name].to_pylist() != found[name].to_pylist():
            pairs = enumerate(zip(expected[name].to_pylist(), found[name].to_pylist(), strict=True))
            row, (old, new) = next((row, pair) for row, pair in pairs if pair[0] != pair[1])
            wrong.append(f"{name}, row {row}: {new!r} not {old!r}")
    return wrong


def compare(name: str) -> list[str]:
    make, tolerance = FILES[name]
    return differences(read(name), make(), tolerance)


def read(name: str) -> pa.Table:
    """Return what a file says, as far as it is still computed."""
    table = pq.read_table(FOLDER / f"{name}.parquet")
    return without_byte_limits(table) if name.startswith(("experiment", "paper")) else table


def write(name: str) -> None:
    pq.write_table(FILES[name][0](), FOLDER / f"{name}.parquet", compression="zstd")


# --- the paper's experiment, and the interface -------------------------------------------------------------------
def paper(write_anew: bool) -> list[str]:
    """Run the full experiment with both taggers and lengths, and compare or write its cells."""
    from raregram.experiment.run import Config, load_corpus, run

    wrong = []
    for tags in ("stanford", "spacy"):
        for n in (10, 2):
            config = Config(tags=tags, n=n, seed=0)
            found = cells_of(run(config, load_corpus(config)))
            name = f"paper-{tags}-{n}"
            if write_anew:
                pq.write_table(found, FOLDER / f"{name}.parquet", compression="zstd")
            else:
                wrong += [f"{name}: {line}" for line in differences(read(name), found, LEARNED)]
    return wrong


def interface() -> str:
    """Return all commands with their options, and all public names with their arguments."""
    from typer.main import get_group

    from raregram.cli import app

    lines = []
    for name, command in sorted(get_group(app).commands.items()):
        options = (option for param in command.params for option in (*param.opts, *param.secondary_opts))
        lines.append(f"raregram {name}: {' '.join(sorted(options))}")
    modules = {"rg": rg, "rg.ratios": rg.ratios, "rg.selection": rg.selection, "rg.errors": rg.errors}
    modules |= {f"raregram.{name}": import_module(f"raregram.{name}") for name in ("sklearn", "spark", "serve")}
    for prefix, module in modules.items():
        public = getattr(module, "__all__", None) or [
            name for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
        ]  # fmt: skip
        for name in sorted(public):
            value = getattr(module, name)
            lines.append(f"{prefix}.{name}{_arguments(value) if callable(value) else ''}")
            if inspect.isclass(value):
                for member in sorted(dir(value)):
                    if not member.startswith("_") and not hasattr(Exception, member):
                        attribute = inspect.getattr_static(value, member)
                        function = getattr(attribute, "__func__", attribute)
                        shown = _arguments(function) if inspect.isfunction(function) else ""
                        lines.append(f"{prefix}.{name}.{member}{shown}")
    return "\n".join(lines) + "\n"


def _arguments(function: Any) -> str:
    try:
        return f"({', '.join(inspect.signature(function).parameters)})"
    except (TypeError, ValueError):
        return ""
