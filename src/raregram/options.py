"""Every option once: its type, its default, its range and its help.

The library, the command line, tuning and the experiment's configuration take them from here. Nothing heavy is
imported, so `raregram --help` does not wait.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, get_args

from raregram.errors import check_choice, check_count, check_lam

EstimatorName = Literal["mle", "direct", "smoothed", "product", "selective", "backoff"]
Criterion = Literal["random", "tf", "cet", "chi2", "chi2_printed", "gss", "gss_abs"]
SpanCriterion = Literal["gain", Criterion]
Side = Literal["left", "right"]
Kind = Literal["words", "letters"]
Tokenize = Literal["whitespace", "words"]
Denominator = Literal["complement", "all"]
Unseen = Literal["neutral", "formula"]
Format = Literal[
    "parquet", "jsonl", "csv", "conll", "stanford-tsv", "stanford-slash", "stanford-xml", "spacy", "reuters-json",
    "reuters-sgml", "brown", "sotu", "text", "contexts",
]  # fmt: skip
Split = Literal["file", "lines", "paragraphs"]
OnError = Literal["stop", "skip"]
Fetchable = Literal["reuters", "brown", "sotu", "stanford-ner"]
Tagger = Literal["spacy", "stanford"]
Tags = Literal["stanford", "spacy"]
Engine = Literal["local", "spark"]
SAMPLES = ("two", "by")  # to which all of their contexts belong: numerator and denominator, or what `by` cuts
LineOrder = Literal["document", "left", "right"]
Measure = Literal["average-precision", "f1", "cllr"]
KeywordKind = Literal["positive", "negative", "lockword", "all"]
KeywordSort = Literal[
    "conservative", "log2_ratio", "beyond", "g2_design", "g2", "p", "q", "clr", "log_ratio", "simple_maths",
    "odds_ratio", "zeta", "fightin_words", "f_a", "f_b",
]  # fmt: skip

Value = TypeVar("Value")


@dataclass(frozen=True)
class Option(Generic[Value]):
    """An option; a default of None is found out from the data, as the help says."""

    name: str
    default: Value
    help: str
    choices: tuple[str, ...] = ()  # or else a range:
    at_least: float = 0
    at_most: float = math.inf
    whole: bool = True  # whether numbers are whole ones

    def check(self, value: Any, owner: str) -> None:
        """Raise `ParameterError` unless `owner`, a function or a command, can take this value."""
        if self.choices:
            check_choice(self.name, owner, value, self.choices)
        elif self.whole:
            most = None if self.at_most == math.inf else int(self.at_most)
            check_count(self.name, owner, value, at_least=int(self.at_least), at_most=most)
        else:
            check_lam(value, owner, self.name)


# --- what is counted ---------------------------------------------------------------------------------------------
N: Option[int] = Option("n", 10, "Items per context.", at_least=1, at_most=1000)
SIDE: Option[Side] = Option("side", "left", "Contexts left or right of the boundary.", get_args(Side))
KIND: Option[Kind] = Option("kind", "words", "The kind of items.", get_args(Kind))
LONGEST = 5  # suffix of items that `backoff` wants,
LONGEST_SHAPES = 8  # and of shapes
TOKENIZE: Option[Tokenize] = Option(
    "tokenize",
    "whitespace",
    "Words are what stands between white space, or words by Unicode's rules, with punctuation apart.",
    get_args(Tokenize),
)
LOWER: Option[bool] = Option("lower", False, "Take capitals for small letters.")
SPANS: Option[tuple[str, ...]] = Option(
    "spans",
    ("units", f"suffixes:{LONGEST}", f"shapes:{LONGEST_SHAPES}"),  # what `backoff` wants
    "Spans to count: units, suffixes:LENGTH, shapes:LENGTH, whole; separated by commas.",
)
PAD: Option[bool] = Option("pad", False, "Pad contexts that reach beyond the ends of a document.")
FOLDS: Option[int] = Option(
    "folds", 0, "Count in so many folds of documents, by which `fit` calibrates the ratios; 0 for none.", at_most=10
)
DOCUMENTS: Option[bool] = Option(
    "documents", False, "Count also in how many documents each span is, and how its frequency is spread over them."
)
MIN_COUNT: Option[int] = Option(
    "min_count", 1, "Drop spans of two or more items that were seen less often.", at_least=1
)
ON_ERROR: Option[OnError] = Option(
    "on_error", "stop", "What to do with a document that cannot be read.", get_args(OnError)
)
TAGGER: Option[Tagger] = Option("tagger", "spacy", "The program that finds names.", get_args(Tagger))
TAGS: Option[Tags] = Option("tags", "stanford", "The tagger of Reuters-21578.", get_args(Tags))
ENGINE: Option[Engine] = Option(
    "engine",
    "local",
    "Run on this machine, or on a Spark cluster (extra `spark`).",
    get_args(Engine),
)
SPLIT: Option[Split] = Option("split", "file", "What a document is in plain text.", get_args(Split))
ITEM_COLUMN: Option[int] = Option("item_column", 0, "CoNLL: the column of items, from 0.")
TAG_COLUMN: Option[int] = Option("tag_column", -1, "CoNLL: the column of tags; -1 is the last.")

# --- what is fitted ----------------------------------------------------------------------------------------------
ESTIMATOR: Option[EstimatorName] = Option("estimator", "backoff", "The estimator.", get_args(EstimatorName))
CRITERION: Option[Criterion] = Option(
    "criterion",
    "cet",
    "How `selective` scores items and `backoff` spans; `gain` is for `backoff` alone.",
    get_args(Criterion),
)
SPAN_CRITERION: Option[SpanCriterion] = Option("criterion", "gain", CRITERION.help, get_args(SpanCriterion))
SIZE: Option[int] = Option("size", 10_000, "Items that `selective` keeps at each position.", at_least=1)
LAM: Option[float | None] = Option(
    "lam",
    None,
    "The ridge; 0 for none. [default: so that an item never seen has the ratio 1; `backoff`: 6 / n_de]",
    whole=False,
)
BACKOFF_LAM: Option[float] = Option(
    "lam", 6.0, "The ridge of `backoff` times n_de: the weight of a prior, in contexts.",
    at_least=1e-30, at_most=1e30, whole=False,
)  # fmt: skip
UNIT_RIDGE = 10  # the ridge of units and shapes of `backoff` over that of suffixes
TAU: Option[float] = Option(
    "tau", 0.5, "`backoff`: the exponent of the ratios of single items; 1 takes them as independent.", whole=False
)
DENOMINATOR: Option[Denominator] = Option(
    "denominator",
    "complement",
    "What the target is compared with: all other contexts, or all contexts.",
    get_args(Denominator),
)
UNSEEN: Option[Unseen] = Option(
    "unseen",
    "neutral",
    "The factor of an item never seen at its position: 1, or by the unit formula.",
    get_args(Unseen),
)
SEED: Option[int] = Option("seed", 0, "Seed of the criterion `random`.")

# --- what is compared --------------------------------------------------------------------------------------------
COMPARED: Option[tuple[int, int]] = Option("n", (1, 5), "Lengths of N-grams, shortest and longest.", at_most=20)
COMPARED_COUNT: Option[int] = Option(
    "min_count", 5, "Leave out N-grams that were seen less often, in both corpora together.", at_least=1
)
COMPARED_DOCUMENTS: Option[int] = Option(
    "min_documents", 2, "Leave out N-grams that are in fewer documents.", at_least=1
)

# --- what is measured --------------------------------------------------------------------------------------------
LEVEL: Option[float] = Option("level", 0.95, "The probability that an interval is meant to cover.")
TOP: Option[int] = Option("top", 20, "Number of N-grams to print.", at_least=1)
LINES: Option[int] = Option("lines", 20, "Number of lines to print.", at_least=1)
WIDTH: Option[int] = Option("width", 60, "Characters of text on each side.", at_least=1, at_most=100_000)
LINE_ORDER: Option[LineOrder] = Option(
    "sort", "document", "The order of lines: of documents, or by the words to the left or right.", get_args(LineOrder)
)
K: Option[int | None] = Option("k", None, "Number of N-grams returned. [default: of relevant ones]", at_least=1)
PAPERS_K = 8000
KEYWORD_SORT: Option[KeywordSort] = Option(
    "sort",
    "conservative",
    "What rows are ranked by: the end of the ratio that is nearer to 1, or another column of the table: "
    + ", ".join(get_args(KeywordSort)[1:])
    + ".",
    get_args(KeywordSort),
)
BY: Option[Measure] = Option(
    "by",
    "average-precision",
    "The measure that is to be highest; of cllr, the cost of the ratios, lowest.",
    get_args(Measure),
)

# The grids of `tune` and of the experiment. The first three are the paper's, but for the chi-square as it is usual.
CRITERIA: tuple[Criterion, ...] = ("random", "tf", "cet", "chi2", "chi2_printed", "gss")
SIZES = (100, 500, 1_000, 5_000, 10_000, 50_000, 100_000)
LAMS = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
PRIORS = (6.0, 12.0, 24.0)  # of `backoff`: how many contexts a prior weighs, lam times n_de
TUNED_PRIORS = (3.0, *PRIORS)  # of `tune`
TAUS = (0.4, 0.5, 0.6)
ALPHAS = (1e-3, 1e-2, 1e-1, 1.0)  # that `smoothed` adds to frequencies
