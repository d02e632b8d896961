"""The experiment's speed and size on Reuters-21578, beside the paper's numbers.

    python -m benchmarks.experiment

Needs the corpus (npm brings it) and takes about a minute.
"""

from __future__ import annotations

import time
from functools import partial

import raregram as rg
from benchmarks.measuring import Figures, best_of, own_peak_bytes, parser, show_machine
from raregram.experiment.run import Config, Splits, count_splits, load_corpus
from raregram.measure.evaluate import types_for
from raregram.measure.tune import Grid
from raregram.models.selection import CRITERIA
from raregram.options import LAMS, SIZES

PAPER_RATE = 43_900  # N-grams a second, the paper's best: 394,850 in 9.00 s


def main() -> None:
    arguments = parser(__doc__, results=True).parse_args()
    config, figures = Config(), Figures()
    show_machine()
    splits = count_splits(config, load_corpus(config))
    for target in config.targets:
        grid_of_one_target(splits, target, figures)
        scoring(splits, target, figures)
    figures.add("peak memory of the whole", own_peak_bytes() / 1e9, "GB", most=2)
    figures.write(arguments.json)


def grid_of_one_target(splits: Splits, target: str, figures: Figures) -> None:
    """Time all seven criteria x seven sizes x nine lam on the validation types."""
    start = time.perf_counter()
    grid = Grid(splits.train, target, splits.valid, by="f1")
    cells = [*grid.selective(CRITERIA, SIZES, LAMS), *grid.all_used(LAMS)]
    taken = time.perf_counter() - start
    types = len(splits.valid.rows[splits.valid.whole])
    figures.add(f"{target}: {len(cells)} settings on {types:,} types", taken, "s", most=10)


def scoring(splits: Splits, target: str, figures: Figures) -> None:
    """Score all test N-grams with all used and with a selection, in turns."""
    models = {
        "all used": rg.fit(splits.train, target, "product", lam=1e-4),
        "selective": rg.fit(splits.train, target, "selective", criterion="cet", size=5_000),
    }
    codes = {name: types_for(model, splits.test) for name, model in models.items()}
    best = best_of({name: partial(model.log_ratio, codes[name]) for name, model in models.items()}, rounds=20)
    rate = len(codes["selective"]) / best["selective"]
    figures.add(f"{target}: N-grams a second with cet 5,000, from codes", rate)
    figures.add("  as a multiple of the paper's best", rate / PAPER_RATE, "x", least=500)
    figures.add("  time of selective over all used", best["selective"] / best["all used"], "x", most=1)
    share = models["selective"].nbytes / models["all used"].nbytes
    figures.add("  bytes of selective over all used", share, "x", most=0.1)


if __name__ == "__main__":
    main()
