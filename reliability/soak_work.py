"""The library's part of the soak: one long-lived process that counts, merges, subtracts, fits and scores.

    python -m reliability.soak_work FOLDER

It goes round by round, each with corpora that were never there before. For every round it prints one line of JSON and
waits for a line on standard input; then it puts the new models under the names that the service reads. It ends when
standard input does.

A table holds the corpora of the last few rounds: the new one is merged in, the oldest is subtracted, so that tables
neither grow nor repeat. What must be equal is compared by digest or to the last bit in every round.
"""

from __future__ import annotations

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
from benchmarks.measuring import parser
from raregram.measure.synthetic import zipf_documents

DOCUMENTS, LENGTH, WORDS = 60, 80, 4_000  # of a corpus; WORDS is what comes again in every round
FRESH = 0.02  # the share of words that never came before
ESTIMATORS = ("backoff", "selective", "direct", "product", "mle")
CRITERIA = ("cet", "chi2", "gss", "tf", "random")
WINDOW = 3  # corpora that are in a table at a time
MEMORY_LIMIT, LIMITED_EVERY = 1 << 20, 3  # bytes under which a count takes several passes, and in which rounds
BATCH = 200  # contexts of a large question
LEVEL = 0.9
LAST = -np.inf  # where no evidence stands in a ranking
NAMES = 0.08  # the share of words that have a label,
LABELS = {"a": "LOC", "o": "ORG", "i": "PER"}  # by the last letter of the word before
Document = dict[str, Any]
Question = dict[str, Any]


# What is counted for each served model: always the same, so that any question suits any round's model.
COUNTING: dict[str, dict[str, Any]] = {
    "LOC": {"n": 4},
    "ORG": {"n": 3, "side": "right", "pad": True},
    "PER": {"n": 5, "kind": "letters"},
}
SPANS = ("units", "suffixes:3", "shapes:3", "whole")


@dataclass
class Ledger:
    """What was compared, and what was not equal."""

    checks: int = 0
    wrong: list[str] = field(default_factory=list)

    def check(self, right: bool, what: str) -> None:
        self.checks += 1
        if not right:
            self.wrong.append(what)


@dataclass
class Track:
    """One served model, and what it is made from, from round to round."""

    index: int
    target: str
    folder: Path
    running: rg.Counts | None = None
    window: deque[tuple[Path, Path]] = field(default_factory=deque)  # files of documents, and of their counts
    model: rg.Model | None = None

    def count(self, source: str | list[str], **options: Any) -> rg.Counts:
        """Count documents as this model needs it."""
        return rg.count(source, spans=SPANS, targets=[*COUNTING], **COUNTING[self.target], **options)


def main() -> None:
    """Go round by round until standard input ends."""
    options = parser(__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--pace", type=float, default=0.0, help="the least seconds that a round takes")
    options.add_argument("--leak", type=int, default=0, help="bytes to leak in a second, with some open files")
    given = options.parse_args()
    if given.leak:
        threading.Thread(target=leak_on_purpose, args=(given.leak,), daemon=True).start()
    ledger = Ledger()
    tracks = [Track(index, target, given.folder / target) for index, target in enumerate(COUNTING)]
    for track in tracks:
        track.folder.mkdir()
    for number in range(sys.maxsize):
        began = time.monotonic()
        rng = np.random.default_rng((given.seed, number))
        before = [track.model for track in tracks]
        texts = [one_round(track, number, rng, ledger) for track in tracks]
        models = [track.model for track in tracks if track.model is not None]
        pairs = [(old or new, new) for old, new in zip(before, models, strict=True)]
        report = {
            "corpora": {model.settings.target: model.settings.corpus for model in models},
            "questions": list(make_questions(pairs, texts, rng)),
            "checks": ledger.checks,
            "wrong": ledger.wrong[:20],
        }
        time.sleep(max(given.pace - (time.monotonic() - began), 0.0))
        print(json.dumps(report, allow_nan=False), flush=True)
        if not sys.stdin.readline():
            return
        for model in models:
            model.save(given.folder / f"{model.settings.target}.rgm")
        print("{}", flush=True)


def leak_on_purpose(bytes_a_second: int) -> None:
    """Keep ever more memory and open files, so that the verdict can be seen to fail."""
    began, size, leaked = time.monotonic(), 0, []
    while True:
        time.sleep(0.5)
        more = int(bytes_a_second * (time.monotonic() - began)) - size
        size += more
        leaked.append((b"\x01" * more, Path(os.devnull).open("rb")))  # noqa: SIM115 - that is what a leak is


# The work of a round


def one_round(track: Track, number: int, rng: np.random.Generator, ledger: Ledger) -> list[str]:
    """Count a fresh corpus, move the table on, fit a model; return some texts to ask about."""
    documents = make_documents(number, rng)
    source = write_documents(documents, track.folder / f"{number}", number)
    table = move_on(track, source, count_fresh(track, source, number, ledger), ledger)
    if number % len(COUNTING) == track.index:
        again = track.count([str(path) for path, _ in track.window])
        ledger.check(again.digest() == table.digest(), f"round {number}: {source.name} counted again differs")
    track.model = fit(track, table, number, ledger)
    use(track.model, [document["text"] for document in documents[:10]], ledger)
    return [document["text"] for document in documents[-4:]]


def make_documents(number: int, rng: np.random.Generator) -> list[Document]:
    """Return documents whose labels depend on the words before them; some words never came before."""
    made = []
    for row, text in enumerate(zipf_documents(DOCUMENTS, LENGTH, WORDS, seed=int(rng.integers(1 << 40)))):
        words = text.split()
        for at in np.flatnonzero(rng.random(len(words)) < FRESH).tolist():
            words[at] = f"{words[at].capitalize()}{number}x{row}y{at}"
        labelled = np.flatnonzero(rng.random(len(words) - 1) < NAMES).tolist()
        spans = [{"start": k + 1, "end": k + 2, "label": LABELS.get(words[k][-1], "LOC")} for k in labelled]
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


def count_fresh(track: Track, source: Path, number: int, ledger: Ledger) -> rg.Counts:
    """Count a file, now and then under a small memory limit, with one thread or two; save and load the table."""
    threads = 1 + number % 2
    counts = track.count(str(source), threads=threads)
    if number % LIMITED_EVERY == track.index:
        limited = track.count(str(source), threads=3 - threads, memory_limit=MEMORY_LIMIT)
        ledger.check(limited.digest() == counts.digest(), f"round {number}: {source.name} under a limit differs")
    path = source.with_name(f"{number}.counts")
    counts.save(path)
    loaded = rg.Counts.load(path)
    ledger.check(loaded == counts and loaded.digest() == counts.digest(), f"round {number}: {path.name} read differs")
    return loaded


def move_on(track: Track, source: Path, fresh: rg.Counts, ledger: Ledger) -> rg.Counts:
    """Merge the new counts, see that subtracting them leads back exactly, and subtract the oldest."""
    before = track.running
    table = fresh if before is None else before + fresh
    if before is not None:
        back = table - fresh
        ledger.check(back == before and back.digest() == before.digest(), f"{source.name} merged and subtracted")
    track.window.append((source, source.with_name(f"{source.name.split('.')[0]}.counts")))
    if len(track.window) > WINDOW:
        documents, counts = track.window.popleft()
        table = table - rg.Counts.load(counts)
        documents.unlink()
        counts.unlink()
    track.running = table
    return table


def fit(track: Track, table: rg.Counts, number: int, ledger: Ledger) -> rg.Model:
    """Fit the next estimator in turn from the saved table; save and load the model."""
    counts, path = track.folder / "table.counts", track.folder / "fitted.rgm"
    table.save(counts)
    turn, which = divmod(number + track.index, len(ESTIMATORS))
    options: dict[str, Any] = {"estimator": ESTIMATORS[which]}
    if options["estimator"] == "selective":
        options |= {"criterion": CRITERIA[turn % len(CRITERIA)], "size": 1000}
    model = rg.fit(rg.Counts.load(counts), track.target, **options)
    model.save(path)
    loaded = rg.Model.load(path)
    codes = np.random.default_rng(number).integers(-1, len(model.items), (200, model.settings.n))
    same = np.array_equal(model.log_ratio(codes), loaded.log_ratio(codes), equal_nan=True)
    ledger.check(same, f"round {number}: the {ESTIMATORS[which]} model of {track.target} read differs")
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
    items = text.split() if model.settings.kind == "words" else list(text)
    return [items[start : start + model.settings.n] for start in range(len(items) - model.settings.n + 1)]


# Questions for the service, and what the library says


def make_questions(
    pairs: Sequence[tuple[rg.Model, rg.Model]], texts: Sequence[Sequence[str]], rng: np.random.Generator
) -> Iterator[Question]:
    """Yield questions, each with the facts of its answer by the models before this round and by those of it."""
    for (old, new), some in zip(pairs, texts, strict=True):
        yield from questions_of(old, new, some, rng)
    for text in texts[0][:2]:
        facts = [{each.settings.target: heat(each, text) for each in models} for models in zip(*pairs, strict=True)]
        yield {"path": "/api/texts", "body": {"texts": [text]}, "facts": facts}


def questions_of(old: rg.Model, new: rg.Model, texts: Sequence[str], rng: np.random.Generator) -> Iterator[Question]:
    """Yield the questions that concern one model."""
    name, kind = new.settings.target, new.settings.kind
    contexts = [context for text in texts for context in contexts_of(new, text)]
    drawn = [contexts[index] for index in rng.integers(0, len(contexts), BATCH)]
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
    best = []
    for boundary, value in enumerate(found.scores[s.target]):
        if value is not None:
            left, right = found.items[max(boundary - s.n, 0) : boundary], found.items[boundary:][: s.n]
            best.append((value, left if s.side == "left" else right))
    best.sort(key=lambda pair: -np.nan_to_num(pair[0], nan=LAST))  # those that tie stay in order
    return [[plain(value), *items] for value, items in best[:top]]


def has_interval(model: rg.Model) -> bool:
    return model.settings.estimator not in ("mle", "direct")


def plain(value: float) -> float | str:
    """Return a number as JSON can have it."""
    return value if np.isfinite(value) else str(value)


if __name__ == "__main__":
    main()
