"""Requests and responses: requests are validated by these schemas, and OpenAPI describes both."""

from __future__ import annotations

from base64 import b64decode
from typing import Annotated, Any, Literal

from pydantic import Base64Bytes, BaseModel, BeforeValidator, ConfigDict, Field

MANY = 100_000  # contexts or texts in one request
Number = float | Literal["inf", "-inf", "nan"]  # JSON has no infinity; "nan" is no evidence
Models = Annotated[
    list[str] | None, Field(description="Names of models; all of them if left out.", max_length=1000, min_length=1)
]
ModelName = Annotated[str, Field(description="The name of a model.")]
SOME, LONG = Field(min_length=1, max_length=MANY), Field(max_length=1000)
Context = str | Annotated[list[str], LONG]
CONTEXT = "the annual meeting of the company was held yesterday in"  # of the examples
TEXT = "The talks between the two countries will be held next week in Geneva"


class RequestBody(BaseModel):
    """The JSON body of a request; unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ScoreRequest(RequestBody, json_schema_extra={"examples": [{"contexts": [CONTEXT]}]}):
    """Contexts to score."""

    contexts: Annotated[list[str], SOME] | Annotated[list[Annotated[list[str], LONG]], SOME] = Field(
        description="Each as text, or as a list of items: n of them, or fewer."
    )
    models: Models = None


class ScoreResponse(BaseModel):
    """The log ratio of every context, by model."""

    scores: dict[str, list[Number]]


class TextsRequest(RequestBody, json_schema_extra={"examples": [{"texts": [TEXT], "digits": 3}]}):
    """Running texts to score at every boundary."""

    texts: Annotated[list[str], SOME]
    models: Models = None
    digits: Annotated[int, Field(ge=0, le=15)] | None = Field(
        None, description="Decimals to round log ratios to; left out: they are exact."
    )


class ScoredText(BaseModel):
    """A text of L items: L + 1 log ratios by model, null at boundaries that have no whole context."""

    items: dict[str, int] = Field(description="The number of items of the text, by how it is split: words, letters.")
    scores: dict[str, list[Number | None]]


class TextsResponse(BaseModel):
    """The scored texts, in order."""

    texts: list[ScoredText]


class ChangesRequest(RequestBody, json_schema_extra={"examples": [{"context": CONTEXT, "model": "LOC"}]}):
    """A context of which one item may be replaced."""

    context: Context
    model: ModelName


class ExplainRequest(ChangesRequest):
    """A context to explain."""

    level: Annotated[float, Field(gt=0, lt=1)] = Field(0.95, description="What the interval is meant to cover.")


class Term(BaseModel):
    """What one span of the context adds."""

    start: int = Field(description="Its first position, from 0,")
    end: int = Field(description="and the one after its last.")
    items: list[str]
    text: str = Field(description="The items, fit to be shown.")
    f_nu: int | None = Field(description="Its frequency at the target,")
    f_de: int | None = Field(description="and elsewhere; null where nothing is known of it.")
    selected: bool = Field(description="Whether the model uses it.")
    value: Number = Field(description="What it adds to the log ratio.")
    kind: Literal["item", "anywhere", "shape", "none", "shapes", "items", "calibration"]
    prior: Number | None = Field(description="Of a sequence: the log ratio that was expected of it.")


class ExplainResponse(BaseModel):
    """The terms of a log ratio; they add up to it exactly."""

    ngram: list[str]
    target: str
    model: str
    log_ratio: Number
    ratio: Number
    sentence: str = Field(description="What the ratio means, in plain words.")
    interval: list[Number] | None
    terms: list[Term]


class Change(BaseModel):
    """The context with another item at a position (counted from 1)."""

    position: int
    before: str
    item: str
    log_ratio: Number
    change: Number


class ChangesResponse(BaseModel):
    """The item that raises the log ratio most, and that lowers it most, for every position; the largest first."""

    log_ratio: Number
    up: list[Change]
    down: list[Change]


def _check_base64(text: Any) -> Any:
    """Raise for characters that are not Base64's: pydantic leaves them out, and another file is read."""
    if isinstance(text, str):
        b64decode("".join(text.split()), validate=True)
    return text


class RankRequest(RequestBody, json_schema_extra={"examples": [{"text": TEXT, "model": "LOC"}]}):
    """A text or a file whose best boundaries are wanted."""

    text: str | None = Field(None, description="One document; or else a file.")
    file: Annotated[Base64Bytes, BeforeValidator(_check_base64), Field(strict=False)] | None = Field(
        None, description="The bytes of a file in any format that `raregram count` reads, in Base64."
    )
    file_name: Annotated[str, Field(max_length=1000)] = Field(
        "", description="Its name, by which its format is known where the content does not say."
    )
    model: ModelName
    top: Annotated[int, Field(ge=1, le=10_000)] = 100
    by: Literal["log_ratio", "lower"] = Field("log_ratio", description="Or by the lower end of the interval.")
    level: Annotated[float, Field(gt=0, lt=1)] = 0.95


class Ranked(BaseModel):
    """A boundary: its context, the interval where the estimator has one, and where it is."""

    rank: int
    log_ratio: Number
    lower: Number | None
    upper: Number | None
    items: list[str]
    document: str | None = Field(description="In a file: the document's id, line or row.")
    position: int = Field(description="The number of items of the document before it.")
    left: str = Field(description="The text before it,")
    right: str = Field(description="and after it.")


class RankResponse(BaseModel):
    """The best boundaries of a text or a file."""

    documents: int = Field(description="The number of documents; a text is one.")
    contexts: int = Field(description="The number of their contexts.")
    ranking: list[Ranked]


class ModelSummary(BaseModel):
    """What a request needs to know of a model."""

    name: str
    target: str
    estimator: str
    settings: str
    n: int
    side: Literal["left", "right"]
    kind: Literal["words", "letters"]
    tokenize: Literal["whitespace", "words"]
    lower: bool
    pad: bool
    interval: bool = Field(description="Whether it has intervals.")
    here: str = Field(description="Where the contexts of the numerator are, in words, e.g. 'before LOC'.")
    elsewhere: str = Field(description="Where those of the denominator are, e.g. 'elsewhere'.")


class WordRules(BaseModel):
    """Unicode's rules for word boundaries, as a regular expression over the classes of characters."""

    word: str
    classes: list[tuple[int, int, str]] = Field(description="First and last code point, and their class; else x.")


class ModelsResponse(BaseModel):
    """The models, and how much a request may hold."""

    version: str
    max_bytes: int
    models: list[ModelSummary]
    words: WordRules | None = Field(description="How words are split from punctuation, where a model does so.")


class ModelResponse(BaseModel):
    """The full description of a model."""

    model_config = ConfigDict(extra="allow")
    name: str
    target: str
    estimator: str
    lam: float
    n: int
    n_nu: int
    n_de: int
    digest: str
    strongest_by_position: list[dict[str, Any]]


class Problem(BaseModel):
    """What was wrong, in a word for programs and in a sentence for people."""

    code: str
    message: str


class ErrorResponse(BaseModel):
    """The one form of all errors."""

    error: Problem


class Readiness(BaseModel):
    """The service is ready: it only starts once all its models are read."""

    ready: bool
    models: list[str]
