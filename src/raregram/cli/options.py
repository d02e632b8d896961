"""Options that several commands share, as annotated types, and parsers for those with a syntax of their own."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from raregram import options
from raregram.errors import ParameterError, check_choice, must_be

if TYPE_CHECKING:
    from raregram.corpus.documents import Options


def option(what: options.Option[Any] | str, *names: str, **settings: Any) -> Any:
    """Declare an option by one of the library's, which gives its help and its range, or by a help text."""
    if isinstance(what, str):
        return typer.Option(*names, help=what, **settings)
    if what.at_least or what.at_most < math.inf:
        settings = {"min": what.at_least, "max": None if what.at_most == math.inf else what.at_most, **settings}
    return typer.Option(*names, **{"help": what.help, **settings})


def argument(what: str, **settings: Any) -> Any:
    """Declare an argument by its help."""
    return typer.Argument(help=what, **settings)


# --- sources -----------------------------------------------------------------------------------------------------
Documents = Annotated[list[str], argument("Files, folders or globs of documents.")]
TaggedDocuments = Annotated[
    list[str], argument("Tagged documents in any format, or their count file with whole N-grams.")
]
OptionalSources = Annotated[
    list[str] | None, argument("Files, folders or globs of documents or contexts. [default: standard input]")
]
ModelFile = Annotated[str, argument("A model file, as written by `fit`.")]
Format = Annotated[
    options.Format | None,
    option(f"The format: {', '.join(get_args(options.Format))}. [default: detected]", metavar="NAME"),
]
Split = Annotated[options.Split, option(options.SPLIT)]
OnError = Annotated[options.OnError, option(options.ON_ERROR)]
Columns = Annotated[
    str | None,
    option("Names of the columns ngram, label, f_nu and f_de in a table, e.g. 'ngram=text,f_nu=hits'."),
]
By = Annotated[
    str | None,
    option("Cut the corpus into samples by a field, by 'folder' or by 'file:REGEX' in the file's name.", "--by"),
]

# --- contexts and models -----------------------------------------------------------------------------------------
N = Annotated[int | None, option(options.N, "--n", "-n", help=f"{options.N.help} [default: {options.N.default}]")]
Side = Annotated[options.Side, option(options.SIDE)]
Kind = Annotated[options.Kind, option(options.KIND)]
Tokenize = Annotated[options.Tokenize, option(options.TOKENIZE)]
WordsTokenize = Annotated[options.Tokenize | None, option(f"{options.TOKENIZE.help} [default: words]", "--tokenize")]
Lower = Annotated[bool, option(options.LOWER, "--lower")]
Target = Annotated[str | None, option("The target label, the numerator. [default: the only one there is]")]
Denominator = Annotated[options.Denominator, option(options.DENOMINATOR)]
Unseen = Annotated[options.Unseen, option(options.UNSEEN)]
Seed = Annotated[int, option(options.SEED)]
Bounds = Annotated[
    bool, option("Let no calibrated ratio be stronger than held-out contexts can support.", "--bounds/--no-bounds")
]
Level = Annotated[float, option(options.LEVEL)]
K = Annotated[int | None, option(options.K, "--k", "-k")]
Top = Annotated[int, option(options.TOP, "--top", "-k")]

# --- output and machine ------------------------------------------------------------------------------------------
Out = Annotated[str, option("The file to write.", "--out", "-o")]
ScoresOut = Annotated[
    str | None,
    option("A .parquet, .csv, .jsonl or text file (.txt, .tsv). [default: standard output]", "--out", "-o"),
]
AsJson = Annotated[bool, option("Print JSON.", "--json")]
Quiet = Annotated[bool, option("Print no progress and no summary.", "--quiet", "-q")]
MemoryLimit = Annotated[
    str | None,
    option(
        "Maximum memory to use, e.g. 2GB; what is larger takes several passes. [default: 4GB; on Spark 1GB per task]"
    ),
]
Engine = Annotated[options.Engine, option(options.ENGINE)]
Master = Annotated[
    str | None,
    option("Spark: the URL of the cluster. [default: Spark's own setting, or all cores of this machine]"),
]
SparkSettings = Annotated[
    list[str] | None, option("Spark setting, e.g. spark.executor.memory=4g; may be repeated.", "--spark")
]


def reading(
    format: str | None,  # noqa: A002 - the option's name
    split: str = options.SPLIT.default,
    on_error: str = options.ON_ERROR.default,
    **more: Any,
) -> Options:
    """Return how documents are read; the log in it notes what was skipped."""
    from raregram.corpus.documents import Options
    from raregram.corpus.log import ReadingLog

    return Options(format=format, split=split, log=ReadingLog(on_error), **more)


def parse_lengths(text: str) -> tuple[int, int]:
    """Parse the lengths of N-grams.

    >>> parse_lengths("1-5"), parse_lengths("3")
    ((1, 5), (3, 3))
    """
    match = re.fullmatch(r"\s*(\d{1,4})(?:\s*-\s*(\d{1,4}))?\s*", text)
    least, most = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= least <= most <= options.N.at_most:
        raise must_be("n", "compare", "a length such as 3, or lengths such as 1-5", text)
    return least, most


def parse_numbers(text: str, kind: Any, name: str) -> list[Any]:
    """Parse numbers separated by commas."""
    try:
        return [kind(part) for part in text.split(",") if part]
    except ValueError:
        raise ParameterError(f"--{name} takes numbers separated by commas, got {text!r}") from None


def parse_names(text: str | None) -> list[str] | None:
    r"""Parse 'a,b'; a comma, an equals sign, a space or a backslash in a name is escaped by a backslash.

    >>> parse_names(r"LOC, Washington\, D.C.")
    ['LOC', 'Washington, D.C.']
    """
    return None if text is None else [name for part in _split(text, ",") if (name := _unescape(part))]


def parse_pairs(text: str | None) -> dict[str, str]:
    r"""Parse 'a=b,c=d', with the escapes of `parse_names`.

    >>> parse_pairs(r"GPE=LOC,a\=b=X")
    {'GPE': 'LOC', 'a=b': 'X'}
    """
    pairs: dict[str, str] = {}
    for part in filter(str.strip, _split(text or "", ",")):
        name, *rest = _split(part, "=")
        name, value = _unescape(name), _unescape("=".join(rest))
        if not name or not value or name in pairs:
            raise ParameterError(f"expected NAME=NAME, separated by commas, each NAME once, got {text!r}")
        pairs[name] = value
    return pairs


def _split(text: str, separator: str) -> list[str]:
    """Split at separators without a backslash before them."""
    return re.findall(rf"(?s)((?:\\.|[^{separator}\\]|\\$)*)(?:{separator}|$)", text)[: -1 if text else None]


def _unescape(part: str) -> str:
    stripped = re.sub(r"^\s+|(?<!\\)\s+$", "", part)
    return re.sub(r"\\([,=\s\\])", r"\1", stripped)


def parse_columns(text: str | None) -> dict[str, str]:
    """Parse --columns."""
    from raregram.corpus.contexts import COLUMNS

    pairs = parse_pairs(text)
    for name in pairs:
        check_choice("columns", "this command", name, COLUMNS)
    return pairs


def parse_bytes(text: str, name: str, owner: str) -> int:
    """Parse a size in bytes, the parameter `name` of `owner`.

    >>> parse_bytes("512MB", "memory_limit", "count"), parse_bytes("1.5 GiB", "memory_limit", "fit")
    (512000000, 1610612736)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", text.strip(), re.IGNORECASE)
    unit = (1024 if match[3] else 1000) ** " KMGT".index(match[2].upper() or " ") if match else 0
    if not match or (size := int(float(match[1]) * unit)) < 1:
        raise must_be(name, owner, "a size such as 512MB or 2GiB", text)
    return size


def parse_memory(limit: str | None, engine: str, caller: str) -> int | None:
    """Return a memory limit in bytes: of a task on Spark, here without the memory that this process has already."""
    if limit is None:
        return None
    size = parse_bytes(limit, "memory_limit", caller)
    if engine == "spark":
        return size
    from raregram.counts.engine import resident_bytes

    return max(size - resident_bytes(), size // 4)
