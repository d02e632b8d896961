"""Two taggers on the same text: how fast they are, how far they agree, and what that does to the estimators.

    python -m benchmarks.taggers

Speed is measured in turns, as words a second of `tag` with two processes. The rest needs no tagger, only the tags of
Reuters-21578 that are shipped: how many names there are, how many are equal, and F1 of the top 8,000 test N-grams by
models that learned from one tagger's names and are judged by the other's. The last part asks why the paper found
persons easier than places: it puts "Mr." before surnames, as the paper's newspaper does and Reuters does not.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa

import raregram as rg
from benchmarks.measuring import Figures, parser, show, timed
from raregram.corpus.standoff import tagged_reuters
from raregram.corpus.tagging import load_tagger, tag
from raregram.experiment.run import Config, split_corpus
from raregram.measure.evaluate import f1_score
from raregram.options import PAPERS_K, Tags

TAGS: tuple[Tags, ...] = ("stanford", "spacy")
TARGETS = ("LOC", "PER")
ESTIMATORS: dict[str, dict[str, Any]] = {  # with settings that the experiment often chooses on validation
    "all used": {"estimator": "product", "lam": 1e-4},
    "selective": {"estimator": "selective", "criterion": "cet", "size": 5000, "lam": 1e-5},
    "back-off": {"estimator": "backoff"},
}
HONORIFICS = {"Mr.", "Mrs.", "Ms.", "Miss", "Dr.", "Messrs.", "Mr", "Mrs", "Ms", "Dr"}
POSITIONS = {
    "president", "chairman", "minister", "secretary", "governor", "senator", "sen.", "rep.", "spokesman", "analyst",
    "economist", "director", "officer", "chief", "leader", "treasurer", "spokeswoman", "judge", "official", "king",
}  # fmt: skip


def main() -> None:
    options = parser(__doc__, results=True)
    options.add_argument("--articles", type=int, default=3000, help="how many are tagged for the speed; 0 for none")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2], help="none for the speed alone")
    arguments = options.parse_args()
    corpora = {name: tagged_reuters(name) for name in TAGS}
    if arguments.articles:
        figures = Figures()
        speed(corpora["spacy"]["text"].to_pylist()[: arguments.articles], arguments.rounds, figures)
        figures.write(arguments.json)
    if arguments.seeds:
        agreement(corpora)
        crossed(corpora, arguments.seeds)
        honorifics(corpora["stanford"], arguments.seeds)


def speed(texts: Sequence[str], rounds: int, figures: Figures) -> None:
    """Show how many words a second each tagger does with two processes, which it starts."""
    words = sum(len(text.split()) for text in texts)
    rows = [{"text": text} for text in texts]
    seconds: dict[Tags, list[float]] = {name: [] for name in TAGS}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for name in TAGS:
                tagger = load_tagger(name, processes=2)
                seconds[name].append(timed(lambda: tag(rows, Path(folder) / "out", tagger=tagger)))  # noqa: B023
    for name, found in seconds.items():
        least = 5000 if name == "stanford" else None
        figures.add(f"{name}: words a second, two processes", words / min(found), least=least)


def agreement(corpora: dict[Tags, pa.Table]) -> None:
    """Show how many names each tagger finds, how many of them the other has too, and how many contexts they share."""
    for label in (*TARGETS, "ORG"):
        spans = {name: set(_spans(table, label)) for name, table in corpora.items()}
        starts = {name: {(row, start) for row, start, _ in found} for name, found in spans.items()}
        ours, other = (spans[name] for name in TAGS)
        show(f"{label}: names by Stanford NER, by spaCy", f"{len(ours):,}, {len(other):,}")
        same, begun = len(ours & other), len(starts["stanford"] & starts["spacy"])
        show("  equal, as a share of each", f"{same / len(ours):.1%}, {same / len(other):.1%}")
        shares = (begun / len(starts[name]) for name in TAGS)
        show("  that begin at the same word (one context), as a share of each", ", ".join(f"{x:.1%}" for x in shares))
        show(
            "  F1 of one as a prediction of the other, contexts", f"{2 * begun / sum(map(len, starts.values())):.3f}"
        )


def _spans(table: pa.Table, label: str) -> Iterable[tuple[int, int, int]]:
    for row, spans in enumerate(table["spans"].to_pylist()):
        for span in spans:
            if span["label"] == label:
                yield row, span["start"], span["end"]


def crossed(corpora: dict[Tags, pa.Table], seeds: Sequence[int]) -> None:
    """Show F1 of models that learn from one tagger's names and are judged by each."""
    for learned, judged in product(TAGS, TAGS):
        show_f1(f"learned from {learned}, judged by {judged}", corpora[learned], corpora[judged], seeds)


def show_f1(title: str, learned: pa.Table, judged: pa.Table, seeds: Sequence[int]) -> None:
    """Show F1 of the top 8,000 test N-grams, and what a perfect ranking would have, means over the seeds."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for seed in seeds:
        config = Config(seed=seed)
        train, test = split_corpus(config, learned)["train"], split_corpus(config, judged)["test"]
        counts = rg.count(train, n=10, targets=TARGETS, spans=["units", "suffixes:5", "shapes:8"])
        for target, (estimator, settings) in product(TARGETS, ESTIMATORS.items()):
            measured = rg.evaluate(rg.fit(counts, target, **settings), test, k=PAPERS_K).overall
            perfect = f1_score(min(PAPERS_K, measured.relevant), PAPERS_K, measured.relevant)
            found.setdefault((target, estimator), []).append((measured.f1, perfect))
    print(title)
    for (target, estimator), values in found.items():
        f1, perfect = map(statistics.mean, zip(*values, strict=True))
        show(f"  {target}, {estimator}: F1, and a perfect one", f"{f1:.3f}, {perfect:.2f}")


def honorifics(corpus: pa.Table, seeds: Sequence[int]) -> None:
    """Show what stands before persons, and F1 if surnames had "Mr." before them."""
    rows = [{"items": row["text"].split(), "spans": row["spans"]} for row in corpus.to_pylist()]
    changed = [add_honorifics(row["items"], row["spans"]) for row in rows]
    show_titles("Reuters", rows)
    show_titles('Reuters with "Mr." before surnames', changed)
    table = pa.Table.from_pylist(changed)
    show_f1('with "Mr." before surnames', table, table, seeds)


def show_titles(name: str, rows: list[dict[str, Any]]) -> None:
    """Show how many persons stand behind a title."""
    persons = [(row["items"], span) for row in rows for span in row["spans"] if span["label"] == "PER"]
    before = [items[span["start"] - 1] if span["start"] else "" for items, span in persons]
    titled = statistics.mean(item in HONORIFICS for item in before)
    position = statistics.mean(item.lower().strip(",") in POSITIONS for item in before)
    show(f'{name}: persons behind "Mr.", "Mrs.", "Dr." ...', f"{titled:.1%}")
    show("  behind a position such as president or minister", f"{position:.1%}")
    show("  of one word", f"{statistics.mean(span['end'] - span['start'] == 1 for _, span in persons):.1%}")


def add_honorifics(items: list[str], spans: list[dict[str, Any]]) -> dict[str, Any]:
    """Put "Mr." before every person of one word that has no title; it is no part of the name."""
    alone = {
        span["start"]
        for span in spans
        if span["label"] == "PER" and span["end"] - span["start"] == 1
        and not (span["start"] and items[span["start"] - 1] in HONORIFICS)
    }  # fmt: skip
    new: list[str] = []
    place = []  # of every old item in the new list
    for at, item in enumerate(items):
        if at in alone:
            new.append("Mr.")
        place.append(len(new))
        new.append(item)
    moved = [{**span, "start": place[span["start"]], "end": place[span["end"] - 1] + 1} for span in spans]
    return {"items": new, "spans": moved}


if __name__ == "__main__":
    main()
