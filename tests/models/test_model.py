"""The fitted model against outside oracles, a literal implementation and the truth."""

from __future__ import annotations

import math
import re
from dataclasses import fields, replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view
from sklearn.naive_bayes import BernoulliNB
from sklearn.preprocessing import OneHotEncoder

import raregram as rg
from conftest import corpora
from raregram.counts import storage
from raregram.counts.storage import SpanRows, SpanTable
from raregram.errors import FileError, InputError, ParameterError
from raregram.measure.synthetic import SyntheticCorpus
from raregram.models import ratios, selection
from raregram.models.base import COLUMNS
from raregram.models.registry import ESTIMATORS
from raregram.options import DENOMINATOR, UNSEEN
from raregram.text import shapes

SPANS = ["units", "suffixes:2", "whole"]


def count(corpus, **options):
    return rg.Counts.from_contexts(*corpus, targets=["LOC", "PER"], spans=SPANS, **options)


def fit_or_skip(counts, target="LOC", **options):
    assume(0 < counts.sizes(target)[0] < counts.totals[0])
    return rg.fit(counts, target, **options)


FITS = st.fixed_dictionaries(
    {},
    optional={
        "estimator": st.sampled_from([name for name in ESTIMATORS if name != "backoff"]),  # it has tests of its own
        "criterion": st.sampled_from(selection.CRITERIA),
        "size": st.integers(1, 4),
        "lam": st.sampled_from([0, 1e-5, 0.1]),
        "denominator": st.sampled_from(DENOMINATOR.choices),
        "unseen": st.sampled_from(UNSEEN.choices),
        "keep_seen": st.booleans(),
        "seed": st.integers(0, 3),
    },
)


def literal_terms(counts, items, *, target="LOC", estimator="selective", criterion="cet", size=10_000, lam=None,
                  denominator="complement", unseen="neutral", seed=0, keep_seen=False):  # fmt: skip
    """Score one N-gram the slow, obvious way."""
    column = counts.column(target)
    n_nu = int(counts.totals[column])
    n_de = int(counts.totals[0]) - (n_nu if denominator == "complement" else 0)
    names = counts.items.to_pylist()

    def table(span):
        part = counts.rows[span]
        rows = {}
        for key, values in zip(part.keys.tolist(), part.values.tolist(), strict=True):
            nu = values[column]
            rows[tuple(names[number] for number in key)] = (
                nu,
                values[0] - (nu if denominator == "complement" else 0),
            )
        return rows

    if estimator in ("mle", "direct", "smoothed"):
        f_nu, f_de = table(counts.whole).get(tuple(items), (0, 0))
        ratio = {
            "mle": lambda: ratios.mle(f_nu, n_nu, f_de, n_de),
            "direct": lambda: ratios.direct(f_nu, n_nu, f_de, n_de, 1e-5 if lam is None else lam),
            "smoothed": lambda: ratios.smoothed(
                f_nu, n_nu, f_de, n_de, 1 if lam is None else lam, len(table(counts.whole)) + 1
            ),
        }[estimator]
        return [float(ratios.log_on_grid(ratio()))]
    lam = 1e-5 if lam is None else lam
    terms = []
    for k, item in enumerate(items):
        seen = {key[0]: f for key, f in table((k, k + 1)).items()}
        theta = set(seen)
        if estimator == "selective":
            in_order = sorted(seen, key=str.encode)
            f_nu, f_de = ([seen[name][side] for name in in_order] for side in (0, 1))
            score = selection.scores(criterion, f_nu, f_de, n_nu, n_de, seed=(seed, k))
            best = sorted(range(len(seen)), key=lambda i: (-score[i], -sum(seen[in_order[i]]), in_order[i].encode()))
            theta = {in_order[i] for i in best[:size]}
        if item in theta or (item not in seen and unseen == "formula"):
            f_nu, f_de = seen.get(item, (0, 0))
            terms.append(float(ratios.log_on_grid(ratios.unit(f_nu, n_nu, f_de, n_de, lam))))
        else:
            terms.append(0.0)
    return terms


@given(corpora(n=3, min_size=3), FITS, st.lists(st.sampled_from(["a", "b", "zz", "never"]), min_size=3, max_size=3))
def test_every_estimator_agrees_with_a_literal_implementation(corpus, options, probe):
    counts = count(corpus)
    model = fit_or_skip(counts, **options)
    for items in [*corpus[0][:3], probe]:
        expected = literal_terms(counts, items, **options)
        np.testing.assert_array_equal(model.log_ratio([items]), [sum(expected)])
        np.testing.assert_array_equal([term.value for term in model.explain(items).terms], expected)


def test_product_without_ridge_is_bernoulli_naive_bayes(corpus, counts):
    """At lam = 0 the unit ratio of every (position, item) is BernoulliNB's class difference, for all of them."""
    contexts, labels = corpus
    rows = np.array([context.split() for context in contexts])
    encoder = OneHotEncoder().fit(rows)
    oracle = BernoulliNB(alpha=1).fit(encoder.transform(rows), np.array(labels) == "LOC")
    difference = oracle.feature_log_prob_[1] - oracle.feature_log_prob_[0]
    model = rg.fit(counts, "LOC", "product", lam=0)
    names = model.items.to_pylist()
    checked = 0
    for k, categories in enumerate(encoder.categories_):
        for item in categories:
            value = model.estimator.values[model.estimator.index[k, names.index(item)]]
            assert value == pytest.approx(difference[checked], abs=1e-12)
            checked += 1
    assert checked == len(difference) == sum(model.sizes)


@given(corpora(n=2, min_size=2), corpora(n=2), FITS)
def test_fitting_a_merged_table_is_fitting_the_whole(a, b, options):
    merged = fit_or_skip(count(a) + count(b), **options)
    whole = fit_or_skip(count((a[0] + b[0], a[1] + b[1])), **options)
    assert merged.settings == whole.settings
    assert merged.items.equals(whole.items)
    probes = a[0] + b[0] + [["never", "seen"]]
    np.testing.assert_array_equal(merged.log_ratio(probes), whole.log_ratio(probes))


@given(corpora(n=4, min_size=3), FITS, st.randoms())
def test_explanations_add_up_exactly_in_any_order(corpus, options, shuffler):
    model = fit_or_skip(count(corpus), **options)
    for items in [*corpus[0], ["never"] * 4]:
        explanation = model.explain(items)
        values = [term.value for term in explanation.terms]
        shuffler.shuffle(values)
        for total in (sum(values), math.fsum(v for v in values) if np.isfinite(values).all() else sum(values)):
            np.testing.assert_array_equal(total, explanation.log_ratio)
        np.testing.assert_array_equal(explanation.log_ratio, model.log_ratio([items])[0])
        assert [item for term in explanation.terms for item in term.items] == items


@given(corpora(n=2, min_size=4), FITS, st.randoms())
def test_ties_are_stable_under_permutation_of_the_input(corpus, options, shuffler):
    rows = list(zip(*corpus, strict=True))
    shuffler.shuffle(rows)
    shuffled = tuple(list(column) for column in zip(*rows, strict=True))
    one, other = fit_or_skip(count(corpus), **options), fit_or_skip(count(shuffled), **options)
    assert one.items.equals(other.items)
    for rows, other_rows in zip(one.estimator.rows(), other.estimator.rows(), strict=True):
        np.testing.assert_array_equal(rows.keys, other_rows.keys)
        np.testing.assert_array_equal(rows.values, other_rows.values)


@given(corpora(n=3, min_size=3), FITS)
def test_files_come_back_as_they_were(tmp_path_factory, corpus, options):
    model = fit_or_skip(count(corpus), **options)
    folder = tmp_path_factory.mktemp("model")
    model.save(folder / "a.rgm")
    loaded = rg.Model.load(folder / "a.rgm")
    loaded.save(folder / "b.rgm")
    assert loaded.settings == model.settings
    assert repr(loaded) == repr(model)
    assert (folder / "a.rgm").read_bytes() == (folder / "b.rgm").read_bytes()
    probes = [*corpus[0], ["never", "a", "b"]]
    np.testing.assert_array_equal(loaded.log_ratio(probes), model.log_ratio(probes))
    assert [loaded.explain(items) for items in probes[:3]] == [model.explain(items) for items in probes[:3]] or any(
        math.isnan(model.explain(items).log_ratio) for items in probes[:3]
    )


def test_every_form_of_input_gives_the_same_scores(model, corpus):
    contexts = corpus[0]
    expected = model.log_ratio(contexts)
    rows = [context.split() for context in contexts]
    np.testing.assert_array_equal(model.log_ratio(rows), expected)
    np.testing.assert_array_equal(model.log_ratio(np.array(rows)), expected)
    np.testing.assert_array_equal(model.log_ratio(iter(contexts)), expected)
    numbers = model.numbers(contexts)
    assert numbers.min() == -1  # some items are not selected anywhere
    for form in (numbers, numbers.astype(np.int64), np.asfortranarray(numbers), numbers[:3]):
        np.testing.assert_array_equal(model.log_ratio(form), expected[: len(form)])
    assert model.log_ratio(contexts[0]).tolist() == [expected[0]]
    assert model.log_ratio([]).shape == (0,)


def test_running_text_is_scored_through_a_window(model, corpus):
    items = " ".join(corpus[0]).split()
    numbers = model.numbers([items[i : i + 4] for i in range(0, len(items), 4)]).ravel()
    windows = [" ".join(items[i : i + 4]) for i in range(len(items) - 3)]
    np.testing.assert_array_equal(model.log_ratio(sliding_window_view(numbers, 4)), model.log_ratio(windows))


def test_few_and_many_contexts_take_different_paths_to_the_same_sums(model, corpus):
    numbers = np.tile(model.numbers(corpus[0]), (30, 1))
    many = model.log_ratio(numbers)
    few = np.concatenate([model.log_ratio(numbers[i : i + 3]) for i in range(0, len(numbers), 3)])
    np.testing.assert_array_equal(many, few)


def test_letters(tmp_path):
    counts = rg.Counts.from_contexts(["abc", "bcd", "äöü"], ["X", None, "X"], kind="letters")
    model = rg.fit(counts, "X", "product")
    assert counts.items.to_pylist() == ["a", "b", "c", "d", "ä", "ö", "ü"]
    assert [term.items for term in model.explain("äbc").terms] == [("ä",), ("b",), ("c",)]
    np.testing.assert_array_equal(model.log_ratio(["äbc"]), model.log_ratio([["ä", "b", "c"]]))


def test_unseen_item_is_neutral_or_follows_the_formula(counts):
    n_nu, n_de = counts.sizes("LOC")
    neutral = rg.fit(counts, "LOC", "product", lam=0)
    formula = rg.fit(counts, "LOC", "product", lam=0, unseen="formula")
    unseen = ["never"] * 4
    assert neutral.log_ratio([unseen])[0] == 0
    assert formula.log_ratio([unseen])[0] == pytest.approx(4 * math.log((n_de + 2) / (n_nu + 2)))
    assert neutral.lam0 == 1 / (n_nu + 2) - 1 / (n_de + 2)
    at_lam0 = rg.fit(counts, "LOC", "product", lam=neutral.lam0, unseen="formula")
    assert at_lam0.log_ratio([unseen])[0] == pytest.approx(0, abs=1e-12)


def test_explanations_tell_selected_from_seen_from_unknown(counts):
    compact, full = (rg.fit(counts, "LOC", size=1, lam=0, keep_seen=keep) for keep in (False, True))
    (best,) = compact.items.take(compact.estimator.index[3, :-1].nonzero()[0]).to_pylist()
    ngram = f"the of said {best}"
    np.testing.assert_array_equal(compact.log_ratio([ngram]), full.log_ratio([ngram]))
    first, *_, last = compact.explain(ngram).terms
    assert (first.selected, first.f_nu, first.value) == (False, None, 0.0)
    assert last.selected
    f_nu, f_de = counts.frequencies((0, 1), "LOC")
    at = counts.rows[0, 1].keys[:, 0].tolist().index(counts.items.to_pylist().index("the"))
    seen = full.explain(ngram).terms[0]
    assert (seen.selected, seen.f_nu, seen.f_de, seen.value) == (False, f_nu[at], f_de[at], 0.0)
    unseen = full.explain("never of said in").terms[0]
    assert (unseen.selected, unseen.f_nu, unseen.f_de) == (False, 0, 0)


def test_known_ratios_come_back_from_a_synthetic_corpus():
    source = SyntheticCorpus.make(items=300, n=3, seed=5)
    contexts, at_target = source.sample(100_000, 400_000, seed=6)
    labels = np.where(at_target, "T", "")
    counts = rg.Counts.from_contexts(source.words[contexts], labels)
    probes, _ = source.sample(0, 2000, seed=7)
    truth = source.log_ratio(probes)
    found = rg.fit(counts, "T", "product", lam=0).log_ratio(source.words[probes])
    assert np.abs(found - truth).mean() < 0.1
    assert np.corrcoef(found, truth)[0, 1] > 0.98
    selected = rg.fit(counts, "T", "selective", criterion="cet", size=60, lam=0).log_ratio(source.words[probes])
    assert np.corrcoef(selected, truth)[0, 1] > 0.9


def test_the_paper_s_setting_with_two_samples():
    """Without labels: one sample against another, f_de counting the second alone."""
    counts = rg.Counts.from_ngrams(["a b", "a c", "d b"], [4, 1, 0], [1, 1, 3])
    model = rg.fit(counts, estimator="mle")
    np.testing.assert_allclose(np.exp(model.log_ratio(["a b", "a c", "d b"])), [4, 1, 0])


def test_repr_and_size_in_memory(model):
    assert repr(model).startswith("Model('LOC': selective cet 6, lam 1e-05, n=4 left words, n_nu=")
    assert model.nbytes < 10_000
    assert model.sizes == (6, 6, 6, 6)


def test_scores_do_not_depend_on_the_machine_s_threads(model, corpus):
    threads = pa.cpu_count()
    try:
        pa.set_cpu_count(1)
        alone = model.log_ratio(corpus[0] * 200)
    finally:
        pa.set_cpu_count(threads)
    np.testing.assert_array_equal(alone, model.log_ratio(corpus[0] * 200))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"estimator": "best"},
            "estimator parameter of fit must be one of 'mle', 'direct', 'smoothed', 'product'",
        ),
        ({"criterion": "mi"}, "criterion parameter of fit must be one of 'random', 'tf', 'cet'.*Got 'mi'"),
        ({"size": 0}, "size parameter of fit must be a whole number >= 1. Got 0"),
        ({"lam": -1}, "lam parameter of fit must be a finite number >= 0. Got -1"),
        ({"lam": math.inf}, "lam parameter of fit .* Got inf"),
        ({"seed": -1}, "seed parameter of fit must be a whole number >= 0"),
        ({"unseen": "zero"}, "unseen parameter of fit must be one of 'neutral', 'formula'"),
        ({"denominator": "rest"}, "must be one of 'complement', 'all'. Got 'rest'"),
        ({"target": "ORG"}, "must be one of 'LOC', 'PER'. Got 'ORG'"),
        ({"target": None}, "choose a target: the table has LOC, PER"),
    ],
)
def test_wrong_calls_are_named(counts, options, message):
    with pytest.raises(ParameterError, match=message):
        rg.fit(counts, **{"target": "LOC", **options})


def test_a_target_that_never_occurs_is_refused():
    counts = rg.Counts.from_contexts(["a b"], ["LOC"], targets=["LOC", "PER"])
    with pytest.raises(InputError, match="target 'PER' never occurs"):
        rg.fit(counts, "PER")
    with pytest.raises(InputError, match="every context belongs to 'LOC'"):
        rg.fit(counts, "LOC")
    with pytest.raises(InputError, match="no context of these counts has a label"):
        rg.fit(rg.Counts.from_contexts(["a b"], [None]))


def test_whole_ngrams_must_have_been_counted():
    counts = rg.Counts.from_contexts(["a b", "c d"], ["LOC", None])
    with pytest.raises(ParameterError, match="'direct' needs whole N-grams, and this table counts none"):
        rg.fit(counts, "LOC", "direct")


@pytest.mark.parametrize(
    ("ngrams", "message"),
    [
        (["a b c d", "a b c"], "N-gram 2 has 3 words, expected 4"),
        (["a b c d"] * 70_000 + ["a"], "N-gram 70001 has 1 words, expected 4"),
        (np.zeros((2, 3), int), r"item numbers must have the shape \(N-grams, 4\), got \(2, 3\)"),
        (np.zeros(4, int), r"got \(4,\)"),
        (np.full((1, 4), 10_000), "item numbers must be from -1 to"),
        (np.full((1, 4), -2), "item numbers must be from -1 to"),
    ],
)
def test_bad_ngrams_are_named(model, ngrams, message):
    with pytest.raises(InputError, match=message):
        model.log_ratio(ngrams)


def test_an_option_offers_what_the_library_has():
    from typing import get_args

    from raregram import options
    from raregram.corpus.formats import CONTEXTS, FORMATS

    assert get_args(options.EstimatorName) == tuple(ESTIMATORS)
    assert get_args(options.Criterion) == selection.CRITERIA
    assert get_args(options.Format) == (*FORMATS, CONTEXTS)


def test_numbers_of_numpy_are_numbers(counts, tmp_path):
    model = rg.fit(counts, "LOC", size=np.int64(3), lam=np.float32(0.5), seed=np.int32(1))
    model.save(tmp_path / "m.rgm")
    assert rg.Model.load(tmp_path / "m.rgm").settings == model.settings
    counts.drop_rare(np.int64(2)).save(tmp_path / "c")


@pytest.fixture(scope="module")
def backed_off(corpus):
    contexts, labels = corpus
    counts = rg.Counts.from_contexts(contexts, labels, spans=["suffixes:3", "shapes:2"])
    return rg.fit(counts, "LOC", "backoff", size=10**6)


WRONG_SETTINGS = [
    ("side", "up", "one of 'left', 'right'"),
    ("kind", "lines", "one of 'words', 'letters'"),
    ("denominator", "rest", "one of 'complement', 'all'"),
    ("lam", -1e-9, "a finite number >= 0"),
    ("criterion", "mi", "one of 'random', 'tf', 'cet'"),
    ("size", 0, "a whole number >= 1"),
    ("n", 0, "a whole number >= 1"),
    ("n", 1001, "a whole number <= 1000"),
    ("n_nu", -1, "a whole number >= 0"),
    ("n_nu", 2**53 + 1, f"a whole number <= {2**53}"),
    ("n_de", -1, "a whole number >= 0"),
    ("n_de", 2**53 + 1, f"a whole number <= {2**53}"),
    ("target", None, "a string"),
    ("corpus", 5, "a string"),
]
WRONG_FOR_SELECTIVE = [
    ("unseen", "zero", "one of 'neutral', 'formula'"),
    ("criterion", "gain", "one of 'random', 'tf', 'cet'"),
    ("size", None, "a whole number >= 1"),
    ("seed", -1, "a whole number >= 0"),
]
WRONG_FOR_BACKOFF = [
    ("shape", 5, "a string"),
    ("lam", 0, "from 1e-30 to 1e+30 for the back-off estimator"),
    ("unit_lam", 0.0, "from 1e-30 to 1e+30 for the back-off estimator"),
    ("unit_lam", None, "a finite number >= 0"),
    ("tau", -0.01, "a number from 0 to 1"),
    ("tau", 1.01, "a number from 0 to 1"),
    ("tau", "1", "a number from 0 to 1"),
    ("max_bytes", 0, "a whole number >= 1"),
    ("longest", -1, "a whole number >= 0"),
    ("longest", 5, "a whole number <= 4"),
    ("longest_shapes", None, "a whole number >= 0"),
    ("longest_shapes", 5, "a whole number <= 4"),
]


def changed(model, **changes):
    """Return the settings of a model with other values, of which some are parameters of the estimator."""
    names = {field.name for field in fields(model.params)}
    params = replace(model.params, **{name: value for name, value in changes.items() if name in names})
    return replace(
        model.settings, params=params, **{name: value for name, value in changes.items() if name not in names}
    )


@pytest.mark.parametrize(("name", "value", "requirement"), WRONG_SETTINGS)
def test_wrong_settings_are_named_for_every_estimator(model, backed_off, name, value, requirement):
    message = re.escape(f"The {name} parameter of fit must be {requirement}") + f".*Got {value!r} instead"
    for some in (model, backed_off):
        with pytest.raises(ParameterError, match=message.replace("'random'", "(?:'gain', )?'random'")):
            changed(some, **{name: value})


@pytest.mark.parametrize(("name", "value", "requirement"), WRONG_FOR_SELECTIVE)
def test_wrong_settings_of_a_selection_are_named(model, name, value, requirement):
    message = re.escape(f"The {name} parameter of fit must be {requirement}") + f".*Got {value!r} instead"
    with pytest.raises(ParameterError, match=message):
        changed(model, **{name: value})


@pytest.mark.parametrize(("name", "value", "requirement"), WRONG_FOR_BACKOFF)
def test_wrong_settings_of_a_back_off_are_named(backed_off, name, value, requirement):
    with pytest.raises(
        ParameterError, match=re.escape(f"The {name} parameter of fit must be {requirement}. Got {value!r}")
    ):
        changed(backed_off, **{name: value})


def test_settings_at_the_ends_of_their_ranges_are_right(model, backed_off):
    least = {"lam": 0, "size": 1, "seed": 0, "n": 1, "n_nu": 0, "n_de": 0}
    assert changed(model, **least).header().items() >= least.items()
    most = {"n": 1000, "n_nu": 2**53, "n_de": 2**53, "corpus": "a digest"}
    assert changed(model, **most).header().items() >= most.items()
    assert changed(backed_off, longest=0, longest_shapes=0).params.longest == 0
    assert changed(backed_off, longest=4, longest_shapes=4).params.longest == 4
    for change in ({"tau": 0}, {"tau": 1}, {"size": None}, {"size": 1}, {"max_bytes": 1}, {"criterion": "tf"}):
        assert changed(backed_off, **change) != backed_off.settings


def test_settings_are_plain_numbers_whatever_they_were_given_as(model, backed_off):
    plain = replace(model.params, lam=np.float32(0.5), size=np.int64(3), seed=np.int8(2))
    assert [type(value) for value in (plain.lam, plain.size, plain.seed)] == [float, int, int]
    numbers = {"unit_lam": np.float32(0.5), "tau": 1, "max_bytes": np.int64(10**6)}
    plain = replace(backed_off.params, **numbers)
    assert [type(getattr(plain, name)) for name in numbers] == [float, float, int]
    assert (plain.unit_lam, plain.tau, plain.max_bytes) == (0.5, 1.0, 10**6)


def test_an_estimator_says_its_settings(counts, backed_off):
    assert str(rg.fit(counts, "LOC", "mle").settings) == "mle"
    assert str(rg.fit(counts, "LOC", "direct", lam=0.25).settings) == "direct, lam 0.25"
    selective = rg.fit(counts, "LOC", "selective", criterion="gss", size=12_000, lam=1e-4)
    assert str(selective.settings) == "selective gss 12,000, lam 0.0001"
    assert str(changed(backed_off, lam=0.02, tau=0.5)) == "backoff gain 1,000,000, lam 0.02, tau 0.5"
    assert str(changed(backed_off, lam=0.02, tau=0.5, size=None)) == "backoff, lam 0.02, tau 0.5"


def test_spans_of_each_estimator(counts, backed_off):
    units = [(0, 1), (1, 2), (2, 3), (3, 4)]
    models = {name: rg.fit(counts, "LOC", name) for name in ESTIMATORS if name != "backoff"}
    spans = {name: [rows.span for rows in model.estimator.rows()] for name, model in models.items()}
    assert spans == {"mle": [(0, 4)], "direct": [(0, 4)], "smoothed": [(0, 4)], "product": units, "selective": units}
    assert {(0, 1), (3, 4), (2, 4), (1, 4), (6, 8)} <= {rows.span for rows in backed_off.estimator.rows()}
    assert (0, 4) not in backed_off.estimator.required_spans(backed_off.settings)


def test_repr_says_the_model_in_a_line(counts):
    model = rg.fit(counts, "LOC", "direct", lam=0.25)
    n_nu, n_de = counts.sizes("LOC")
    size = f"{model.nbytes / 1e6:.2f} MB"
    assert (
        repr(model) == f"Model('LOC': direct, lam 0.25, n=4 left words, n_nu={n_nu}, n_de={n_de}, 20 items, {size})"
    )


def test_size_in_memory_is_that_of_all_tables(counts):
    model = rg.fit(counts, "LOC", "product")
    index, distinct = model.estimator.index, len(model.estimator.frequencies.f_nu)
    assert index.nbytes == 4 * (20 + 1) * index.itemsize  # a position, and an item or another
    # Distinct ones are two frequencies of 4 bytes, a flag, and a log ratio of 8.
    assert model.nbytes == model.items.nbytes + index.nbytes + distinct * (4 + 4 + 1 + 8)


def test_sizes_count_what_is_selected_and_not_what_is_seen(counts):
    assert rg.fit(counts, "LOC", size=6, keep_seen=True).sizes == (6, 6, 6, 6)
    assert rg.fit(counts, "LOC", "product").sizes == (20, 20, 20, 20)
    assert rg.fit(counts, "LOC", "mle").sizes == (len(counts.rows[0, 4]),)


@pytest.mark.parametrize("estimator", ["selective", "mle", "backoff"])
def test_item_numbers_reach_from_minus_one_to_the_last_item(counts, backed_off, estimator):
    model = backed_off if estimator == "backoff" else rg.fit(counts, "LOC", estimator, size=3)
    last = model.estimator.num_codes - 1
    assert (last >= len(model.items)) == (estimator == "backoff")  # codes for shapes, and for the rest
    at_the_ends = model.log_ratio(np.array([[-1] * 4, [last] * 4, [0] * 4]))
    assert at_the_ends.shape == (3,)
    for wrong in (-2, last + 1):
        with pytest.raises(InputError, match=f"item numbers must be from -1 to {last}"):
            model.log_ratio(np.array([[0, 0, 0, wrong]]))
    assert model.log_ratio(np.empty((0, 4), int)).shape == (0,)
    with pytest.raises(InputError, match=r"item numbers must have the shape \(N-grams, 4\), got \(1, 4, 1\)"):
        model.log_ratio(np.zeros((1, 4, 1), int))


def test_no_ngrams_have_no_numbers(model, backed_off):
    for some in (model, backed_off):
        numbers = some.numbers([])
        assert (numbers.shape, numbers.dtype) == ((0, 4), np.int32)
        np.testing.assert_array_equal(some.numbers("the a in at"), some.numbers(["the a in at"]))


@pytest.mark.parametrize("side", ["left", "right"])
def test_rows_of_a_count_table_have_the_numbers_of_their_texts(side):
    """With items that the model has never met, which have a shape next to the boundary and another further away."""
    contexts = ["announced Monday reported", "reported in Rome", "in Rome announced", "Monday in announced"]
    spans = ["suffixes:2", "shapes:3", "whole"]
    counts = rg.Counts.from_contexts(contexts * 5, ["LOC", None, "LOC", None] * 5, spans=spans, side=side)
    others = [
        "claimed Friday in",
        "in Friday claimed",
        "Oslo claimed claimed",
        "claimed in Oslo",
        "in Rome announced",
    ]
    documents = rg.Counts.from_contexts(others, [None] * 5, targets=["LOC"], spans=["whole"], side=side)
    texts = documents.whole_ngrams().texts("words").to_pylist()
    for estimator in ESTIMATORS:
        model = rg.fit(counts, "LOC", estimator)
        numbers = model.number_rows(documents.items, documents.rows[documents.whole].keys)
        np.testing.assert_array_equal(model.log_ratio(numbers), model.log_ratio(texts))
        assert (numbers.min() == -1) == (estimator != "backoff")  # it knows the shapes of all


def test_texts_are_encoded_as_their_items_are(model, corpus, monkeypatch):
    """Also where some are unknown to the model."""
    contexts = [context.replace("bank", "Unheard") for context in corpus[0]]
    of_items = model.numbers([context.split() for context in contexts])
    monkeypatch.setattr(rg.Model, "parse", None)  # one by one they would fail
    np.testing.assert_array_equal(model.numbers(contexts), of_items)


def test_ngrams_come_in_any_container(model):
    ngrams = ["the a in at", "a at in the"]
    expected = model.log_ratio(ngrams).tolist()
    assert model.log_ratio(np.array(ngrams)).tolist() == model.log_ratio(pa.array(ngrams)).tolist() == expected
    assert (
        model.log_ratio(iter(ngrams)).tolist() == model.log_ratio(dict.fromkeys(ngrams).keys()).tolist() == expected
    )
    assert model.log_ratio(set(ngrams)).tolist() in (expected, expected[::-1])


def test_a_bad_ngram_is_named_by_its_row_in_the_whole_input(model):
    with pytest.raises(InputError, match="N-gram 70001 has 5 words, expected 4"):
        model.numbers(["a b c d"] * 70_000 + ["a b c d e"])
    with pytest.raises(InputError, match="the N-gram has 1 words, expected 4"):
        model.explain("a")


def test_whole_ngrams_are_explained_by_one_term(counts, corpus):
    model = rg.fit(counts, "LOC", "direct", lam=0.25)
    (term,) = model.explain(corpus[0][0]).terms
    total, at_target = corpus[0].count(corpus[0][0]), 0
    at_target = sum(pair == (corpus[0][0], "LOC") for pair in zip(*corpus, strict=True))
    assert (term.start, term.end, term.f_nu, term.f_de) == (0, 4, at_target, total - at_target)
    unseen = model.explain("never was here at")
    assert (unseen.terms[0].f_nu, unseen.terms[0].f_de, unseen.log_ratio) == (0, 0, -math.inf)
    assert unseen.ngram == ("never", "was", "here", "at")
    assert (unseen.target, unseen.model) == ("LOC", "direct, lam 0.25")


def test_a_back_off_explains_its_steps_by_hand():
    """Three contexts, of which the last item and the pair were seen; everything else backs off to its shape."""
    counts = rg.Counts.from_contexts(
        ["Ann in", "Bob in", "it said"], ["T", None, None], spans=["suffixes:2", "shapes:2"]
    )
    model = rg.fit(counts, "T", "backoff", size=10**6)
    explanation = model.explain("Ann in")
    steps = [(term.kind, term.start, term.end, term.items, term.f_nu, term.f_de) for term in explanation.terms]
    assert steps == [
        ("item", 0, 1, ("Ann",), 1, 0),
        ("item", 1, 2, ("in",), 1, 1),
        ("shapes", 1, 2, ("in",), 1, 1),
        ("shapes", 0, 2, ("~Aa", "in"), 1, 1),
        ("items", 1, 2, ("in",), 1, 1),
        ("items", 0, 2, ("Ann", "in"), 1, 0),
    ]
    assert [term.prior is None for term in explanation.terms] == [True, True, False, False, False, False]
    assert all(term.selected for ngram in ("Ann in", "Bob in", "it said") for term in model.explain(ngram).terms)
    assert explanation.interval == tuple(model.interval(["Ann in"])[0])
    assert explanation.log_ratio == model.log_ratio(["Ann in"])[0]
    assert (explanation.target, explanation.model, explanation.ngram) == ("T", str(model.settings), ("Ann", "in"))
    elsewhere = model.explain("in Zoe").terms
    # "in" was seen, but not here; "Zoe" never, and no capitalised word at this place.
    found = [(term.kind, term.items, term.f_nu, term.f_de, term.selected) for term in elsewhere]
    assert found == [("anywhere", ("in",), 1, 1, True), ("none", ("Zoe",), None, None, False)]
    shaped = model.explain("Zoe in").terms[0]
    assert (shaped.kind, shaped.start, shaped.end, shaped.items, shaped.f_nu, shaped.f_de) == (
        "shape", 0, 1, ("~Aa",), 1, 1,
    )  # fmt: skip


@pytest.mark.parametrize(("side", "shapes_"), [("left", ("~a", "~ed")), ("right", ("~ed", "~a"))])
def test_a_back_off_names_shapes_as_they_are_at_their_place(side, shapes_):
    contexts, labels = ["announced reported", "claimed stated", "it said"], ["T", None, None]
    counts = rg.Counts.from_contexts(contexts, labels, spans=["suffixes:2", "shapes:2"], side=side)
    terms = rg.fit(counts, "T", "backoff", size=10**6).explain("named voted").terms
    nearest = shapes_[-1:] if side == "left" else shapes_[:1]
    assert [term.items for term in terms] == [shapes_[:1], shapes_[1:], nearest, shapes_]


def test_frequencies_of_what_is_selected_are_known_and_no_others(counts):
    model = rg.fit(counts, "LOC", size=3)
    terms = [term for item in counts.items.to_pylist() for term in model.explain([item] * 4).terms]
    assert sum(term.selected for term in terms) == 4 * 3
    assert [term.f_nu is not None for term in terms] == [term.selected for term in terms]
    assert [term.f_de is not None for term in terms] == [term.selected for term in terms]


def test_wrong_calls_of_interval_are_named(model, counts):
    for level in (0, 1.5, "0.9"):
        message = f"^The level parameter of interval must be a number between 0 and 1. Got {level!r} instead.$"
        with pytest.raises(ParameterError, match=message):
            model.interval(["the a in at"], level)
    message = "'mle' has no interval: an N-gram never seen would have none. Fit 'backoff', 'product' or 'selective'$"
    with pytest.raises(ParameterError, match=f"^the estimator {message}"):
        rg.fit(counts, "LOC", "mle").interval(["the a in at"])


def test_the_interval_knows_what_was_left_out_on_purpose(counts):
    """What was not selected has the factor 1 for sure; what was never seen has not, if all that was seen is known."""
    compact, full = (rg.fit(counts, "LOC", size=1, keep_seen=keep) for keep in (False, True))
    plain = full.explain("the the the the").terms
    assert not any(term.selected for term in plain)
    assert np.diff(full.interval(["the the the the"]))[0, 0] == 0
    assert np.diff(compact.interval(["the the the the"]))[0, 0] == 0
    assert np.diff(compact.interval(["never the the the"]))[0, 0] == 0
    assert np.diff(full.interval(["never the the the"]))[0, 0] > 0


def test_a_missing_shape_function_is_named_when_a_model_is_loaded(backed_off, tmp_path, monkeypatch):
    monkeypatch.setitem(shapes.SHAPES, "mine", shapes.SHAPES["words"])
    counts = rg.Counts.from_contexts(["a b", "c d"], ["T", None], spans=["shapes:2"], shape="mine")
    rg.fit(counts, "T", "backoff").save(tmp_path / "m")
    assert rg.Model.load(tmp_path / "m").params.shape == "mine"
    monkeypatch.delitem(shapes.SHAPES, "mine")
    with pytest.raises(ParameterError, match=f"{tmp_path / 'm'}: .*'mine'"):
        rg.Model.load(tmp_path / "m")


def forge(model, path, parts=None, **changes):
    """Write a model file with other settings or rows, whose digest fits."""
    held = {rows.span: rows for rows in model.estimator.rows()}
    header = model.settings.header() | changes
    parts = tuple((held | (parts or {})).values())
    storage.write(path, SpanTable("model", header, COLUMNS, model.estimator.vocabulary, parts))


def test_a_model_file_with_one_fault_is_refused_by_name(counts, tmp_path):
    model = rg.fit(counts, "LOC", "product")
    path = tmp_path / "forged.rgm"
    forge(model, path)
    assert rg.Model.load(path).settings == model.settings  # nothing else is wrong with it
    n_nu, n_de = counts.sizes("LOC")
    keys = np.zeros((1, 1), np.int32)
    faults = [
        {"n_nu": 1},
        {"n_de": 1},
        {"parts": {(0, 1): SpanRows((0, 1), keys, np.array([[n_nu + 1, 0, 1]]))}},
        {"parts": {(3, 4): SpanRows((3, 4), keys, np.array([[0, n_de + 1, 1]]))}},
        {"parts": {(0, 1): SpanRows((0, 1), keys, np.array([[0, 0, 2]]))}},
        {"parts": {(0, 4): SpanRows((0, 4), np.zeros((1, 4), np.int32), np.array([[1, 1, 1]]))}},
        {"estimator": "direct"},
        {"estimator": "best"},
        {"strange": 1},
    ]
    for fault in faults:
        forge(model, path, **fault)
        with pytest.raises(FileError, match=r"forged\.rgm is not a raregram file, or it is truncated or damaged"):
            rg.Model.load(path)
    forge(model, path, {(0, 1): SpanRows((0, 1), keys, np.array([[n_nu, n_de, 1]]))})
    assert rg.Model.load(path).sizes == (1, 20, 20, 20)


def test_an_item_at_every_position_is_seen_more_often_than_there_are_contexts(tmp_path):
    counts = rg.Counts.from_contexts(["a a a", "a a a", "b b a"], ["T", None, None], spans=["suffixes:2", "shapes:2"])
    model = rg.fit(counts, "T", "backoff", size=10**6)
    model.save(tmp_path / "m")
    loaded = rg.Model.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.log_ratio(["a a a", "c a b"]), model.log_ratio(["a a a", "c a b"]))
    shape = SpanRows((3, 4), np.zeros((1, 1), np.int32), np.array([[2, 1, 1]]))  # at one position, so once at most
    for fault in ({"n_de": 1}, {"parts": {(3, 4): shape}}):
        forge(model, tmp_path / "m", **fault)
        with pytest.raises(FileError, match="truncated or damaged"):
            rg.Model.load(tmp_path / "m")
