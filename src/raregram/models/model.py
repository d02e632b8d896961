"""The fitted model: N-grams in, log ratios out; encode, score, explain, save."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from raregram.atomic import PathLike
from raregram.counts import storage
from raregram.counts.spans import Span
from raregram.counts.storage import SpanRows, SpanTable
from raregram.errors import InputError, ParameterError, must_be, shorten
from raregram.models import intervals
from raregram.models.base import COLUMNS, Estimator, Settings
from raregram.models.explain import Explanation
from raregram.models.ratios import Floats
from raregram.models.registry import ESTIMATORS, read_settings
from raregram.options import LEVEL
from raregram.text.ngrams import (
    NGrams,
    NGramsLike,
    Where,
    as_sequence,
    chunks,
    nth_ngram,
    one_string_array,
    parse_ngrams,
)
from raregram.text.shapes import shape_function
from raregram.text.vocabulary import ABSENT, Codes, Encoder, encode_items


@dataclass(frozen=True, eq=False)
class Model:
    """Log ratios of N-grams for one target. Made by `fit`, or read by `load`."""

    noun: ClassVar[str] = "N-gram"  # in messages
    remember: ClassVar[bool] = True  # whether tables for encoding texts, and their shapes, may be kept

    estimator: Estimator

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
        _check_shape(table.header, path)
        with storage.damage_named(path):
            rows = {part.span: part for part in table.parts}
            _check_rows(settings, rows)
            return cls(ESTIMATORS[settings.estimator].build(settings, table.items, rows))

    def save(self, path: PathLike) -> None:
        """Write a model file, under its final name only when it is whole."""
        rows, header = tuple(self.estimator.rows()), self.settings.header()
        storage.write(path, SpanTable("model", header, COLUMNS, self.estimator.vocabulary, rows))

    def log_ratio(self, ngrams: NGramsLike) -> Floats:
        """Return the natural logarithm of each N-gram's likelihood ratio: one float64 per N-gram.

        Args:
            ngrams: strings, lists of items, or an integer array (N-grams, n) of codes: indices into `items`, -1 for
                any other item.

        For `mle` and `direct` it is minus infinity where f_nu is 0; for `mle`, infinite where f_de is 0, and
        NaN where both are 0; `smoothed` with lam = 0 is `mle`.
        """
        ngrams = _as_sequence(ngrams)
        estimator = self.estimator.prepared() if len(ngrams) > len(self.items) else self.estimator
        return np.concatenate([np.empty(0), *map(estimator.score, self._parts(ngrams))])

    def interval(self, ngrams: NGramsLike, level: Any = LEVEL.default) -> Floats:
        """Return an interval for the log ratio of each N-gram, (N-grams, 2): its lower and its upper end.

        It comes from the posterior of the frequencies, so it is narrow where much was seen and wide where little was;
        the log ratio is in its middle.

        Args:
            ngrams: as for `log_ratio`.
            level: the probability that the interval is meant to cover.
        """
        if isinstance(level, bool) or not isinstance(level, Real) or not 0 < level < 1:  # type: ignore[operator]
            raise must_be("level", "interval", "a number between 0 and 1", level)
        if not self.estimator.has_variance:
            raise ParameterError(
                f"the estimator {self.settings.estimator!r} has no interval: an N-gram never seen would have none. "
                "Fit 'backoff', 'product' or 'selective'"
            )
        parts = [np.empty((0, 2))]
        for part in self._parts(_as_sequence(ngrams)):
            middle = self.estimator.score(part)
            reach = intervals.half_width(self.estimator.variance(part), float(level))
            parts.append(np.column_stack([middle - reach, middle + reach]))
        return np.concatenate(parts)

    def explain(self, ngram: str | Sequence[str]) -> Explanation:
        """Return the terms of one N-gram's log ratio: one per item, or just one for the whole N-gram."""
        items = tuple(self.parse([ngram], lambda _: "the N-gram").items.to_pylist())
        codes = self.encode([list(items)])
        terms = tuple(self.estimator.terms(items, codes[0]))
        log_ratio = float(self.estimator.score(codes)[0])
        interval = tuple(self.interval(codes)[0].tolist()) if self.estimator.explains_interval else None
        return Explanation(items, self.settings.target, str(self.settings), log_ratio, terms, interval)

    def parse(self, ngrams: NGramsLike, where: Where = nth_ngram) -> NGrams:
        """Split N-grams into items as this model wants them."""
        s = self.settings
        return parse_ngrams(ngrams, s.n, s.kind, where, s.side if s.pad else None)

    def encode(self, ngrams: NGramsLike, where: Where | None = None) -> Codes:
        """Return the codes of N-grams, (N-grams, n), with -1 for items that the model does not know.

        `where` names a row in an error message.
        """
        return np.concatenate([np.empty((0, self.settings.n), np.int32), *self._parts(_as_sequence(ngrams), where)])

    def encode_rows(self, items: pa.Array, keys: Codes) -> Codes:
        """Return the codes of N-grams that are given as indices into some items: (N-grams, n)."""
        codes = self._look_up(items)
        return self._encode_keys(codes, items.filter(pa.array(codes == ABSENT)), keys)

    def _parts(self, ngrams: NGramsLike, where: Where | None = None) -> Iterator[Codes]:
        """Yield the codes of N-grams, a part at a time, so that memory stays flat; codes are taken as they are."""
        if isinstance(ngrams, np.ndarray) and np.issubdtype(ngrams.dtype, np.integer):
            last = self.estimator.num_codes - 1
            if ngrams.ndim != 2 or ngrams.shape[1] != self.settings.n:
                raise InputError(f"codes must have the shape (N-grams, {self.settings.n}), got {ngrams.shape}")
            if ngrams.size and (ngrams.min() < ABSENT or ngrams.max() > last):
                raise InputError(f"codes must be from {ABSENT} to {last}")
            yield from (part for _, part in chunks(ngrams))
        else:
            where = where or (lambda row: f"{self.noun} {row + 1}")
            for first, part in chunks(ngrams):
                try:
                    yield self._encode(part, partial(_row_from, where, first))
                except InputError as error:
                    raise InputError(str(error), None if error.row is None else first + error.row) from None

    def _encode(self, ngrams: NGramsLike, where: Where) -> Codes:
        """Encode some N-grams; an error names the row."""
        n, texts = self.settings.n, one_string_array(ngrams) if self.remember else None
        if texts is not None:
            keys, lengths, others = self._encoder.encode(texts)
            if (lengths == n).all():
                known = np.arange(len(self.items), dtype=np.int32)
                codes = np.concatenate([known, np.full(len(others), ABSENT, np.int32)])
                return self._encode_keys(codes, others, keys.reshape(-1, n))
        encoded = self.parse(ngrams, where).items.dictionary_encode()
        return self.encode_rows(encoded.dictionary, np.asarray(encoded.indices).reshape(-1, n))

    def _encode_keys(self, codes: Codes, unknown: pa.Array, keys: Codes) -> Codes:
        """Return the codes of N-grams from those of their items; the unknown ones may have codes by their shapes."""
        if not len(unknown) or not self.estimator.uses_shapes:
            return codes[keys]
        nearest, absent, position = codes.copy(), codes == ABSENT, self.settings.nearest
        nearest[absent], codes[absent] = self.estimator.encode_unknown(unknown.to_pylist(), self.remember)
        encoded = codes[keys]
        encoded[:, position] = nearest[keys[:, position]]
        return encoded

    def _look_up(self, items: pa.Array) -> Codes:
        """Return the code of each item, `ABSENT` where the model does not know it."""
        return encode_items(items, self.items)

    @cached_property
    def _encoder(self) -> Encoder:
        return Encoder(self.items, self.settings.kind)

    @cached_property
    def splitter(self) -> Encoder:
        """An encoder of documents, by vocabularies of their own."""
        return Encoder(pa.array([], pa.string()), self.settings.kind)


def _check_shape(header: Mapping[str, Any], path: PathLike) -> None:
    """Raise if there is no such shape function, which is no fault of the file."""
    if header["shape"] is not None:
        try:
            shape_function(header["shape"])
        except ParameterError as error:
            raise ParameterError(f"{path}: {error}") from error


def _check_rows(settings: Settings, rows: Mapping[Span, SpanRows]) -> None:
    """Raise `ValueError` for rows that no fit gives, in a file that someone made by hand."""
    if not set(rows) <= set(ESTIMATORS[settings.estimator].required_spans(settings)):
        raise ValueError("there are spans that the estimator does not have")
    for span, part in rows.items():
        times = settings.n if span.layer == "any" else 1  # an item at whatever position may be everywhere
        if (part.values > np.array([settings.n_nu, settings.n_de, 1]) * [times, times, 1]).any():
            raise ValueError("a frequency is above its total")


def _row_from(where: Where, first: int, row: int) -> str:
    return where(first + row)


def _as_sequence(ngrams: NGramsLike) -> NGramsLike:
    """Return something that can be cut into parts: a lone string is a sequence of one."""
    return [ngrams] if isinstance(ngrams, str) else as_sequence(ngrams)
