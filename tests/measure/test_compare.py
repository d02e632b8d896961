"""Comparisons of two corpora: frequencies against a dictionary, known answers, and what is wrong with the input."""

from __future__ import annotations

import json
import warnings
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import scipy.stats

import raregram as rg
from raregram.errors import InputError, ParameterError, RaregramWarning
from raregram.measure.compare import COLUMNS, countable, frequency_list

VOCABULARY = [f"w{number}" for number in range(300)]


def text(rng, length=120, marked=0.0, phrases=()):
    """Return random words by Zipf's law, with some phrases put in between."""
    chosen = [VOCABULARY[rank - 1] for rank in rng.zipf(1.5, size=3 * length) if rank <= len(VOCABULARY)][:length]
    for phrase in phrases:
        for _ in range(rng.poisson(marked)):
            at = rng.integers(len(chosen))
            chosen[at:at] = phrase.split()
    return " ".join(chosen)


@pytest.fixture(scope="module")
def corpora():
    """Two corpora that differ only in what was put into the first."""
    rng = np.random.default_rng(0)
    marked = ("hua mulan", "per cent")
    a = [{"text": text(rng, marked=1.0, phrases=marked), "side": "a"} for _ in range(60)]
    b = [{"text": text(rng) + (" per" if rng.random() < 0.7 else " cent"), "side": "b"} for _ in range(50)]
    return a, b


@pytest.fixture(scope="module")
def found(corpora):
    return rg.compare(*corpora, n=(1, 3), names=("a", "b"))


def by_hand(documents, length):
    f, df = Counter(), Counter()
    for document in documents:
        words = document["text"].split()
        ngrams = Counter(" ".join(words[at : at + length]) for at in range(len(words) - length + 1))
        f.update(ngrams)
        df.update(ngrams.keys())
    return f, df


@pytest.mark.parametrize("length", [1, 2, 3])
def test_frequencies_and_documents_are_those_of_a_dictionary(corpora, found, length):
    sides = [by_hand(documents, length) for documents in corpora]
    rows = {row["ngram"]: row for row in found if row["length"] == length}
    wanted = {
        ngram
        for ngram in sides[0][0].keys() | sides[1][0].keys()
        if sum(f[ngram] for f, _ in sides) >= 5 and sum(df[ngram] for _, df in sides) >= 2
    }
    assert set(rows) == wanted
    for ngram, row in rows.items():
        assert [row["f_a"], row["f_b"]] == [f[ngram] for f, _ in sides]
        assert [row["documents_a"], row["documents_b"]] == [df[ngram] for _, df in sides]
        assert row["per_million_a"] == pytest.approx(1e6 * row["f_a"] / sides[0][0].total())
        assert row["share_b"] == pytest.approx(row["documents_b"] / 50)


def test_letters_are_compared_as_well():
    """Words are split at their boundaries by default; letters are not words."""
    ah, oh = ([{"text": text} for text in texts * 5] for texts in (["aah ah", "ah"], ["ooh oh", "oh"]))
    found = rg.compare(ah, oh, kind="letters", n=1, min_count=1, min_documents=1)
    assert {"a", "o", "h"} <= set(found["ngram"].to_pylist())
    assert "ah" in rg.compare(ah, oh, n=1, min_count=1, min_documents=1)["ngram"].to_pylist()


def test_what_it_says_about_both_corpora(corpora, found):
    assert found.names == ("a", "b")
    assert found.documents == (60, 50)
    assert found.tokens == tuple(sum(len(d["text"].split()) for d in documents) for documents in corpora)
    assert found.columns == COLUMNS
    assert "hua mulan" in repr(found)
    assert pa.table(found).schema.field("length").type == pa.int8()
    assert len(found.to_pandas()) == len(found)


def test_measures_are_those_of_scipy(found):
    words = found.to_pandas().query("length == 1")
    totals = np.array(found.tokens, dtype=float)
    f = words[["f_a", "f_b"]].to_numpy().T
    expected = totals[:, None] * f.sum(axis=0) / totals.sum()
    oracle = scipy.stats.power_divergence(f, expected, lambda_="log-likelihood").statistic
    np.testing.assert_allclose(words["g2"], oracle, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found["q"], scipy.stats.false_discovery_control(found["p"]), rtol=1e-9)
    assert (words["g2_design"] <= words["g2"]).all()


def test_planted_phrases_lead_and_random_words_are_hardly_ever_key_words(found):
    key = found.positive(100)["ngram"].to_pylist()
    assert set(key[:2]) == {"hua mulan", "per cent"}
    others = [ngram for ngram in key if not set(ngram.split()) & {"hua", "mulan", "per", "cent"}]
    assert len(others) <= 2  # of hundreds of random rows, at a false discovery rate of 5 %
    assert "w0" in found.lockwords()["ngram"].to_pylist()


def test_a_phrase_that_says_more_than_its_words_stays_and_one_that_repeats_them_gives_way(found):
    repeats = dict(zip(found["ngram"].to_pylist(), found["repeats"].to_pylist(), strict=True))
    assert repeats["hua mulan"] is None
    assert repeats["per cent"] is None
    assert repeats["hua"] == repeats["mulan"] == "hua mulan"  # which are nowhere else
    assert repeats["w0 hua mulan"] == "hua mulan"
    beyond = dict(zip(found["ngram"].to_pylist(), found["beyond"].to_pylist(), strict=True))
    assert beyond["per cent"] > 1
    assert beyond["per"] == 0


def test_intervals_hold_the_estimate_and_random_words_have_a_ratio_near_one(found):
    table = found.to_pandas()
    assert (table["low"] <= table["log2_ratio"]).all()
    assert (table["log2_ratio"] <= table["high"]).all()
    plain = table[table["ngram"].str.fullmatch(r"w\d+")]
    assert ((plain["low"] < 0) & (plain["high"] > 0)).mean() > 0.9


def test_the_other_way_round_signs_change(corpora, found):
    back = rg.compare(*corpora[::-1], n=(1, 3)).to_pandas().set_index("ngram")
    table = found.to_pandas().set_index("ngram")
    back = back.loc[table.index]
    for name in ("conservative", "clr", "log_ratio", "zeta", "fightin_words"):
        np.testing.assert_allclose(table[name], -back[name], atol=1e-9)
    for name in ("g2", "g2_design", "p", "q"):
        np.testing.assert_allclose(table[name], back[name], atol=1e-9)
    np.testing.assert_allclose(table["log2_ratio"], -back["log2_ratio"], atol=0.15)


def test_count_tables_give_the_same_as_the_documents(corpora, found, tmp_path):
    tables = [rg.count(documents, targets=(), **countable(3)) for documents in corpora]
    assert rg.compare(*tables, n=(1, 3), names=("a", "b")).table.equals(found.table)
    tables[0].save(tmp_path / "a.counts")
    mixed = rg.compare(str(tmp_path / "a.counts"), corpora[1], n=(1, 3), names=("a", "b"))
    assert mixed.table.equals(found.table)


def test_one_corpus_is_cut_by_a_field(corpora, found):
    both = [*corpora[0], *corpora[1]]
    assert rg.compare(both, by="side", n=(1, 3)).table.equals(found.table)
    against_rest = rg.compare(both, by="side", names=["a"], n=(1, 3))
    assert against_rest.names == ("a", "all but a")
    assert against_rest.table.equals(found.table)
    each = list(rg.compare_each(both, by="side", n=(1, 3)))
    assert [one.names[0] for one in each] == ["a", "b"]
    assert each[0].table.equals(found.table)


def test_only_some_lengths(found, corpora):
    pairs = rg.compare(*corpora, n=2)
    assert set(pairs["length"].to_pylist()) == {2}
    assert set(pairs["ngram"].to_pylist()) == {row["ngram"] for row in found if row["length"] == 2}
    shown = set(pairs["repeats"].to_pylist()) - {None}
    assert shown <= set(pairs["ngram"].to_pylist())


def test_a_list_of_frequencies_as_reference(corpora, tmp_path):
    f, _ = by_hand(corpora[1], 1)
    path = tmp_path / "list.tsv"
    path.write_text("".join(f"{word}\t{times}\n" for word, times in f.items()))
    listed = rg.compare(corpora[0], frequency_list(path))
    table = listed.to_pandas().set_index("ngram")
    assert listed.documents == (60, 0)
    assert table.loc["w0", "f_b"] == f["w0"]
    assert table["documents_b"].isna().all()
    assert table.loc["mulan", "kind"] == "positive"


def test_n_above_the_length_of_documents():
    short = [{"text": "red green"}, {"text": "red blue"}, {"text": "red green"}] * 4
    long = [{"text": "red green blue red green blue"}] * 12
    with pytest.warns(RaregramWarning, match="no document of B has 3 items, so N-grams have up to 2"):
        found = rg.compare(long, short, n=(1, 5), min_count=1)
    assert max(found["length"].to_pylist()) == 2


def test_a_list_of_frequencies_is_in_small_letters_where_the_corpus_is():
    documents = [{"text": "The the a"}] * 12
    listed = rg.compare(documents, {"the": 300, "The": 100, "A": 7}, lower=True).to_pandas().set_index("ngram")
    assert listed[["f_a", "f_b"]].to_numpy().tolist() == [[12, 7], [24, 400]]
    assert list(listed.index) == ["a", "the"]
    counts = rg.count(documents, targets=(), lower=True, **countable(1))
    assert rg.compare(counts, {"the": 300, "The": 100}, min_count=1)["f_b"].to_pylist() == [0, 400]


@pytest.mark.parametrize("option", [{"lower": True}, {"tokenize": "words"}, {"kind": "letters"}])
def test_options_that_contradict_a_count_table_are_refused(corpora, option):
    ((name, value),) = option.items()
    a, b = corpora
    counts = rg.count(a, targets=(), **countable(2))
    refused = rf"counted with {name}=.*, so it cannot be compared with {name}={value!r}: leave {name} out"
    for call in ((counts, b), (b, counts), (counts, {"the": 3})):
        with pytest.raises(ParameterError, match=refused):
            rg.compare(*call, n=1, **option)
    with pytest.raises(ParameterError, match=f"count tables with different {name}|different items"):
        rg.compare(counts, rg.count(b, targets=(), **countable(2), **option), n=1)


def test_what_is_not_said_follows_the_count_table():
    a, b = ([{"text": text}] * 12 for text in ("The end, the end", "The start, the start"))
    counts = rg.count(a, targets=(), lower=True, tokenize="whitespace", **countable(1))
    found = rg.compare(counts, b, n=1)
    assert set(found["ngram"].to_pylist()) == {"the", "end,", "end", "start,", "start"}
    assert found.tokenizer == counts.tokenizer
    assert rg.compare(counts, b, n=1, lower=True, tokenize="whitespace").table.equals(found.table)


def clumped_text(rng):
    """Return 150 words; how often each comes in a document differs much from document to document."""
    usual = 1 / np.arange(1, 61)
    rates = rng.gamma(1.5, usual)
    return {
        "text": " ".join(rng.permutation(np.repeat(VOCABULARY[:60], rng.poisson(150 * rates / usual.sum() / 1.5))))
    }


@pytest.mark.filterwarnings("ignore:few documents")
@pytest.mark.parametrize("sizes", [(2, 2), (3, 3), (5, 5), (20, 20), (1, 30)])
def test_random_documents_are_hardly_ever_said_to_differ(sizes):
    """However few documents there are: at a level of 5 %, with the bound of the binomial distribution at 0.1 %."""
    rng, times = np.random.default_rng([sizes[0], 7]), 30
    found = [rg.compare(*([clumped_text(rng) for _ in range(size)] for size in sizes), n=1) for _ in range(times)]
    wrong = sum(bool(pc.any(pc.less(one["q"], 0.05)).as_py()) for one in found)
    assert wrong <= scipy.stats.binom.isf(0.001, times, 0.05)
    assert np.mean([np.mean(one["p"].to_numpy() < 0.05) for one in found]) < 0.06
    covered = [(one["low"].to_numpy() < 0) & (one["high"].to_numpy() > 0) for one in found]
    assert np.concatenate(covered).mean() > 0.93


@pytest.mark.parametrize("size", [9, 10])
def test_few_documents_are_said_to_be_few(corpora, size, recwarn):
    warnings.simplefilter("always")
    found = rg.compare(corpora[0], corpora[1][:size], n=1, names=("a", "b"))
    few = "few documents (b has 9): how words are spread over documents is hardly known" if size < 10 else ""
    assert found.caution.startswith(few)
    assert [str(warning.message) for warning in recwarn] == [found.caution] * (size < 10)
    assert bool(found.caution) == (size < 10)


def test_frequencies_may_be_any_whole_numbers(corpora):
    found = rg.compare(corpora[0], {"per": np.int32(7), "cent": 8.0}, min_count=1)
    assert dict(zip(found["ngram"].to_pylist(), found["f_b"].to_pylist(), strict=True)) == {
        word["ngram"]: {"per": 7, "cent": 8}.get(word["ngram"], 0) for word in found
    }
    with pytest.raises(InputError, match="has words alone, but this has 3"):
        rg.compare(corpora[0], {3: 3})


def test_the_documents_of_a_list_are_unknown_so_they_drop_no_word_of_it():
    documents = [{"text": "so it goes"}] * 19 + [{"text": "so it goes rare only rare only"}]
    found = rg.compare(documents, {"it": 900, "rare": 500, "absent": 500}, min_count=1, min_documents=2)
    assert set(found["ngram"].to_pylist()) == {"so", "it", "goes", "rare", "absent"}


def test_it_is_said_that_rare_phrases_are_not_in_a_table(corpora, recwarn):
    counts = rg.count(corpora[0] + corpora[1], by="side", **countable(2)).drop_rare(20)
    rg.compare(counts, n=(1, 2), min_count=20)
    rg.compare(counts, n=1)
    assert not recwarn.list
    with pytest.warns(RaregramWarning, match="seen less than 20 times are not in this count table"):
        rg.compare(counts, n=(1, 2))


def zipf_texts(rng, number, length, words, key=0.0):
    """Return documents of words that follow Zipf's law, some of which are the word "key"."""
    weights = 1 / np.arange(3, words + 3)
    drawn = rng.choice(words, (number, length), p=weights / weights.sum())
    found = np.where(rng.random((number, length)) < key, "key", np.char.add("w", drawn.astype(str)))
    return [{"text": " ".join(row)} for row in found.tolist()]


@pytest.mark.parametrize("swapped", [False, True])
def test_what_a_small_corpus_never_has_marks_the_large_one(swapped):
    rng = np.random.default_rng(1)
    pair = zipf_texts(rng, 20, 200, 3000), zipf_texts(rng, 400, 200, 3000, key=0.05)
    found = rg.compare(*pair[:: -1 if swapped else 1], n=1).to_pandas().set_index("ngram")
    assert found.loc["key", "kind"] == ("positive" if swapped else "negative")
    assert abs(found.loc["key", "conservative"]) > 1


def test_a_few_headlines_make_no_lockwords_of_words_that_they_never_have():
    """Of 400 words little is known, so hardly anything is alike for sure; what contradicts the rest stands out."""
    rng = np.random.default_rng(2)
    small = [{"text": f"{document['text']} < odd"} for document in zipf_texts(rng, 50, 6, 2500)]
    found = rg.compare(small, zipf_texts(rng, 300, 200, 2500, key=0.02), n=1).to_pandas().set_index("ngram")
    locked = found[found["kind"] == "lockword"]
    assert not (locked["f_a"] == 0).any()
    assert (locked["log_ratio"].abs() < 1).all()
    assert found.loc["<", "kind"] == "positive"
    assert found.loc["<", "log2_ratio"] > 3


def test_intervals_of_phrases_hold_the_ratio_1_where_nothing_is_different():
    rng = np.random.default_rng(3)
    documents = zipf_texts(rng, 60, 300, 60)
    found = rg.compare(documents[:30], documents[30:], n=(1, 2)).to_pandas()
    for _, rows in found.groupby("length"):
        assert ((rows["low"] <= 0) & (rows["high"] >= 0)).mean() > 0.93


DOCUMENTS = [{"text": "red green"}] * 12
SAMPLES = [{"text": f"{name} {i}", "g": name} for name in ("Doe, Jane", "Roe") for i in range(12)]
REFUSED = [
    (lambda: rg.compare(DOCUMENTS, SAMPLES, by="g"), ParameterError, "by cuts one corpus"),
    (lambda: rg.compare(SAMPLES[:12], by="g"), InputError, "only one sample"),
    (
        lambda: rg.compare(rg.count(DOCUMENTS, n=2, targets=()), SAMPLES, n=2),
        InputError,
        "count with n=2, side='left'",
    ),
    (lambda: rg.compare(DOCUMENTS, SAMPLES, n=(3, 2)), ParameterError, "n parameter"),
    (lambda: rg.compare(DOCUMENTS, [{"text": ""}]), InputError, "B is empty"),
    (lambda: rg.compare(DOCUMENTS, DOCUMENTS, n=1), InputError, "A and B are the same"),
    (lambda: rg.compare(DOCUMENTS, [{"text": "red"}] * 12, n=2), InputError, "no document of B has 2 items"),
    (lambda: rg.compare(DOCUMENTS, SAMPLES, names=("s", "s")), ParameterError, "two different names"),
    (lambda: rg.compare(DOCUMENTS, {"the": 3}, names=("s", "s")), ParameterError, "two different names"),
    (lambda: rg.compare(DOCUMENTS, SAMPLES, names="ab"), ParameterError, r"a list of names, such as \['ab'\]"),
    (lambda: rg.compare(SAMPLES, by="g", names="Roe"), ParameterError, r"a list of names, such as \['Roe'\]"),
    (lambda: rg.compare(DOCUMENTS, {"red": 3}, n=2), ParameterError, "words alone, so it cannot be compared with n="),
    (lambda: rg.compare(DOCUMENTS, {"red": 3}, kind="letters"), ParameterError, "cannot be compared with letters"),
    (lambda: rg.compare(DOCUMENTS, {"per cent": 3}), InputError, "words alone, but this has 'per cent'"),
    (lambda: rg.compare(DOCUMENTS, {3: 3}), InputError, "words alone, but this has 3"),
    (lambda: rg.compare(DOCUMENTS, {"red": 2**63}), InputError, "the frequencies of a list may add up to"),
    *(
        (lambda f=f: rg.compare(DOCUMENTS, {"red": f}), InputError, "must be a whole number from 0 on")
        for f in (5.9, float("nan"), float("inf"), -4, "4", None)
    ),
    *(
        (lambda o=o: rg.compare(DOCUMENTS, SAMPLES, **{o: 1}), ParameterError, f"compare chooses {o} itself")
        for o in ("side", "spans", "pad", "documents")
    ),
    (lambda: rg.compare(DOCUMENTS, {"red": 1}, pad=True), ParameterError, "compare chooses pad itself"),
    (lambda: list(rg.compare_each(SAMPLES, by="g", pad=True)), ParameterError, "compare chooses pad itself"),
]


@pytest.mark.parametrize("call", range(len(REFUSED)))
def test_wrong_calls_are_refused(call):
    wrong, error, match = REFUSED[call]
    with pytest.raises(error, match=match):
        wrong()


@pytest.mark.parametrize("line", ["one two three", f"two\t{2**63}", "two\t" + "9" * 5000, f"two\t{2**53}"])
def test_a_wrong_line_of_a_list_of_frequencies_is_named(tmp_path, line):
    (tmp_path / "list.tsv").write_text(f"one\t1\n{line}\n")
    with pytest.raises(InputError, match=r"list\.tsv, line 2: (expected a word, a tab|the frequencies .* 9,007,)"):
        frequency_list(tmp_path / "list.tsv")


@pytest.mark.filterwarnings("ignore:no document has the label")
def test_a_sample_whose_name_has_a_comma_can_be_named_and_the_error_says_how(run, tmp_path):
    """On the command line by a backslash, in the library by a list."""
    found = rg.compare(SAMPLES, by="g", names=["Doe, Jane", "Roe"], n=1)
    assert found.names == ("Doe, Jane", "Roe")
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in SAMPLES))
    command = ("compare", "all.jsonl", "--by", "g", "-n", 1, "--names")
    assert "Doe, Jane (" in run(*command, r"Doe\, Jane,Roe")
    assert r"a backslash stands before a comma within a name: --names 'Doe\, Jane,Roe'" in run(
        *command, "Doe, Jane", code=2
    )
    counts = rg.count(SAMPLES, by="g", **countable(1))
    with pytest.raises(ParameterError, match=r"names of samples .'Doe, Jane', 'Roe'.*Got 'Doe' instead"):
        rg.compare(counts, names=["Doe", "Roe"], n=1)


def test_folds_of_a_table_make_no_difference():
    plain, folded = (rg.count(SAMPLES, by="g", folds=folds, **countable(2)) for folds in (0, 3))
    assert rg.compare(plain, n=(1, 2)).table.equals(rg.compare(folded, n=(1, 2)).table)


def test_lines_of_both_corpora_are_those_of_kwic(corpora, found):
    lines = found.lines("hua mulan", 5, width=20, sort="right")
    assert lines.columns == ["corpus", *rg.kwic(corpora[0], "hua mulan").columns]
    assert lines["corpus"].to_pylist() == ["a"] * 5
    wanted = rg.kwic(corpora[0], "hua mulan", 5, width=20, sort="right")
    assert lines.table.drop("corpus").equals(wanted.table)
    assert set(found.lines("w0", 3)["corpus"].to_pylist()) == {"a", "b"}
    with pytest.raises(ParameterError, match="sort parameter of lines"):
        found.lines("w0", sort="up")


def test_lines_of_samples_are_those_of_the_sample_or_the_rest():
    rows = [*SAMPLES, *[{"text": f"Roe is {i}", "g": "other"} for i in range(12)]]
    each = {found.names[0]: found for found in rg.compare_each(rows, by="g", n=1, min_count=1)}
    assert each["Roe"].lines("Roe")["corpus"].to_pylist() == ["Roe"] * 12 + ["all but Roe"] * 12
    two = rg.compare(rows, by="g", names=["Roe", "Doe, Jane"], n=1)
    assert two.lines("Roe")["corpus"].to_pylist() == ["Roe"] * 12


def test_where_documents_cannot_be_read_again_there_are_no_lines(corpora):
    tables = [rg.count(documents, targets=(), **countable(1)) for documents in corpora]
    once = [iter(documents) for documents in corpora]
    for sides in (tables, once):
        with pytest.raises(InputError, match="no lines"):
            rg.compare(*sides, n=1).lines("w0")
    half = rg.compare(tables[0], corpora[1], n=1, names=("a", "b"))
    assert set(half.lines("w0")["corpus"].to_pylist()) == {"b"}
