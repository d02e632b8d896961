"""What can be asked and what is answered, as the OpenAPI page describes it. The one place that imports pydantic."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MANY = 100_000  # contexts or texts in one request
Number = float | Literal["inf", "-inf", "nan"]  # JSON has no infinity; "nan" is no evidence
Models = Annotated[
    list[str] | None, Field(description="Names of models; all of them if left out.", max_length=1000, min_length=1)
]
ModelName = Annotated[str, Field(description="The name of a model.")]
SOME, LONG = Field(min_length=1, max_length=MANY), Field(max_length=1000)
Context = str | Annotated[list[str], LONG]


class Question(BaseModel):
    """A question; what it does not know is refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ScoreQuestion(Question):
    """Contexts to score."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"contexts": ["the annual meeting of the company was held yesterday in"]}]}
    )
    contexts: Annotated[list[str], SOME] | Annotated[list[Annotated[list[str], LONG]], SOME] = Field(
        description="Each as text, or as a list of items: n of them, or fewer for a model with pads."
    )
    models: Models = None


class ScoreAnswer(BaseModel):
    """The log ratio of every context, by model."""

    scores: dict[str, list[Number]]


class TextsQuestion(Question):
    """Running texts to score at every boundary."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"texts": ["The talks between the two countries will be held next week in"], "digits": 3}]
        }
    )
    texts: Annotated[list[str], SOME]
    models: Models = None
    digits: Annotated[int, Field(ge=0, le=15)] | None = Field(
        None, description="Round log ratios to so many decimals; left out: they are exact."
    )


class ScoredText(BaseModel):
    """A text of L items: L + 1 log ratios by model, null at boundaries that have no whole context."""

    items: dict[str, int] = Field(description="How many items the text has, by kind: words, letters.")
    scores: dict[str, list[Number | None]]


class TextsAnswer(BaseModel):
    """The scored texts, in order."""

    texts: list[ScoredText]


class ExplainQuestion(Question):
    """A context to explain."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"context": "the annual meeting of the company was held yesterday in", "model": "LOC"}]
        }
    )
    context: Context
    model: ModelName
    level: Annotated[float, Field(gt=0, lt=1)] = Field(0.95, description="What the interval is meant to cover.")


class TermAnswer(BaseModel):
    """What one span of the context adds."""

    start: int
    end: int
    items: list[str]
    text: str = Field(description="The items, fit to be shown.")
    f_nu: int | None
    f_de: int | None
    selected: bool
    value: Number
    kind: Literal["item", "anywhere", "shape", "none", "shapes", "items"]
    prior: Number | None


class ExplainAnswer(BaseModel):
    """The terms of a log ratio; they add up to it exactly."""

    ngram: list[str]
    target: str
    model: str
    log_ratio: Number
    ratio: Number
    interval: list[Number] | None
    terms: list[TermAnswer]


class ChangesQuestion(Question):
    """A context of which one item may be replaced."""

    model_config = ExplainQuestion.model_config
    context: Context
    model: ModelName


class Change(BaseModel):
    """The context with another item at a position (counted from 1)."""

    position: int
    before: str
    item: str
    log_ratio: Number
    change: Number


class ChangesAnswer(BaseModel):
    """The item that raises the log ratio most, and that lowers it most, for every position; the largest first."""

    log_ratio: Number
    up: list[Change]
    down: list[Change]


class RankQuestion(Question):
    """A text whose best contexts are wanted."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"text": "The talks between the two countries will be held next week in Geneva", "model": "LOC"}
            ]
        }
    )
    text: str
    model: ModelName
    top: Annotated[int, Field(ge=1, le=10_000)] = 100
    by: Literal["log_ratio", "lower"] = Field("log_ratio", description="Or by the lower end of the interval.")
    level: Annotated[float, Field(gt=0, lt=1)] = 0.95


class Ranked(BaseModel):
    """A context, with its interval where the estimator has one."""

    rank: int
    log_ratio: Number
    lower: Number | None
    upper: Number | None
    items: list[str]


class RankAnswer(BaseModel):
    """The best contexts of a text, each once."""

    contexts: int = Field(description="How many contexts the text has.")
    ranking: list[Ranked]


class ModelSummary(BaseModel):
    """What one needs to know of a model to ask it."""

    name: str
    target: str
    estimator: str
    settings: str
    n: int
    side: Literal["left", "right"]
    kind: Literal["words", "letters"]
    pad: bool
    interval: bool = Field(description="Whether it has intervals.")


class ModelsAnswer(BaseModel):
    """The models, and how much a request may hold."""

    version: str
    max_bytes: int
    models: list[ModelSummary]


class ModelAnswer(BaseModel):
    """All that there is to say about a model."""

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


class ErrorAnswer(BaseModel):
    """The one form of all errors."""

    error: Problem


class Readiness(BaseModel):
    """Whether the service answers, and with which models."""

    ready: bool
    models: list[str]
