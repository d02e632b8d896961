"""The variance of the back-off estimate, carried along its units and suffixes; see docs/theory.md, "Intervals"."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from raregram.models.backoff.layers import Trace
from raregram.models.backoff.parameters import tempering
from raregram.models.base import Settings
from raregram.models.frequencies import Frequencies, Index
from raregram.models.intervals import LEAST, posterior_variance, unit_variance
from raregram.models.ratios import Floats, from_log


def backoff_variance(
    settings: Settings,
    frequencies: Frequencies,
    log_ratio: Floats,
    traces: tuple[Trace, Trace],
    units: Sequence[Floats],
    there: npt.NDArray[np.bool_],
) -> Floats:
    """Return the squared coefficient of variation of the ratio of each context.

    Args:
        settings: the model's.
        frequencies: the distinct ones.
        log_ratio: of each context.
        traces: the suffixes of shapes, and those of items.
        units: the variances of the units of shapes, and of those of items: (n, contexts) by distance.
        there: which items a context has, (n, contexts).
    """
    s, p, (shapes, words), (shape_units, item_units) = settings, settings.params, traces, units

    def step(trace: Trace, length: int, prior: Floats, lam: float) -> Floats:
        f_nu, f_de = frequencies.of(trace.evidence[length])
        return posterior_variance(f_nu, f_de, lam * s.n_nu * from_log(trace.prior[length]), lam * s.n_de, prior)

    gained = np.zeros_like(item_units)  # by the suffixes of shapes, at every distance
    total = np.zeros_like(log_ratio)
    for length in range(p.longest_shapes):
        prior = total + shape_units[length]
        total = np.where(shapes.evidence[length] > 0, step(shapes, length, prior, p.unit_lam), prior)
        gained[length] = total - prior
    unseen = 1 / np.maximum(p.lam * s.n_nu * from_log(log_ratio), LEAST)
    total = np.zeros_like(log_ratio)
    for length in range(s.n):
        prior = np.maximum(total + item_units[length] + gained[length], 0.0)
        # A suffix that was not seen has a ratio of its own all the same, as far from its prior as that allows.
        longer = step(words, length, prior, p.lam) if length < p.longest else prior + unseen
        total = np.where(there[length], longer, total)
    return total


def unit_variances(
    settings: Settings, frequencies: Frequencies, index: Index, units: Floats, shape_index: Index
) -> tuple[Floats, Floats]:
    """Return the variances of tempered units, of shapes and of items: (n, codes).

    Args:
        settings: the model's.
        frequencies: the distinct ones.
        index: of the frequencies of the units of items.
        units: their tempered log ratios.
        shape_index: of the frequencies of the shapes of all codes.
    """
    s, p = settings, settings.params
    power = tempering(p.tau, s.n)
    f_nu, f_de = frequencies.of(index)
    log_unit = np.divide(units, power, out=np.zeros_like(units), where=power > 0)
    tempered = ((1 - power) * log_unit) ** 2  # tempering may have taken away evidence that was independent
    if not p.longest_shapes:
        variance = unit_variance(f_nu, f_de, s.n_de, p.unit_lam)
        return np.zeros_like(variance), power**2 * variance + tempered
    evidence, ridge = p.unit_lam * s.n_nu, p.unit_lam * s.n_de
    of_shapes = posterior_variance(*frequencies.of(shape_index), evidence * np.ones_like(units), ridge, 0.0)
    variance = posterior_variance(f_nu, f_de, evidence * from_log(log_unit), ridge, of_shapes)
    return power**2 * of_shapes, power**2 * variance + tempered
