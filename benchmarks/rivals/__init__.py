"""raregram beside everything a user would pick instead: each rival a short adapter behind one interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from raregram.counts.table import Ints
from raregram.measure.cllr import aggregate_ties, regression

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Calibrate = Callable[[Floats], Floats]

PART = 1 << 18  # contexts written at a time
SUFFIXES = (2, 3, 4)  # lengths of the suffixes that some rivals get beside the units


@dataclass(frozen=True)
class Task:
    """What is to be learnt, and where a rival may keep files."""

    target: str
    n: int
    scratch: Path
    documents: Path | None = None  # the tagged training articles; None where there are contexts alone
    seed: int = 0


class Rival(ABC):
    """A tool that learns to rank contexts.

    `format` is not timed, in the rivals' favour: it writes contexts as the tool wants to read them. `read` and `fit`
    are timed together as training, and `score` from formatted text to scores.
    """

    settings: ClassVar[Sequence[dict[str, Any]]] = ({},)  # few, to choose from on validation
    reads_documents: ClassVar[bool] = False  # whether `read` takes the task's articles, where there are any

    def __init__(self, task: Task) -> None:
        self.task = task

    @abstractmethod
    def format(self, texts: pa.Array, labels: Bools | None = None) -> Any:
        """Write contexts as this tool wants to read them; training contexts come with their labels."""

    def read(self, formatted: Any, labels: Bools | None) -> None:  # noqa: B027 - some tools read when they fit
        """Make of formatted training contexts what the tool learns from, once for all settings."""

    @abstractmethod
    def fit(self, **setting: Any) -> None:
        """Learn."""

    @abstractmethod
    def score(self, formatted: Any) -> Floats:
        """Return a score for each context; the higher, the more like the target's."""

    def calibration(self, scores: Floats, f_nu: Ints, f_de: Ints, setting: dict[str, Any]) -> Calibrate | None:
        """Return what turns scores of the model that was fitted last into log ratios; None if nothing does.

        A rival gets the two numbers of a logistic regression on validation. That is not timed.

        Args:
            scores: of validation contexts.
            f_nu: how often each occurs at the target,
            f_de: and elsewhere.
            setting: of the model.
        """
        return two_numbers(scores, f_nu, f_de)

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write what scoring needs to a folder."""


def two_numbers(scores: Floats, f_nu: Ints, f_de: Ints) -> Calibrate | None:
    """Return the line of a logistic regression of target against other on the score, both weighing one half.

    The intercept is then that of a log ratio. Infinite scores are taken as the last finite ones.
    """
    finite = scores[np.isfinite(scores)]
    if not len(finite):
        return None
    low, high = float(finite.min()), float(finite.max())
    slope, offset = regression(aggregate_ties(np.clip(scores, low, high), f_nu, f_de))
    if slope is None or offset is None:
        return None
    return lambda scores: slope * np.clip(scores, low, high) + offset


@dataclass(frozen=True)
class Entry:
    """A rival in the list."""

    path: str  # module:class, the module relative to this package
    title: str
    needs: tuple[str, ...] = ()  # what `benchmarks.install` must have installed
    ours: bool = False
    once: bool = False  # with one seed alone,
    smallest: bool = False  # with the smallest training size alone
    large: Sequence[dict[str, Any]] = ()  # the settings from LARGE articles on, where it takes minutes: with one seed


LARGE = 5000
STRENGTHS: tuple[dict[str, Any], ...] = ({"C": 0.3}, {"C": 1.0}, {"C": 3.0})
RATES: tuple[dict[str, Any], ...] = ({"epoch": 5, "lr": 0.1}, {"epoch": 5, "lr": 0.5})
REGISTRY: dict[str, Entry] = {
    "raregram": Entry(".ours:Backoff", "raregram back-off", ours=True),
    "raregram-contexts": Entry(".ours:FromContexts", "raregram back-off, from contexts", ours=True, once=True),
    "raregram-5000": Entry(".ours:FewerSpans", "raregram back-off, 5,000 spans of each length", ours=True, once=True),
    "raregram-selective": Entry(".ours:Selective", "raregram selective (the paper's)", ours=True),
    "raregram-product": Entry(".ours:Product", "raregram product (all used)", ours=True, once=True),
    "lr-suffixes": Entry(
        ".scikit:LiblinearSuffixes", "liblinear, units and suffixes", ("scikit-learn",), large=STRENGTHS
    ),
    "fasttext": Entry(".fasttext:FastText", "fastText", ("fasttext",), large=RATES),
    "sgd-suffixes": Entry(".scikit:SgdSuffixes", "SGD, units and suffixes", ("scikit-learn",)),
    "kenlm": Entry(".kenlm:KenLM", "KenLM, a pair of models", ("kenlm", "lmplz")),
    "vw": Entry(".vw:VowpalWabbit", "Vowpal Wabbit", ("vowpalwabbit",)),
    "lr-units": Entry(".scikit:LiblinearUnits", "liblinear, units", ("scikit-learn",), once=True, smallest=True),
    "sgd-units": Entry(".scikit:SgdUnits", "SGD, units", ("scikit-learn",), once=True),
    "bernoulli-nb": Entry(".scikit:Bernoulli", "scikit-learn BernoulliNB", ("scikit-learn",), once=True),
    "complement-nb": Entry(
        ".scikit:Complement", "scikit-learn ComplementNB", ("scikit-learn",), once=True, smallest=True
    ),
    "categorical-nb": Entry(
        ".scikit:Categorical", "scikit-learn CategoricalNB", ("scikit-learn",), once=True, smallest=True
    ),
    "ulsif": Entry(".ulsif:Ulsif", "densratio uLSIF", ("scikit-learn", "densratio"), once=True, smallest=True),
    "dsir": Entry(".dsir:Dsir", "DSIR, hashed n-grams", ("data-selection",), once=True, smallest=True),
}  # the slow ones first among the rivals, since two run side by side
LOGISTIC = ("lr-units", "lr-suffixes", "sgd-units", "sgd-suffixes")  # logistic regression, by any solver


def find(name: str) -> Entry:
    """Return the entry of a rival; a name with a colon in it is the path of one that is not in the list."""
    if ":" in name:
        return Entry(name, name)
    if name not in REGISTRY:
        raise KeyError(f"there is no rival {name!r}; there are {', '.join(REGISTRY)}")
    return REGISTRY[name]


def load(name: str) -> type[Rival]:
    """Import a rival's class."""
    module, _, attribute = find(name).path.partition(":")
    found: type[Rival] = getattr(import_module(module, __name__), attribute)
    return found


def parts(texts: pa.Array) -> Iterator[tuple[int, pa.Array]]:
    """Yield (first row, contexts), some at a time."""
    for first in range(0, len(texts), PART):
        part = texts[first : first + PART]
        yield first, part.combine_chunks() if isinstance(part, pa.ChunkedArray) else part


def columns(texts: pa.Array, n: int) -> list[pa.Array]:
    """Return the words of contexts by position."""
    words = pc.split_pattern(texts, " ").flatten()
    if len(words) != n * len(texts):
        raise ValueError(f"contexts must have {n} words each, with single spaces between them")
    return [words.take(pa.array(np.arange(k, len(words), n))) for k in range(n)]


def marked_lines(texts: pa.Array, n: int, suffixes: Sequence[int] = ()) -> pa.Array:
    """Return contexts as position-marked tokens, `0=the 1=bank s2=the_bank`."""
    words = columns(texts, n)
    marked = {f"{k}=": column for k, column in enumerate(words)}
    marked |= {f"s{k}=": pc.binary_join_element_wise(*words[n - k :], "_") for k in suffixes if k <= n}
    tokens = [pc.binary_join_element_wise(mark, column, "") for mark, column in marked.items()]
    return pc.binary_join_element_wise(*tokens, " ")


def marked_list(texts: pa.Array, n: int, suffixes: Sequence[int] = ()) -> list[str]:
    """Return the same as a list."""
    return [line for _, part in parts(texts) for line in marked_lines(part, n, suffixes).to_pylist()]


def write_lines(path: Path, arrays: Iterator[pa.Array]) -> Path:
    """Write arrays of strings to a file, one string a line."""
    with path.open("w", encoding="utf-8") as file:
        for array in arrays:
            file.write("\n".join(array.to_pylist()) + "\n")
    return path


def with_labels(lines: pa.Array, labels: Bools, yes: str, no: str) -> pa.Array:
    """Put a class's name before each line."""
    return pc.binary_join_element_wise(pc.if_else(pa.array(labels), yes, no), lines, "")
