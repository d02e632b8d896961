"""The fitted model: N-grams in, log ratios out; encode, score, explain, save."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from raregram.counts import storage
from raregram.counts.storage import SpanTable
from raregram.counts.table import Counts
from raregram.errors import InputError, ParameterError, must_be, shorten
from raregram.models import intervals
from raregram.models.base import COLUMNS, NO_KEY, Estimator, Settings
from raregram.models.calibration import CALIBRATION, Calibration
from raregram.models.explain import Explanation, calibration_term
from raregram.models.ratios import Floats
from raregram.models.registry import ESTIMATORS, read_settings
from raregram.options import LEVEL
from raregram.remote import PathLike
from raregram.text.ngrams import (
    NGrams,
    NGramsLike,
    Where,
    as_sequence,
    chunks,
    nearest_items,
    nth_ngram,
    one_string_array,
    split_few,
    split_ngrams,
)
from raregram.text.shapes import shape_function
from raregram.text.tokenize import PAD, Ints
from raregram.text.vocabulary import ABSENT, MISSING, Codes, Encoder, encode_items

FEW = 64  # N-grams up to which calls of Arrow take longer than the work


@dataclass(frozen=True, eq=False)
class Model:
    """Log ratios of N-grams for one target. Made by `fit`, or read by `load`."""

    noun: ClassVar[str] = "N-gram"  # in messages

    estimator: Estimator
    calibration: Calibration | None = None  # what is made of the estimator's log ratios; None: nothing

    @property
    def settings(self) -> Settings:
        """What the model was fitted on, and its parameters."""
        return self.estimator.settings

    @property
    def params(self) -> Any:
        """The parameters of the estimator."""
        return self.settings.params

    @property
    def items(self) -> pa.Array:
        """The vocabulary: distinct items in byte order."""
        return self.estimator.items

    @property
    def lam0(self) -> float:
        """The lam at which an item that was never seen has the ratio 1 by the unit formula."""
        return self.settings.lam0

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of selected spans, one number per position (or one for the whole N-grams)."""
        return tuple(int(rows.values[:, 2].sum()) for rows in self.estimator.rows())

    @property
    def nbytes(self) -> int:
        """Bytes in memory, all tables and items together."""
        return self.estimator.nbytes

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields, without what is cached."""
        return {"estimator": self.estimator, "calibration": self.calibration}

    def __repr__(self) -> str:
        """Say what the model is in a line."""
        s = self.settings
        return (
            f"Model({shorten(s.target)}: {s}, n={s.n} {s.side} {s.kind}, n_nu={s.n_nu:,}, n_de={s.n_de:,}, "
            f"{len(self.items):,} items, {self.nbytes / 1e6:.2f} MB)"
        )

    @classmethod
    def load(cls, path: PathLike) -> Model:
        """Read a model file; raise `FileError` if it is not a whole one."""
        table = storage.read(path, "model")
        with storage.damage_named(path):
            settings = read_settings(table.header)
            calibration = Calibration(**table.header[CALIBRATION]) if CALIBRATION in table.header else None
        _check_shape(table.header, path)
        with storage.damage_named(path):
            rows = {part.span: part for part in table.parts}
            return cls(ESTIMATORS[settings.estimator].build(settings, table.items, rows), calibration)

    def save(self, path: PathLike) -> None:
        """Write a model file, under its final name only when it is whole."""
        rows, header = tuple(self.estimator.rows()), self.settings.header()
        header |= {} if self.calibration is None else {CALIBRATION: asdict(self.calibration)}
        storage.write(path, SpanTable("model", header, COLUMNS, self.estimator.vocabulary, rows))

    def log_ratio(self, ngrams: NGramsLike) -> Floats:
        """Return the natural logarithm of each N-gram's likelihood ratio: one float64 per N-gram.

        Args:
            ngrams: strings, lists of items, or an integer array (N-grams, n) of codes: indices into `items`, -1 for
                any other item, -2 for none. Of an N-gram of more than n items, the n next to the boundary count.
                One of fewer items is scored by these: what is not there has the factor 1. Where a document begins
                or ends there, a model of padded contexts (`pad`) wants pads, which are empty strings in a list of
                items: `["", "", "in"]`.

        For `mle` and `direct` it is minus infinity where f_nu is 0; for `mle`, infinite where f_de is 0, and
        NaN where both are 0; `smoothed` with lam = 0 is `mle`.
        """
        parts = self._parts(_as_sequence(ngrams))
        scored = (self._calibrated(self.estimator.score(codes), codes) for codes in parts)
        return np.concatenate([np.empty(0), *scored])

    def _calibrated(self, log_ratio: Floats, codes: Codes) -> Floats:
        """Return the model's log ratios from those of the estimator."""
        if self.calibration is None:
            return log_ratio
        expected = None if self.calibration.half_count is None else self.estimator.expected_count(codes)
        calibrated = self.calibration.apply(log_ratio, expected)
        return np.where(self.estimator.knows_nothing(codes, log_ratio), 0.0, calibrated)

    def ratio(self, ngrams: NGramsLike) -> Floats:
        """Return the likelihood ratio of each N-gram, the exponential of its `log_ratio`."""
        with np.errstate(over="ignore"):
            return np.exp(self.log_ratio(ngrams))

    def probability(self, ngrams: NGramsLike, prior: float | None = None) -> Floats:
        """Return the probability that the target is next to each N-gram.

        Args:
            ngrams: as for `log_ratio`.
            prior: the probability before the N-gram is known, between 0 and 1; None: the target's share of the
                contexts that the model was fitted on.
        """
        s = self.settings
        if prior is None:
            prior = s.n_nu / (s.n_nu + s.n_de if s.denominator == "complement" else s.n_de)
        elif isinstance(prior, bool) or not isinstance(prior, Real) or not 0 < prior < 1:
            raise must_be("prior", "probability", "a number between 0 and 1", prior)
        log_ratio = self.log_ratio(ngrams)
        if s.denominator == "all":
            return np.asarray(np.minimum(np.exp(log_ratio + np.log(prior)), 1.0))
        return np.asarray(np.exp(-np.logaddexp(0, -(log_ratio + np.log(prior) - np.log1p(-prior)))))

    def interval(self, ngrams: NGramsLike, level: Any = LEVEL.default) -> Floats:
        """Return an interval for the log ratio of each N-gram, (N-grams, 2): its lower and its upper end.

        It comes from the posterior of the frequencies, so it is narrow where much was seen and wide where little was.
        In a calibrated model its upper end is calibrated, and its lower end as far off as without, or further.

        Args:
            ngrams: as for `log_ratio`.
            level: the probability that the interval is meant to cover.
        """
        return np.column_stack(self.with_interval(ngrams, level)[1:])

    def with_interval(self, ngrams: NGramsLike, level: Any = LEVEL.default) -> tuple[Floats, Floats, Floats]:
        """Return the log ratio of each N-gram, and the lower and the upper end of its interval; see `interval`."""
        if isinstance(level, bool) or not isinstance(level, Real) or not 0 < level < 1:  # type: ignore[operator]
            raise must_be("level", "interval", "a number between 0 and 1", level)
        if not self.estimator.has_variance:
            raise ParameterError(
                f"the estimator {self.settings.estimator!r} has no interval: an N-gram never seen would have none. "
                "Fit 'backoff', 'product' or 'selective'"
            )
        found = [np.empty((3, 0))]
        factor = 1.0 if self.calibration is None else self.calibration.variance_factor
        for part in self._parts(_as_sequence(ngrams)):
            score = self.estimator.score(part)
            margin = intervals.half_width(factor * self.estimator.variance(part), float(level))
            middle, low, high = (self._calibrated(score + side * margin, part) for side in (0, -1, 1))
            # A calibrated ratio is the mean over contexts of like scores, which vary as before: most are below it.
            low = np.minimum(low, middle - margin)
            # Of what was never seen the map knows nothing either, so the interval holds the ratio 1.
            every = np.stack([middle, low, high, np.where(score == 0, 0.0, middle)])
            found.append(np.stack([middle, every.min(axis=0), every.max(axis=0)]))
        middle, low, high = np.concatenate(found, axis=1)
        return middle, low, high

    def explain(self, ngram: str | Sequence[str]) -> Explanation:
        """Return the terms of one N-gram's log ratio: one per item, or just one for the whole N-gram."""
        s = self.settings
        items = self.parse([ngram], lambda _: "the N-gram").nearest(s.n, s.side).items.to_pylist()
        if not items:
            raise InputError("the N-gram has no items: there is nothing to explain")
        codes = self.encode([items])
        missing = [""] * (s.n - len(items))
        names, first = ([*missing, *items], len(missing)) if s.side == "left" else ([*items, *missing], 0)
        every = (term.within(first, len(items)) for term in self.estimator.terms(tuple(names), codes[0]))
        terms = [term for term in every if term is not None]
        score = self.estimator.score(codes)
        log_ratio = float(self._calibrated(score, codes)[0])
        if self.calibration is not None:
            terms.append(calibration_term(float(score[0]), log_ratio))
        interval = None
        if self.estimator.explains_interval:
            _, low, high = self.with_interval(codes)
            interval = float(low[0]), float(high[0])
        return Explanation(tuple(items), s.target, str(s), log_ratio, tuple(terms), interval, s.conditions)

    def parse(self, ngrams: NGramsLike, where: Where = nth_ngram) -> NGrams:
        """Split N-grams into items as this model wants them; they may have any length."""
        return split_ngrams(ngrams, self.settings.tokenizer, where)

    def encode(self, ngrams: NGramsLike, where: Where | None = None) -> Codes:
        """Return the codes of N-grams, (N-grams, n), with -1 for items that the model does not know.

        `where` names a row in an error message.
        """
        return np.concatenate([np.empty((0, self.settings.n), np.int32), *self._parts(_as_sequence(ngrams), where)])

    def encode_rows(self, items: pa.Array, keys: Codes) -> Codes:
        """Return the codes of N-grams that are given as indices into some items: (N-grams, n); -1 for none."""
        return gather(self._codes_of(items), keys, self.settings.nearest)

    def item_codes(self, items: pa.Array) -> Codes:
        """Return the codes of the items of documents, next to the boundary and elsewhere: (2, items + 1).

        The last ones are for what is beyond the ends of a document: a pad, if the model is of padded contexts.
        """
        codes = self._codes_of(items)
        if self.settings.pad:
            codes[:, -1] = self._codes_of(pa.array([PAD]))[:, 0]
        return codes

    def _codes_of(self, items: pa.Array) -> Codes:
        """Return the same, with `MISSING` as the last ones."""
        codes = encode_items(items, self.items)
        return self._with_shapes(codes, items.filter(pa.array(codes == ABSENT)))

    def _parts(self, ngrams: NGramsLike, where: Where | None = None) -> Iterator[Codes]:
        """Yield the codes of N-grams, a part at a time, so that memory stays flat; codes are taken as they are."""
        if isinstance(ngrams, np.ndarray) and np.issubdtype(ngrams.dtype, np.integer):
            last = self.estimator.num_codes - 1
            if ngrams.ndim != 2 or ngrams.shape[1] != self.settings.n:
                raise InputError(f"codes must have the shape (N-grams, {self.settings.n}), got {ngrams.shape}")
            if ngrams.size and (ngrams.min() < MISSING or ngrams.max() > last):
                raise InputError(f"codes must be from {MISSING} to {last}")
            yield from (part.astype(np.int32, copy=False) for _, part in chunks(ngrams))
        else:
            where = where or (lambda row: f"{self.noun} {row + 1}")
            for first, part in chunks(ngrams):
                try:
                    yield self._encode(part, partial(_row_from, where, first))
                except InputError as error:
                    raise InputError(str(error), None if error.row is None else first + error.row) from None

    def _encode(self, ngrams: NGramsLike, where: Where) -> Codes:
        """Encode some N-grams; an error names the row."""
        few = split_few(ngrams, self.settings.tokenizer) if 0 < len(ngrams) <= FEW and self._called_again else None
        if few is not None:
            return self._encode_few(few)
        texts = one_string_array(ngrams)
        if texts is not None:
            keys, lengths, others = self._encoder.encode(texts)
            known = np.arange(len(self.items), dtype=np.int32)
            codes = np.concatenate([known, np.full(len(others), ABSENT, np.int32)])
            return gather(self._with_shapes(codes, others), self._nearest(keys, lengths), self.settings.nearest)
        parsed = self.parse(ngrams, where)
        encoded = parsed.items.dictionary_encode()
        return self.encode_rows(encoded.dictionary, self._nearest(np.asarray(encoded.indices), parsed.lengths))

    def _encode_few(self, ngrams: Sequence[Sequence[str]]) -> Codes:
        """Encode a few N-grams of any length, given their items."""
        items, code_of = [item for ngram in ngrams for item in ngram], self._encoder.code_of
        codes = np.array([code_of.get(item, ABSENT) for item in items], dtype=np.int32)
        unknown = pa.array([item for item in items if item not in code_of], pa.string())
        keys, lengths = np.arange(len(items), dtype=np.int32), np.array([len(ngram) for ngram in ngrams])
        return gather(self._with_shapes(codes, unknown), self._nearest(keys, lengths), self.settings.nearest)

    def _nearest(self, keys: Codes, lengths: Ints) -> Codes:
        """Return the keys of the n items of each N-gram that are next to the boundary; -1 where it has fewer."""
        n = self.settings.n
        if (lengths == n).all():
            return keys.reshape(-1, n)
        index, there = nearest_items(lengths, n, self.settings.side)
        nearest = np.full(index.shape, NO_KEY, dtype=np.int32)
        nearest[there] = keys[index[there]]
        return nearest

    def _with_shapes(self, codes: Codes, unknown: pa.Array) -> Codes:
        """Return codes next to the boundary and elsewhere, those of the unknown items by their shapes; see above."""
        both = np.stack([np.append(codes, np.int32(MISSING))] * 2)
        if len(unknown) and self.estimator.uses_shapes:
            both[:, :-1][:, codes == ABSENT] = self.estimator.encode_unknown(unknown)
        return both

    def prepare(self) -> None:
        """Make the tables with which N-grams are encoded and scored; otherwise the first calls do it."""
        for _ in range(2):
            self.log_ratio([["a"]])

    @property
    def _called_again(self) -> bool:
        """Whether N-grams were encoded before: then a dictionary of the vocabulary is worth its making."""
        before = "_called" in vars(self)
        vars(self)["_called"] = True
        return before

    @cached_property
    def _encoder(self) -> Encoder:
        return Encoder(self.items, self.settings.tokenizer)

    @cached_property
    def splitter(self) -> Encoder:
        """An encoder of documents, by vocabularies of their own."""
        return Encoder(pa.array([], pa.string()), self.settings.tokenizer)


def load(path: PathLike) -> Counts | Model:
    """Read a count file or a model file."""
    return (Model if storage.read_header(path)["kind"] == "model" else Counts).load(path)


def _check_shape(header: Mapping[str, Any], path: PathLike) -> None:
    """Raise if there is no such shape function, which is no fault of the file."""
    if header["shape"] is not None:
        try:
            shape_function(header["shape"])
        except ParameterError as error:
            raise ParameterError(f"{path}: {error}") from error


def gather(codes: Codes, keys: Codes, nearest: int) -> Codes:
    """Return the codes of N-grams, (N-grams, n), from those of their items; see `Model.item_codes`."""
    encoded: Codes = codes[1][keys]
    encoded[:, nearest] = codes[0][keys[:, nearest]]
    return encoded


def _row_from(where: Where, first: int, row: int) -> str:
    return where(first + row)


def _as_sequence(ngrams: NGramsLike) -> NGramsLike:
    """Return something that can be cut into parts: a lone string is a sequence of one."""
    return [ngrams] if isinstance(ngrams, str) else as_sequence(ngrams)
