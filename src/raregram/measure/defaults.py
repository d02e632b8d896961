"""The grids that `tune` and the experiment try, and K. Imports nothing, so that help texts can show them."""

from __future__ import annotations

K = 8000  # the paper's: how many N-grams are returned
CRITERIA = ("random", "tf", "cet", "chi2", "chi2_printed", "gss")
SIZES = (100, 500, 1_000, 5_000, 10_000, 50_000, 100_000)
LAMS = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
PRIORS = (6.0, 12.0, 24.0)  # of `backoff`: how many contexts a prior weighs, lam times n_de
TAUS = (0.4, 0.5, 0.6)
