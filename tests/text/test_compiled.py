"""The compiled loops, against `str.split`, dictionaries, and what Arrow and NumPy find without them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import raregram as rg
from raregram.corpus.contexts import Batch
from raregram.corpus.documents import Location
from raregram.measure.synthetic import SyntheticCorpus
from raregram.models.backoff import trie
from raregram.show import write
from raregram.text import vocabulary
from raregram.text.tokenize import Tokenizer
from raregram.text.vocabulary import Encoder

SPACES = "".join(chr(code) for code in range(sys.maxunicode + 1) if chr(code).isspace())
ALIKE = "\u00a1\u0084\u1681\u200b\u2027\u2030\u205e\u3001\u180e\ufeff\x1b\x21\x00\x7f\x80"  # next to white space
LETTERS = st.sampled_from("ab" + "éß字\U0001f600" + SPACES + ALIKE)
TEXTS = st.lists(st.text(LETTERS, max_size=12) | st.text(max_size=8).filter(lambda text: text.isprintable()))


@pytest.fixture(autouse=True)
def from_the_first_byte(monkeypatch):
    """Let the compiled loops do all work."""
    monkeypatch.setattr(vocabulary, "COMPILED_FROM", -1)
    monkeypatch.setattr(vocabulary, "SMALL", 0)


def without_loops(task):
    """Do something as if there were no Numba."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Encoder, "_loops", lambda self, texts: None)
        for module in (trie, write):
            patch.setattr(module, "loaded_loops", lambda: None)
        return task()


@pytest.mark.parametrize("compiled", [True, False])
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=TEXTS, known=st.lists(st.text("abéß字", min_size=1, max_size=3), unique=True))
def test_words_are_those_of_str_split_and_get_codes_in_order(compiled, texts, known):
    def encode():
        return Encoder(pa.array(known, pa.string())).encode(pa.array(texts, pa.string()))

    codes, lengths, others = encode() if compiled else without_loops(encode)
    index = {word: code for code, word in enumerate(known)}
    expected = [[index.setdefault(word, len(index)) for word in text.split()] for text in texts]
    assert codes.tolist() == [code for row in expected for code in row]
    assert lengths.tolist() == [len(row) for row in expected]
    assert others.to_pylist() == list(index)[len(known) :]
    others.validate(full=True)


@given(texts=TEXTS, known=st.lists(st.characters(codec="utf-8"), unique=True))
def test_letters_get_codes_in_order(texts, known):
    codes, lengths, others = Encoder(pa.array(known, pa.string()), Tokenizer("letters")).encode(
        pa.array(texts, pa.string())
    )
    letters = known + others.to_pylist()
    assert [letters[code] for code in codes] == [letter for text in texts for letter in text]
    assert lengths.tolist() == [len(text) for text in texts]
    assert len(set(letters)) == len(letters)


def test_every_white_space_of_unicode_splits():
    texts = [f"a{space}b" for space in SPACES] + [f"a{letter}b" for letter in ALIKE]
    _, lengths, _ = Encoder(pa.array([], pa.string())).encode(pa.array(texts))
    assert lengths.tolist() == [len(text.split()) for text in texts]


def test_tables_grow_with_many_words_and_collisions():
    words = [f"w{number}" for number in range(50_000)]
    texts = pa.array([" ".join(words[first : first + 100]) for first in range(0, len(words), 100)] * 2)
    codes, _, others = Encoder(pa.array(words[:7])).encode(texts)
    assert codes.tolist() == [*range(50_000)] * 2
    assert others.to_pylist() == words[7:]


def test_slices_are_read_as_they_are():
    texts = pa.array(["x", "b a", "", "a", "y"])
    codes, lengths, others = Encoder(pa.array(["z", "a"])[1:]).encode(texts[1:4])
    assert (codes.tolist(), lengths.tolist(), others.to_pylist()) == ([1, 0, 0], [2, 0, 1], ["b"])


@pytest.fixture(scope="module")
def corpus():
    source = SyntheticCorpus.make(items=3_000, n=6, seed=5)
    contexts_, at_target = source.sample(3_000, 20_000, seed=6)
    return source.texts(contexts_), np.where(at_target, "T", "O")


@pytest.mark.parametrize("estimator", ["backoff", "selective", "product"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_scores_are_the_same_bit_for_bit(corpus, estimator, side):
    texts, labels = corpus
    spans = ["units", "suffixes:4", "shapes:3"]
    train = rg.Counts.from_contexts(texts[:15_000], labels[:15_000], spans=spans, side=side)
    model = rg.fit(train, "T", estimator)
    strange = [" Never\tseen\u00a0before, 17 of  these ", "a b c d e f", "é é é é é é"]
    asked = [*texts[12_000:], *strange]
    plain = without_loops(lambda: model.log_ratio(asked))
    assert np.array_equal(model.log_ratio(asked), plain)
    assert np.array_equal(model.encode(asked), without_loops(lambda: model.encode(asked)))
    assert np.array_equal(model.interval(asked), without_loops(lambda: model.interval(asked)))
    assert len(set(plain.tolist())) > 1_000


KINDS = (pa.float64(), pa.float64(), pa.string())
NUMBERS = (
    st.sampled_from([np.inf, -np.inf, np.nan])
    | st.floats(-1e15, 1e15)
    | st.floats(-30, 30)
    | st.integers(-(10**6), 10**6).map(lambda number: number / 20_000)
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.text("ab é字"))), st.sampled_from([1, 2]))
def test_lines_of_scores_are_the_same_byte_for_byte(tmp_path_factory, rows, columns):
    Encoder(pa.array(["a"])).encode(pa.array(["a"]))  # loads the loops
    out = tmp_path_factory.mktemp("lines") / "scores.txt"
    first, second, texts = (pa.array([row[k] for row in rows], kind) for k, kind in enumerate(KINDS))
    scores = dict(list({"log_ratio": first, "lower": second}.items())[:columns])

    def written():
        batch = Batch(Location("rows"), texts)
        with write.score_writer(str(out), "text", [batch.head(0)], pa.schema([]), "words") as write_batch:
            write_batch(batch, lambda: texts, scores)
        return out.read_bytes()

    assert written() == without_loops(written)


def test_a_large_key_is_found_too(corpus):
    """Pairs whose numbers need more than 32 bits are kept in another type."""
    rng = np.random.default_rng(1)
    words = np.array([f"w{number}" for number in range(120_000)])
    texts = [" ".join(row) for row in words[rng.integers(0, len(words), (120_000, 3))]]
    labels = np.where(rng.random(len(texts)) < 0.3, "T", "O")
    counts = rg.Counts.from_contexts(texts, labels, spans=["units", "suffixes:3"])
    model = rg.fit(counts, "T", "backoff", shapes=0, lam=1e-9, unit_lam=1e-9)
    assert model.estimator.words.suffixes[0].pairs.keys.dtype == np.uint64
    assert np.array_equal(model.log_ratio(texts), without_loops(lambda: model.log_ratio(texts)))


@pytest.mark.parametrize("options", [{}, {"pad": True}, {"spans": ["suffixes:3", "shapes:2"]}, {"side": "right"}])
def test_counts_are_the_same(options):
    documents = [
        {"text": "In  Rome,\u3000she\x1fsaid \n so é", "spans": [(1, 2, "LOC")]},
        {"text": "short", "spans": []},
        {"text": "", "spans": []},
        {"text": "he left Oslo for Rome, then for good", "spans": [(2, 3, "LOC"), (4, 5, "LOC")]},
    ]
    compiled = rg.count(documents, n=3, **options)
    assert compiled == without_loops(lambda: rg.count(documents, n=3, **options))


def test_a_short_context_among_many_is_scored_as_alone(corpus):
    texts, labels = corpus
    model = rg.fit(rg.Counts.from_contexts(texts[:2000], labels[:2000]), "T")
    found = model.log_ratio([*texts[:1500], "only two", *texts[:10]])
    np.testing.assert_array_equal(found[1500:1501], model.log_ratio([["only", "two"]]))


def test_little_text_does_not_load_numba_and_much_does():
    code = (
        "import sys, pyarrow as pa; from raregram.text import vocabulary;"
        "encoder = vocabulary.Encoder(pa.array(['a']));"
        "few, many = pa.array(['a b']), pa.array(['a b'] * 100_000);"
        "encoder.encode(few); encoder.encode(many); assert 'numba' not in sys.modules;"
        "vocabulary.COMPILED_FROM = 1 << 20; encoder.encode(few); assert 'numba' not in sys.modules;"
        "encoder.encode(many); assert 'numba' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_numba_arrow_does_the_work():
    code = (
        "import sys; sys.modules['numba'] = None; import pyarrow as pa; from raregram.text import vocabulary;"
        "vocabulary.COMPILED_FROM = vocabulary.SMALL = -1;"
        "assert vocabulary.Encoder(pa.array(['a'])).encode(pa.array(['b a']))[0].tolist() == [1, 0];"
        "import raregram as rg; counts = rg.count([{'text': 'a b c', 'spans': [(1, 2, 'X')]}], n=1);"
        "assert rg.fit(counts, 'X', 'selective', lam=0).log_ratio(['a'] * 2000).shape == (2000,)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
