"""The estimators by their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from raregram.errors import check_choice
from raregram.models.backoff.estimate import Backoff
from raregram.models.base import Estimator, Settings
from raregram.models.calibration import CALIBRATION
from raregram.models.units import Product, Selective
from raregram.models.whole import MLE, Direct, Smoothed

ESTIMATORS: dict[str, type[Estimator]] = {
    estimator.name: estimator for estimator in (MLE, Direct, Smoothed, Product, Selective, Backoff)
}

FORMER = ("max_bytes",)  # parameters that headers had, and that no estimator needs to score


def find_estimator(name: str) -> type[Estimator]:
    """Return an estimator by its name."""
    check_choice("estimator", "fit", name, ESTIMATORS)
    return ESTIMATORS[name]


def read_settings(header: Mapping[str, Any]) -> Settings:
    """Return the settings that the header of a model file has; raise `ValueError` if it has anything else."""
    header = {name: value for name, value in header.items() if name not in (CALIBRATION, *FORMER)}
    params = find_estimator(header["estimator"]).Params
    full = {"tokenize": "whitespace", "lower": False, "samples": None, **header}
    common = {field.name: full[field.name] for field in fields(Settings) if field.name != "params"}
    settings = Settings(**common, params=params(**{field.name: header[field.name] for field in fields(params)}))
    if settings.header() != header:
        raise ValueError("the header is not that of the estimator")
    return settings
