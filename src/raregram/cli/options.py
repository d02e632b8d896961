"""Options that several commands share, each defined once."""

from __future__ import annotations

import re
from typing import Annotated, Literal

import typer

from raregram.errors import ParameterError, check_choice, must_be

# These repeat names that the library defines, since importing it would make `--help` wait for NumPy and Arrow.
# A test compares them.
EstimatorName = Literal["mle", "direct", "smoothed", "product", "selective", "backoff"]
Criterion = Literal["random", "tf", "cet", "chi2", "chi2_printed", "gss", "gss_abs"]
SpanCriterion = Literal["gain", Criterion]
Side = Literal["left", "right"]
Kind = Literal["words", "letters"]
Denominator = Literal["complement", "all"]
Unseen = Literal["neutral", "formula"]
Format = Literal[
    "parquet", "jsonl", "conll", "stanford-tsv", "stanford-slash", "stanford-xml", "spacy", "reuters-json",
    "reuters-sgml", "text", "contexts",
]  # fmt: skip
Split = Literal["file", "lines", "paragraphs"]
OnError = Literal["stop", "skip"]
Corpus = Literal["reuters"]
Engine = Literal["local", "spark"]

Sources = Annotated[
    list[str],
    typer.Argument(help="Text lines, CSV or Parquet tables, count files; '-' is standard input.", show_default=False),
]
OptionalSources = Annotated[
    list[str] | None,
    typer.Argument(
        help="Text lines, CSV or Parquet tables, or count files. [default: standard input]",
        show_default=False,
    ),
]
ModelFile = Annotated[str, typer.Argument(help="A model file, as written by `fit`.", show_default=False)]
Out = Annotated[str, typer.Option("--out", "-o", help="The file to write.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no closing words.")]
Targets = Annotated[
    str | None,
    typer.Option(help="The labels to count, with commas between them. [default: every label]", show_default=False),
]
SpansOption = Annotated[
    str, typer.Option(help="What to count: units, suffixes:LENGTH, shapes:LENGTH, whole; with commas.")
]
SideOption = Annotated[Side, typer.Option(help="On which side of the boundary the contexts are.")]
KindOption = Annotated[Kind, typer.Option(help="What the items of a text are.")]
DenominatorOption = Annotated[
    Denominator, typer.Option(help="What the target is compared with: all other contexts, or all contexts.")
]
UnseenOption = Annotated[
    Unseen, typer.Option(help="The factor of an item never seen at its position: 1, or by the unit formula.")
]
FormatOption = Annotated[Format | None, typer.Option(help="[default: it is recognised]", show_default=False)]
SplitOption = Annotated[Split, typer.Option(help="What a document is in running text.")]
Level = Annotated[float, typer.Option(help="The probability that an interval is meant to cover.")]
Columns = Annotated[
    str | None,
    typer.Option(
        help="What a table calls the columns ngram, label, f_nu and f_de, e.g. 'ngram=text,f_nu=hits'.",
        show_default=False,
    ),
]


EngineOption = Annotated[
    Engine, typer.Option(help="Where the work is done: on this machine, or on a Spark cluster (extra `spark`).")
]
MasterOption = Annotated[
    str | None,
    typer.Option(
        help="Spark: the URL of the cluster. [default: Spark's own setting, or all cores of this machine]",
        show_default=False,
    ),
]
SparkOption = Annotated[
    list[str] | None,
    typer.Option(
        "--spark", help="A setting of Spark, e.g. spark.executor.memory=4g; may be repeated.", show_default=False
    ),
]


def parse_names(text: str | None) -> list[str] | None:
    r"""Parse 'a,b'; a comma, an equals sign, a space or a backslash that belongs to a name follows a backslash.

    >>> parse_names(r"LOC, Washington\, D.C.")
    ['LOC', 'Washington, D.C.']
    """
    return None if text is None else [name for part in _split(text, ",") if (name := _unescape(part))]


def parse_pairs(text: str | None) -> dict[str, str]:
    r"""Parse 'a=b,c=d'.

    >>> parse_pairs(r"GPE=LOC,a\=b=X")
    {'GPE': 'LOC', 'a=b': 'X'}
    """
    pairs: dict[str, str] = {}
    for part in _split(text or "", ","):
        name, *rest = _split(part, "=")
        name, value = _unescape(name), _unescape("=".join(rest))
        if part.strip() and (not name or not value or name in pairs):
            raise ParameterError(f"expected NAME=NAME with commas between, each NAME once, got {text!r}")
        pairs |= {name: value} if name else {}
    return pairs


def _split(text: str, separator: str) -> list[str]:
    """Split at a separator that does not follow a backslash; a pair of backslashes is none."""
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


def parse_bytes(text: str, name: str = "memory_limit", owner: str = "count") -> int:
    """Parse a size; an error calls it the parameter `name` of `owner`.

    >>> parse_bytes("512MB"), parse_bytes("1.5 GiB")
    (512000000, 1610612736)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", text.strip(), re.IGNORECASE)
    if not match or not float(match[1]):
        raise must_be(name, owner, "a size such as 512MB or 2GiB", text)
    return int(float(match[1]) * (1024 if match[3] else 1000) ** " KMGT".index(match[2].upper() or " "))
