"""The variance of the back-off estimate, carried along its units and suffixes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from raregram.models.backoff.parameters import temper
from raregram.models.base import Settings
from raregram.models.frequencies import Frequencies, Index
from raregram.models.intervals import LEAST, posterior_variance, unit_variance
from raregram.models.ratios import Floats, from_log


@dataclass(frozen=True)
class SuffixTrace:
    """The suffixes of some contexts, (lengths, contexts); one that is not stored has index 0 and correction 0."""

    index: Index  # of the frequencies
    prior: Floats  # log r0
    correction: Floats  # log(r / r0)


@dataclass(frozen=True)
class Trace:
    """What the log ratios of some contexts are made of; units are (n, contexts), by distance."""

    units: Floats
    index: Index  # of the frequencies of units
    words: SuffixTrace
    shape_units: Floats
    shape_index: Index
    shapes: SuffixTrace


def backoff_variance(settings: Settings, frequencies: Frequencies, trace: Trace) -> Floats:
    """Return the squared coefficient of variation of the ratio of each context."""
    s, p = settings, settings.params

    def step(suffixes: SuffixTrace, length: int, prior: Floats, lam: float) -> Floats:
        f_nu, f_de = frequencies.of(suffixes.index[length])
        return posterior_variance(f_nu, f_de, lam * s.n_nu * from_log(suffixes.prior[length]), lam * s.n_de, prior)

    units, shape_units = _units(settings, frequencies, trace)
    gained = np.zeros_like(units)  # by the suffixes of shapes, at every distance
    total = np.zeros(units.shape[1])
    for length in range(p.longest_shapes):
        prior = total + shape_units[length]
        stored = trace.shapes.index[length] > 0
        total = np.where(stored, step(trace.shapes, length, prior, p.unit_lam), prior)
        gained[length] = total - prior
    log_ratio = trace.units.sum(axis=0) + trace.shapes.correction.sum(axis=0) + trace.words.correction.sum(axis=0)
    unseen = 1 / np.maximum(p.lam * s.n_nu * from_log(log_ratio), LEAST)
    total = np.zeros(units.shape[1])
    for length in range(s.n):
        prior = np.maximum(total + units[length] + gained[length], 0.0)
        # A suffix that was not seen has a ratio of its own all the same, as far from its prior as that allows.
        total = step(trace.words, length, prior, p.lam) if length < p.longest else prior + unseen
    return total


def _units(settings: Settings, frequencies: Frequencies, trace: Trace) -> tuple[Floats, Floats]:
    """Return the variances of tempered units, of items and of shapes: (n, contexts)."""
    s, p = settings, settings.params
    power = np.array([temper(p.tau, distance) for distance in range(s.n)])[:, None]
    f_nu, f_de = frequencies.of(trace.index)
    log_unit = np.divide(trace.units, power, out=np.zeros_like(trace.units), where=power > 0)
    tempered = ((1 - power) * log_unit) ** 2  # tempering may have taken away evidence that was independent
    if not p.longest_shapes:
        units = unit_variance(f_nu, f_de, s.n_de, p.unit_lam)
        return power**2 * units + tempered, np.zeros_like(trace.shape_units)
    evidence, ridge = p.unit_lam * s.n_nu, p.unit_lam * s.n_de
    of_shapes = frequencies.of(trace.shape_index)
    shapes = posterior_variance(*of_shapes, evidence * np.ones_like(trace.shape_units), ridge, 0.0)
    units = posterior_variance(f_nu, f_de, evidence * from_log(log_unit), ridge, shapes)
    return power**2 * units + tempered, power**2 * shapes
