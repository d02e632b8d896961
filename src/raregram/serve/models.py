"""Models prepared for small requests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from raregram.models.model import Model
from raregram.text.tokenize import PAD
from raregram.text.vocabulary import ABSENT, Codes


class ReadyModel(Model):
    """A model that scores single contexts fast, by tables made in advance, and caches nothing of texts.

    The log ratios are those of `Model`, bit for bit.
    """

    noun = "context"
    remember = False

    @classmethod
    def of(cls, model: Model) -> ReadyModel:
        """Prepare a model."""
        ready = cls(model.estimator.prepared(), model.calibration)
        ready.single([PAD] * model.settings.n)  # builds the tables
        return ready

    @cached_property
    def _code_of(self) -> dict[str, int]:
        return {item: code for code, item in enumerate(self.items.to_pylist())}

    def single(self, items: Sequence[str]) -> float:
        """Return the log ratio of one context of n items."""
        get = self._code_of.get
        codes = [get(item, ABSENT) for item in items]
        if ABSENT in codes and self.estimator.uses_shapes:
            unknown = [position for position, code in enumerate(codes) if code == ABSENT]
            pairs = self.estimator.encode_unknown(pa.array([items[position] for position in unknown]), remember=False)
            nearest, elsewhere = (pair.tolist() for pair in pairs)
            for row, position in enumerate(unknown):
                codes[position] = (nearest if position == self.settings.nearest else elsewhere)[row]
        score = self.estimator.score_one(codes)
        if self.calibration is None:
            return score
        return float(self._calibrated(np.array([score]), np.array([codes], dtype=np.int32))[0])

    def _look_up(self, items: pa.Array) -> Codes:
        return np.array([self._code_of.get(item, ABSENT) for item in items.to_pylist()], dtype=np.int32)
