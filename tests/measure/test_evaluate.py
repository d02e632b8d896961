"""How rankings are measured: one worked example with the hand calculation, and the edges."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import raregram as rg
from raregram.errors import InputError, ParameterError
from raregram.measure import evaluate as evaluation
from raregram.measure.evaluate import BANDS, evaluate, ranking, ranking_metrics, recall_curve

# Units at lam = 0 with n_nu = 16 and n_de = 4: r = (f_nu + 1) / 18 / ((f_de + 1) / 6), so a 3/2, b 5/6, e 2/3, c 1/2,
# d 1/3, and 1 for what was never seen. Best first: a, never, b, e, c, d.
SEEN = {"a": (8, 1), "b": (4, 1), "c": (2, 1), "d": (1, 1), "e": (1, 0)}
CORRECT = ["b", "d", "e", "never"]


@pytest.fixture(scope="module")
def training():
    f_nu, f_de = zip(*SEEN.values(), strict=True)
    return rg.Counts.from_ngrams(list(SEEN), f_nu, f_de, target="LOC")


@pytest.fixture(scope="module")
def documents():
    types = [*SEEN, "never"]
    return rg.Counts.from_contexts(
        types * 2, ["LOC" if item in CORRECT else "PER" for item in types] + [None] * 6, spans=["whole"]
    )


@pytest.fixture(scope="module")
def model(training):
    return rg.fit(training, estimator="product", lam=0)


def as_tuple(metrics):
    return tuple(vars(metrics).values())


def test_a_ranking_by_hand(model, documents):
    result = evaluate(model, documents, k=3)
    # Returned: a, never, b. Correct ones are at the ranks 2, 3, 4 and 6.
    average_precision = (1 / 2 + 2 / 3 + 3 / 4 + 4 / 6) / 4
    assert as_tuple(result.overall) == pytest.approx((6, 4, 3, 2, 2 / 3, 2 / 4, 4 / 7, average_precision))
    assert result.ranks.tolist() == [1, 2, 3, 4, 5, 6]
    assert result.recalls.tolist() == [0, 0.25, 0.5, 0.75, 0.75, 1]
    assert (result.target, result.k, result.bands) == ("LOC", 3, {})


def test_bands_by_hand(model, documents, training):
    """Each band is a ranking of its own, but what is returned is the top of all."""
    bands = evaluate(model, documents, k=3, training=training).bands
    # Seen in training: a 9 times, b 5, c 3, d 2, e 1. The eight numbers are in the order of `Metrics`.
    expected = {
        "0": (1, 1, 1, 1, 1, 1, 1, 1),  # never
        "1": (1, 1, 0, 0, 0, 0, 0, 1),  # e
        "2-5": (3, 2, 1, 1, 1, 1 / 2, 2 / 3, (1 + 2 / 3) / 2),  # b, c, d
        "more": (1, 0, 1, 0, 0, 0, 0, 0),  # a
    }
    assert list(bands) == list(expected)
    for name, values in expected.items():
        assert as_tuple(bands[name]) == pytest.approx(values), name


def test_results_are_plain_json(model, documents, training):
    result = evaluate(model, documents, k=3, training=training)
    written = json.loads(json.dumps(result.to_dict()))
    assert written["overall"]["hits"] == 2
    assert written["bands"]["2-5"]["types"] == 3
    assert written["ranks"] == result.ranks.tolist()
    assert written["recalls"] == result.recalls.tolist()
    assert (written["target"], written["k"]) == ("LOC", 3)


def test_k_is_the_number_of_relevant_ones_unless_given(model, documents):
    found = evaluate(model, documents)
    assert found.k == found.overall.relevant == found.overall.returned == 4
    assert found.overall.precision == found.overall.recall == found.overall.f1
    first, head, row, *_ = repr(found).splitlines()
    assert first.startswith("LOC: average precision 0.6458; 6 N-grams, 4 of them at the target; F1 ")
    assert head.split()[:4] == ["seen", "N-grams", "relevant", "avg.prec"]
    assert row.split()[:4] == ["all", "6", "4", "0.6458"]


def test_calibration_by_hand(model, documents, training):
    """Each type occurs twice: a and c never at LOC, the others once. Never has the ratio 1."""
    found = evaluate(model, documents, training=training)
    ratio = {"a": 3 / 2, "b": 5 / 6, "c": 1 / 2, "d": 1 / 3, "e": 2 / 3, "never": 1.0}
    targets = sum(math.log2(1 + 1 / ratio[item]) for item in CORRECT) / 4
    others = sum(math.log2(1 + ratio[item]) * (1 if item in CORRECT else 2) for item in ratio) / 8
    everything = found.calibration["all"]
    assert (everything.targets, everything.others) == (4, 8)
    assert everything.cllr == pytest.approx((targets + others) / 2)
    # d, c, e, b, never, a have the targets 1 0 1 1 1 0 and the others 1 2 1 1 1 2: c joins d, a joins the rest.
    assert everything.least == pytest.approx(least_by_hand([(1, 3), (3, 5)]))
    assert list(found.calibration) == ["all", *BANDS]
    # In its band, b, c and d have ratios over (2/4) / (4/8) = 1, the band's own.
    band = found.calibration["2-5"]
    targets = sum(math.log2(1 + 1 / ratio[item]) for item in "bd") / 2
    others = sum(math.log2(1 + ratio[item]) * times for item, times in (("b", 1), ("c", 2), ("d", 1))) / 4
    assert (band.targets, band.others, band.cllr) == (2, 4, pytest.approx((targets + others) / 2))
    assert found.calibration["more"].cllr is None


def least_by_hand(blocks):
    """The cost of blocks of (targets, others), each with the ratio of its shares."""
    n_nu, n_de = (sum(column) for column in zip(*blocks, strict=True))
    cost = 0.0
    for f_nu, f_de in blocks:
        ratio = f_nu / n_nu / (f_de / n_de)
        cost += f_nu / n_nu * math.log2(1 + 1 / ratio) + f_de / n_de * math.log2(1 + ratio)
    return cost / 2


def test_calibration_is_shown(model, documents, training):
    found = evaluate(model, documents, training=training)
    everything = found.calibration["all"]
    shown = f"; Cllr {everything.cllr:.3f}, {everything.loss:.3f} of it calibration loss"
    lines = repr(found).splitlines()
    assert lines[0].endswith(shown)
    assert lines[8].split() == ["seen", "targets", "others", "Cllr", "least", "loss", "slope", "offset"]
    assert lines[9].split()[:4] == ["all", "4", "8", f"{everything.cllr:.4f}"]
    assert lines[13].split() == ["more", "0", "2"]
    assert "calibration loss" in found._repr_html_()
    assert found._repr_html_().count("<table") == 2
    written = json.loads(json.dumps(found.to_dict()))["calibration"]
    assert written["all"]["cllr"] == everything.cllr
    assert written["more"] == {
        "targets": 0,
        "others": 2,
        **dict.fromkeys(("cllr", "least", "loss", "slope", "offset")),
    }


def test_an_infinite_cost_and_one_that_is_not_measured_are_said(training, documents):
    infinite = evaluate(rg.fit(training, estimator="mle"), documents)
    assert infinite.headline().endswith("; Cllr is infinite, since a ratio is 0 at the target or infinite elsewhere")
    assert infinite.to_dict()["calibration"]["all"]["cllr"] == "inf"
    bare = rg.Counts.from_contexts(["a"], [None], targets=["LOC"], spans=["whole"])
    assert "Cllr" not in evaluate(rg.fit(training, estimator="product"), bare).headline()


def test_the_others_are_those_of_the_denominator(documents):
    """A ratio to all contexts is measured on all contexts."""
    training = rg.Counts.from_contexts(["a", "b", "b"], ["LOC", "LOC", None], spans=["units"])
    for denominator, others in (("complement", 8), ("all", 12)):
        model = rg.fit(training, estimator="product", denominator=denominator)
        assert evaluate(model, documents).calibration["all"].others == others


@pytest.mark.parametrize("k", [0, -1, 1.5, True])
def test_k_must_be_a_whole_number(model, documents, k):
    with pytest.raises(ParameterError, match="k parameter of evaluate must be a whole number >= 1"):
        evaluate(model, documents, k=k)


def test_ties_of_a_long_ranking_keep_their_order():
    """Short arrays are sorted in a stable way whatever is asked for; long ones are not."""
    scores = np.random.default_rng(3).choice([-np.inf, 0.0, 1.0, np.nan], 2000)
    by_hand = sorted(range(2000), key=lambda i: (np.isnan(scores[i]), -np.nan_to_num(scores[i]), i))
    assert ranking(scores).tolist() == by_hand


def test_only_what_is_ranked_is_measured():
    """A band's order holds some of the types: the others neither count as types nor as correct."""
    correct = np.array([True, False, True, True])
    returned = np.array([True, True, False, True])
    metrics = ranking_metrics(np.array([3, 1]), correct, returned)
    assert as_tuple(metrics) == pytest.approx((2, 1, 2, 1, 1 / 2, 1, 2 / 3, 1))


def test_a_curve_has_all_ranks_of_a_short_ranking_and_few_of_a_long_one():
    assert repr(recall_curve(np.array([1]), 7)[0].tolist()) == "[1, 2, 3, 4, 5, 6, 7]"  # whole numbers, also in JSON
    ranks, _ = recall_curve(np.array([1]), 400_000)
    assert (ranks[0], ranks[-1]) == (1, 400_000)
    assert 100 < len(ranks) <= 200
    steps = np.diff(np.log(ranks[ranks > 1000]))
    np.testing.assert_allclose(steps, steps.mean(), rtol=0.02)  # evenly spread on a logarithmic scale


@pytest.mark.parametrize(
    ("found_at", "types", "ranks", "recalls"),
    [([], 3, [1, 2, 3], [0, 0, 0]), ([], 0, [1], [0]), ([2], 3, [1, 2, 3], [0, 1, 1])],
)
def test_the_curve_of_a_ranking_with_few_correct_types_or_none(found_at, types, ranks, recalls):
    assert [column.tolist() for column in recall_curve(np.array(found_at, int), types)] == [ranks, recalls]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"side": "right"}, "the model is for n 1, left, words; the documents were counted for n 1, right, words"),
        ({"contexts": ["a b"]}, "the model is for n 1, left, words; the documents were counted for n 2, left, words"),
        ({"kind": "letters"}, "the model is for n 1, left, words; the documents were counted for n 1, left, letters"),
    ],
)
def test_documents_of_another_kind_are_refused(model, change, message):
    other = rg.Counts.from_contexts(**{"contexts": ["a"], "labels": ["LOC"], "spans": ["whole"], **change})
    with pytest.raises(InputError, match=message):
        evaluate(model, other)


def test_documents_without_the_target_are_refused(model):
    other = rg.Counts.from_contexts(["a"], ["PER"], spans=["whole"])
    with pytest.raises(
        ParameterError, match=r"target parameter of this count table must be one of 'PER'\. Got 'LOC'"
    ):
        evaluate(model, other)


def test_bands_need_whole_ngrams_of_the_training_documents():
    training = rg.Counts.from_contexts(["a b", "c d"], ["LOC", None], spans=["units"])
    model = rg.fit(training, estimator="product")
    whole = rg.Counts.from_contexts(["a b", "c d"], ["LOC", None], spans=["whole"])
    with pytest.raises(ParameterError, match=r"^the bands need a training table with whole N-grams$"):
        evaluate(model, whole, training=training)
    with pytest.raises(
        ParameterError, match=r"^evaluation needs the whole N-grams: count .* with the spans 'units' and 'whole'$"
    ):
        evaluate(model, training)


def test_training_frequencies_are_of_all_contexts_whatever_their_target():
    training = rg.Counts.from_contexts(["a b", "a b", "b a"], ["LOC", None, "PER"], spans=["whole"])
    documents = rg.Counts.from_contexts(["a b", "b a", "b b", "b z"], [None] * 4, spans=["whole"])
    assert evaluation.training_frequency(documents, training).tolist() == [2, 1, 0, 0]
