"""Numbers: exact up to the largest frequencies, never infinite by accident, the same however they were come by."""

from __future__ import annotations

import json
import math
import tempfile
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

import raregram as rg
from conftest import as_dictionary, corpora, run_command
from raregram.errors import InputError
from raregram.models.frequencies import pool

LARGEST = 2**53
HUGE = 10**15
FREQUENCIES = st.one_of(st.integers(0, 5), st.integers(0, HUGE // 8), st.sampled_from([2**31, 2**32 - 1, 2**49]))


@st.composite
def observations(draw, largest=LARGEST):
    """f_nu, n_nu, f_de, n_de: whole numbers up to the largest that doubles hold exactly."""
    n_nu, n_de = (draw(st.one_of(st.integers(1, 100), st.integers(1, largest), st.just(largest))) for _ in "ab")
    f_nu, f_de = (draw(st.one_of(st.integers(0, n), st.just(n), st.just(0))) for n in (n_nu, n_de))
    return f_nu, n_nu, f_de, n_de


def close(value, exact):
    return abs(Fraction(float(value)) - exact) <= abs(exact) * Fraction(1, 10**14)


@settings(max_examples=500)
@given(observations(), st.sampled_from([0.0, 1e-300, 1e-9, 1e-5, 0.1]))
def test_equations_agree_with_fractions_up_to_the_largest_frequencies(observed, lam):
    f_nu, n_nu, f_de, n_de = observed
    p_nu, p_de, ridge = Fraction(f_nu, n_nu), Fraction(f_de, n_de), Fraction(lam)
    smoothed = Fraction(f_nu + 1, n_nu + 2) / (Fraction(f_de + 1, n_de + 2) + ridge)
    assert close(rg.ratios.unit(f_nu, n_nu, f_de, n_de, lam), smoothed)
    if f_de:
        assert close(rg.ratios.mle(f_nu, n_nu, f_de, n_de), p_nu / p_de)
    if f_de or lam:
        assert close(rg.ratios.direct(f_nu, n_nu, f_de, n_de, lam), p_nu / (p_de + ridge))
    if lam:
        assert close(
            rg.ratios.towards(3.0, f_nu, n_nu, f_de, n_de, lam),
            (p_nu + 3 * ridge) / (p_de + ridge) if f_nu or f_de else Fraction(3),
        )


@settings(max_examples=300)
@given(observations())
def test_scores_are_numbers_up_to_the_largest_frequencies(observed):
    """Only the printed chi-square is infinite, where a cell is empty."""
    f_nu, n_nu, f_de, n_de = observed
    n = n_nu + n_de
    for criterion in rg.selection.CRITERIA:
        score = rg.selection.scores(criterion, [f_nu], [f_de], n_nu, n_de)[0]
        if criterion != "chi2_printed":
            assert math.isfinite(score), criterion
    gss = Fraction(f_nu * (n_de - f_de) - f_de * (n_nu - f_nu), n * n)
    assert abs(Fraction(float(rg.selection.scores("gss", [f_nu], [f_de], n_nu, n_de)[0])) - gss) < 1e-15
    printed = rg.selection.scores("chi2_printed", [f_nu], [f_de], n_nu, n_de)[0]
    assert math.isinf(printed) == (0 in (f_nu, f_de, n_nu - f_nu, n_de - f_de))


@settings(max_examples=200)
@given(
    st.lists(st.tuples(FREQUENCIES, FREQUENCIES, st.integers(0, 1)), min_size=1, max_size=600), st.integers(0, 2**53)
)
def test_pooled_frequencies_keep_the_largest_frequencies(rows, offset):
    values = np.array(
        [*rows, *((f_nu + offset // 2, f_de ^ offset, held) for f_nu, f_de, held in rows)], dtype=np.int64
    )
    frequencies, index = pool(values)
    assert frequencies.columns(index).tolist() == values.tolist()


def test_pooled_frequencies_keep_many_different_large_frequencies():
    """More combinations than one whole number of 64 bits can tell apart."""
    rng = np.random.default_rng(0)
    values = np.column_stack(
        [rng.integers(0, LARGEST, 5000), rng.integers(0, LARGEST, 5000), np.ones(5000, np.int64)]
    )
    frequencies, index = pool(values)
    assert (frequencies.columns(index) == values).all()


@st.composite
def huge_tables(draw):
    """N-grams with frequencies that add up to at most 10**15."""
    ngrams = draw(st.lists(st.tuples(*[st.sampled_from("abcde")] * 3), min_size=1, max_size=8, unique=True))
    f_nu, f_de = ([draw(FREQUENCIES) for _ in ngrams] for _ in "ab")
    assume(sum(f_nu) and sum(f_de))
    assume(sum(f_nu) + sum(f_de) <= HUGE)
    return [" ".join(ngram) for ngram in ngrams], f_nu, f_de


@settings(max_examples=150)
@given(huge_tables(), st.sampled_from([0.0, 1e-9, 1e-5]))
def test_models_of_huge_tables_agree_with_fractions(table, lam):
    ngrams, f_nu, f_de = table
    counts = rg.Counts.from_ngrams(ngrams, f_nu, f_de, spans=["units", "suffixes:2", "shapes:2", "whole"])
    assert counts.totals.tolist() == [sum(f_nu) + sum(f_de), sum(f_nu)]
    scores = rg.fit(counts, estimator="product", lam=lam).log_ratio(ngrams)
    for ngram, score in zip(ngrams, scores, strict=True):
        factors = []
        for k, item in enumerate(ngram.split()):
            seen = [
                sum(f for f, other in zip(fs, ngrams, strict=True) if other.split()[k] == item) for fs in (f_nu, f_de)
            ]
            if any(seen):
                p_nu, p_de = (Fraction(f + 1, sum(fs) + 2) for f, fs in zip(seen, (f_nu, f_de), strict=True))
                factors.append(math.log(p_nu) - math.log(p_de + Fraction(lam)))
        assert score == pytest.approx(math.fsum(factors), abs=1e-12)


@settings(max_examples=100)
@given(huge_tables(), st.sampled_from(["product", "selective", "backoff"]), st.sampled_from(["neutral", "formula"]))
def test_models_of_huge_tables_give_numbers_with_intervals(table, estimator, unseen):
    ngrams, f_nu, f_de = table
    counts = rg.Counts.from_ngrams(ngrams, f_nu, f_de, spans=["units", "suffixes:3", "shapes:3", "whole"])
    options = {"size": 2} if estimator == "selective" else {}
    model = rg.fit(counts, estimator=estimator, **options, **({} if estimator == "backoff" else {"unseen": unseen}))
    asked = [*ngrams, "never seen here", "a never b"]
    scores, intervals = model.log_ratio(asked), model.interval(asked)
    assert np.isfinite(scores).all()
    assert np.isfinite(intervals).all()
    assert (intervals[:, 0] <= scores).all()
    assert (scores <= intervals[:, 1]).all()
    assert all(term.value == 0 or math.isfinite(term.value) for ngram in asked for term in model.explain(ngram).terms)


def test_frequencies_reach_the_limit_and_not_beyond(tmp_path):
    half = rg.Counts.from_ngrams(["a b", "c d"], [2**51, 1], [2**51 - 1, 0])
    half.save(tmp_path / "half.counts")
    both = half + rg.Counts.load(tmp_path / "half.counts")
    assert both.totals.tolist() == [LARGEST, 2**52 + 2]
    assert as_dictionary(both)[0, 2, ("a", "b")] == [LARGEST - 2, 2**52]
    assert both - half == half
    one = rg.Counts.from_ngrams(["c d"], [1], [0])
    with pytest.raises(InputError, match=r"add up to 9007199254740993, more than 2\*\*53"):
        both + one
    both.save(tmp_path / "both.counts")
    one.save(tmp_path / "one.counts")
    code, _, error = run_command("merge", tmp_path / "both.counts", tmp_path / "one.counts", "-o", tmp_path / "more")
    assert code == 1
    assert "more than 2**53" in error
    assert not (tmp_path / "more").exists()


def test_a_numerator_larger_than_all_contexts_is_refused():
    with pytest.raises(InputError, match="n_nu is 100 but n_de, which counts all contexts, is only 3"):
        rg.Counts.from_ngrams(["a b"], [1], [2], n_nu=100, n_de=3, denominator="all")


def strict(line):
    """Parse JSON as the standard has it, without NaN and Infinity."""

    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    return json.loads(line, parse_constant=refuse)


@pytest.fixture(scope="module")
def huge(tmp_path_factory):
    """A folder with a count file of 10**15 contexts, and some that are asked for."""
    folder = tmp_path_factory.mktemp("huge")
    quarter = HUGE // 4
    ngrams = (["a b", "c d", "e f"], [quarter, quarter, 0], [quarter, 0, quarter])
    rg.Counts.from_ngrams(*ngrams, spans=["suffixes:2", "shapes:2", "whole"]).save(folder / "all.counts")
    (folder / "asked.txt").write_text("a b\nc d\ne f\ng h\n")
    return folder


@pytest.mark.parametrize("estimator", ["mle", "direct", "smoothed", "product", "selective", "backoff"])
def test_what_the_commands_print_is_json_without_accidental_infinity(huge, estimator, monkeypatch):
    """Infinity and "no evidence" appear only where `mle` and `direct` document them, and as strings."""
    monkeypatch.chdir(huge)

    def run(*arguments):
        code, out, error = run_command(*arguments)
        assert code == 0, error
        return out.decode()

    size = ["--size", "2"] if estimator == "selective" else []
    run("fit", "all.counts", "--estimator", estimator, *size, "--out", "m.rgm")
    scores = [strict(line)["log_ratio"] for line in run("score", "m.rgm", "asked.txt", "--json").splitlines()]
    assert len(scores) == 4
    documented = {"mle": {"inf", "-inf", "nan"}, "direct": {"-inf"}}.get(estimator, set())
    assert {score for score in scores if isinstance(score, str)} == documented
    assert all(math.isfinite(score) for score in scores if not isinstance(score, str))
    for ngram in ("a b", "c d", "g h"):
        strict(run("explain", "m.rgm", ngram, "--json"))
    for path in ("all.counts", "m.rgm"):
        assert strict(run("info", path, "--json"))


@pytest.mark.parametrize("kind", ["words", "letters"])
def test_threads_spilling_and_a_second_run_change_no_byte(tmp_path, kind):
    rng = np.random.default_rng(1)
    words = [f"w{number}" for number in range(300)]
    documents = [
        {"items": [words[k] for k in rng.zipf(1.5, 80) % 300] if kind == "words" else list("abcdefgh" * 10),
         "spans": [(int(k), int(k) + 1, "LOC" if k % 3 else "PER") for k in rng.integers(0, 79, 6)]}
        for _ in range(200)
    ]  # fmt: skip
    options = {"n": 4, "spans": ["suffixes:4", "shapes:3", "whole"], "kind": kind}
    ways = [{"threads": 1}, {"threads": 2}, {"threads": 8}, {"threads": 8}, {"threads": 3, "memory_limit": 1}]
    files = set()
    for way in ways:
        rg.count(documents, **options, **way, batch_bytes=2000).save(tmp_path / "again.counts")
        files.add((tmp_path / "again.counts").read_bytes())
    assert len(files) == 1


class Store(RuleBasedStateMachine):
    """A folder of count files beside the contexts that each of them stands for, added up by hand.

    Whatever is counted, merged, taken away, saved and loaded, in any order: a file holds exactly what counting its
    contexts anew would give, and what was never there cannot be taken away.
    """

    files = Bundle("files")
    SPANS = ("units", "suffixes:2", "whole")

    def __init__(self):
        super().__init__()
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = Path(self.temporary.name)
        self.made = 0

    def teardown(self):
        self.temporary.cleanup()

    def keep(self, counts, contexts):
        self.made += 1
        path = self.folder / f"{self.made}.counts"
        counts.save(path)
        return path, contexts

    def count_anew(self, contexts):
        rows = [(list(items), label) for (items, label), times in contexts.items() for _ in range(times)]
        return rg.Counts.from_contexts(
            [items for items, _ in rows], [label for _, label in rows], targets=["LOC", "PER"], spans=self.SPANS, n=2
        )

    @rule(target=files, rows=corpora(n=2, max_size=6))
    def count(self, rows):
        contexts = Counter((tuple(items), label) for items, label in zip(*rows, strict=True))
        return self.keep(self.count_anew(contexts), contexts)

    @rule(target=files, one=files, other=files)
    def merge(self, one, other):
        merged = rg.Counts.load(one[0]) + rg.Counts.load(other[0])
        assert merged == rg.Counts.load(other[0]) + rg.Counts.load(one[0])
        return self.keep(merged, one[1] + other[1])

    @rule(target=files, one=files, other=files, third=files)
    def merge_and_take_away(self, one, other, third):
        """In whatever order the tables are taken, as long as nothing goes below zero on the way."""
        a, b, c = (rg.Counts.load(file[0]) for file in (one, other, third))
        merged = a + b + c
        assert merged == c + (b + a)
        assert merged - b - c == merged - (c + b) == a
        return self.keep(merged - b, one[1] + third[1])

    @rule(one=files, other=files)
    def take_away_what_may_not_be_there(self, one, other):
        a, b = (rg.Counts.load(file[0]) for file in (one, other))
        if other[1] <= one[1]:
            assert a - b == self.count_anew(one[1] - other[1]) if one[1] != other[1] else (a - b).num_rows == 0
            return
        try:
            difference = a - b
        except InputError as error:
            assert "cannot subtract what was never added" in str(error)  # noqa: PT017 - one of two right answers
        else:  # contexts of the same spans cannot be told apart from the table alone; what is left must add up again
            assert difference + b == a

    @rule(file=files)
    def rewrite(self, file):
        counts = rg.Counts.load(file[0])
        before = file[0].read_bytes()
        counts.save(file[0])
        assert file[0].read_bytes() == before

    @rule(file=files)
    def compare_with_counting_anew(self, file):
        path, contexts = file
        if contexts:
            again = self.count_anew(contexts)
            assert rg.Counts.load(path) == again
            assert rg.Counts.load(path).digest() == again.digest()

    @invariant()
    def nothing_but_whole_files(self):
        assert all(path.suffix == ".counts" for path in self.folder.iterdir())


Store.TestCase.settings = settings(max_examples=min(40, settings.default.max_examples), stateful_step_count=15)
Store.TestCase.pytestmark = [pytest.mark.property]
TestStore = Store.TestCase
