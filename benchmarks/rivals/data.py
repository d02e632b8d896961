"""The files that every rival is measured on, made once.

A data folder holds `about.json` (n, targets), for each training size `contexts-SIZE.parquet` (`text` and a column of
truth values a target) and, where there are tagged articles, `train-SIZE.parquet`; and `valid.parquet` and
`test.parquet` (each N-gram type once, in byte order, with what is correct and how often it occurs).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import raregram as rg
from benchmarks.rivals import Bools
from raregram.counts.table import Ints
from raregram.experiment.run import Config, load_corpus, split_corpus
from raregram.measure.evaluate import type_frequencies
from raregram.text.tokenize import split_texts

Say = Callable[[str], None]


class Part(NamedTuple):
    """Contexts, and which belong to a target."""

    texts: pa.ChunkedArray
    labels: Bools


@dataclass(frozen=True)
class Data:
    """A data folder."""

    folder: Path

    @property
    def n(self) -> int:
        """The number of words of a context."""
        return int(json.loads((self.folder / "about.json").read_text())["n"])

    def documents(self, size: int) -> Path | None:
        """Return the file of tagged training articles, if there is one."""
        path = self.folder / f"train-{size}.parquet"
        return path if path.exists() else None

    def read(self, name: str, target: str) -> Part:
        """Return the training contexts "contexts-SIZE", or the N-gram types "valid" or "test"."""
        table = pq.read_table(self.folder / f"{name}.parquet", columns=["text", target], use_threads=False)
        return Part(table["text"], np.asarray(table[target], dtype=bool))

    def frequencies(self, name: str, target: str) -> tuple[Ints, Ints]:
        """Return how often each N-gram type of "valid" or "test" occurs at the target, and how often elsewhere."""
        columns = [frequency_column(target, where) for where in ("nu", "de")]
        table = pq.read_table(self.folder / f"{name}.parquet", columns=columns, use_threads=False)
        return np.asarray(table[columns[0]]), np.asarray(table[columns[1]])

    def describe(self, n: int, targets: Sequence[str]) -> None:
        """Say what is in the folder; done last, so that half a folder is not taken for a whole one."""
        (self.folder / "about.json").write_text(json.dumps({"n": n, "targets": list(targets)}))


def reuters(folder: Path, sizes: Sequence[int], config: Config, say: Say) -> Data:
    """Make the files of an experiment: the training parts are the first articles of its training articles."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [size for size in sizes if not (folder / f"contexts-{size}.parquet").exists()]
    data = Data(folder)
    if missing or not (folder / "about.json").exists():
        say(f"making the data for {', '.join(f'{size:,}' for size in sizes)} articles")
        split = split_corpus(config, load_corpus(config))
        for size in missing:
            if size > len(split["train"]):
                raise ValueError(f"there are only {len(split['train']):,} training articles, not {size:,}")
            write_training(folder, size, split["train"][:size], config)
        for name in ("valid", "test"):
            if not (folder / f"{name}.parquet").exists():
                write_types(folder / f"{name}.parquet", split[name], config)
        data.describe(config.n, config.targets)
    return data


def write_training(folder: Path, size: int, articles: pa.Table, config: Config) -> None:
    """Write tagged articles and their contexts; check them against the totals of raregram's own count."""
    pq.write_table(articles, folder / f"train-{size}.parquet")
    counted = rg.count(folder / f"train-{size}.parquet", n=config.n, targets=config.targets, threads=1)
    totals, temporary = np.zeros(1 + len(config.targets), dtype=np.int64), folder / "unfinished"
    with pq.ParquetWriter(temporary, _schema(config.targets)) as writer:
        for table in contexts_of(articles, config):
            writer.write_table(table)
            totals += [len(table), *(int(np.sum(np.asarray(table[target]))) for target in config.targets)]
    expected = [counted.totals[0], *(counted.totals[counted.column(target)] for target in config.targets)]
    if totals.tolist() != [int(total) for total in expected]:
        raise AssertionError(f"the contexts are not those that raregram counts: {totals.tolist()}, not {expected}")
    temporary.replace(folder / f"contexts-{size}.parquet")


def contexts_of(articles: pa.Table, config: Config) -> Iterator[pa.Table]:
    """Yield the contexts of articles as they stand, before every boundary that has n words on its left."""
    for first in range(0, len(articles), 1000):
        part = articles[first : first + 1000]
        words, lengths = split_texts(part["text"].combine_chunks(), "words")
        ends = np.cumsum(lengths)
        texts: list[str] = []
        labels: dict[str, list[bool]] = {target: [] for target in config.targets}
        for row, spans in enumerate(part["spans"].to_pylist()):
            items = words[ends[row] - lengths[row] : ends[row]].to_pylist()
            boundaries = range(config.n, len(items) + 1)
            texts += [" ".join(items[i - config.n : i]) for i in boundaries]
            for target, column in labels.items():
                starts = {span["start"] for span in spans if span["label"] == target}
                column += [i in starts for i in boundaries]
        yield pa.table({"text": texts, **labels}, schema=_schema(config.targets))


def write_types(path: Path, articles: pa.Table, config: Config) -> None:
    """Write the N-gram types of articles, what is correct, and how often each occurs."""
    counts = rg.count(articles, n=config.n, targets=config.targets, spans=["units", "whole"])
    columns: dict[str, Any] = {"text": counts.whole_ngrams().texts(counts.kind)}
    for target in config.targets:
        f_nu, f_de = type_frequencies(counts, target)
        columns[target] = f_nu > 0
        columns |= {frequency_column(target, "nu"): f_nu, frequency_column(target, "de"): f_de}
    pq.write_table(pa.table(columns), path)


def frequency_column(target: str, where: str) -> str:
    """Return the name of the column with the frequencies of N-grams at a target ("nu") or elsewhere ("de")."""
    return f"{target} f_{where}"


def _schema(targets: Sequence[str]) -> pa.Schema:
    return pa.schema([("text", pa.string()), *((target, pa.bool_()) for target in targets)])
