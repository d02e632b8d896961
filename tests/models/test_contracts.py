"""What every estimator promises, whatever its parameters: one suite for all of them."""

from __future__ import annotations

import math
import re
from statistics import NormalDist

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view
from samples import UNSEEN, probes_of, samples

import raregram as rg
from raregram.errors import FileError, InputError, ParameterError
from raregram.models.registry import ESTIMATORS
from raregram.options import CRITERION, DENOMINATOR, KIND, SIDE, SPAN_CRITERION
from raregram.options import UNSEEN as UNSEEN_OPTION
from raregram.text.vocabulary import ABSENT, MISSING

SPANS = ["suffixes:3", "shapes:2", "whole"]
WHOLE = [name for name, estimator in ESTIMATORS.items() if not estimator.has_variance]
WITH_INTERVAL = [name for name in ESTIMATORS if name not in WHOLE]
EVERYTHING = 10**6  # a size at which a back-off leaves no span out for saying little
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS)
with_interval = pytest.mark.parametrize("estimator", WITH_INTERVAL)

COMMON = {"denominator": st.sampled_from(DENOMINATOR.choices), "seed": st.integers(0, 3)}
FITS = {
    "backoff": {
        **COMMON,
        "lam": st.sampled_from([1e-5, 0.05, 2.0]),
        "unit_lam": st.sampled_from([1e-3, 0.05, 0.7]),
        "tau": st.sampled_from([0.0, 0.3, 1.0]),
        "size": st.sampled_from([None, 1, 2, 5, EVERYTHING]),
        "criterion": st.sampled_from(SPAN_CRITERION.choices),
        "longest": st.integers(0, 1),
        "shapes": st.booleans(),
    },
    **{
        name: {
            **COMMON,
            "lam": st.sampled_from([0, 1e-5, 0.1]),
            "size": st.integers(1, 4),
            "criterion": st.sampled_from(CRITERION.choices),
            "unseen": st.sampled_from(UNSEEN_OPTION.choices),
        }
        for name in ESTIMATORS
        if name != "backoff"
    },
}


@st.composite
def models(draw, estimator, **options):
    """A fitted model, the sample that it was fitted to, and contexts to ask it for."""
    sample = draw(samples(n=options.pop("n", None)))
    counts = rg.Counts.from_contexts(*sample, spans=SPANS, side=draw(st.sampled_from(SIDE.choices)))
    fitting = draw(st.fixed_dictionaries({}, optional=FITS[estimator]))
    return rg.fit(counts, "T", estimator, **fitting), sample, probes_of(sample, draw)


def same_models(model, other, probes):
    """Everything that can be asked of a model."""
    assert other.settings == model.settings
    assert other.items.to_pylist() == model.items.to_pylist()
    assert other.sizes == model.sizes
    assert other.nbytes == model.nbytes
    assert repr(other) == repr(model)
    np.testing.assert_array_equal(other.encode(probes), model.encode(probes))
    np.testing.assert_array_equal(other.log_ratio(probes), model.log_ratio(probes))
    if model.estimator.has_variance:
        np.testing.assert_array_equal(other.interval(probes), model.interval(probes))
    assert [repr(other.explain(items)) for items in probes[:3]] == [
        repr(model.explain(items)) for items in probes[:3]
    ]
    for rows, other_rows in zip(model.estimator.rows(), other.estimator.rows(), strict=True):
        assert rows.span == other_rows.span
        for column in ("keys", "values", "terms"):
            np.testing.assert_array_equal(getattr(rows, column), getattr(other_rows, column))


# Fit


@every_estimator
@settings(max_examples=40)
@given(st.data(), st.randoms())
def test_the_order_of_the_input_does_not_matter(estimator, data, shuffler):
    """Also where scores are tied."""
    sample = data.draw(samples(n=3))
    rows = list(zip(*sample, strict=True))
    shuffler.shuffle(rows)
    fitting = data.draw(st.fixed_dictionaries({}, optional=FITS[estimator]))
    shuffled = tuple(list(column) for column in zip(*rows, strict=True))
    tables = (rg.Counts.from_contexts(*some, spans=SPANS) for some in (sample, shuffled))
    one, other = (rg.fit(table, "T", estimator, **fitting) for table in tables)
    same_models(one, other, sample[0])


# Files


@every_estimator
@settings(max_examples=40)
@given(st.data())
def test_files_come_back_as_they_were(tmp_path_factory, estimator, data):
    model, _, probes = data.draw(models(estimator))
    path = tmp_path_factory.mktemp("model") / "a.rgm"
    model.save(path)
    loaded = rg.Model.load(path)
    same_models(model, loaded, probes)
    loaded.save(path.with_name("b.rgm"))
    assert path.read_bytes() == path.with_name("b.rgm").read_bytes()


@every_estimator
def test_a_damaged_model_is_named(counts, tmp_path, estimator):
    path = tmp_path / "a.rgm"
    rg.fit(counts, "LOC", estimator).save(path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(FileError, match=r"a\.rgm is not a raregram file, or it is truncated or damaged"):
        rg.Model.load(path)


# Explanations


@every_estimator
@settings(max_examples=40)
@given(st.data(), st.randoms())
def test_explanations_add_up_exactly_in_any_order(estimator, data, shuffler):
    model, _, probes = data.draw(models(estimator))
    for items in probes:
        explanation = model.explain(items)
        values = [term.value for term in explanation.terms]
        shuffler.shuffle(values)
        for total in (sum(values), math.fsum(values) if np.isfinite(values).all() else sum(values)):
            np.testing.assert_array_equal(total, explanation.log_ratio)
        np.testing.assert_array_equal(explanation.log_ratio, model.log_ratio([items])[0])
        units = [term for term in explanation.terms if term.prior is None]
        assert [position for term in units for position in range(term.start, term.end)] == list(range(len(items)))
        if estimator == "backoff":
            assert explanation.interval == tuple(model.interval([items])[0])
        else:
            assert [item for term in units for item in term.items] == items
            assert explanation.interval is None
        assert str(explanation)


# Every form of input


@every_estimator
@settings(max_examples=40)
@given(st.data())
def test_every_form_of_input_gives_the_same_scores(estimator, data):
    model, _, rows = data.draw(models(estimator))
    expected, texts, codes = model.log_ratio(rows), [" ".join(row) for row in rows], model.encode(rows)
    forms = [texts, np.array(rows), np.array(texts), pa.array(texts), tuple(texts), codes, np.asfortranarray(codes)]
    forms += [codes.astype(kind) for kind in (np.int64, np.uint64, np.int16) if codes.min() >= 0]
    for form in (*forms, iter(texts)):
        np.testing.assert_array_equal(model.log_ratio(form), expected)
    many = len(model.items) + 1  # more than items: a table of units comes first
    for form in (rows * many, texts * many, np.tile(codes, (many, 1))):
        np.testing.assert_array_equal(model.log_ratio(form), np.tile(expected, many))
    np.testing.assert_array_equal(model.log_ratio(texts[0]), expected[:1])
    np.testing.assert_array_equal([model.log_ratio([text])[0] for text in texts], expected)
    np.testing.assert_array_equal([model.log_ratio([row])[0] for row in rows], expected)
    np.testing.assert_array_equal(model.encode(texts), codes)
    items, keys = pa.array([item for row in rows for item in row]), np.arange(codes.size).reshape(codes.shape)
    np.testing.assert_array_equal(model.encode_rows(items, keys), codes)
    distinct = dict.fromkeys(texts)
    np.testing.assert_array_equal(model.log_ratio(distinct.keys()), model.log_ratio(list(distinct)))
    if estimator in WITH_INTERVAL:
        interval = model.interval(rows)
        for form in (*forms, iter(texts)):
            np.testing.assert_array_equal(model.interval(form), interval)
        np.testing.assert_array_equal(np.concatenate([model.interval([row]) for row in rows]), interval)
        np.testing.assert_array_equal(model.interval(texts[0]), interval[:1])


@every_estimator
def test_no_ngrams_have_no_scores(counts, estimator):
    model = rg.fit(counts, "LOC", estimator)
    assert model.log_ratio([]).shape == model.log_ratio(np.empty((0, 4), int)).shape == (0,)
    assert (model.encode([]).shape, model.encode([]).dtype) == ((0, 4), np.int32)
    if estimator in WITH_INTERVAL:
        assert model.interval([]).shape == (0, 2)


@every_estimator
def test_codes_reach_from_minus_two_to_the_last_one(counts, corpus, estimator):
    backed_off = rg.Counts.from_contexts(*corpus, spans=["suffixes:3", "shapes:2"])
    model = rg.fit(backed_off if estimator == "backoff" else counts, "LOC", estimator, size=3)
    last = model.estimator.num_codes - 1
    assert (last >= len(model.items)) == (estimator == "backoff")  # codes for shapes, and for the rest
    assert model.log_ratio(np.array([[-1] * 4, [last] * 4, [0] * 4, [-2] * 4])).shape == (4,)
    for kind in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64):
        codes = np.random.default_rng(0).integers(0, last + 1, (500, 4))
        np.testing.assert_array_equal(model.log_ratio(codes.astype(kind)), model.log_ratio(codes))
        if estimator in WITH_INTERVAL:
            np.testing.assert_array_equal(model.interval(codes.astype(kind)), model.interval(codes))
    shape = r"codes must have the shape \(N-grams, 4\), got "
    wrong = {
        rf"{shape}\(2, 3\)": np.zeros((2, 3), int), rf"{shape}\(4,\)": np.zeros(4, int),
        rf"{shape}\(1, 4, 1\)": np.zeros((1, 4, 1), int),
        f"codes must be from -2 to {last}": np.array([[0, 0, 0, last + 1]]),
    }  # fmt: skip
    for message, codes in (*wrong.items(), (f"from -2 to {last}", np.array([[0, 0, 0, -3]]))):
        for score in (model.log_ratio, *([model.interval] if estimator in WITH_INTERVAL else [])):
            with pytest.raises(InputError, match=message):
                score(codes)


@every_estimator
def test_many_contexts_are_scored_as_few_are(counts, corpus, estimator):
    model = rg.fit(counts, "LOC", estimator)
    texts = [context.replace("bank", "Unheard") for context in corpus[0]]
    few = np.concatenate([model.log_ratio(texts[i : i + 3]) for i in range(0, len(texts), 3)])
    np.testing.assert_array_equal(model.log_ratio(texts * 70), np.tile(few, 70))  # more than are handled at a time
    np.testing.assert_array_equal(model.log_ratio(np.tile(model.encode(texts), (30, 1))), np.tile(few, 30))
    threads = pa.cpu_count()
    try:
        pa.set_cpu_count(1)
        np.testing.assert_array_equal(model.log_ratio(texts), few)
    finally:
        pa.set_cpu_count(threads)
    if estimator in WITH_INTERVAL:
        np.testing.assert_array_equal(model.interval(texts * 70), np.tile(model.interval(texts), (70, 1)))


@every_estimator
def test_a_wrong_ngram_is_named_by_its_row(counts, estimator):
    model = rg.fit(counts, "LOC", estimator)
    scores = [model.log_ratio, model.encode, *([model.interval] if estimator in WITH_INTERVAL else [])]
    for score in scores:
        for ngrams, message in (
            (["a b c d", None], "N-gram 2 is missing"),
            (["a b c d"] * 70_000 + [None], "N-gram 70001 is missing"),
            (["a b c d", b"a b c d"], "strings"),
            (["a b c d", 7], "strings"),
            (np.array([b"a b c d"]), "strings"),
            (["a b c d", "\ud800 b c d"], "N-gram 2 is not valid Unicode"),
            ([["a", "b", None, "d"]], "N-gram 1: an item is missing"),
        ):
            with pytest.raises(InputError, match=message):
                score(ngrams)
    with pytest.raises(InputError, match="the N-gram has no items"):
        model.explain(" ")


# Shorter and longer contexts


SHORT = {
    "product": {"lam": 0.01},
    "formula": {"estimator": "product", "unseen": "formula"},
    "selective": {"size": 3},
    "backoff": {"shapes": False, "size": EVERYTHING},  # which spans are stored depends on longer ones, too
}


@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize("side", SIDE.choices)
@settings(max_examples=40)
@given(data=st.data())
def test_a_short_context_is_scored_as_by_a_model_of_its_length(name, side, data):
    """Whose counts are those of the same contexts, without the items that are further away."""
    contexts, labels = data.draw(samples(n=4))
    m = data.draw(st.integers(1, 3))
    cut = [context[-m:] if side == "left" else context[:m] for context in contexts]
    options = {"estimator": name, **SHORT[name]}
    spans = ["suffixes:4"]
    long, short = (
        rg.fit(rg.Counts.from_contexts(some, labels, side=side, spans=spans), "T", **options)
        for some in (contexts, cut)
    )
    probes = [*cut, data.draw(st.lists(st.sampled_from([*UNSEEN, "a", "b"]), min_size=m, max_size=m))]
    texts = [" ".join(probe) for probe in probes]
    expected = short.log_ratio(probes)
    for form in (probes, texts, pa.array(texts), probes * 50):
        np.testing.assert_array_equal(long.log_ratio(form), np.resize(expected, len(form)))
    codes = long.encode(probes)
    assert (codes == MISSING).sum() == (4 - m) * len(probes)
    np.testing.assert_array_equal([long.log_ratio([text])[0] for text in texts], expected)
    np.testing.assert_array_equal(long.interval(probes), short.interval(probes))
    for probe, value in zip(probes, expected, strict=True):
        found, wanted = long.explain(probe), short.explain(probe)
        assert found.log_ratio == value == sum(term.value for term in found.terms)
        assert (found.ngram, found.terms) == (wanted.ngram, wanted.terms)


@every_estimator
@pytest.mark.parametrize("side", SIDE.choices)
def test_what_is_not_there_adds_nothing(corpus, side, estimator):
    """With shapes, too: a context is worth as much as with an item of which nothing at all is known."""
    counts = rg.Counts.from_contexts(*corpus, side=side, spans=["suffixes:4", "shapes:4", "whole"])
    model = rg.fit(counts, "LOC", estimator)
    for short in (["in"], ["bank", "in"], ["Unheard", "of"], []):
        (codes,) = model.encode([short])
        (there,) = np.nonzero(codes != MISSING)
        assert list(there) == list(range(4 - len(short), 4) if side == "left" else range(len(short)))
        unknown = np.where(codes == MISSING, ABSENT, codes)
        score, of_unknown = model.log_ratio([short, []])[0], model.log_ratio(unknown[None, :])[0]
        np.testing.assert_array_equal(score, of_unknown)
        if estimator in WITH_INTERVAL and short:  # but what is unknown adds doubt
            widths = np.diff([*model.interval([short]), *model.interval(unknown[None, :])])[:, 0]
            assert widths[0] <= widths[1]


@every_estimator
@pytest.mark.parametrize("side", SIDE.choices)
def test_of_a_long_context_the_items_next_to_the_boundary_count(corpus, side, estimator):
    counts = rg.Counts.from_contexts(*corpus, side=side, spans=["suffixes:4", "shapes:4", "whole"])
    model = rg.fit(counts, "LOC", estimator)
    for context in corpus[0][:20]:
        longer = f"far away {context}" if side == "left" else f"{context} far away"
        np.testing.assert_array_equal(model.log_ratio([longer]), model.log_ratio([context]))
        assert model.explain(longer).terms == model.explain(context).terms


@every_estimator
def test_running_text_is_scored_through_a_window(counts, corpus, estimator):
    """Where no item has a code of its own next to the boundary."""
    model = rg.fit(counts, "LOC", estimator)
    items = " ".join(corpus[0]).split()
    codes = model.encode([items[i : i + 4] for i in range(0, len(items), 4)]).ravel()
    windows = [" ".join(items[i : i + 4]) for i in range(len(items) - 3)]
    np.testing.assert_array_equal(model.log_ratio(sliding_window_view(codes, 4)), model.log_ratio(windows))


@every_estimator
@pytest.mark.parametrize("side", SIDE.choices)
def test_rows_of_a_count_table_have_the_codes_of_their_texts(side, estimator):
    """With items that the model has never met, which have a shape next to the boundary and another further away."""
    contexts = ["announced Monday reported", "reported in Rome", "in Rome announced", "Monday in announced"]
    counts = rg.Counts.from_contexts(contexts * 5, ["LOC", None, "LOC", None] * 5, spans=SPANS, side=side)
    others = [
        "claimed Friday in",
        "in Friday claimed",
        "Oslo claimed claimed",
        "claimed in Oslo",
        "in Rome announced",
    ]
    documents = rg.Counts.from_contexts(others, [None] * 5, targets=["LOC"], spans=["whole"], side=side)
    model = rg.fit(counts, "LOC", estimator)
    codes = model.encode_rows(documents.items, documents.whole_rows.keys)
    texts = documents.whole_ngrams().texts("words").to_pylist()
    np.testing.assert_array_equal(model.log_ratio(codes), model.log_ratio(texts))
    assert (codes.min() == -1) == (estimator != "backoff")  # it knows the shapes of all


# Sides, letters, pads


@every_estimator
@settings(max_examples=40)
@given(st.data())
def test_the_right_side_is_the_left_side_in_a_mirror(estimator, data):
    sample = data.draw(samples())
    mirrored = ([row[::-1] for row in sample[0]], sample[1])
    drawn = data.draw(st.fixed_dictionaries({}, optional=FITS[estimator]))
    fitting = drawn | ({"criterion": "tf"} if drawn.get("criterion") == "random" else {})  # depends on the position
    if estimator == "backoff":
        fitting.pop("size", None)  # of suffixes with equal scores the first in byte order are stored
    left, right = (
        rg.fit(rg.Counts.from_contexts(*some, spans=SPANS, side=side), "T", estimator, **fitting)
        for some, side in ((sample, "left"), (mirrored, "right"))
    )
    probes = probes_of(sample, data.draw)
    backwards = [row[::-1] for row in probes]
    np.testing.assert_array_equal(left.log_ratio(probes), right.log_ratio(backwards))
    if estimator in WITH_INTERVAL:
        np.testing.assert_allclose(left.interval(probes), right.interval(backwards), rtol=0, atol=1e-12)
    assert left.nbytes == right.nbytes


@every_estimator
def test_letters(estimator):
    counts = rg.Counts.from_contexts(["abc", "bcd", "äöü"], ["X", None, "X"], kind="letters", spans=SPANS)
    model = rg.fit(counts, "X", estimator)
    assert counts.items.to_pylist()[:7] == ["a", "b", "c", "d", "~a", "ä", "ö"]
    items = [item for term in model.explain("äöü").terms if term.prior is None for item in term.items]
    assert items == ["ä", "ö", "ü"]
    np.testing.assert_array_equal(model.log_ratio(["äbc", "äöü"]), model.log_ratio([list("äbc"), list("äöü")]))


@every_estimator
@pytest.mark.parametrize("side", SIDE.choices)
def test_padded_contexts_few_and_many(side, estimator):
    documents = [{"text": f"{first} in Rome", "spans": [(2, 3, "T")]} for first in ("walked", "He", "12", "at")]
    documents += [{"text": "in the Name of", "spans": []}] * 3
    counts = rg.count(documents, n=3, pad=True, side=side, spans=["suffixes:3", "shapes:3", "whole"])
    model = rg.fit(counts, "T", estimator)
    for short in ("in", "He in", "", "in Rome of"):
        items = short.split()
        (codes,) = model.encode([items])
        assert (codes == MISSING).sum() == 3 - len(items)  # what is not there is no end of a document
        expected = model.log_ratio(np.where(codes == MISSING, ABSENT, codes)[None, :])
        np.testing.assert_array_equal(model.log_ratio([short]), expected)
        many = model.log_ratio([short] * 2 + ["He in Rome"] * 2000)
        np.testing.assert_array_equal(many[:2], expected.repeat(2))
        np.testing.assert_array_equal(many[2:], model.log_ratio(["He in Rome"]).repeat(2000))
        if items:
            found = model.explain(short)
            assert found.ngram == tuple(items)
            np.testing.assert_array_equal(
                [found.log_ratio, sum(term.value for term in found.terms)], expected.repeat(2)
            )
    ends = {
        "left": [["", "", ""], ["", "", "He"], ["", "He", "in"]],
        "right": [["He", "in", ""], ["in", "", ""], ["", "", ""]],
    }
    scored = rg.score(model, [{"text": "He in"}])["log_ratio"].to_pylist()
    np.testing.assert_array_equal(model.log_ratio(ends[side]), scored)
    np.testing.assert_array_equal([model.explain(context).log_ratio for context in ends[side]], scored)
    longer = model.log_ratio(["a b c d", "a b"] + ["a b c"] * 2000)[0]
    np.testing.assert_array_equal(longer, model.log_ratio(["b c d" if side == "left" else "a b c"])[0])


# Intervals


@with_interval
@settings(max_examples=40)
@given(st.data(), st.lists(st.floats(0.01, 0.99), min_size=2))
def test_the_ratio_is_in_the_middle_and_a_higher_level_reaches_further(estimator, data, levels):
    model, _, probes = data.draw(models(estimator))
    probes = [*probes, UNSEEN[: model.settings.n]]
    ratio, before = model.log_ratio(probes), np.zeros(len(probes))
    for level in sorted(levels):
        low, high = model.interval(probes, level).T
        assert np.isfinite([low, high]).all()
        np.testing.assert_allclose(low + high, 2 * ratio, atol=1e-9)
        assert ((low <= ratio) & (ratio <= high)).all()
        assert (high - low >= before - 1e-12).all()
        before = high - low
    z = NormalDist().inv_cdf((1 + max(levels)) / 2) / NormalDist().inv_cdf(0.975)
    low, high = model.interval(probes).T
    np.testing.assert_allclose(before, z * (high - low), atol=1e-9)  # 0.95 is the default
    if estimator == "backoff":
        assert (high > low).all()


@with_interval
def test_levels_out_of_range_are_refused(counts, estimator):
    model = rg.fit(counts, "LOC", estimator)
    for level in (0, 1, -0.1, 1.5, 95, math.nan, math.inf, True, None, "0.9"):
        message = f"^The level parameter of interval must be a number between 0 and 1. Got {level!r} instead.$"
        with pytest.raises(ParameterError, match=message):
            model.interval(["the a in at"], level)
    for level in (np.float64(0.5), np.float32(0.5)):
        np.testing.assert_array_equal(model.interval(["the a in at"], level), model.interval(["the a in at"], 0.5))


@pytest.mark.parametrize("estimator", WHOLE)
def test_whole_ngrams_have_no_interval(counts, estimator):
    model = rg.fit(counts, "LOC", estimator)
    message = (
        f"the estimator {estimator!r} has no interval: an N-gram never seen would have none. "
        "Fit 'backoff', 'product' or 'selective'"
    )
    with pytest.raises(ParameterError, match=f"^{re.escape(message)}$"):
        model.interval(["the a in at"])
    assert model.explain("the a in at").interval is None


# What is wrong is named


@every_estimator
def test_a_sample_without_contexts_is_refused(estimator):
    counts = rg.Counts.from_contexts(["a b"], ["LOC"], targets=["LOC", "PER"], spans=SPANS)
    with pytest.raises(InputError, match="target 'PER' never occurs"):
        rg.fit(counts, "PER", estimator)
    with pytest.raises(InputError, match="every context belongs to 'LOC'"):
        rg.fit(counts, "LOC", estimator)
    with pytest.raises(InputError, match="no context of these counts has a label"):
        rg.fit(rg.Counts.from_contexts(["a b"], [None], spans=SPANS), estimator=estimator)


@every_estimator
@pytest.mark.parametrize("kind", KIND.choices)
def test_the_denominator_is_the_rest_or_everything(kind, estimator):
    ngrams = ["a b", "b c", "c a"] if kind == "words" else ["ab", "bc", "ca"]
    f_nu, f_de = np.array([4, 1, 1]), np.array([1, 1, 3])
    tables = [
        rg.Counts.from_ngrams(ngrams, f_nu, more, kind=kind, spans=SPANS, target="T") for more in (f_de, f_de + f_nu)
    ]
    alone = rg.fit(tables[0], "T", estimator, lam=0.1, denominator="all")
    rest = rg.fit(tables[1], "T", estimator, lam=0.1)
    np.testing.assert_array_equal(alone.log_ratio(ngrams), rest.log_ratio(ngrams))
    assert (alone.settings.n_nu, alone.settings.n_de) == (rest.settings.n_nu, rest.settings.n_de) == (6, 11)
