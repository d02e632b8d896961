"""Counting and scoring beside the machine's limit: a C program that splits and hashes the text, and a memory copy.

    python -m benchmarks.limit [--items 50000000]

Everything runs on one core, in turns; figures are medians. The C program gets the same text as one file and is not
charged for reading it; ours reads Parquet, splits, counts or scores, and returns the result. Compiled loops are
loaded before the clock starts. Reuters is what the scores are of, and the synthetic corpus (Zipf's law) is what many
items are counted in.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import raregram as rg
from benchmarks import corpora
from benchmarks.measuring import Task, medians, on_one_core, output_of, parser, show, show_machine, timed, write_json
from raregram.measure.experiment import Config, load_corpus, split_corpus

SPANS = ("units", "suffixes:5", "shapes:8")
Yardstick = Callable[[Path], float]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--items", type=int, default=50_000_000, help="of the synthetic corpus")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--json", type=Path, help="write the multiples here as well")
    arguments = options.parse_args()
    on_one_core()
    show_machine()
    print("one core; text over the C program, and over a memory copy of its bytes")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yardstick = compile_yardstick(folder)
        found = reuters(folder, yardstick, arguments.rounds)
        found |= synthetic(folder, yardstick, arguments.items, arguments.rounds)
    if arguments.json:
        write_json(arguments.json, found)


def reuters(folder: Path, yardstick: Yardstick, rounds: int) -> dict[str, float]:
    """Count the training articles, and score the test N-grams from text."""
    config = Config()
    parts = split_corpus(config, load_corpus(config))
    train, text, lines = folder / "reuters.parquet", folder / "reuters.txt", folder / "lines.txt"
    pq.write_table(parts["train"], train)
    text.write_text("\n".join(parts["train"]["text"].to_pylist()))
    count = partial(rg.count, train, n=10, targets=list(config.targets), threads=1)
    counts = count(spans=SPANS)
    types = rg.count(parts["test"], n=10, targets=list(config.targets), spans=["whole"]).whole_ngrams().texts("words")
    lines.write_text("\n".join(types.to_pylist()))
    models = {
        "back-off": rg.fit(counts, "LOC", "backoff"),
        "back-off in 1 MB": rg.fit(counts, "LOC", "backoff", max_bytes=1_000_000),
        "selective": rg.fit(counts, "LOC", "selective", criterion="cet", size=5_000),
    }
    tasks = {f"score {len(types):,} 10-grams, {name}": partial(m.log_ratio, types) for name, m in models.items()}
    found = against(tasks, yardstick, lines, rounds, wanted="at most 3 x")
    found |= against({"count Reuters, units": count}, yardstick, text, rounds, wanted="at most 3 x")
    everything = {"count Reuters, suffixes and shapes": partial(count, spans=SPANS)}
    return found | against(everything, yardstick, text, 3)


def synthetic(folder: Path, yardstick: Yardstick, items: int, rounds: int) -> dict[str, float]:
    """Count units of two targets in many items."""
    path, text = corpora.write(folder / "zipf.parquet", items), folder / "zipf.txt"
    with text.open("w") as file:
        for batch in pq.ParquetFile(path).iter_batches(columns=["text"]):
            file.write("\n".join(batch["text"].to_pylist()) + "\n")
    task = {f"count {items:,} items, units": partial(rg.count, path, n=10, threads=1)}
    return against(task, yardstick, text, min(rounds, 3), wanted="at most 3 x")


def against(
    tasks: Mapping[str, Task], yardstick: Yardstick, path: Path, rounds: int, wanted: str = ""
) -> dict[str, float]:
    """Run tasks in turns with the C program and a copy of the file's bytes; show and return the multiples."""
    data = np.fromfile(path, dtype=np.uint8)
    for task in tasks.values():
        task()  # once before the clock starts
    clocked = {name: partial(timed, task) for name, task in {**tasks, "copy": data.copy}.items()}
    seconds = medians({**clocked, "C": partial(yardstick, path)}, rounds)
    for name in tasks:
        multiple = seconds[name] / seconds["C"]
        show(name, f"{multiple:.2f} x C", wanted and f"{wanted}; {seconds[name] / seconds['copy']:.0f} x the copy")
    return {name: seconds[name] / seconds["C"] for name in tasks}


def compile_yardstick(folder: Path) -> Yardstick:
    """Compile the C program; return a function that runs it over a file and returns its seconds without reading."""
    program = folder / "split_hash"
    output_of("cc", "-O2", "-o", program, Path(__file__).with_name("split_hash.c"))
    return lambda path: float(output_of(program, path, "1").split()[2])


if __name__ == "__main__":
    main()
