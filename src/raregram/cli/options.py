"""The options of the commands as annotated types, each defined once, and parsers for those with a syntax."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated, Any, get_args

import click
from click.core import ParameterSource

from raregram import options
from raregram.cli.command import argument, option
from raregram.cli.startup import memory_left
from raregram.errors import ParameterError, check_choice, must_be

described = partial(option, show_default=False)  # the help says what happens without the option

Documents = Annotated[list[str], argument(help="Files, folders or globs of documents.")]
TaggedDocuments = Annotated[
    list[str], argument(help="Tagged documents in any format, or their count file with whole N-grams.")
]
Counted = Annotated[
    list[str], argument(help="Count files, documents or contexts; '-' is contexts from standard input.")
]
OptionalSources = Annotated[
    list[str] | None, argument(help="Files, folders or globs of documents or contexts. [default: standard input]")
]
OnError = Annotated[options.OnError, option(help=options.ON_ERROR.help)]
ModelFile = Annotated[str, argument(help="A model file, as written by `fit`.")]
Bounds = Annotated[
    bool,
    option("--bounds/--no-bounds", help="Let no calibrated ratio be stronger than held-out contexts can support."),
]
Out = Annotated[str, described("--out", "-o", help="The file to write.")]
AsJson = Annotated[bool, option("--json", help="Print JSON.")]
Quiet = Annotated[bool, option("--quiet", "-q", help="Print no progress and no summary.")]
Format = Annotated[
    options.Format | None,
    described(help=f"The format: {', '.join(get_args(options.Format))}. [default: detected]"),
]
By = Annotated[
    str | None,
    described(
        "--by", help="Cut the corpus into samples by a field, by 'folder' or by 'file:REGEX' in the file's name."
    ),
]
Split = Annotated[options.Split, option(help=options.SPLIT.help)]
Columns = Annotated[
    str | None,
    described(help="Names of the columns ngram, label, f_nu and f_de in a table, e.g. 'ngram=text,f_nu=hits'."),
]
N = Annotated[int | None, described("--n", "-n", help=f"{options.N.help} [default: {options.N.default}]")]
Side = Annotated[options.Side, option(help=options.SIDE.help)]
Kind = Annotated[options.Kind, option(help=options.KIND.help)]
Tokenize = Annotated[options.Tokenize, option(help=options.TOKENIZE.help)]
Lower = Annotated[bool, option("--lower", help=options.LOWER.help)]
Target = Annotated[str | None, described(help="The target label, the numerator. [default: the only one there is]")]
Denominator = Annotated[options.Denominator, option(help=options.DENOMINATOR.help)]
Unseen = Annotated[options.Unseen, option(help=options.UNSEEN.help)]
Seed = Annotated[int, option(help=options.SEED.help)]
Level = Annotated[float, option(help=options.LEVEL.help)]
TopK = Annotated[int | None, described("--k", "-k", help=options.K.help, min=1)]
Engine = Annotated[options.Engine, option(help=options.ENGINE.help)]
Master = Annotated[
    str | None,
    described(help="Spark: the URL of the cluster. [default: Spark's own setting, or all cores of this machine]"),
]
MemoryLimit = Annotated[
    str | None,
    described(
        help="Maximum memory to use, e.g. 2GB; what is larger takes several passes. "
        "[default: 4GB; on Spark 1GB per task]"
    ),
]
SparkSettings = Annotated[
    list[str] | None, described("--spark", help="Spark setting, e.g. spark.executor.memory=4g; may be repeated.")
]


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


def given(**values: Any) -> dict[str, Any]:
    """Return those options that stand on the command line, not those that have their defaults."""
    source = click.get_current_context().get_parameter_source
    return {name: value for name, value in values.items() if source(name) is not ParameterSource.DEFAULT}


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
    """Return a memory limit in bytes: of this process what is left of it, on Spark that of a task."""
    if limit is None:
        return None
    wanted = parse_bytes(limit, "memory_limit", caller)
    return memory_left(wanted) if engine == "local" else wanted
