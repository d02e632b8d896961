"""Counting on a Spark cluster beside the local engine: the same corpus, the same table; and scoring.

    python -m benchmarks.spark                        50 million items, units and suffixes to 3; about ten minutes
    python -m benchmarks.spark --items 200000000 --spans units
    python -m benchmarks.spark --score 4000000        10-grams, from Parquet to Parquet, on local[1] and local[2]

A standalone master and one or two workers run as processes of their own on this machine, each worker with all that it
starts (the executor and its Python) on a core of its own. Sessions are started, and executors warmed up with a small
count, before the clock runs. The corpus is that of `corpora.py`.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import suppress
from itertools import count as count_from
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import raregram as rg
from benchmarks import corpora
from benchmarks.measuring import parser, show, show_machine
from benchmarks.standalone import LOOPBACK, Standalone
from raregram.corpus.documents import Options
from raregram.counts import storage
from raregram.counts.count import CountJob
from raregram.counts.kernel import CountSettings
from raregram.spark.counting import write_counts
from raregram.spark.scoring import open_input, write_scores
from raregram.spark.session import Cluster, connect

FILES, N, ROUNDS = 16, 10, 5
TARGETS = ("T0", "T1")
SETTINGS = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.executor.memory": "2g",
    "spark.log.level": "ERROR",
}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--items", type=int, default=50_000_000)
    options.add_argument("--spans", action="append", help="may be repeated; default units, and units,suffixes:3")
    options.add_argument("--min-count", type=int, default=1)
    options.add_argument("--score", type=int, help="score so many contexts instead")
    arguments = options.parse_args()
    show_machine()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.score:
            score(folder, arguments.score)
            return
        items = make_corpus(folder / "corpus", arguments.items)
        make_corpus(folder / "small", arguments.items // 50)
        for spans_asked in arguments.spans or ["units", "units,suffixes:3"]:
            settings = CountSettings(
                n=N, targets=TARGETS, spans=tuple(spans_asked.split(",")), min_count=arguments.min_count
            )
            compare(folder, settings, items)


def make_corpus(folder: Path, items: int) -> int:
    """Write documents to several files, and return how many items they have."""
    folder.mkdir()
    for part in range(FILES):
        corpora.write(folder / f"{part}.parquet", items // FILES, seed=100 * part)
    return -(-(items // FILES) // corpora.LENGTH) * corpora.LENGTH * FILES


def compare(folder: Path, settings: CountSettings, items: int) -> None:
    """Count on the local engine with two threads, and on one and on two workers."""
    print(f"\n{items:,} items, {', '.join(settings.spans)}")
    local = count_locally(folder, settings)
    show("local engine, two threads", f"{local:.1f} s", f"{items / local / 2 / 1e6:.2f} million items/s a core")
    seconds = {}
    for workers in (1, 2):
        seconds[workers], shuffled, peak = count_on_workers(folder, settings, workers)
        rate = f"{items / seconds[workers] / workers / 1e6:.2f} million items/s a core"
        show(f"standalone cluster, {workers} worker{'s' * (workers > 1)}", f"{seconds[workers]:.1f} s", rate)
    assert storage.read_header(folder / "local")["digest"] == storage.read_header(folder / "spark")["digest"]
    show("throughput a core, Spark over local", f"{local / seconds[2]:.2f}", "at least 0.5; same digest")
    show("one worker over two, time", f"{seconds[1] / seconds[2]:.2f} x", "2 at best")
    rows = sum(pq.read_metadata(file).num_rows for file in storage.part_files(folder / "spark"))
    show("rows of the table, an item", f"{rows / items:.3f}", f"{rows:,} rows")
    read = sum(file.stat().st_size for file in (folder / "corpus").iterdir())
    show("bytes read, an item", f"{read / items:.2f}", "compressed Parquet")
    show("bytes shuffled, an item", f"{shuffled / items:.2f}", f"{shuffled / rows:.1f} a row of the table")
    show("peak memory of a Python worker", f"{peak / 1e6:.0f} MB", "limit 1 GB for its tables")
    table = storage.bytes_on_disk(folder / "spark")
    show("bytes of the table, an item", f"{table / items:.2f}", f"{table / rows:.1f} a row")


def count_locally(folder: Path, settings: CountSettings) -> float:
    start = time.perf_counter()
    with CountJob(([folder / "corpus"], None, None), settings).table(threads=2) as table:
        storage.write(folder / "local", table)
    return time.perf_counter() - start


def count_on_workers(folder: Path, settings: CountSettings, workers: int) -> tuple[float, int, int]:
    """Return the seconds of a count on so many workers, the bytes shuffled, and the peak of a Python worker."""
    logs = folder / f"cluster-{workers}-{len(settings.longer)}"
    logs.mkdir()
    with Standalone(logs, workers, memory="2g", pinned=True) as standalone:
        session = connect(standalone.url, SETTINGS)
        try:
            count(session, folder / "small", settings, folder / "warm")
            before = bytes_shuffled(session)
            start = time.perf_counter()
            count(session, folder / "corpus", settings, folder / "spark")
            seconds = time.perf_counter() - start
            shuffled, peak = bytes_shuffled(session) - before, python_peak(standalone)
        finally:
            session.stop()
    return seconds, shuffled, peak


def count(session: Any, source: Path, settings: CountSettings, out: Path) -> None:
    planned = CountJob(([str(source)], None, None), settings).on_spark(Cluster(session))
    write_counts(planned, str(out))


def score(folder: Path, contexts: int) -> None:
    """Score contexts with a back-off model; the first run starts the workers and is shown apart."""
    train = corpora.write(folder / "train.parquet", 3_000_000)
    model = rg.fit(rg.count(train, n=N, spans=["suffixes:5", "shapes:8"], targets=["T0"]), "T0", "backoff")
    write_contexts(folder / "contexts", contexts)
    for cores in (1, 2):
        session = connect(f"local[{cores}]", SETTINGS)
        cluster = Cluster(session)
        for run in range(ROUNDS):
            clock, start = processor_seconds(), time.perf_counter()
            found = open_input(cluster, [str(folder / "contexts")], model, Options())
            write_scores(cluster, model, found, str(folder / "scores"))
            seconds, used = time.perf_counter() - start, processor_seconds() - clock
            rate = (
                f"{contexts / seconds / cores / 1e6:.2f} million/s a core, {contexts / used / 1e6:.2f} a CPU second"
            )
            show(f"scoring on local[{cores}], run {run + 1}", f"{seconds:.1f} s", rate)
        session.stop()


def write_contexts(folder: Path, contexts: int) -> None:
    """Write the 10-grams of documents to several files."""
    folder.mkdir()
    size = -(-contexts // FILES)
    for part in range(FILES):
        texts = corpora.documents(-(-size // (corpora.LENGTH - N + 1)), seed=900 + part)["text"].to_pylist()
        ngrams = [" ".join(words[i : i + N]) for words in map(str.split, texts) for i in range(len(words) - N + 1)]
        pq.write_table(pa.table({"ngram": ngrams[:size]}), folder / f"{part}.parquet")


def processor_seconds() -> float:
    """Return the processor time of this process and all that it started, Java and Python."""
    processes = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            facts = status.read_text().rpartition(")")[2].split()
            processes[int(status.parent.name)] = (int(facts[1]), sum(map(int, facts[11:15])))
    ours = {os.getpid()}
    while more := {process for process, (parent, _) in processes.items() if parent in ours} - ours:
        ours |= more
    return sum(processes[process][1] for process in ours if process in processes) / os.sysconf("SC_CLK_TCK")


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
