"""Calibrated log ratios: the map, how it is learned, and models that have it."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

import raregram as rg
from raregram.errors import FileError, InputError, ParameterError, RaregramWarning
from raregram.measure.cllr import calibrations
from raregram.measure.synthetic import SyntheticCorpus
from raregram.models.calibration import Calibration, learn_map
from raregram.models.explain import Explanation

MAP = Calibration(0.01, 0.9, 0.8, 0.5, 5_000.0, 10, 1000)
number = st.floats(1e-3, 1e3)
power, once = st.floats(0.01, 3), st.just(1)
ceilings = st.none() | number.map(lambda x: x + 1e3)
maps = st.builds(Calibration, number, number, power, power, ceilings, once, once)


def held_out(rng, size, power=0.6, offset=0.3):
    """Return scores whose true log ratios are known, and how often each was seen at the target and elsewhere."""
    others = rng.normal(-1.0, 2.0, size)
    truth = np.exp(offset + power * others)
    targets = rng.choice(others, size // 10, p=truth / truth.sum())  # then the ratio is `truth`, up to a factor
    scores = np.concatenate([targets, others])
    return scores, np.repeat([1, 0], [len(targets), size]), np.repeat([0, 1], [len(targets), size])


@given(maps, st.lists(st.floats(-600, 600) | st.sampled_from([-np.inf, np.inf]), min_size=2))
def test_the_map_is_monotone_and_keeps_within_its_bounds(calibration, scores):
    scores = np.sort(scores)
    found = calibration.apply(scores)
    assert (np.diff(found) >= 0).all()
    assert (found >= np.log(calibration.floor) - 1e-9).all()
    assert np.array_equal(found, [calibration.apply([score])[0] for score in scores])  # one by one, bit for bit
    if calibration.ceiling is not None:
        assert (found <= np.log(calibration.ceiling) + 1e-9).all()


def test_no_evidence_stays_no_evidence():
    assert np.isnan(MAP.apply([np.nan])).all()


def test_known_ratios_are_recovered_in_value():
    rng = np.random.default_rng(5)
    scores, nu, de = held_out(rng, 200_000)
    calibration = learn_map(scores, nu, de)
    x = np.linspace(-4, 3, 15)
    truth = 0.6 * x - np.log(np.exp(0.6 * rng.normal(-1.0, 2.0, 10**6)).mean())
    assert np.abs(calibration.apply(x) - truth).max() < 0.1


@pytest.mark.parametrize("seed", [0, 3])
def test_no_other_numbers_are_better(seed):
    """SciPy's search, from another start, finds no lower Cllr."""
    scores, nu, de = held_out(np.random.default_rng(seed), 2_000, power=0.3 + 0.3 * seed)
    scores = np.rint(scores * 64) / 64

    def loss(calibration):
        y = calibration.apply(scores)
        ends = np.logaddexp(0, -np.log(calibration.floor)), np.logaddexp(0, np.log(calibration.ceiling))
        at_targets, elsewhere = nu @ np.logaddexp(0, -y) + ends[0], de @ np.logaddexp(0, y) + ends[1]
        c, targets, others = calibration, nu.sum() + 1, de.sum() + 1
        at_one = c.factor * 2 ** (c.power_above - c.power_below)
        off = np.append(
            np.log([c.floor * targets, at_one, others / c.ceiling]), [c.power_above - 1, c.power_below - 1]
        )
        off /= [3.0, 0.5, 5.0, 1.0, 1.0]
        return (at_targets + off @ off / 2) / targets + elsewhere / others

    def build(theta):
        floor, factor, above, below, bound = np.exp(np.clip(theta, -30, 30))
        return Calibration(floor, factor, above, below, 1 / bound, 1, 1)

    other = minimize(lambda theta: loss(build(theta)), [-3, 0, -0.3, -0.3, -6], method="Nelder-Mead",
                     options={"maxiter": 4000, "maxfev": 4000})  # fmt: skip
    assert loss(learn_map(scores, nu, de)) < other.fun + 1e-6


def test_no_ratio_is_stronger_than_the_contexts_support():
    """Where all held-out contexts are told apart, the bounds go by how many there are."""
    for targets, others in ((10, 100), (1_000, 1_000), (1_000, 100_000)):
        scores = np.repeat([8.0, -8.0], [targets, others])
        nu, de = np.repeat([1, 0], [targets, others]), np.repeat([0, 1], [targets, others])
        low, high = np.exp(learn_map(scores, nu, de).apply([-np.inf, np.inf]))
        assert 0.2 / targets < low < 5 / targets
        assert others / 5 < high < others * 5
        free = learn_map(scores, nu, de, bounded=False)
        assert free.ceiling is None
        assert np.exp(free.apply([30.0]))[0] > high


def test_scores_that_mislead_become_worth_nothing():
    scores, nu, de = held_out(np.random.default_rng(3), 5_000)
    found = learn_map(-scores, nu, de).apply(np.linspace(-9, 9, 50))
    assert (np.diff(found) >= 0).all()
    assert np.abs(found).max() < 0.2


def test_contexts_of_one_kind_cannot_calibrate():
    for nu, de, missing in (([0, 0], [1, 1], "at the target"), ([1, 1], [0, 0], "elsewhere")):
        with pytest.raises(InputError, match=f"no held-out context is {missing}"):
            learn_map(np.array([0.0, 1.0]), nu, de)


@pytest.fixture(scope="module")
def fitted():
    source = SyntheticCorpus.make(items=300, n=4, seed=5)
    contexts, at_target = source.sample(500, 3_000, seed=6)
    texts = source.texts(contexts)
    counts = rg.Counts.from_contexts(texts, np.where(at_target, "LOC", "O"))
    return texts, {name: rg.fit(counts, "LOC", name) for name in ("backoff", "selective", "product")}


@pytest.mark.parametrize("name", ["backoff", "selective", "product"])
def test_a_calibrated_model(fitted, name, tmp_path):
    """It scores, explains, saves and loads; a ranking is as before."""
    texts, plain = fitted[0][:300], fitted[1][name]
    model = replace(plain, calibration=MAP)
    scores = model.log_ratio(texts)
    assert np.array_equal(scores, MAP.apply(plain.log_ratio(texts)))
    assert np.array_equal(np.argsort(scores, kind="stable"), np.argsort(plain.log_ratio(texts), kind="stable"))
    ends = plain.interval(texts)
    (low, high), width = MAP.apply(ends).T, np.diff(ends).ravel()
    low = np.minimum(low, scores - width / 2)
    np.testing.assert_allclose(model.interval(texts), np.column_stack([low, high]), atol=1e-12)
    model.save(tmp_path / "m.rgm")
    for again in (rg.Model.load(tmp_path / "m.rgm"), pickle.loads(pickle.dumps(model))):
        assert again.calibration == MAP
        assert np.array_equal(again.log_ratio(texts), scores)
    for text, score in zip(texts[:20], scores, strict=False):
        found = model.explain(text)
        assert found.log_ratio == score == sum(term.value for term in found.terms)
        assert [term.kind for term in found.terms].count("calibration") == 1
        assert found.terms[-1].prior == plain.log_ratio([text])[0]
        assert "calibrated by contexts that were not in the fit" in str(found)
        assert "calibrated" in found._repr_html_()


def test_a_damaged_calibration_is_refused(fitted, tmp_path, monkeypatch):
    monkeypatch.setattr(Calibration, "__post_init__", lambda self: None)
    replace(fitted[1]["backoff"], calibration=replace(MAP, power_above=-1.0)).save(tmp_path / "m.rgm")
    monkeypatch.undo()
    with pytest.raises(FileError, match="damaged"):
        rg.Model.load(tmp_path / "m.rgm")


def test_probabilities(fitted):
    texts, model = fitted[0][:50], fitted[1]["backoff"]
    odds = model.ratio(texts) * 0.25
    assert model.probability(texts, prior=0.2) == pytest.approx(odds / (1 + odds))
    assert model.probability(texts) == pytest.approx(model.probability(texts, prior=500 / 3_500))
    for prior in (0, 1, -0.1, "a", True):
        with pytest.raises(ParameterError, match="a number between 0 and 1"):
            model.probability(texts, prior=prior)


@pytest.mark.parametrize(
    ("log_ratio", "said"),
    [
        (np.log(3.21), "3.21 times as likely before LOC as elsewhere: weak evidence for LOC."),
        (-np.log(27.2), "27.2 times as likely elsewhere as before LOC: moderate evidence against LOC."),
        (np.log(1.2), "1.2 times as likely before LOC as elsewhere: hardly any evidence."),
        (np.log(5e6), "5,000,000 times as likely before LOC as elsewhere: extremely strong evidence for LOC."),
        (np.inf, "Only seen before LOC."),
        (-np.inf, "Only seen elsewhere."),
        (np.nan, "There is no evidence: nothing is known about this N-gram."),
    ],
)
def test_a_ratio_is_said_in_words(log_ratio, said):
    explanation = Explanation(("in",), "LOC", "a model", log_ratio, (), None, ("before LOC", "elsewhere"))
    assert explanation.sentence() == said


def test_the_sentence_tells_the_interval_of_the_ratio_it_tells():
    explanation = Explanation(("in",), "LOC", "a model", -np.log(4), (), (-np.log(8), -np.log(2)), ("here", "there"))
    assert "4 times as likely there as here (95 % interval: 2 to 8)" in explanation.sentence()


def folded_corpus(folds=4, size=4_000, seed=5):
    """Contexts whose items tell the same thing several times, which makes all estimators claim too much."""
    rng = np.random.default_rng(seed)
    at_target = rng.random(size) < 0.2
    topic = np.where(rng.random(size) < np.where(at_target, 0.6, 0.3), "x", "y")
    far, near = (np.char.add(topic, rng.integers(0, 9, size).astype(str)) for _ in range(2))
    texts = [" ".join(words) for words in zip(far, topic, near, topic, strict=True)]
    labels = np.where(at_target, "LOC", "O")
    return rg.Counts.from_contexts(texts, labels, folds=folds), texts, at_target


@pytest.mark.parametrize("estimator", ["backoff", "selective", "product"])
def test_a_model_is_calibrated_by_the_folds_of_its_table(estimator):
    """As by hand: each fold is scored by a model of the others; and afterwards the ratios are right."""
    counts, texts, at_target = folded_corpus()
    model = rg.fit(counts, "LOC", estimator)
    plain = rg.fit(counts, "LOC", estimator, calibrate=False)
    assert plain.calibration is None
    expected = plain.estimator.expected_count(plain.encode(texts))
    assert np.array_equal(model.calibration.apply(plain.log_ratio(texts), expected), model.log_ratio(texts))
    scores = np.empty(len(texts))
    for fold in range(4):
        rest = rg.fit(counts.of_folds([other for other in range(4) if other != fold]), "LOC", estimator)
        scores[fold::4] = rest.log_ratio(texts[fold::4])
    by_hand = learn_map(scores, at_target, ~at_target)
    assert by_hand.apply(scores) == pytest.approx(model.calibration.apply(scores), abs=1e-6)
    new, truth = folded_corpus(size=16_000, seed=6)[1:]
    before, after = (calibrations(m.log_ratio(new), truth * 1, ~truth * 1)["all"] for m in (plain, model))
    assert after.loss < 0.01  # of which PAV, which follows chance, finds some in right ratios, too
    assert abs(after.slope - 1) < 0.15 < 1 - before.slope


def test_folds_are_scored_until_there_is_enough(monkeypatch):
    import raregram.models.fit as fitting

    counts, *_ = folded_corpus()
    monkeypatch.setattr(fitting, "ENOUGH", 300)
    calibration = rg.fit(counts, "LOC", "selective").calibration
    assert 300 <= calibration.targets < counts.totals[1] * 0.6


def test_a_ridge_is_as_many_contexts_in_a_fold_as_in_the_table():
    """So the ridge that is the default gives the same calibration when it is given."""
    counts, *_ = folded_corpus()
    expected = rg.fit(counts, "LOC", "backoff")
    given = rg.fit(counts, "LOC", "backoff", lam=expected.params.lam, unit_lam=expected.params.unit_lam)
    assert given.calibration.apply(np.arange(-3.0, 4.0)) == pytest.approx(
        expected.calibration.apply(np.arange(-3.0, 4.0)), abs=1e-6
    )


def test_what_cannot_be_calibrated_says_so():
    counts, *_ = folded_corpus()
    assert rg.fit(counts, "LOC", "direct").calibration is None
    with pytest.raises(ParameterError, match="'direct' cannot be calibrated"):
        rg.fit(counts, "LOC", "direct", calibrate=True)
    with pytest.raises(ParameterError, match="not counted in folds"):
        rg.fit(counts.of_folds(), "LOC", calibrate=True)
    few = rg.Counts.from_contexts(["a b", "c d", "e f", "g h"], ["LOC", None, None, None], folds=2)
    with pytest.warns(
        RaregramWarning, match="the model is not calibrated: in its folds, the target 'LOC' never occurs"
    ):
        assert rg.fit(few, "LOC").calibration is None
    with pytest.raises(InputError, match="never occurs"):
        rg.fit(few, "LOC", calibrate=True)


def test_held_out_documents_calibrate_a_model():
    counts, (_, new, truth) = folded_corpus(folds=0)[0], folded_corpus(seed=6)
    model = rg.fit(counts, "LOC")
    held_out = rg.Counts.from_contexts(new, np.where(truth, "LOC", "O"), spans=["whole"])
    calibrated = rg.calibrate(model, held_out)
    assert calibrated.calibration.targets == truth.sum()
    assert rg.calibrate(calibrated, held_out).calibration == calibrated.calibration  # not of a calibrated one
    measures = rg.evaluate(calibrated, held_out).calibration["all"]
    assert measures.slope == pytest.approx(1, abs=0.05)
    assert measures.loss < 0.015
    assert rg.calibrate(model, held_out, bounded=False).calibration.ceiling is None
    with pytest.raises(ParameterError, match="'mle' cannot be calibrated"):
        rg.calibrate(rg.fit(held_out, "LOC", "mle"), held_out)


def test_tuning_calibrates_the_best_model():
    counts, (_, new, truth) = folded_corpus()[0], folded_corpus(seed=6)
    held_out = rg.Counts.from_contexts(new, np.where(truth, "LOC", "O"), spans=["whole"])
    grid = {"estimator": "selective", "criteria": ["cet"], "sizes": [5, 50], "lams": [1e-3, 1e-2]}
    tuned, plain = (rg.tune(table, held_out, "LOC", **grid) for table in (counts, counts.of_folds()))
    assert (tuned.best.calibrated, plain.best.calibrated) == (True, None)
    assert (tuned.best.size, tuned.best.lam) == (plain.best.size, plain.best.lam)
    assert plain.model.calibration is None
    assert np.array_equal(tuned.model.calibration.apply(plain.model.log_ratio(new)), tuned.model.log_ratio(new))


def tagged(documents, certain=0.9, seed=0):
    """Return documents in which "lives in" nearly always precedes a place, and nothing else ever does."""
    rng, words, found = np.random.default_rng(seed), [f"w{number}" for number in range(200)], []
    for _ in range(documents):
        items, spans = [], []
        for _ in range(12):
            items += rng.choice(words, 8).tolist()
            if rng.random() < certain:
                spans.append({"start": len(items) + 2, "end": len(items) + 3, "label": "LOC"})
                items += ["lives", "in", "Paris"]
        found.append({"items": items, "spans": spans})
    return found


@pytest.fixture(scope="module")
def nearly_certain():
    return rg.count(tagged(100), n=5, folds=5)


@pytest.mark.parametrize("calibrate", [True, False])
@pytest.mark.parametrize("shapes", [True, False])
@pytest.mark.parametrize("name", ["backoff", "selective", "product"])
def test_no_evidence_is_no_evidence(nearly_certain, name, shapes, calibrate):
    """A context of which nothing was seen has the ratio 1 and an interval that holds it; so has an empty one."""
    model = rg.fit(nearly_certain, "LOC", name, shapes=shapes if name == "backoff" else None, calibrate=calibrate)
    middle, low, high = model.with_interval(["??? !!! ???", "???", ""])
    assert not middle.any()
    assert (low[:2] < -0.5).all()
    assert (high[:2] > 0.5).all()
    assert low[2] == high[2] == 0
    assert model.explain("???").log_ratio == 0
    prior = model.settings.n_nu / (model.settings.n_nu + model.settings.n_de)
    assert model.probability(["???", ""]) == pytest.approx(prior)


def test_the_unknown_is_not_ranked_above_the_known_by_the_lower_end(nearly_certain):
    for name in ("backoff", "selective", "product"):
        low = rg.fit(nearly_certain, "LOC", name).interval(["w3 w5 w9 lives in", "??? !!! ???"])[:, 0]
        assert low[0] > low[1]


def test_a_map_between_contexts_that_are_told_apart_stays_near_the_identity():
    """No held-out context is near the ratio 1, so 1 moves by no more than three deviations of its prior."""
    for targets, others in ((50, 1_000), (1_000, 50), (1_000, 10_000)):
        scores = np.repeat([5.0, -2.0], [targets, others])
        nu, de = np.repeat([1, 0], [targets, others]), np.repeat([0, 1], [targets, others])
        assert abs(learn_map(scores, nu, de).apply([0.0])[0]) < 1.5


def test_a_selection_learns_what_it_means_to_have_no_selected_item():
    """Where items were left out, a context without any of the others is not one of which nothing is known."""
    counts = rg.count(tagged(100), n=2, folds=5)
    model = rg.fit(counts, "LOC", "selective", size=1)
    assert model.log_ratio(["w1 w2"])[0] < -1
    assert model.log_ratio([""])[0] == 0
    assert rg.fit(counts, "LOC", "selective", size=1000).log_ratio(["??? ???"])[0] == 0


@pytest.mark.parametrize("documents", [1, 2, 3])
def test_calibration_by_a_handful_keeps_the_order_and_says_so(documents):
    """A few held-out targets cannot make all ratios equal."""
    model, test = rg.fit(rg.count(tagged(60, seed=1), n=5), "LOC"), tagged(60, certain=0.7, seed=2)
    held_out = [{"items": d["items"][:40], "spans": d["spans"][:2]} for d in tagged(documents, seed=3)]
    with pytest.warns(RaregramWarning, match=f"only {2 * documents} held-out"):
        calibrated = rg.calibrate(model, held_out)
    before, after = (rg.evaluate(each, test).overall for each in (model, calibrated))
    assert after.average_precision == pytest.approx(before.average_precision, abs=1e-6)
    widths = [np.diff(each.interval(["w3 w5 w9 lives in", "w1 w2 w3 w4 w5"])).ravel() for each in (model, calibrated)]
    assert (widths[1] > 0.5 * widths[0]).all()
    many = [{**d, "spans": d["spans"]} for d in tagged(20, seed=3)]
    rg.calibrate(model, many)  # no warning


def test_the_order_of_long_contexts_stays(nearly_certain):
    model = rg.fit(rg.count(tagged(100, certain=0.5), n=5, folds=5), "LOC")
    rng = np.random.default_rng(4)
    contexts = [" ".join(rng.choice(["lives", "in", "Paris", "w1", "w2", "w3", "Xyz"], 5)) for _ in range(400)]
    plain, calibrated = replace(model, calibration=None).log_ratio(contexts), model.log_ratio(contexts)
    order = np.argsort(plain, kind="stable")
    assert (np.diff(calibrated[order]) >= 0).all()
