"""The fitted model against outside oracles, a literal implementation and the truth."""

from __future__ import annotations

import math
import re
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.naive_bayes import BernoulliNB
from sklearn.preprocessing import OneHotEncoder
from test_contracts import FITS

import raregram as rg
from conftest import corpora
from raregram.counts import storage
from raregram.counts.spans import Span, unit_spans
from raregram.counts.storage import SpanTable
from raregram.errors import ParameterError
from raregram.measure.synthetic import SyntheticCorpus
from raregram.models import ratios, selection
from raregram.models.base import COLUMNS
from raregram.models.registry import ESTIMATORS
from raregram.text import shapes


def literal_terms(counts, items, *, target="LOC", estimator="selective", criterion="cet", size=10_000, lam=None,
                  denominator="complement", unseen="neutral", seed=0):  # fmt: skip
    """Score one N-gram the slow, obvious way."""
    column = counts.column(target)
    n_nu = int(counts.totals[column])
    n_de = int(counts.totals[0]) - (n_nu if denominator == "complement" else 0)
    neutral = max(1 / (n_nu + 2) - 1 / (n_de + 2), 0)
    names = counts.items.to_pylist()

    def table(span):
        part = counts.rows[span]
        nu, de = part.values[:, column], part.values[:, 0] - part.values[:, column] * (denominator == "complement")
        keys = [tuple(names[code] for code in key) for key in part.keys.tolist()]
        return dict(zip(keys, zip(nu.tolist(), de.tolist(), strict=True), strict=True))

    if estimator in ("mle", "direct", "smoothed"):
        f_nu, f_de = table(counts.whole).get(tuple(items), (0, 0))
        ratio = {
            "mle": lambda: ratios.mle(f_nu, n_nu, f_de, n_de),
            "direct": lambda: ratios.direct(f_nu, n_nu, f_de, n_de, max(neutral, 1 / n_de) if lam is None else lam),
            "smoothed": lambda: ratios.smoothed(
                f_nu, n_nu, f_de, n_de, 1 if lam is None else lam, len(table(counts.whole)) + 1
            ),
        }[estimator]
        return [float(ratios.log_on_grid(ratio()))]
    lam = neutral if lam is None else lam
    terms = []
    for k, item in enumerate(items):
        seen = {key[0]: f for key, f in table(unit_spans(4)[k]).items()}
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


@pytest.mark.parametrize("estimator", [name for name in ESTIMATORS if name != "backoff"])  # it has one of its own
@given(corpora(n=3, min_size=3), st.data())
def test_every_estimator_agrees_with_a_literal_implementation(estimator, corpus, data):
    counts = rg.Counts.from_contexts(*corpus, targets=["LOC", "PER"], spans=["suffixes:2", "whole"])
    assume(0 < counts.sizes("LOC")[0] < counts.totals[0])
    options = {"estimator": estimator, **data.draw(st.fixed_dictionaries({}, optional=FITS[estimator]))}
    model = rg.fit(counts, "LOC", **options)
    probe = data.draw(st.lists(st.sampled_from(["a", "b", "zz", "never"]), min_size=3, max_size=3))
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
    compact, full = (
        rg.fit(counts, "LOC", "selective", size=1, lam=0, unseen=unseen) for unseen in ("neutral", "formula")
    )
    (best,) = compact.items.take(compact.estimator.index[3, :-1].nonzero()[0]).to_pylist()
    ngram = f"the of said {best}"
    np.testing.assert_array_equal(compact.log_ratio([ngram]), full.log_ratio([ngram]))
    first, *_, last = compact.explain(ngram).terms
    assert (first.selected, first.f_nu, first.value) == (False, None, 0.0)
    assert last.selected
    f_nu, f_de = counts.frequencies(Span("item", 0, 1), "LOC")
    at = counts.rows["item", 0, 1].keys[:, 0].tolist().index(counts.items.to_pylist().index("the"))
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"estimator": "best"},
            "estimator parameter of fit must be one of 'mle', 'direct', 'smoothed', 'product'",
        ),
        (
            {"criterion": "gain", "estimator": "selective"},
            "criterion parameter of fit must be one of 'random', 'tf', 'cet'.*Got 'gain'",
        ),
        ({"lam": math.inf}, "lam parameter of fit .* Got inf"),
        ({"denominator": "rest"}, "must be one of 'complement', 'all'. Got 'rest'"),
        ({"target": "ORG"}, "must be one of 'LOC', 'PER'. Got 'ORG'"),
        ({"target": None}, "choose a target: the table has LOC, PER"),
    ],
)
def test_wrong_calls_are_named(counts, options, message):
    with pytest.raises(ParameterError, match=message):
        rg.fit(counts, **{"target": "LOC", **options})


def test_whole_ngrams_must_have_been_counted():
    counts = rg.Counts.from_contexts(["a b", "c d"], ["LOC", None], spans=["units"])
    with pytest.raises(ParameterError, match="'direct' needs whole N-grams, and this table counts none"):
        rg.fit(counts, "LOC", "direct")


def test_an_option_offers_what_the_library_has():
    from typing import get_args

    from raregram import options
    from raregram.corpus.formats import CONTEXTS, FORMATS

    assert get_args(options.EstimatorName) == tuple(ESTIMATORS)
    assert get_args(options.Criterion) == selection.CRITERIA
    assert get_args(options.Format) == (*FORMATS, CONTEXTS)


def test_numbers_of_numpy_are_numbers(counts, tmp_path):
    model = rg.fit(counts, "LOC", "selective", size=np.int64(3), lam=np.float32(0.5), seed=np.int32(1))
    model.save(tmp_path / "m.rgm")
    assert rg.Model.load(tmp_path / "m.rgm").settings == model.settings
    counts.drop_rare(np.int64(2)).save(tmp_path / "c")


@pytest.fixture(scope="module")
def backed_off(corpus):
    contexts, labels = corpus
    counts = rg.Counts.from_contexts(contexts, labels, spans=["suffixes:3", "shapes:2"])
    return rg.fit(counts, "LOC", "backoff", size=10**6)


RANGES = [  # of a setting or a parameter: the estimator, values out of its range, its ends
    ("both", "side", ["up"], ["right"]),
    ("both", "kind", ["lines"], ["letters"]),
    ("both", "denominator", ["rest"], ["all"]),
    ("both", "n", [0, 1001], [4, 1000]),
    ("both", "n_nu", [-1, 2**53 + 1], [0, 2**53]),
    ("both", "n_de", [-1, 2**53 + 1], [0, 2**53]),
    ("both", "target", [None], [""]),
    ("both", "corpus", [5], [None, "a digest"]),
    ("both", "criterion", ["mi"], ["tf"]),
    ("selective", "lam", [-1e-9, math.inf], [0]),
    ("selective", "unseen", ["zero"], ["formula"]),
    ("selective", "size", [0, None], [1]),
    ("selective", "seed", [-1], [0]),
    ("backoff", "lam", [0, 1e31], [1e-30, 1e30]),
    ("backoff", "unit_lam", [0.0, math.nan, None], [1e-30, 1e30]),
    ("backoff", "tau", [-0.01, 1.01, math.nan, "1"], [0, 1]),
    ("backoff", "size", [0, 1e6], [None, 1]),
    ("backoff", "shape", [5], [None]),
    ("backoff", "longest", [-1, 5], [0, 4]),
    ("backoff", "longest_shapes", [-1, 5, None], [0, 4]),
]


def changed(model, **changes):
    """Return the settings of a model with other values, of which some are parameters of the estimator."""
    names = {field.name for field in fields(model.params)}
    params = replace(model.params, **{name: value for name, value in changes.items() if name in names})
    return replace(
        model.settings, params=params, **{name: value for name, value in changes.items() if name not in names}
    )


@pytest.mark.parametrize(("estimator", "name", "wrong", "right"), RANGES)
def test_settings_out_of_their_ranges_are_named(model, backed_off, estimator, name, wrong, right):
    for some in {"both": [model, backed_off], "selective": [model], "backoff": [backed_off]}[estimator]:
        for value in wrong:
            message = f"The {name} parameter of fit must be .* Got {re.escape(repr(value))} instead"
            with pytest.raises(ParameterError, match=message):
                changed(some, **{name: value})
        for value in right:
            settings = changed(some, **{name: value})
            assert getattr(settings, name, None) == value or getattr(settings.params, name) == value


def test_settings_are_plain_numbers_whatever_they_were_given_as(model, backed_off):
    plain = replace(model.params, lam=np.float32(0.5), size=np.int64(3), seed=np.int8(2))
    assert [type(value) for value in (plain.lam, plain.size, plain.seed)] == [float, int, int]
    numbers = {"unit_lam": np.float32(0.5), "tau": 1, "size": np.int64(10**6)}
    plain = replace(backed_off.params, **numbers)
    assert [type(getattr(plain, name)) for name in numbers] == [float, float, int]
    assert (plain.unit_lam, plain.tau, plain.size) == (0.5, 1.0, 10**6)


def test_an_estimator_says_its_settings(counts, backed_off):
    assert str(rg.fit(counts, "LOC", "mle").settings) == "mle"
    assert str(rg.fit(counts, "LOC", "direct", lam=0.25).settings) == "direct, lam 0.25"
    selective = rg.fit(counts, "LOC", "selective", criterion="gss", size=12_000, lam=1e-4)
    assert str(selective.settings) == "selective gss 12,000, lam 0.0001"
    assert str(changed(backed_off, lam=0.02, tau=0.5)) == "backoff gain 1,000,000, lam 0.02, tau 0.5"
    assert str(changed(backed_off, lam=0.02, tau=0.5, size=None)) == "backoff, lam 0.02, tau 0.5"


def test_sizes_count_what_is_selected_and_not_what_is_seen(counts):
    assert rg.fit(counts, "LOC", "selective", size=6, unseen="formula").sizes == (6, 6, 6, 6)
    assert rg.fit(counts, "LOC", "product").sizes == (20, 20, 20, 20)
    assert rg.fit(counts, "LOC", "mle").sizes == (len(counts.rows["item", 0, 4]),)


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
    model = rg.fit(counts, "LOC", "selective", size=3)
    terms = [term for item in counts.items.to_pylist() for term in model.explain([item] * 4).terms]
    assert sum(term.selected for term in terms) == 4 * 3
    assert [term.f_nu is not None for term in terms] == [term.selected for term in terms]
    assert [term.f_de is not None for term in terms] == [term.selected for term in terms]


@pytest.mark.parametrize("unseen_is", ["neutral", "formula"])
def test_what_is_not_selected_is_not_certain(counts, unseen_is):
    """Its factor is 1, and so is that of what was never seen; neither is known for sure, the second least of all."""
    model = rg.fit(counts, "LOC", "selective", size=1, unseen=unseen_is)
    assert not any(term.selected for term in model.explain("the the the the").terms)
    seen, unseen, empty = np.diff(model.interval(["the the the the", "never ever seen before", ""])).ravel()
    assert 0 < seen <= unseen
    assert (unseen_is == "formula") == (seen < unseen)
    assert empty == 0


def test_a_missing_shape_function_is_named_when_a_model_is_loaded(backed_off, tmp_path, monkeypatch):
    monkeypatch.setitem(shapes.SHAPES, "mine", shapes.SHAPES["words"])
    counts = rg.Counts.from_contexts(["a b", "c d"], ["T", None], spans=["shapes:2"], shape="mine")
    rg.fit(counts, "T", "backoff", longest=1).save(tmp_path / "m")
    assert rg.Model.load(tmp_path / "m").params.shape == "mine"
    monkeypatch.delitem(shapes.SHAPES, "mine")
    with pytest.raises(ParameterError, match=f"{tmp_path / 'm'}: .*'mine'"):
        rg.Model.load(tmp_path / "m")


def test_an_item_at_every_position_is_seen_more_often_than_there_are_contexts(tmp_path):
    counts = rg.Counts.from_contexts(["a a a", "a a a", "b b a"], ["T", None, None], spans=["suffixes:2", "shapes:2"])
    model = rg.fit(counts, "T", "backoff", size=10**6)
    model.save(tmp_path / "m")
    loaded = rg.Model.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.log_ratio(["a a a", "c a b"]), model.log_ratio(["a a a", "c a b"]))


def test_a_model_that_was_fitted_to_a_number_of_bytes_is_read(backed_off, tmp_path):
    """Its header names the limit, which no option sets any more."""
    estimator = backed_off.estimator
    header = {**backed_off.settings.header(), "max_bytes": 1_000_000}
    storage.write(
        tmp_path / "a.rgm", SpanTable("model", header, COLUMNS, estimator.vocabulary, tuple(estimator.rows()))
    )
    assert rg.Model.load(tmp_path / "a.rgm").settings == backed_off.settings
