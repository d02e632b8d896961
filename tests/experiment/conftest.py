"""One experiment on three hundred made articles, which all tests of this folder share."""

from __future__ import annotations

import json

import numpy as np
import pytest

from raregram.experiment.run import Config, load_corpus, run

SETTINGS = {
    "train": 200, "valid": 50, "test": 50, "n": 4, "k": 800, "sizes": [5, 50, 500], "lams": [1e-4, 1e-2],
    "suffixes": 3, "shapes": 4, "priors": [6.0, 24.0], "taus": [0.4, 0.6],
}  # fmt: skip


def made_articles(count, length):
    """Articles of made-up words in which places mostly follow one kind of word and people another."""
    numbers = iter((np.random.PCG64(7).random_raw(count * length * 9) >> np.uint64(33)).tolist())
    syllables = ("ba", "ne", "ti", "ro", "su", "lan", "der", "king")
    endings = ("", "", "ed", "ing", "s.", ",")
    cues = {"LOC": ("in", "near", "from"), "PER": ("Mr.", "said", "by")}

    def word():
        return (
            "".join(syllables[next(numbers) % 8] for _ in range(1 + next(numbers) % 3)) + endings[next(numbers) % 6]
        )

    articles = []
    for _ in range(count):
        items, spans = [], []
        while len(items) < length:
            label, kind = ("LOC", "PER")[next(numbers) % 2], next(numbers) % 10
            items.append(cues[label][next(numbers) % 3] if kind < 3 else word())
            if kind in (1, 2, 3):  # two of three cues, and some other words, have a name after them
                spans.append({"start": len(items), "end": len(items) + 1, "label": label})
                items.append(word().title())
            elif kind == 4:
                items.append(str(next(numbers) % 1000))
        articles.append({"items": items, "spans": spans})
    return articles


@pytest.fixture(scope="session")
def articles():
    return made_articles(300, 120)


@pytest.fixture(scope="session")
def corpus_file(articles, tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "tagged.jsonl"
    path.write_text("".join(json.dumps(article) + "\n" for article in articles))
    return path


@pytest.fixture(scope="session")
def config(corpus_file):
    return Config.from_mapping({"corpus": [str(corpus_file)], **SETTINGS})


@pytest.fixture(scope="session")
def results(config):
    """The results, made in one process; the command runs the targets side by side, and compares with this."""
    return json.loads(json.dumps(run(config, load_corpus(config), processes=1)))


@pytest.fixture(scope="session")
def parts(articles, config):
    """The training, validation and test documents."""
    order = np.argsort(np.random.PCG64(config.seed).random_raw(300), kind="stable")
    return [[articles[i] for i in order[first:last]] for first, last in ((0, 200), (200, 250), (250, 300))]
