"""Whether ratios mean what they say in corpora that nothing was chosen on: the calibration loss of default fits.

    python -m benchmarks.calibration [--settings reuters,brown,sotu]

Documents are split at random: so many to count in folds and fit, and the rest to test. The loss is compared with that
of a perfectly calibrated score of the same size, whose targets are drawn from the calibrated ratios themselves, ten
times. That has a loss, too, since the least Cllr is of a map that was made for the test contexts. The corpora are
Reuters-21578, the Brown corpus with its proper nouns, and the State of the Union addresses of two parties.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

import raregram as rg
from benchmarks.measuring import Figures, parser, processor_seconds, write_json
from raregram.corpus.fetch import fetch_corpus
from raregram.counts.table import Ints
from raregram.experiment.run import FOLDS, Config, load_corpus
from raregram.measure.cllr import aggregate_ties, calibration_metrics
from raregram.measure.evaluate import type_frequencies, types_for
from raregram.models.model import Model
from raregram.models.ratios import Floats
from raregram.options import EstimatorName

PARTIES = {"Republican": "R", "Democratic": "D"}
LEAST_TEST, MOST_TEST = 20, 3_000  # documents
DRAWS = 10
NEAR = 0.01  # what the loss may be above that of a perfectly calibrated score


@dataclass(frozen=True)
class Setting:
    """What is counted."""

    name: str
    corpus: str
    targets: tuple[str, ...]
    counting: dict[str, Any]


@dataclass(frozen=True)
class Found:
    """What was measured of one model."""

    setting: str
    target: str
    estimator: str
    documents: int  # in training
    seed: int
    train_targets: int
    test_targets: int
    before: float  # the loss without calibration,
    loss: float  # with it,
    reference: float  # and of a perfectly calibrated score: the mean,
    spread: float  # and the standard deviation of one draw
    cllr: float
    slope: float | None
    offset: float | None
    seconds: float  # of the fit, with its calibration

    @property
    def excess(self) -> float:
        """The loss above that of a perfectly calibrated score."""
        return self.loss - self.reference


SETTINGS = (
    Setting("Reuters-21578", "reuters", ("LOC", "PER"), {}),
    Setting("Reuters-21578, right side", "reuters", ("LOC", "PER"), {"side": "right", "n": 5}),
    Setting("Reuters-21578, letters", "reuters", ("LOC", "PER"), {"kind": "letters", "n": 8}),
    Setting("Brown, proper nouns", "brown", ("NP",), {}),
    Setting("State of the Union, parties", "sotu", ("R",), {"n": 3}),
)


def main() -> None:
    options = parser(__doc__, results=True)
    options.add_argument("--settings", type=words, default=list(READERS), help="corpora")
    options.add_argument("--sizes", type=lambda text: list(map(int, words(text))), default=[100, 300, 1000])
    options.add_argument("--seeds", type=lambda text: list(map(int, words(text))), default=[0, 1, 2])
    options.add_argument("--estimators", type=words, default=["backoff", "selective"])
    arguments = options.parse_args()
    corpora = {name: READERS[name]() for name in arguments.settings}
    entries: list[Found] = []
    for setting, size, seed in product(SETTINGS, arguments.sizes, arguments.seeds):
        if setting.corpus in corpora:
            for found in judge(setting, corpora[setting.corpus], (size, seed), arguments.estimators):
                entries.append(found)
                print(line_of([found]), flush=True)
    figures = verdicts(entries)
    print(*table(list(map(asdict, entries))), sep="\n")
    if arguments.json:
        write_json(arguments.json, {"figures": figures.found, "entries": list(map(asdict, entries))})


def words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


# --- corpora -----------------------------------------------------------------------------------------------------
def reuters() -> pa.Table:
    """Return the articles with the tags of Stanford NER."""
    return load_corpus(Config()).select(["text", "spans"])


def brown() -> pa.Table:
    """Return the 500 texts of the Brown corpus, in which runs of proper nouns (tag np) are spans."""
    paths = sorted(fetch_corpus("brown").folder.rglob("c[a-r][0-9][0-9]"))
    return documents(proper_nouns(path.read_text()) for path in paths)


def proper_nouns(text: str) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the words of a text of word/tag pairs, and where runs of proper nouns are.

    >>> proper_nouns("in/in New/np-tl York/np-tl ,/,")
    (['in', 'New', 'York', ','], [{'start': 1, 'end': 3, 'label': 'NP'}])
    """
    pairs = [pair.rpartition("/") for pair in text.split()]
    is_name = np.array([False, *(tag.split("-")[0].rstrip("$") == "np" for _, _, tag in pairs), False])
    edges = np.flatnonzero(np.diff(is_name.astype(np.int8))).reshape(-1, 2).tolist()
    return [word for word, _, _ in pairs], [{"start": a, "end": b, "label": "NP"} for a, b in edges]


def sotu() -> pa.Table:
    """Return the addresses of two parties; each boundary is one of the speaker's party."""
    read = [json.loads(path.read_text()) for path in sorted(fetch_corpus("sotu").folder.rglob("*.json"))]
    speeches = [(speech["text"].split(), PARTIES[speech["party"]]) for speech in read if speech["party"] in PARTIES]
    return documents(
        (items, [{"start": i, "end": i + 1, "label": party} for i in range(len(items))]) for items, party in speeches
    )


READERS: dict[str, Callable[[], pa.Table]] = {"reuters": reuters, "brown": brown, "sotu": sotu}


def documents(found: Iterator[tuple[list[str], list[dict[str, Any]]]]) -> pa.Table:
    """Return documents as a table."""
    items, spans = zip(*found, strict=True)
    return pa.table({"items": list(items), "spans": list(spans)})


# --- measuring ---------------------------------------------------------------------------------------------------
def judge(
    setting: Setting, corpus: pa.Table, size_and_seed: tuple[int, int], estimators: Sequence[EstimatorName]
) -> Iterator[Found]:
    """Fit to some documents and test on others, for every target; nothing where too few documents are left."""
    size, seed = size_and_seed
    order = np.random.default_rng(seed).permutation(len(corpus))
    if len(corpus) - size < LEAST_TEST:
        return
    counting = {"targets": list(setting.targets), **setting.counting}
    train = rg.count(corpus.take(order[:size]), folds=FOLDS, **counting)
    test = rg.count(corpus.take(order[size : size + MOST_TEST]), spans=["units", "whole"], **counting)
    for target in setting.targets:
        for estimator in estimators:
            fitted: list[Model] = []
            seconds = processor_seconds(lambda: fitted.append(rg.fit(train, target, estimator)))  # noqa: B023
            model = fitted[0]
            types, frequencies = types_for(model, test), type_frequencies(test, target)
            plain = calibration_metrics(
                aggregate_ties(replace(model, calibration=None).log_ratio(types), *frequencies)
            )
            log_ratio = model.log_ratio(types)
            now = calibration_metrics(aggregate_ties(log_ratio, *frequencies))
            losses = simulated_losses(log_ratio, *frequencies, seed)
            assert plain.loss is not None
            assert now.cllr is not None
            assert now.loss is not None
            yield Found(
                setting.name, target, estimator, size, seed, model.settings.n_nu, now.targets, plain.loss, now.loss,
                float(np.mean(losses)), float(np.std(losses)), now.cllr, now.slope, now.offset, seconds,
            )  # fmt: skip


def simulated_losses(log_ratio: Floats, f_nu: Ints, f_de: Ints, seed: int) -> list[float]:
    """Return the calibration losses of contexts whose targets are drawn from their ratios: these are right.

    >>> scores = np.repeat([-1.0, 1.0], 1000)
    >>> max(simulated_losses(scores, np.ones(2000, int), np.ones(2000, int), seed=0)) < 0.01
    True
    """
    generator, frequency = np.random.default_rng(seed), f_nu + f_de
    prior = np.log(f_nu.sum()) - np.log(f_de.sum())
    probability = 1 / (1 + np.exp(-(log_ratio + prior)))
    found = []
    for _ in range(DRAWS):
        drawn = generator.binomial(frequency, probability)
        loss = calibration_metrics(aggregate_ties(log_ratio, drawn, frequency - drawn)).loss
        found += [] if loss is None else [loss]
    return found


# --- results -----------------------------------------------------------------------------------------------------
def groups(entries: Sequence[Found]) -> Iterator[list[Found]]:
    """Yield what was measured with different seeds alone."""
    by_key: dict[tuple[object, ...], list[Found]] = {}
    for entry in entries:
        by_key.setdefault((entry.setting, entry.documents, entry.estimator, entry.target), []).append(entry)
    yield from by_key.values()


def mean(entries: Sequence[Found], name: str) -> float:
    """Return the mean of a measurement over the seeds."""
    values = [value for entry in entries if (value := getattr(entry, name)) is not None]
    return float(np.mean(values)) if values else float("nan")


def verdicts(entries: Sequence[Found]) -> Figures:
    """Compare the losses, in the mean over the seeds, with those of perfectly calibrated scores."""
    figures = Figures()
    for group in groups(entries):
        first = group[0]
        what = (
            f"{first.setting}, {first.target}, {first.documents:,} documents, {first.estimator}: loss above the least"
        )
        figures.add(what, mean(group, "excess"), most=NEAR)
    return figures


HEAD = ("targets", "before", "loss", "perfect", "above", "slope", "offset", "Cllr", "fit s")
COLUMNS = ("train_targets", "before", "loss", "reference", "excess", "slope", "offset", "cllr", "seconds")


def table(entries: Sequence[dict[str, Any]]) -> list[str]:
    """Return one table in Markdown, of means over the seeds."""
    lines = [f"| | | {' | '.join(HEAD)} |", f"|---|---|{'--:|' * len(HEAD)}"]
    return lines + [line_of(group) for group in groups([Found(**entry) for entry in entries])]


def line_of(group: Sequence[Found]) -> str:
    """Return a line of the table."""
    first, (count, *others) = group[0], (mean(group, name) for name in COLUMNS)
    what = f"{first.setting}, {first.target} | {first.documents:,}, {first.estimator}"
    cells = [f"{count:,.0f}", *(f"{value:.4f}" for value in others[:4]), *(f"{value:.3g}" for value in others[4:])]
    return f"| {what} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
