"""Counting and scoring on a Spark cluster beside the local engine: the same corpus, the same table, the same scores.

    python -m benchmarks.spark [--items 200000000] [--spans units]

A standalone master and one or two workers run as processes of their own on this machine, each worker with all that it
starts (the executor and its Python) on a core of its own. Sessions are started, and executors warmed up with a small
count, before the clock runs. The corpus is that of `corpora.py`.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from itertools import count as count_from
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

import raregram as rg
from benchmarks import corpora
from benchmarks.measuring import Figures, parser, show_machine, timed
from benchmarks.standalone import LOOPBACK, Standalone
from raregram.corpus.documents import Options
from raregram.counts import storage
from raregram.counts.count import CountJob
from raregram.counts.kernel import CountSettings
from raregram.spark.counting import write_counts
from raregram.spark.scoring import open_input, write_scores
from raregram.spark.session import Cluster, connect

FILES, N = 16, 10
TARGETS = ("T0", "T1")
SETTINGS = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.executor.memory": "2g",
    "spark.log.level": "ERROR",
}


def main() -> None:
    options = parser(__doc__, results=True)
    options.add_argument("--items", type=int, default=10_000_000)
    options.add_argument("--spans", default="units,suffixes:3")
    arguments = options.parse_args()
    show_machine()
    figures = Figures()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        items = make_corpus(folder / "corpus", arguments.items)
        make_corpus(folder / "small", arguments.items // 50)
        make_contexts(folder / "contexts", arguments.items // 2)
        settings = CountSettings(n=N, targets=TARGETS, spans=tuple(arguments.spans.split(",")))
        compare(folder, settings, items, figures)
    figures.write(arguments.json)


def make_corpus(folder: Path, items: int) -> int:
    """Write documents to several files, and return how many items they have."""
    folder.mkdir()
    for part in range(FILES):
        corpora.write(folder / f"{part}.parquet", items // FILES, seed=100 * part)
    return -(-(items // FILES) // corpora.LENGTH) * corpora.LENGTH * FILES


def make_contexts(folder: Path, number: int) -> None:
    """Write every ten words in a row of some documents to several files."""
    folder.mkdir()
    for part in range(FILES):
        words = [
            text.split() for text in corpora.documents(-(-number // 121 // FILES), seed=part)["text"].to_pylist()
        ]
        ngrams = [" ".join(row[first : first + N]) for row in words for first in range(len(row) - N + 1)]
        pq.write_table(pa.table({"ngram": ngrams}), folder / f"{part}.parquet")


def compare(folder: Path, settings: CountSettings, items: int, figures: Figures) -> None:
    """Count on the local engine with two threads, and on one and on two workers, which then score."""
    title = f"{items:,} items, {', '.join(settings.spans)}"
    local = timed(lambda: count_locally(folder, settings))
    figures.add(f"{title}: local engine, two threads", local, "s")
    model = rg.fit(rg.Counts.load(folder / "local"), TARGETS[0], shapes=False)
    runs = {workers: count_on_workers(folder, settings, workers, model) for workers in (1, 2)}
    for workers, run in runs.items():
        figures.add(f"  standalone cluster, {workers} worker{'s' * (workers > 1)}", run.seconds, "s")
    assert storage.read_header(folder / "local")["digest"] == storage.read_header(folder / "spark")["digest"]
    figures.add("  throughput a core, Spark over local", local / runs[2].seconds, "x", least=0.5)
    figures.add("  one worker over two, time", runs[1].seconds / runs[2].seconds, "x")
    rows = sum(pq.read_metadata(file).num_rows for file in storage.part_files(folder / "spark"))
    figures.add("  bytes shuffled, a row of the table", runs[2].shuffled / rows)
    figures.add("  peak memory of a Python worker", runs[2].peak / 1e6, "MB")
    for workers, run in runs.items():
        what = f"Spark scores on {workers} worker{'s' * (workers > 1)}, contexts a second and core"
        figures.add(what, run.scored / run.scoring / workers, least=400_000)


def count_locally(folder: Path, settings: CountSettings) -> None:
    with CountJob(([folder / "corpus"], None, None), settings).table(threads=2) as table:
        storage.write(folder / "local", table)


class Run(NamedTuple):
    """What so many workers took."""

    seconds: float
    shuffled: int  # bytes
    peak: int  # bytes of a Python worker
    scoring: float  # seconds
    scored: int


def count_on_workers(folder: Path, settings: CountSettings, workers: int, model: rg.Model) -> Run:
    """Count on so many workers, and score contexts to a folder of Parquet files; the second time counts."""
    logs = folder / f"cluster-{workers}"
    logs.mkdir()
    with Standalone(logs, workers, memory="2g", pinned=True) as standalone:
        session = connect(standalone.url, SETTINGS)
        try:
            count(session, folder / "small", settings, folder / "warm")
            before = bytes_shuffled(session)
            seconds = timed(lambda: count(session, folder / "corpus", settings, folder / "spark"))
            shuffled, peak = bytes_shuffled(session) - before, python_peak(standalone)
            out = folder / "scored"
            score(session, folder / "contexts", model, out)
            scoring = timed(lambda: score(session, folder / "contexts", model, out))
        finally:
            session.stop()
    scored = sum(pq.read_metadata(file).num_rows for file in out.glob("*.parquet"))
    return Run(seconds, shuffled, peak, scoring, scored)


def score(session: Any, source: Path, model: rg.Model, out: Path) -> None:
    cluster = Cluster(session)
    write_scores(cluster, model, open_input(cluster, [str(source)], model, Options()), str(out), None, "log_ratio")


def count(session: Any, source: Path, settings: CountSettings, out: Path) -> None:
    planned = CountJob(([str(source)], None, None), settings).on_spark(Cluster(session))
    write_counts(planned, str(out))


def bytes_shuffled(session: Any) -> int:
    """Return the bytes that all stages so far have written for others."""
    store, found = session.sparkContext._jsc.sc().statusStore(), 0
    with suppress(Exception):  # the stage that has not been yet
        for stage in count_from(0):
            found += store.lastStageAttempt(stage).shuffleWriteBytes()
    return found


def python_peak(standalone: Standalone) -> int:
    """Return the peak memory of one Python process of the executors."""
    parents = set(standalone.executors())
    peak = 0
    for _ in range(2):  # the workers are children of a daemon, which is a child of the executor
        for status in Path("/proc").glob("[0-9]*/status"):
            with suppress(OSError, KeyError):
                facts = dict(line.split(":", 1) for line in status.read_text().splitlines())
                if int(facts["PPid"]) in parents:
                    parents.add(int(facts["Pid"]))
                    peak = max(peak, int(facts["VmHWM"].split()[0]) * 1024)
    return peak


if __name__ == "__main__":
    main()
