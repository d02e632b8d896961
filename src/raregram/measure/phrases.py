"""The ratio of rare phrases: an estimate that is pulled towards what the parts of an N-gram say.

Of f sightings of an N-gram, corrected for clumping (f / D), those in the corpus A are binomial with the probability
p = n_a r / (n_a r + n_b), r being its ratio. A prior for p is a beta distribution with the mean log ratio

    b + w1 max(prefix, suffix) + w2 min(prefix, suffix) + w3 middle

of the estimates of its parts, from which its own sightings are taken away, and with a strength s (a number of
sightings): log s = c0 + c1 log(f / D) + c2 log(variance of the parts). All b, w and c are those of the highest
marginal likelihood, fitted for each length; words have b, c0 and c1 alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from raregram.measure.keyness import Floats, Ints, beta_log_odds, degrees_of_freedom, design_effect, t_quantile

FITTED_ROWS = 5_000  # of each length, at most
NEUTRAL = 1.0  # sightings with the ratio 1 that every prior has
CAUTION = 4.0  # sightings with the ratio 1 that are added to the posterior for the ratio that is shown
WEAK = 2.0  # sightings with the ratio 1 that are all the prior where rows are ranked
NORMAL = 1.96  # standard deviations to both ends of a 95 % interval where the variance is known,
NORMAL_SIDE = 1.645  # and to one end with 5 % beyond it
TINY = 1e-9
INSIDE = 0.8  # of an N-gram's sightings: so many within a longer one make it a part of that
# Two samples of a language are never quite alike, and parts do not tell all about a phrase: a prior weighs at most so
# many sightings in the smaller corpus. With 100, intervals of phrases in random halves held 0 in 79 to 99 %.
MOST_SIGHTINGS = 20.0
LARGEST_STRENGTH = 20.0  # logarithm, while it is fitted
OUTLIERS = 1 / 20  # of the rows have a ratio of their own, whatever their parts say

Order = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Rows:
    """All N-grams of one length in two corpora; their parts are among the rows of the shorter lengths."""

    keys: npt.NDArray[np.int32]  # (rows, length) codes of items
    f: Ints  # (rows, 2) frequencies, and so
    documents: Ints  # in how many documents
    squares: Ints  # sum over documents of squared frequencies
    products: Ints  # sum over documents of the frequency times the document's size
    sizes: Ints  # (2,) number of N-grams of this length
    totals: Ints  # (3, 2) sum of the documents' sizes, number of documents, sum of squared sizes

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def all_documents(self) -> Ints:
        """The number of documents of each corpus."""
        return np.asarray(self.totals[1])

    @property
    def length(self) -> int:
        """The number of items of the N-grams."""
        return int(self.keys.shape[1])


@dataclass(frozen=True)
class Parts:
    """Where the parts of N-grams of one length are among the rows of shorter lengths."""

    prefix: Order  # (rows,)
    suffix: Order
    middle: Order | None  # None: of two items nothing is between


@dataclass(frozen=True)
class Estimates:
    """The posterior of the ratios of N-grams of one length, in nats."""

    x: Floats  # (rows, 2) frequencies over the design effect
    by_parts: Floats  # (rows, 2) shapes of the prior that the parts give,
    prior: Floats  # and of the prior that is used, which gives way where the sightings contradict it
    design: Floats  # (rows,)
    offset: float  # log(n_a / n_b)
    freedom: float  # degrees of freedom of the design effect
    single: bool = False  # whether these are single items

    @property
    def side(self) -> Order:
        """The corpus that each row marks: 0 or 1."""
        return np.asarray(self.x[:, 0] * np.exp(-self.offset) < self.x[:, 1], dtype=np.intp)

    @cached_property
    def interval(self) -> tuple[Floats, Floats]:
        """Both ends of the 95 % interval of the log ratio; the fewer documents, the wider."""
        a, b = (self.x + self.prior).T
        mean, _ = mean_and_variance(self.x + self.prior, self.offset)
        wider = max(t_quantile(0.05, self.freedom) / NORMAL, 1)
        ends = beta_log_odds(0.025, a, b), -beta_log_odds(0.025, b, a)
        low, high = (mean + wider * (end - self.offset - mean) for end in ends)
        return low, high

    @cached_property
    def shown(self) -> Floats:
        """The log ratio that is shown: the log odds of the posterior mean, with a few more neutral sightings.

        Without these, the ratio of what one corpus never has is that of its prior; so it is nearer to what a new
        sample would show. It stays within the interval.
        """
        a, b = (self.x + self.prior + neutral(self.offset, CAUTION)).T
        return np.asarray(np.clip(np.log(a / b) - self.offset, *self.interval))

    @cached_property
    def conservative(self) -> Floats:
        """What rows are ranked by: the end of the interval nearer to 0, and 0 if it holds 0.

        It is that of the row's own sightings, but no more than the ratio that is shown, which knows its parts, too.
        Where a corpus never has it, a normal distribution does not fit, and the exact limit of a binomial does.
        """
        mean, variance = mean_and_variance(self.x + neutral(self.offset, WEAK), self.offset)
        t = t_quantile(0.1, self.freedom)
        own = np.maximum(np.abs(mean) - t * np.sqrt(variance), self._exact_limit(mean > 0, t / NORMAL_SIDE))
        limit = np.clip(np.sign(mean) * self.shown, 0, np.maximum(own, 0))
        return np.asarray(np.sign(mean) * limit + 0.0)  # no -0.0

    def _exact_limit(self, in_a: npt.NDArray[np.bool_], wider: float) -> Floats:
        """Return by how much a row marks its corpus at least (Clopper and Pearson's limit), in nats.

        One sighting more in the other corpus is the estimate from which the limit is `wider` away.
        """
        (a, b), offset = np.where(in_a[:, None], self.x, self.x[:, ::-1]).T, np.where(in_a, self.offset, -self.offset)
        a = np.maximum(a, TINY)
        estimate = np.log(a / (b + 1)) - offset
        return np.asarray(estimate - wider * (estimate - (beta_log_odds(0.05, a, b + 1) - offset)))

    @property
    def beyond(self) -> Floats:
        """By how much the estimate differs from what the parts say; 0 for single items."""
        if self.single:
            return np.zeros(len(self.x))
        mean, _ = mean_and_variance(self.x + self.prior, self.offset)
        before, _ = mean_and_variance(self.by_parts, self.offset)
        return mean - before


def mean_and_variance(shapes: Floats, offset: float) -> tuple[Floats, Floats]:
    """Return mean and variance of a log ratio whose share in A has a beta distribution."""
    from scipy.special import digamma, polygamma

    a, b = shapes.T
    return digamma(a) - digamma(b) - offset, polygamma(1, a) + polygamma(1, b)


def find_parts(lengths: Sequence[Rows]) -> list[Parts | None]:
    """Return the parts of the rows of each length, from 1 on; single items have none."""
    items = 1 + max((int(rows.keys.max(initial=0)) for rows in lengths), default=0)
    tables: list[tuple[Ints, Order]] = []  # of each length: pairs of (row of its prefix, last item), in order

    def walk(keys: npt.NDArray[np.int32]) -> Order:
        row = np.zeros(len(keys), dtype=np.intp)
        for column, (pairs, order) in zip(keys.T, tables, strict=False):
            row = order[np.searchsorted(pairs, row * items + column)]
        return row

    found: list[Parts | None] = []
    for rows in lengths:
        prefix = walk(rows.keys[:, :-1])
        pairs = prefix * items + rows.keys[:, -1]
        order = np.argsort(pairs)
        before = found[-1] if found else None
        parts = Parts(prefix, walk(rows.keys[:, 1:]), before.suffix[prefix] if before else None)
        found.append(parts if rows.length > 1 else None)
        tables.append((pairs[order], order))
    return found


def estimate(lengths: Sequence[Rows], parts: Sequence[Parts | None]) -> list[Estimates]:
    """Return the estimates of N-grams of each length, from 1 on."""
    done: list[Estimates] = []
    for rows, of_rows in zip(lengths, parts, strict=True):
        design = _design(rows)
        x = rows.f / design[:, None]
        features, spread = _features(rows, of_rows, done)
        evidence = np.column_stack([np.ones(len(x)), np.log(x.sum(axis=1)), *spread])
        offset = float(np.log(rows.sizes[0] / rows.sizes[1]))
        log_odds, log_strength = _linear(_fit(x, features, evidence, offset), features, evidence, offset)
        most = np.log(MOST_SIGHTINGS) + np.logaddexp(0, abs(offset))
        by_parts = _shapes(log_odds, np.minimum(log_strength, most), offset)
        prior, freedom = _give_way(x, by_parts, offset), degrees_of_freedom(rows.totals)
        done.append(Estimates(x, by_parts, prior, design, offset, freedom, of_rows is None))
    return done


def _design(rows: Rows) -> Floats:
    """Return the design effect of each row, by those corpora of which more than one document is known."""
    known = np.flatnonzero(rows.all_documents > 1)
    if not len(known):
        return np.ones(len(rows))
    sums = [column[:, known] for column in (rows.documents, rows.squares, rows.products, rows.totals)]
    return design_effect(rows.f[:, known], *sums)


def _features(rows: Rows, parts: Parts | None, done: Sequence[Estimates]) -> tuple[Floats, list[Floats]]:
    """Return the terms of the prior log ratio, and the logarithm of the variance of the parts, if there are any."""
    one = np.ones(len(rows))
    if parts is None:
        return one[:, None], []

    def without(part: Estimates, index: Order) -> tuple[Floats, Floats]:
        """Return mean and variance of a part's log ratio without the sightings of the rows that it is a part of."""
        x = np.maximum(part.x[index] - rows.f / part.design[index][:, None], 0)
        return mean_and_variance(x + part.prior[index], part.offset)

    (prefix, v_prefix), (suffix, v_suffix) = (without(done[-1], index) for index in (parts.prefix, parts.suffix))
    terms = [one, np.maximum(prefix, suffix), np.minimum(prefix, suffix)]
    if parts.middle is not None:
        terms.append(without(done[-2], parts.middle)[0])
    return np.column_stack(terms), [np.log((v_prefix + v_suffix) / 2)]


def _linear(parameters: Floats, features: Floats, evidence: Floats, offset: float) -> tuple[Floats, Floats]:
    """Return the log odds that a sighting is in A, and the logarithm of the strength, by the prior."""
    weights, strengths = np.split(parameters, [features.shape[1]])
    return np.asarray(features @ weights + offset), np.clip(evidence @ strengths, -5, LARGEST_STRENGTH)


def _shapes(log_odds: Floats, log_strength: Floats, offset: float) -> Floats:
    """Return the shapes of the prior: those that the parts say, and a few sightings with the ratio 1."""
    of_parts = np.exp(log_strength)[:, None] * _expit(np.column_stack([log_odds, -log_odds]))
    return np.asarray(of_parts + neutral(offset))


def _give_way(x: Floats, prior: Floats, offset: float) -> Floats:
    """Return the shapes of a prior that becomes a weak one where the sightings contradict it."""
    weak = np.broadcast_to(neutral(offset, WEAK), x.shape)
    gain = _log_marginal(x, weak) - _log_marginal(x, prior)
    outlier = _expit(gain + np.log(OUTLIERS / (1 - OUTLIERS)))[:, None]  # probability
    return np.asarray((1 - outlier) * prior + outlier * weak)


def _log_marginal(x: Floats, shapes: Floats) -> Floats:
    """Return the log likelihood of sightings, up to a constant, if their share is drawn from a beta distribution."""
    from scipy.special import betaln

    return np.asarray(betaln(*(x + shapes).T) - betaln(*shapes.T))


def neutral(offset: float, sightings: float = NEUTRAL) -> Floats:
    """Return sightings in A and in B as chance would spread them: log(n_a / n_b) is the offset."""
    return sightings * _expit(np.array([offset, -offset]))


def _expit(log_odds: Floats) -> Floats:
    from scipy.special import expit

    return np.asarray(expit(log_odds))


def _fit(x: Floats, features: Floats, evidence: Floats, offset: float) -> Floats:
    """Return the parameters of the highest marginal likelihood; a weak pull to the start keeps small tables sane."""
    from scipy.optimize import minimize
    from scipy.special import digamma

    start = np.zeros(features.shape[1] + evidence.shape[1])
    start[1:3] = 0.5 if features.shape[1] > 1 else 0
    start[features.shape[1]] = 1.0
    if len(x) > FITTED_ROWS:
        some = np.random.default_rng(0).choice(len(x), FITTED_ROWS, replace=False)
        x, features, evidence = x[some], features[some], evidence[some]
    n, size = x.sum(axis=1), max(len(x), 1)

    def loss(parameters: Floats) -> tuple[float, Floats]:
        log_odds, log_strength = _linear(parameters, features, evidence, offset)
        shapes = _shapes(log_odds, log_strength, offset)
        s = shapes.sum(axis=1)
        slope = (digamma(x + shapes) - digamma(shapes)) - (digamma(n + s) - digamma(s))[:, None]
        of_parts = shapes - neutral(offset)
        by_odds = (slope[:, 0] - slope[:, 1]) * of_parts[:, 0] * of_parts[:, 1] / of_parts.sum(axis=1)
        by_strength = (slope * of_parts).sum(axis=1)
        pull = parameters - start
        gradient = pull - np.concatenate([by_odds @ features, by_strength @ evidence])
        return float(pull @ pull / 2 - _log_marginal(x, shapes).sum()) / size, gradient / size

    return np.asarray(minimize(loss, start, method="SLSQP", jac=True, options={"ftol": 1e-14, "maxiter": 500}).x)


def find_repeats(
    lengths: Sequence[Rows], parts: Sequence[Parts | None], estimates: Sequence[Estimates], shortest: int = 1
) -> Order:
    """Return for each row the row that makes it redundant, or -1; they are numbered from the shortest length on.

    A part is a fragment if 80 % of its sightings are within the row, in the corpus that this marks. A row repeats a
    part that is as strong (its conservative end is as far from 0) and no fragment. If it does not, it is shown in
    place of its fragments.
    """
    shown = range(shortest - 1, len(lengths))
    first = np.cumsum([0] * shortest + [len(lengths[k]) for k in shown])
    f, signed, side = (
        np.concatenate(columns)
        for columns in zip(
            *((lengths[k].f, estimates[k].conservative, estimates[k].side) for k in shown), strict=True
        )
    )
    length = np.repeat(shown, [len(lengths[k]) for k in shown])
    pairs = _pairs(lengths, parts, first, shortest)
    whole, part = np.concatenate([np.empty((2, 0), dtype=np.intp), *pairs], axis=1)
    sign = np.where(side, -1, 1)
    strength, own = sign[whole] * signed[part], np.maximum(sign * signed, 0)[whole]
    fragment = f[whole, side[whole]] >= INSIDE * f[part, side[whole]]

    repeats = np.full(len(f), -1, dtype=np.intp)
    order = np.argsort(-strength, kind="stable")
    stronger = order[(~fragment & (strength >= own))[order]]
    _assign_first(repeats, whole[stronger], part[stronger])
    # Longer rows first, since a row that they hide does not hide its own fragments.
    hides = fragment & (side[part] == side[whole]) & (signed[whole] != 0)
    for k in reversed(shown):
        hidden = hides & (length[whole] == k) & (repeats[whole] < 0) & (repeats[part] < 0)
        _assign_first(repeats, part[hidden], whole[hidden])
    while (further := (repeats >= 0) & (repeats[repeats] >= 0)).any():  # to what is shown
        repeats[further] = repeats[repeats[further]]
    return repeats


def _pairs(lengths: Sequence[Rows], parts: Sequence[Parts | None], first: Ints, shortest: int) -> Iterator[Order]:
    """Yield pairs of a row and one of its parts, (2, rows); longer parts come first, and of these the first one."""
    for k in range(shortest, len(lengths)):
        rows = np.arange(len(lengths[k]))[::-1]
        inside = [rows]  # the parts of one length
        for shorter in range(k - 1, shortest - 2, -1):
            of_length = parts[shorter + 1]
            assert of_length is not None
            inside = [of_length.prefix[inside[0]], *(of_length.suffix[part] for part in inside)]
            yield from (np.stack([rows + first[k], part + first[shorter]]) for part in inside)


def _assign_first(values: Order, index: Order, given: Order) -> None:
    """Assign values to indices; of several for one index, the first."""
    distinct, heads = np.unique(index, return_index=True)
    values[distinct] = given[heads]
