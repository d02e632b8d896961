"""Corpora whose true likelihood ratios are known: for trying things out, for teaching and for tests.

Items at each position are drawn independently, from Zipf's law in the denominator and from a tilted version of it
in the numerator. Positions next to the boundary (the last ones) are tilted more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from raregram.models.ratios import Floats
from raregram.text.vocabulary import Codes

SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]


@dataclass(frozen=True)
class SyntheticCorpus:
    """A source of contexts with known log ratios."""

    words: npt.NDArray[np.str_]  # (items,), the most frequent first
    p_nu: Floats  # (n, items)
    p_de: Floats  # (n, items)

    @classmethod
    def make(cls, items: int = 5000, n: int = 5, strength: float = 1.5, seed: int = 0) -> SyntheticCorpus:
        """Make a source with `items` words, of which one in ten tells something about the target."""
        rng = np.random.default_rng(seed)
        zipf = 1.0 / np.arange(10, items + 10)
        informative = rng.random((n, items)) < 0.1
        slope = np.linspace(0.2, 1.0, n)[:, None] * strength
        tilted = zipf * np.exp(slope * informative * rng.normal(size=(n, items)))
        p_de = np.tile(zipf / zipf.sum(), (n, 1))
        return cls(_make_words(items), tilted / tilted.sum(axis=1, keepdims=True), p_de)

    def sample(self, n_nu: int, n_de: int, seed: int = 0) -> tuple[Codes, npt.NDArray[np.bool_]]:
        """Draw contexts as indices of words, (n_nu + n_de, n), and which are the numerator's, in random order."""
        rng = np.random.default_rng(seed)
        columns = [
            np.concatenate([rng.choice(len(self.words), rows, p=p[k]) for rows, p in self._sides(n_nu, n_de)])
            for k in range(len(self.p_de))
        ]
        order = rng.permutation(n_nu + n_de)
        return np.column_stack(columns)[order].astype(np.int32), (np.arange(n_nu + n_de) < n_nu)[order]

    def texts(self, contexts: Codes) -> list[str]:
        """Return contexts as strings."""
        return [" ".join(row) for row in self.words[contexts].tolist()]

    def log_ratio(self, contexts: Codes) -> Floats:
        """Return the true log ratio of each context."""
        terms = np.log(self.p_nu / self.p_de)
        return np.asarray(terms[np.arange(len(terms)), contexts].sum(axis=1))

    def _sides(self, n_nu: int, n_de: int) -> list[tuple[int, Floats]]:
        return [(n_nu, self.p_nu), (n_de, self.p_de)]


def _make_words(items: int) -> npt.NDArray[np.str_]:
    """Return distinct words that can be spoken; frequent ones are short."""
    words = []
    for number in range(items):
        word, rest = SYLLABLES[number % len(SYLLABLES)], number // len(SYLLABLES)
        while rest:
            rest, syllable = divmod(rest - 1, len(SYLLABLES))
            word = SYLLABLES[syllable] + word
        words.append(word)
    return np.array(words)


def zipf_documents(documents: int, length: int, items: int, seed: int = 0) -> list[str]:
    """Return texts of so many words each, drawn independently from Zipf's law: for measuring speed."""
    rng = np.random.default_rng(seed)
    steps = np.cumsum(1.0 / np.arange(1, items + 1))
    drawn = np.searchsorted(steps, rng.random(documents * length) * steps[-1])
    words = _make_words(items)[drawn].reshape(documents, length)
    return [" ".join(row) for row in words.tolist()]
