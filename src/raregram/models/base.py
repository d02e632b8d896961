"""What all estimators share: parameters, the settings of a model, and the interface that `Model` calls.

An estimator is a class with a name, a dataclass of parameters and the methods of `Estimator`; `registry.ESTIMATORS`
lists them. It stores the frequencies of spans (the sufficient statistics) and derives the rest from them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from raregram.counts.rows import SpanRows
from raregram.counts.spans import Span
from raregram.counts.table import LARGEST_TOTAL, Counts
from raregram.errors import check_count, must_be
from raregram.models import ratios
from raregram.models.explain import Term
from raregram.models.frequencies import Frequencies
from raregram.models.ratios import Floats
from raregram.options import DENOMINATOR, LAM, SIDE, N, Option
from raregram.text.tokenize import Tokenizer
from raregram.text.vocabulary import ABSENT, Codes

Options: TypeAlias = Mapping[str, Any]  # the arguments of `fit`
Facts: TypeAlias = dict[str, Any]

COLUMNS = ("f_nu", "f_de", "selected")
NO_KEY = -1  # instead of the index of an item, where there is none
BLOCK = 8192  # contexts scored at a time, so that their codes and sums stay in the cache
PLAIN = {"float": float, "int": int, "bool": bool}
# The parameters that the header of a model file names for every estimator; None where an estimator has none.
HEADER: Facts = {
    **dict.fromkeys(("criterion", "size", "seed", "unit_lam", "tau", "longest", "longest_shapes", "shape")),
    "unseen": "neutral",
}


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """The parameters of an estimator."""

    options: ClassVar[tuple[Option[Any], ...]] = (LAM,)  # by which parameters are checked

    lam: float = 0.0
    keeps_seen: bool = True  # whether all seen spans are stored: then what is not stored was never seen

    def __post_init__(self) -> None:
        """Check the values, and store plain numbers instead of NumPy's, which JSON lacks."""
        self.check()
        for field in fields(self):
            value, kind = getattr(self, field.name), PLAIN.get(str(field.type).split(" ")[0])
            if kind is not None and value is not None:
                object.__setattr__(self, field.name, kind(value))

    def check(self) -> None:
        """Raise `ParameterError` for a value out of its range."""
        for option in self.options:
            option.check(getattr(self, option.name), "fit")

    def check_lengths(self, n: int) -> None:
        """Raise `ParameterError` for spans that are longer than an N-gram."""

    def label(self) -> str:
        """Return the parameters in a few words, to follow the name of the estimator."""
        return f", lam {self.lam:.4g}"


@dataclass(frozen=True)
class Settings:
    """What a model was fitted on: a target's contexts and those that they are compared with; and its parameters."""

    target: str
    estimator: str
    n: int
    side: str
    kind: str
    denominator: str
    n_nu: int
    n_de: int
    pad: bool  # whether an N-gram may have fewer items: it is filled up with pads
    params: Any  # the `Parameters` of the estimator
    tokenize: str = "whitespace"
    lower: bool = False
    corpus: str | None = None  # the digest of the count file that the model was fitted from
    samples: str | None = None  # see `raregram.counts.kernel.CountSettings`

    def __post_init__(self) -> None:
        """Raise `ParameterError` for a value out of its range."""
        self.tokenizer.check("fit")
        for option in (SIDE, DENOMINATOR, N):
            option.check(getattr(self, option.name), "fit")
        for name, kind in (("target", str), ("corpus", str | None), ("samples", str | None)):
            if not isinstance(getattr(self, name), kind):
                raise must_be(name, "fit", "a string", getattr(self, name))
        for name in ("n_nu", "n_de"):
            check_count(name, "fit", getattr(self, name), at_least=0, at_most=LARGEST_TOTAL)
        self.params.check_lengths(self.n)

    @property
    def tokenizer(self) -> Tokenizer:
        """How texts are split into items."""
        return Tokenizer(self.kind, self.tokenize, self.lower)

    @property
    def nearest(self) -> int:
        """The position next to the boundary."""
        return self.n - 1 if self.side == "left" else 0

    @property
    def conditions(self) -> tuple[str, str]:
        """Where the contexts of the numerator stand and where those of the denominator do, in words."""
        if self.samples == "two":
            return "in the numerator", "anywhere" if self.denominator == "all" else "in the denominator"
        here = "in" if self.samples else "before" if self.side == "left" else "after"
        return f"{here} {self.target}", "anywhere" if self.denominator == "all" else "elsewhere"

    @property
    def lam0(self) -> float:
        """The lam at which an item that was never seen has the ratio 1 by the unit formula."""
        return ratios.neutral_lam(self.n_nu, self.n_de)

    def header(self) -> Facts:
        """Return the header of a model file."""
        others = ("params", "tokenize", "lower", "samples")
        common = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in others}
        samples = {"samples": self.samples} if self.samples else {}
        return {**HEADER, **common, **samples, **self.tokenizer.header(), **asdict(self.params)}

    def __str__(self) -> str:
        """Name the estimator and its parameters."""
        return f"{self.estimator}{self.params.label()}"


def layout_of(counted: Settings | Counts) -> str:
    """Say which contexts a model is for, or a table has."""
    return f"n {counted.n}, {counted.side}, {counted.tokenizer}{', padded' if counted.pad else ''}"


@dataclass(frozen=True)
class ModelRows(SpanRows):
    """The rows of one span in a model; the values are those of `COLUMNS`."""

    terms: Floats  # (rows,) what each row adds to a log ratio


@dataclass(frozen=True, eq=False)
class Estimator(ABC):
    """A fitted estimator: codes of contexts in, log ratios out.

    The code of an item is its index in `items`, `ABSENT` for any other item and `MISSING` for none, where a context
    has fewer than n items. An estimator that uses shapes has codes for other items, too, from `len(items)` to
    `num_codes - 1`.
    """

    name: ClassVar[str]
    Params: ClassVar[type[Parameters]] = Parameters
    defaults: ClassVar[Facts] = {}  # of the arguments of `fit`
    has_variance: ClassVar[bool] = True
    explains_interval: ClassVar[bool] = False  # whether an explanation shows the interval
    by_frequency: ClassVar[bool] = False  # whether a row is as strong as its term, or as its term times its frequency

    settings: Settings
    items: pa.Array  # string, distinct, in byte order
    frequencies: Frequencies

    def __getstate__(self) -> Facts:
        """Return the fields, without what is cached."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def default_lam(cls, n_nu: int, n_de: int) -> float:
        """Return the ridge in relation to the numbers of contexts: with it an item never seen has the ratio 1."""
        return max(ratios.neutral_lam(n_nu, n_de), 0.0)

    @classmethod
    def choose(cls, counts: Counts, sizes: tuple[int, int], options: Options) -> Parameters:
        """Return the parameters that the arguments of `fit` ask for, with defaults in place of None.

        `sizes` are n_nu and n_de.
        """
        given = {"lam": cls.default_lam(*sizes), **cls.defaults}
        given |= {name: value for name, value in options.items() if value is not None}
        return cls.Params(**{field.name: given[field.name] for field in fields(cls.Params) if field.name in given})

    @classmethod
    def spans_to_count(cls, longest: int | None = None, shapes: bool | None = None) -> list[str]:
        """Return the names of the spans that a count table needs for this estimator."""
        return ["units"]

    @classmethod
    @abstractmethod
    def required_spans(cls, settings: Settings) -> list[Span]:
        """Return the spans that a model has rows of."""

    @classmethod
    @abstractmethod
    def fit(cls, counts: Counts, settings: Settings, memory_limit: int) -> Estimator:
        """Fit to the frequencies of a count table, with so many bytes of memory where that is possible."""

    @classmethod
    @abstractmethod
    def build(cls, settings: Settings, items: pa.Array, rows: Mapping[Span, SpanRows]) -> Estimator:
        """Make an estimator from the rows that it is to store, as a file has them."""

    @abstractmethod
    def score(self, codes: Codes) -> Floats:
        """Return the log ratio of each context from its codes, (contexts, n)."""

    def knows_nothing(self, codes: Codes, score: Floats) -> npt.NDArray[np.bool_]:
        """Return which contexts the model knows nothing of: their log ratio is 0, and stays so when calibrated."""
        return np.asarray(score == 0)

    @abstractmethod
    def terms(self, items: tuple[str, ...], codes: Codes) -> list[Term]:
        """Return the terms of one context, which add up to its log ratio."""

    def variance(self, codes: Codes) -> Floats:
        """Return the squared coefficient of variation of each context's ratio."""
        raise NotImplementedError

    def expected_count(self, codes: Codes) -> Floats | None:
        """Return how often each context is expected in the numerator by what was seen of it as a whole.

        That is n_nu * f_de / n_de, and 0 where the whole of it was not seen or is not stored. None: all are 0.
        """
        return None

    def expected(self, index: npt.NDArray[Any]) -> Floats:
        """Return how often spans are expected in the numerator, given the index of their frequencies."""
        return np.asarray(self.settings.n_nu / self.settings.n_de * self.frequencies.f_de[index])

    @abstractmethod
    def rows(self) -> Iterator[ModelRows]:
        """Yield the rows of each span, with keys into `vocabulary`."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes in memory, all tables and items together, without what is made of them to score."""

    @property
    def vocabulary(self) -> pa.Array:
        """All strings that rows have keys of."""
        return self.items

    @property
    def uses_shapes(self) -> bool:
        """Whether items outside of `items` have codes by their shapes."""
        return False

    @property
    def num_codes(self) -> int:
        """How many codes there are beside `ABSENT`."""
        return len(self.items)

    def encode_unknown(self, items: pa.Array) -> tuple[Codes, Codes]:
        """Return the codes of items outside of `items`, next to the boundary and elsewhere."""
        codes = np.full(len(items), ABSENT, dtype=np.int32)
        return codes, codes

    def facts(self) -> Facts:
        """Return the parameters that `info` shows."""
        s = self.settings
        return {"lam": s.params.lam, "lam0": s.lam0, "unseen": s.header()["unseen"]}

    def size_facts(self) -> Facts:
        """Return the numbers of rows that `info` shows."""
        return {"selected_by_position": [int(rows.values[:, 2].sum()) for rows in self.rows()]}

    def term(
        self,
        span: Span,
        names: Sequence[str],
        index: int,
        value: float,
        kind: str = "item",
        prior: float | None = None,
    ) -> Term:
        """Describe what a span adds, given the index of its frequencies; `names` are the items, then their shapes."""
        known = index > 0 or self.settings.params.keeps_seen
        f = self.frequencies
        f_nu, f_de = (int(f.f_nu[index]), int(f.f_de[index])) if known else (None, None)
        start, end = span.columns(self.settings.n)
        selected = bool(f.selected[index])
        return Term(span.start, span.stop, tuple(names[start:end]), f_nu, f_de, selected, value, kind, prior)
