"""The demo: fit, rank and explain on a corpus whose true ratios are known, with the real commands.

python demo/run.py FOLDER
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

import raregram as rg
from raregram.measure.synthetic import SyntheticCorpus
from raregram.options import SPANS
from raregram.text.vocabulary import Codes

TRAIN = (2_000, 60_000)  # contexts at the target, and elsewhere
NEW = (500, 15_000)


def main(folder: Path) -> None:
    """Make the corpus, run the commands on it, and compare with the truth."""
    folder.mkdir(parents=True, exist_ok=True)
    source = SyntheticCorpus.make()
    contexts, at_target = source.sample(*TRAIN, seed=1)
    labels = np.where(at_target, "NAME", "O")
    lines = (f"{label}\t{text}\n" for label, text in zip(labels, source.texts(contexts), strict=True))
    (folder / "train.tsv").write_text("".join(lines))
    new, _ = source.sample(*NEW, seed=2)
    (folder / "new.txt").write_text("".join(f"{text}\n" for text in source.texts(new)))

    say(f"A corpus of {len(contexts):,} contexts, {at_target.sum():,} of them at a NAME; its true ratios are known.")
    run("fit", "train.tsv", "--target", "NAME", "--out", "name.rgm", folder=folder)
    run("info", "name.rgm", folder=folder)
    say(f"{len(new):,} contexts that the model has not seen, best first:")
    run("rank", "name.rgm", "new.txt", "--top", "5", folder=folder)
    model = rg.Model.load(folder / "name.rgm")
    best = source.texts(new[[int(np.argmax(model.log_ratio(source.texts(new))))]])[0]
    run("explain", "name.rgm", best, folder=folder)
    compare(source, contexts, labels, new)


def compare(source: SyntheticCorpus, contexts: Codes, labels: npt.NDArray[np.str_], new: Codes) -> None:
    """Print how near each estimator comes to the true log ratios of contexts that it has not seen."""
    counts = rg.Counts.from_contexts(source.texts(contexts), labels, spans=[*SPANS.default, "whole"])
    seen = set(source.texts(contexts))
    texts = [text for text in source.texts(new) if text not in seen]
    truth = source.log_ratio(new[[text not in seen for text in source.texts(new)]])
    say(f"Against the truth, on {len(texts):,} N-grams never seen in training:")
    print(f"{'estimator':<34}{'has an answer':>14}{'correlation':>13}{'mean error':>12}")
    for name, options in {
        "mle": {"estimator": "mle"},
        "direct, lam 1e-5": {"estimator": "direct", "lam": 1e-5},
        "product (all used), lam 0": {"estimator": "product", "lam": 0},
        "product (all used), lam 5e-4": {"estimator": "product", "lam": 5e-4},
        "selective, cet 500, lam 5e-4": {"estimator": "selective", "size": 500, "lam": 5e-4},
        "backoff": {},
    }.items():
        log_ratio = rg.fit(counts, "NAME", **options).log_ratio(texts)
        fine = np.isfinite(log_ratio)
        r = f"{np.corrcoef(log_ratio[fine], truth[fine])[0, 1]:.2f}" if fine.any() else "-"
        error = f"{np.abs(log_ratio[fine] - truth[fine]).mean():.2f}" if fine.any() else "-"
        print(f"{name:<34}{fine.mean():>13.0%} {r:>13}{error:>12}")


def run(*arguments: str, folder: Path) -> None:
    """Run one command as a user would."""
    print(f"\n$ raregram {shlex.join(arguments)}", flush=True)
    subprocess.run([Path(sys.executable).with_name("raregram"), *arguments], cwd=folder, check=True)


def say(text: str) -> None:
    """Print a line of the story."""
    print(f"\n{text}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
