"""One rival on one task in one process: `python -m benchmarks.rivals.run DATA SIZE TARGET RIVAL` prints JSON.

Seconds are processor seconds, user and system, of this process and those that it starts.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measuring import own_peak_bytes, parser, processor_seconds
from benchmarks.rivals import Bools, Floats, Rival, Task, load
from benchmarks.rivals.data import Data
from raregram.measure.cllr import aggregate_ties, calibration_metrics, least_cllr
from raregram.measure.evaluate import f1_score, top_hits
from raregram.options import PAPERS_K

SCORINGS = 3  # rounds of scoring, of which the median counts
LONG = 2.0  # seconds; a scoring that takes longer is not repeated
GIGABYTE = 1 << 30


def main() -> None:
    options = parser(__doc__)
    options.add_argument("data", type=Path)
    options.add_argument("size", type=int)
    options.add_argument("target")
    options.add_argument("rival")
    options.add_argument("--k", type=int, default=PAPERS_K)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--settings", type=json.loads, help="to choose from on validation; default: the rival's own")
    options.add_argument("--limit", type=float, default=600.0, help="seconds; no new setting is tried near the end")
    options.add_argument("--memory", type=float, default=16.0, help="gigabytes that may be taken")
    options.add_argument("--warm", type=float, default=2.0, help="seconds of scoring before the clock starts")
    arguments = options.parse_args()
    limit = int(arguments.memory * GIGABYTE)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    report = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever the tools print goes to standard error
    try:
        result = measure(arguments)
    except MemoryError:
        result = {"failed": f"out of memory at {arguments.memory:g} GB"}
    except Exception as error:
        result = {"failed": " ".join(f"{type(error).__name__}: {error}".split())[:300]}
    print(json.dumps(result), file=report, flush=True)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Read, choose, fit, score and save; return the measurements."""
    began = time.perf_counter()
    pa.set_cpu_count(1)
    data = Data(arguments.data)
    with tempfile.TemporaryDirectory(prefix="rival-") as scratch:
        documents = data.documents(arguments.size)
        rival = load(arguments.rival)(Task(arguments.target, data.n, Path(scratch), documents, arguments.seed))
        formatted, labels = None, None
        train = f"contexts-{arguments.size}"
        if documents is None or not rival.reads_documents:
            texts, labels = data.read(train, arguments.target)
            formatted = rival.format(texts, labels)
            del texts
        read_seconds = processor_seconds(lambda: rival.read(formatted, labels))
        settings = arguments.settings or rival.settings
        tried = choose(rival, data, settings, arguments, began) if len(settings) > 1 else []
        setting = max(tried, key=lambda entry: entry["valid_f1"])["setting"] if tried else settings[0]
        if tried and tried[-1]["setting"] == setting:
            fit_seconds = tried[-1]["fit_seconds"]
        else:
            fit_seconds = processor_seconds(lambda: rival.fit(**setting))
        test = data.read("test", arguments.target)
        scores, seconds = score(rival, rival.format(test.texts), arguments.warm)
        check(scores, len(test.labels))
        found = {
            "setting": setting,
            "tried": tried,
            "valid_f1": max((entry["valid_f1"] for entry in tried), default=None),
            "test_f1": f1(scores, test.labels, arguments.k),
            "average_precision": average_precision(scores, test.labels),
            "share_correct": float(test.labels.mean()),
            "contexts": int(pq.read_metadata(data.folder / f"{train}.parquet").num_rows),
            "types": len(scores),
            "read_seconds": read_seconds,
            "fit_seconds": fit_seconds,
            "contexts_per_second": len(scores) / seconds,
            "model_bytes": saved_bytes(rival, Path(scratch)),
            "peak_bytes": peak_bytes(),
        }
        return found | {"calibration": calibration(rival, data, arguments.target, setting, scores)}  # not timed


def calibration(
    rival: Rival, data: Data, target: str, setting: dict[str, Any], scores: Floats
) -> dict[str, Any] | None:
    """Return the Cllr of test scores, over occurrences, once they are calibrated; None if they could not be."""
    valid = data.read("valid", target)
    valid_scores = rival.score(rival.format(valid.texts))
    calibrate = rival.calibration(valid_scores, *data.frequencies("valid", target), setting)
    if calibrate is None:
        return None
    return calibration_metrics(aggregate_ties(calibrate(scores), *data.frequencies("test", target))).to_dict()


def choose(
    rival: Rival, data: Data, settings: Sequence[dict[str, Any]], arguments: argparse.Namespace, began: float
) -> list[dict[str, Any]]:
    """Measure settings on validation; leave out the rest where the time would not do for another one."""
    valid = data.read("valid", arguments.target)
    formatted, frequencies = rival.format(valid.texts), data.frequencies("valid", arguments.target)
    tried: list[dict[str, Any]] = []
    longest = 0.0
    for setting in settings:
        start = time.perf_counter()
        if tried and start - began + 3 * longest > arguments.limit:
            break
        fit_seconds = processor_seconds(partial(rival.fit, **setting))
        scores = rival.score(formatted)
        check(scores, len(valid.labels))
        valid_f1 = f1(scores, valid.labels, arguments.k)
        least = least_cllr(aggregate_ties(scores, *frequencies))
        tried.append({"setting": setting, "valid_f1": valid_f1, "valid_least": least, "fit_seconds": fit_seconds})
        longest = max(longest, time.perf_counter() - start)
    return tried


def score(rival: Rival, formatted: Any, warm: float) -> tuple[Floats, float]:
    """Score all contexts; return the scores and the seconds: once everything is loaded, if that is of any weight."""
    began, found = time.perf_counter(), []
    seconds = [processor_seconds(lambda: found.append(rival.score(formatted)))]
    if seconds[0] < LONG:
        while time.perf_counter() < began + warm:
            rival.score(formatted)
        seconds = [processor_seconds(lambda: rival.score(formatted)) for _ in range(SCORINGS)]
    return found[0], statistics.median(seconds)


def f1(scores: Floats, correct: Bools, k: int) -> float:
    """Return F1 of the top K; ties keep the byte order of the contexts, which knows nothing of what is correct."""
    k = min(k, len(scores))
    return f1_score(top_hits(scores, correct, k), k, int(correct.sum()))


def average_precision(scores: Floats, correct: Bools) -> float:
    """Return the average precision; tied contexts count as found together."""
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(correct, np.nan_to_num(scores, nan=-1e300, posinf=1e300, neginf=-1e300)))


def saved_bytes(rival: Rival, scratch: Path) -> int:
    """Save the model to a folder of its own and return the folder's size."""
    folder = scratch / "saved"
    folder.mkdir()
    rival.save(folder)
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def peak_bytes() -> int:
    """Return the most memory that this process, or one that it started, ever held.

    A child's figure begins with what its parent held when it started it, so the two must not be added up. For the
    same reason this process's own figure comes from the kernel's high-water mark, which begins anew with a program.
    """
    return max(own_peak_bytes(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)


def check(scores: Floats, number: int) -> None:
    """Raise if there is not one score for each context, or nothing but NaN."""
    if scores.shape != (number,):
        raise ValueError(f"{number} contexts gave scores of the shape {scores.shape}")
    if np.isnan(scores).all():
        raise ValueError("every score is NaN")


if __name__ == "__main__":
    main()
