"""The library's part of the soak: one long-lived process that counts, merges, subtracts, fits and scores.

    python -m reliability.soak_work FOLDER

It goes round by round, each with corpora that were never there before. For every round it prints one line of JSON and
waits for a line on standard input; then it puts the new models under the names that the service reads. It ends when
standard input does.

A table holds the corpora of the last few rounds: the new one is merged in, the oldest is subtracted, so that tables
neither grow nor repeat. What must be equal is compared by digest or to the last bit in every round.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import raregram as rg
from raregram.measure.synthetic import zipf_documents
from raregram.text import shapes

DOCUMENTS, LENGTH, WORDS = 60, 80, 4_000  # of a corpus; WORDS is what comes again in every round
FRESH = 0.02  # the share of words that never came before
TARGETS = ("LOC", "ORG", "PER")
ESTIMATORS = ("backoff", "selective", "direct", "product", "mle")
CRITERIA = ("cet", "chi2", "gss", "tf", "random")
WINDOW = 3  # corpora that a table holds
SPILL = 1 << 20  # bytes: a memory limit under which a count goes to files
SPILL_EVERY = 3  # rounds
BATCH = 200  # contexts of a large question
LEVEL = 0.9
LAST = -np.inf  # where no evidence stands in a ranking
NAMES = 0.08  # the share of words that have a label,
LABELS = {"a": "LOC", "o": "ORG", "i": "PER"}  # by the last letter of the word before
Document = dict[str, Any]
Facts = dict[str, Any]  # of an answer: what is compared, by the name of the model
Question = dict[str, Any]


@dataclass(frozen=True)
class Track:
    """What is counted for one served model: always the same, so that any question suits any round's model."""

    target: str
    n: int
    side: str
    kind: str
    pad: bool

    @property
    def counting(self) -> dict[str, Any]:
        """The arguments of a count."""
        spans = ("units", "suffixes:3", "shapes:3", "whole")
        return {
            "n": self.n,
            "side": self.side,
            "kind": self.kind,
            "pad": self.pad,
            "spans": spans,
            "targets": TARGETS,
        }


TRACKS = (
    Track("LOC", 4, "left", "words", pad=False),
    Track("ORG", 3, "right", "words", pad=True),
    Track("PER", 5, "left", "letters", pad=False),
)


@dataclass
class Ledger:
    """What was compared, and what was not equal."""

    checks: int = 0
    wrong: list[str] = field(default_factory=list)

    def check(self, right: bool, what: str) -> None:
        """Note one comparison."""
        self.checks += 1
        if not right:
            self.wrong.append(what)


@dataclass
class Holding:
    """What the process holds of one track from round to round."""

    track: Track
    folder: Path
    running: rg.Counts | None = None
    window: deque[tuple[Path, Path]] = field(default_factory=deque)  # files of documents, and of their counts
    model: rg.Model | None = None


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pace", type=float, default=0.0, help="the least seconds that a round takes")
    parser.add_argument("--leak", type=int, default=0, help="bytes to leak in a second, with some open files")
    work(**vars(parser.parse_args()))


def work(folder: Path, seed: int, pace: float, leak: int) -> None:
    """Go round by round until standard input ends."""
    fill_memory_of_shapes()
    if leak:
        threading.Thread(target=leak_on_purpose, args=(leak,), daemon=True).start()
    ledger = Ledger()
    holdings = [Holding(track, folder / track.target) for track in TRACKS]
    for holding in holdings:
        holding.folder.mkdir()
    for number in range(sys.maxsize):
        began = time.monotonic()
        rng = np.random.default_rng((seed, number))
        before = [holding.model for holding in holdings]
        texts = [one_round(holding, number, rng, ledger) for holding in holdings]
        questions = list(make_questions(holdings, before, texts, rng))
        prepared = folder / "prepared.json"
        prepared.write_text(json.dumps(questions, allow_nan=False))
        told = {"corpora": corpora(holdings), "checks": ledger.checks, "wrong": ledger.wrong[:20]}
        time.sleep(max(pace - (time.monotonic() - began), 0.0))
        print(json.dumps(told), flush=True)
        if not sys.stdin.readline():
            return
        for holding in holdings:
            assert holding.model is not None
            holding.model.save(folder / f"{holding.track.target}.rgm")
        print("{}", flush=True)


def fill_memory_of_shapes() -> None:
    """Let the library remember as many shapes as it ever does, so that what is bounded is not taken for a leak."""
    words = pa.array([f"warm{number}" for number in range(shapes.REMEMBERED)])
    for name in shapes.SHAPES:
        shapes.shapes_of(words, name)


def leak_on_purpose(bytes_a_second: int) -> None:
    """Hold on to ever more memory and open files, so that the verdict can be seen to fail."""
    began, held, leaked = time.monotonic(), 0, []
    while True:
        time.sleep(0.5)
        more = int(bytes_a_second * (time.monotonic() - began)) - held
        held += more
        leaked.append((b"\x01" * more, Path(os.devnull).open("rb")))  # noqa: SIM115 - that is what a leak is


def corpora(holdings: Sequence[Holding]) -> dict[str, str | None]:
    """Return by which digest of a count file each model can be told from all others."""
    return {holding.track.target: holding.model.settings.corpus for holding in holdings if holding.model is not None}


# --- the work of a round -----------------------------------------------------------------------------------------


def one_round(holding: Holding, number: int, rng: np.random.Generator, ledger: Ledger) -> list[str]:
    """Count a fresh corpus, move the table on, fit a model; return some texts to ask about."""
    documents = make_documents(number, rng)
    source = write_documents(documents, holding.folder / f"{number}", number)
    counts = count_fresh(holding, source, number, ledger)
    table = move_on(holding, source, counts, ledger)
    if number % len(TRACKS) == TRACKS.index(holding.track):
        again = rg.count([str(path) for path, _ in holding.window], **holding.track.counting)
        ledger.check(again.digest() == table.digest(), f"round {number}: {source.name} counted again differs")
    holding.model = fit(holding, table, number, ledger)
    use(holding.model, [document["text"] for document in documents[:10]], ledger)
    return [document["text"] for document in documents[-4:]]


def make_documents(number: int, rng: np.random.Generator) -> list[Document]:
    """Return documents whose labels depend on the words before them; some words never came before."""
    made = []
    for row, text in enumerate(zipf_documents(DOCUMENTS, LENGTH, WORDS, seed=int(rng.integers(1 << 40)))):
        words = text.split()
        for place in np.flatnonzero(rng.random(len(words)) < FRESH).tolist():
            words[place] = f"{words[place].capitalize()}{number}x{row}y{place}"
        spans = []
        for place in np.flatnonzero(rng.random(len(words) - 1) < NAMES).tolist():
            label = LABELS.get(words[place][-1], "LOC")
            spans.append({"start": place + 1, "end": place + 2, "label": label})
        made.append({"id": f"{number}-{row}", "text": " ".join(words), "spans": spans})
    return made


def write_documents(documents: Sequence[Document], stem: Path, number: int) -> Path:
    """Write documents in one of three formats in turn."""
    if number % 3 == 0:
        pq.write_table(pa.Table.from_pylist(list(documents)), stem.with_suffix(".parquet"))
        return stem.with_suffix(".parquet")
    lines = "".join(json.dumps(document) + "\n" for document in documents).encode()
    path = stem.with_suffix(".jsonl" if number % 3 == 1 else ".jsonl.gz")
    path.write_bytes(lines if number % 3 == 1 else gzip.compress(lines))
    return path


def count_fresh(holding: Holding, source: Path, number: int, ledger: Ledger) -> rg.Counts:
    """Count a file, now and then under a small memory limit, with one thread or two; save and load the table."""
    counting, threads = holding.track.counting, 1 + number % 2
    counts = rg.count(str(source), threads=threads, **counting)
    if number % SPILL_EVERY == TRACKS.index(holding.track):
        spilled = rg.count(str(source), threads=3 - threads, memory_limit=SPILL, **counting)
        ledger.check(spilled.digest() == counts.digest(), f"round {number}: {source.name} under a limit differs")
    path = source.with_name(f"{number}.counts")
    counts.save(path)
    loaded = rg.Counts.load(path)
    ledger.check(loaded == counts and loaded.digest() == counts.digest(), f"round {number}: {path.name} read differs")
    return loaded


def move_on(holding: Holding, source: Path, fresh: rg.Counts, ledger: Ledger) -> rg.Counts:
    """Merge the new counts, see that subtracting them leads back exactly, and subtract the oldest."""
    before = holding.running
    table = fresh if before is None else before + fresh
    if before is not None:
        back = table - fresh
        ledger.check(back == before and back.digest() == before.digest(), f"{source.name} merged and subtracted")
    holding.window.append((source, source.with_name(f"{source.name.split('.')[0]}.counts")))
    if len(holding.window) > WINDOW:
        documents, counts = holding.window.popleft()
        table = table - rg.Counts.load(counts)
        documents.unlink()
        counts.unlink()
    holding.running = table
    return table


def fit(holding: Holding, table: rg.Counts, number: int, ledger: Ledger) -> rg.Model:
    """Fit the next estimator in turn from the saved table; save and load the model."""
    counts, path = holding.folder / "table.counts", holding.folder / "fitted.rgm"
    table.save(counts)
    place = number + TRACKS.index(holding.track)
    estimator = ESTIMATORS[place % len(ESTIMATORS)]
    options: dict[str, Any] = {"estimator": estimator}
    if estimator == "selective":
        options |= {"criterion": CRITERIA[place // len(ESTIMATORS) % len(CRITERIA)], "size": 1000}
    model = rg.fit(rg.Counts.load(counts), holding.track.target, **options)
    model.save(path)
    loaded = rg.Model.load(path)
    numbers = np.random.default_rng(number).integers(-1, len(model.items), (200, holding.track.n))
    same = np.array_equal(model.log_ratio(numbers), loaded.log_ratio(numbers), equal_nan=True)
    ledger.check(same, f"round {number}: the {estimator} model of {holding.track.target} read differs")
    return loaded


def use(model: rg.Model, texts: Sequence[str], ledger: Ledger) -> None:
    """Score, explain and bound contexts; see that terms add up and intervals hold their log ratio."""
    estimator = model.settings.estimator
    some = [context for text in texts for context in contexts_of(model, text)]
    values = model.log_ratio(some)
    ledger.check(bool(np.isfinite(values).all()) or estimator in ("mle", "direct"), f"{estimator}: not finite")
    for context, value in list(zip(some, values.tolist(), strict=True))[:: max(len(some) // 20, 1)]:
        terms = sum(term.value for term in model.explain(context).terms)
        ledger.check(plain(terms) == plain(value), f"{estimator}: the terms of {context} do not add up")
    if has_interval(model):
        lower, upper = model.interval(some, LEVEL).T
        ledger.check(bool(((lower <= values) & (values <= upper)).all()), f"{estimator}: an interval misses")


def contexts_of(model: rg.Model, text: str) -> list[list[str]]:
    """Return the whole contexts of a text, as they stand."""
    items = text.split() if model.settings.kind == "words" else list(text)
    return [items[start : start + model.settings.n] for start in range(len(items) - model.settings.n + 1)]


# --- questions for the service, and what the library says ----------------------------------------------------------


def make_questions(
    holdings: Sequence[Holding],
    before: Sequence[rg.Model | None],
    texts: Sequence[Sequence[str]],
    rng: np.random.Generator,
) -> Iterator[Question]:
    """Yield questions, each with the facts of its answer by the models before this round and by those of it."""
    pairs = []
    for holding, old in zip(holdings, before, strict=True):
        assert holding.model is not None
        pairs.append((old or holding.model, holding.model))
    for (old, new), some in zip(pairs, texts, strict=True):
        yield from questions_of(old, new, some, rng)
    for text in texts[0][:2]:
        told = [{model.settings.target: heat(model, text) for model in models} for models in zip(*pairs, strict=True)]
        yield {"path": "/api/texts", "body": {"texts": [text]}, "facts": told}


def questions_of(old: rg.Model, new: rg.Model, texts: Sequence[str], rng: np.random.Generator) -> Iterator[Question]:
    """Yield the questions that concern one model."""
    name, kind = new.settings.target, new.settings.kind
    contexts = [context for text in texts for context in contexts_of(new, text)]
    drawn = [contexts[place] for place in rng.integers(0, len(contexts), BATCH)]
    join = " ".join if kind == "words" else "".join
    both = (old, new)

    def question(path: str, body: dict[str, Any], facts: Iterable[Any]) -> Question:
        return {"path": path, "body": body, "facts": [{name: fact} for fact in facts]}

    for context in drawn[:10]:
        body = {"contexts": [join(context)], "models": [name]}
        yield question("/api/score", body, (scores(model, [context]) for model in both))
    yield question("/api/score", {"contexts": drawn, "models": [name]}, (scores(model, drawn) for model in both))
    yield question("/api/texts", {"texts": [texts[0]], "models": [name]}, (heat(model, texts[0]) for model in both))
    for context in drawn[:3]:
        asked: dict[str, Any] = {"context": context, "model": name, "level": LEVEL}
        yield question("/api/explain", asked, (explained(model, context) for model in both))
    yield question("/api/changes", {"context": drawn[3], "model": name}, (scores(m, drawn[3:4])[0] for m in both))
    yield question("/api/rank", {"text": texts[1], "model": name, "top": 8}, (ranked(m, texts[1], 8) for m in both))


def scores(model: rg.Model, contexts: Sequence[Sequence[str]]) -> list[float | str]:
    """Return log ratios as JSON can have them."""
    return [plain(value) for value in model.log_ratio(contexts).tolist()]


def heat(model: rg.Model, text: str) -> list[float | str | None]:
    """Return the log ratio of every boundary of a text."""
    found = rg.heat_map(model, text).scores[model.settings.target]
    return [None if value is None else plain(value) for value in found]


def explained(model: rg.Model, context: Sequence[str]) -> list[Any]:
    """Return the log ratio, the interval and the terms of a context."""
    found = model.explain(list(context))
    interval = model.interval([list(context)], LEVEL)[0].tolist() if has_interval(model) else None
    terms = [[term.start, term.end, plain(term.value), term.f_nu, term.f_de] for term in found.terms]
    return [plain(found.log_ratio), interval, terms]


def ranked(model: rg.Model, text: str, top: int) -> list[list[Any]]:
    """Return the best contexts of a text with their log ratios, found the plain way: score all, sort."""
    found, s = rg.heat_map(model, text), model.settings
    best: dict[tuple[str, ...], float] = {}
    for boundary, value in enumerate(found.scores[s.target]):
        if value is not None:
            part = (
                found.items[max(boundary - s.n, 0) : boundary] if s.side == "left" else found.items[boundary:][: s.n]
            )
            best[tuple(model.parse([list(part)]).items.to_pylist())] = value
    join = " ".join if s.kind == "words" else "".join
    order = sorted(best, key=lambda items: (-np.nan_to_num(best[items], nan=LAST), join(items).encode()))
    return [[plain(best[items]), *items] for items in order[:top]]


def has_interval(model: rg.Model) -> bool:
    """Whether the estimator of a model has intervals."""
    return model.settings.estimator not in ("mle", "direct")


def plain(value: float) -> float | str:
    """Return a number as JSON can have it."""
    return value if np.isfinite(value) else str(value)


if __name__ == "__main__":
    main()
