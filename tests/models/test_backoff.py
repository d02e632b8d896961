"""The back-off estimator against a literal implementation, its limits, and every way in and out of a model."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from samples import ITEMS, UNSEEN, probes_of, samples
from test_contracts import same_models

import raregram as rg
from raregram.counts.rows import SpanRows
from raregram.errors import InputError, ParameterError
from raregram.models.backoff.pairs import PairTable
from raregram.models.backoff.prune import LEAST_GAIN
from raregram.options import DENOMINATOR, SIDE
from raregram.text.shapes import SHAPES, letter_shape, word_shape
from raregram.text.vocabulary import ABSENT

EVERYTHING = 10**6  # a size at which no span is left out for saying little
ROUNDING = 2.0**-17

MANY = 1000


@st.composite
def fits(draw, n=4):
    """What is counted, and how the estimator is fitted: (options of the count, options of the fit)."""
    counted, of_shapes = draw(st.integers(1, n)), draw(st.integers(0, n))
    spans = ["units", f"suffixes:{counted}", *([f"shapes:{of_shapes}"] if of_shapes else [])]
    return (
        {"spans": spans, "side": draw(st.sampled_from(SIDE.choices))},
        {
            "lam": draw(st.sampled_from([1e-4, 0.02, 0.3])),
            "unit_lam": draw(st.sampled_from([1e-3, 0.05, 0.7])),
            "tau": draw(st.sampled_from([0.0, 0.3, 0.5, 1.0])),
            "longest": draw(st.integers(0, counted)),
            "shapes": draw(st.booleans()) if of_shapes else False,
            "denominator": draw(st.sampled_from(DENOMINATOR.choices)),
        },
    )


def count(sample, *, spans, side="left", **options):
    """Count; suffixes longer than the contexts are as long as the contexts."""
    return rg.Counts.from_contexts(*sample, targets=["T"], spans=spans, side=side, **options)


def fit(sample, how, size=EVERYTHING, min_count=1, **more):
    counting, fitting = how
    n = len(sample[0][0])
    options = {**fitting, "longest": min(fitting["longest"], n), **more}
    return rg.fit(count(sample, **counting).drop_rare(min_count), "T", "backoff", size=size, **options)


def towards(r0, f_nu, n_nu, f_de, n_de, lam):
    return (f_nu / n_nu + lam * r0) / (f_de / n_de + lam)


class Literal:
    """The definition of the estimator, with dictionaries, one context at a time."""

    def __init__(
        self, sample, counting, *, lam, unit_lam, tau, longest, shapes, denominator, shape=word_shape, min_count=1
    ):
        contexts, labels = sample
        self.min_count, self.total = min_count, Counter()
        self.side, self.n = counting.get("side", "left"), len(contexts[0])
        self.lam, self.unit_lam, self.tau, self.shape = lam, unit_lam, tau, shape
        lengths = {name.partition(":")[0]: int(name.partition(":")[2] or 1) for name in counting["spans"]}
        self.longest = min(longest, self.n)
        self.longest_shapes = min(lengths["shapes"], self.n) if shapes else 0
        self.nu, self.de = Counter(), Counter()
        self.n_nu = self.n_de = 0
        for items, label in zip(contexts, labels, strict=True):
            keys = list(self.keys(items))
            self.total.update(keys)
            if label == "T":
                self.n_nu += 1
                self.nu.update(keys)
            if label != "T" or denominator == "all":
                self.n_de += 1
                self.de.update(keys)

    def outwards(self, items):
        """The items and their shapes, from the boundary on."""
        items = list(items)[::-1] if self.side == "left" else list(items)
        return items, [self.shape(item)[distance > 0] for distance, item in enumerate(items)]

    def keys(self, items):
        items, shapes = self.outwards(items)
        for distance in range(self.n):
            yield "anywhere", items[distance]
            for kind, names in (("items", items), ("shapes", shapes)):
                yield kind, distance, names[distance]
                yield f"suffix of {kind}", tuple(names[: distance + 1])

    def seen(self, *key):
        return self.nu[key], self.de[key]

    def unit(self, distance, item, shape, power):
        """The log ratio of an item at its distance, or of a shape alone, to a power."""
        if not self.longest_shapes:
            f_nu, f_de = self.seen("items", distance, item)
            if not f_nu and not f_de:
                return 0.0
            ratio = ((f_nu + 1) / (self.n_nu + 2)) / ((f_de + 1) / (self.n_de + 2) + self.unit_lam)
            return power * math.log(ratio)
        f_nu, f_de = self.seen("shapes", distance, shape)
        ratio = towards(1.0, f_nu, self.n_nu, f_de, self.n_de, self.unit_lam)
        if item is not None:
            f_nu, f_de = self.seen("anywhere", item)
            ratio = towards(ratio, f_nu, self.n * self.n_nu, f_de, self.n * self.n_de, self.lam)
            f_nu, f_de = self.seen("items", distance, item)
            ratio = towards(ratio, f_nu, self.n_nu, f_de, self.n_de, self.unit_lam)
        return power * math.log(ratio)

    def follow(self, kind, names, units, added, longest, lam):
        """The suffixes: a list of (f_nu, f_de, prior, correction), as far as they are held."""
        steps, estimate = [], 0.0
        for length in range(1, longest + 1):
            key = f"suffix of {kind}", tuple(names[:length])
            f_nu, f_de = self.seen(*key)
            if length > 1 and not ((f_nu > 0 or f_de > 1) and self.total[key] >= self.min_count):
                break
            prior = estimate + units[length - 1] + (added[length - 1] if length <= len(added) else 0.0)
            estimate = math.log(towards(math.exp(prior), f_nu, self.n_nu, f_de, self.n_de, lam))
            steps.append((f_nu, f_de, prior, estimate - prior))
        return steps

    def steps(self, items):
        """The units in the order of the context, the suffixes of shapes and those of items."""
        items, shapes = self.outwards(items)
        powers = [self.tau ** math.sqrt(distance) for distance in range(self.n)]
        units, shape_units = (
            [self.unit(d, items[d] if own else None, shapes[d], powers[d]) for d in range(self.n)]
            for own in (True, False)
        )
        of_shapes = self.follow("shapes", shapes, shape_units, [], self.longest_shapes, self.unit_lam)
        added = [correction for *_, correction in of_shapes]
        of_items = self.follow("items", items, units, added, self.longest, self.lam)
        return units[::-1] if self.side == "left" else units, of_shapes, of_items

    def log_ratio(self, items):
        units, of_shapes, of_items = self.steps(items)
        return sum(units) + sum(step[-1] for step in of_shapes) + sum(step[-1] for step in of_items)


@settings(max_examples=200)
@given(samples(), fits(), st.sampled_from([1, 1, 2, 3]), st.data())
def test_the_recursion_agrees_with_a_literal_implementation(sample, how, min_count, data):
    model, literal = fit(sample, how, min_count=min_count), Literal(sample, how[0], min_count=min_count, **how[1])
    probes = probes_of(sample, data.draw)
    expected = [literal.log_ratio(items) for items in probes]
    np.testing.assert_allclose(model.log_ratio(probes), expected, rtol=0, atol=1e-4, err_msg=str(probes))


@settings(max_examples=60)
@given(samples(), fits(), st.data())
def test_explanations_name_the_steps_of_the_definition(sample, how, data):
    model, literal = fit(sample, how), Literal(sample, how[0], **how[1])
    for items in probes_of(sample, data.draw)[-5:]:
        units, of_shapes, of_items = literal.steps(items)
        terms = model.explain(items).terms
        assert [term.value for term in terms[: len(items)]] == pytest.approx(units, abs=1e-9)
        assert [term.start for term in terms[: len(items)]] == list(range(len(items)))
        suffixes = [term for term in terms if term.kind in ("shapes", "items")]
        expected = [step for step in [*of_shapes, *of_items] if step[:2] != (0, 0)]
        assert [(term.f_nu, term.f_de) for term in suffixes] == [step[:2] for step in expected]
        assert [term.prior for term in suffixes] == pytest.approx([step[2] for step in expected], abs=1e-4)
        assert [term.value for term in suffixes] == pytest.approx([step[3] for step in expected], abs=1e-4)


@settings(max_examples=60)
@given(samples(n=3, items=st.sampled_from(list("ab1Z."))), fits(n=3), st.data())
def test_letters_have_shapes_of_their_own(sample, how, data):
    how = ({**how[0], "kind": "letters"}, how[1])
    sample = (["".join(letters) for letters in sample[0]], sample[1])
    model, literal = fit(sample, how), Literal(sample, how[0], **how[1], shape=letter_shape)
    probes = [*sample[0], *data.draw(st.lists(st.text("abc1 Z.é2Y-", min_size=3, max_size=3), max_size=4))]
    expected = [literal.log_ratio(letters) for letters in probes]
    np.testing.assert_allclose(model.log_ratio(probes), expected, rtol=0, atol=1e-4, err_msg=str(probes))


@settings(max_examples=60)
@given(samples(), fits())
def test_rows_are_those_that_were_counted_and_what_they_add(sample, how):
    """Every row of a model has the frequencies of the table, and suffixes the correction of the definition."""
    model, literal = fit(sample, how), Literal(sample, how[0], **how[1])
    names = model.estimator.vocabulary.to_pylist()
    n = literal.n
    corrections = {}
    for context in sample[0]:
        items, shapes = literal.outwards(context)
        _, of_shapes, of_items = literal.steps(context)
        for kind, outwards, steps in (("items", items, of_items), ("shapes", shapes, of_shapes)):
            corrections |= {(kind, tuple(outwards[:length])): step[-1] for length, step in enumerate(steps, 1)}
    held = Counter()
    for rows in model.estimator.rows():
        start, end = rows.span.columns(n)
        kind = "anywhere" if start == 2 * n else "shapes" if start >= n else "items"
        for key, frequencies, value in zip(
            rows.keys.tolist(), rows.values.tolist(), rows.terms.tolist(), strict=True
        ):
            row = [names[number] for number in key]
            outwards = tuple(row[::-1] if literal.side == "left" else row)
            distance = n - 1 - start % n if literal.side == "left" else start % n
            held[kind, end - start] += 1
            if kind == "anywhere":
                expected = literal.seen(kind, row[0])
            elif end - start == 1:
                expected = literal.seen(kind, distance, row[0])
            else:
                expected = literal.seen(f"suffix of {kind}", outwards)
                assert value == pytest.approx(corrections[kind, outwards], abs=1e-4)
            assert frequencies == [*expected, 1]
    for (kind, length), count in held.items():  # and all of them
        if kind != "anywhere" and length > 1:
            keys = {
                key for key in {*literal.nu, *literal.de} if key[0] == f"suffix of {kind}" and len(key[1]) == length
            }
            assert count == sum(literal.nu[key] > 0 or literal.de[key] > 1 for key in keys)


def test_a_small_model_by_hand():
    """Three contexts before T and five others, worked out on paper."""
    contexts = [["in"]] * 3 + [["in"]] + [["of"]] * 4
    counts = rg.Counts.from_contexts(contexts, ["T"] * 3 + [None] * 5, spans=["suffixes:1"])
    model = rg.fit(counts, "T", "backoff", lam=0.1, unit_lam=0.2, size=EVERYTHING, shapes=False)
    unit = (4 / 5) / (2 / 7 + 0.2)
    assert model.log_ratio(["in"])[0] == pytest.approx(math.log((1 + 0.1 * unit) / (1 / 5 + 0.1)), abs=1e-5)
    assert model.log_ratio(["at"])[0] == 0


def test_the_default_ridge_is_worth_six_contexts():
    counts = rg.Counts.from_contexts([["in"]] * 3 + [["of"]] * 24, ["T"] * 3 + [None] * 24)
    chosen = rg.fit(counts, "T", "backoff").params
    assert (chosen.lam, chosen.unit_lam, chosen.tau) == (0.25, 2.5, 0.5)
    assert rg.fit(counts, "T", "backoff", lam=0.5).params.unit_lam == 5.0


def test_two_samples_of_one_size_keep_a_large_ratio():
    """A word seen 77 times in one of two samples and once in the other stays clearly characteristic."""
    words = [["fine"]] * 20_000 + [["mulan"]] * 77 + [["fine"]] * 20_076 + [["mulan"]]
    counts = rg.Counts.from_contexts(words, ["A"] * 20_077 + [None] * 20_077)
    assert rg.fit(counts, "A").ratio(["mulan"])[0] > 10


# Limits


@settings(max_examples=60)
@given(st.lists(st.tuples(*[st.integers(1, 9)] * 2), min_size=1, max_size=8), fits(), st.data())
def test_at_high_frequencies_the_ratio_is_the_observed_one(frequencies, how, data):
    """The prior stays worth as many contexts as it was."""
    n = data.draw(st.integers(1, 4))
    contexts = data.draw(
        st.lists(
            st.lists(ITEMS, min_size=n, max_size=n),
            min_size=len(frequencies),
            max_size=len(frequencies),
            unique_by=tuple,
        )
    )
    counting, fitting = how
    f_nu, f_de = np.array(frequencies).T
    observed = np.log((f_nu / f_nu.sum()) / (f_de / f_de.sum()))
    spans = [*counting["spans"], "suffixes:4"]
    errors = []
    for times in (1, 10**3, 10**7):
        counts = rg.Counts.from_ngrams(
            contexts, f_nu * times, f_de * times, target="T", spans=spans, side=counting["side"]
        )
        model = rg.fit(counts, "T", "backoff", size=EVERYTHING, tau=fitting["tau"], shapes=fitting["shapes"])
        assert model.params.longest == n
        errors.append(np.abs(model.log_ratio(contexts) - observed).max())
    assert errors[2] < 1e-3
    assert errors[2] <= errors[1] + ROUNDING


@settings(max_examples=60)
@given(samples(n=4), fits(), st.data())
def test_a_suffix_that_was_never_seen_changes_nothing_at_all(sample, how, data):
    how = ({**how[0], "spans": [*how[0]["spans"], "suffixes:4"]}, how[1])
    literal = Literal(sample, how[0], **how[1])
    probes = probes_of(sample, data.draw)
    ratios = [fit(sample, how, longest=longest).log_ratio(probes) for longest in range(1, 5)]
    compared = 0
    for row, items in enumerate(probes):
        outwards, _ = literal.outwards(items)
        for length in range(1, 4):
            f_nu, f_de = literal.seen("suffix of items", tuple(outwards[: length + 1]))
            if not f_nu and f_de <= 1:
                compared += 1
                assert ratios[length - 1][row] == ratios[length][row]
    assume(compared)


@settings(max_examples=60)
@given(
    samples(),
    st.sampled_from(SIDE.choices),
    st.sampled_from(DENOMINATOR.choices),
    st.sampled_from([1e-5, 0.1, 2.0]),
    st.data(),
)
def test_units_alone_are_the_product_estimator(sample, side, denominator, lam, data):
    counts = count(sample, spans=["suffixes:2"], side=side)
    product = rg.fit(counts, "T", "product", lam=lam, denominator=denominator)
    options = {"tau": 1, "longest": 0, "shapes": False, "unit_lam": lam, "lam": 0.3, "denominator": denominator}
    backoff = rg.fit(counts, "T", "backoff", size=EVERYTHING, **options)
    for probes in (probes_of(sample, data.draw), probes_of(sample, data.draw) * 20):  # few, and more than items
        np.testing.assert_allclose(backoff.log_ratio(probes), product.log_ratio(probes), atol=1e-9)
    assert backoff.explain(sample[0][0]).log_ratio == pytest.approx(product.explain(sample[0][0]).log_ratio, abs=1e-9)


def test_tau_zero_leaves_out_all_units_but_the_nearest():
    contexts = [["in", "Rome"]] * 5 + [["at", "Rome"]] * 5
    counts = rg.Counts.from_contexts(contexts, ["T"] * 4 + [None] * 6, spans=["shapes:1"])
    model = rg.fit(counts, "T", "backoff", tau=0, size=EVERYTHING, longest=1)
    assert len(set(model.log_ratio(["in Rome", "at Rome", "of Rome"]))) == 1
    with_units = rg.fit(counts, "T", "backoff", tau=0.5, size=EVERYTHING, longest=1)
    assert len(set(with_units.log_ratio(["in Rome", "at Rome", "of Rome"]))) == 3


# Monotonicity


@settings(max_examples=60)
@given(
    samples(),
    fits(),
    st.sampled_from([{}, {"size": 2}, {"size": 3, "criterion": "chi2"}]),
    st.integers(1, 3000),
)
def test_a_table_larger_than_memory_gives_the_same_model(sample, how, selecting, memory_limit):
    """Whatever the number of passes: the files are equal byte by byte."""
    counts = count(sample, **how[0])
    with tempfile.TemporaryDirectory() as folder:
        counts.save(Path(folder, "t.counts"))
        stored = rg.Counts.load(Path(folder, "t.counts"))
        for name, limit in (("at once", 1 << 32), ("in passes", memory_limit)):
            how[1]["longest"] = min(how[1]["longest"], counts.n)
            rg.fit(stored, "T", "backoff", **how[1], **selecting, memory_limit=limit).save(Path(folder, name))
        assert Path(folder, "at once").read_bytes() == Path(folder, "in passes").read_bytes()


@settings(max_examples=80)
@given(samples(), fits(), st.integers(1, 50), st.data())
def test_a_higher_frequency_of_one_span_never_lowers_the_ratio(sample, how, more, data):
    counts = count(sample, **how[0])
    context = data.draw(st.sampled_from(sample[0]))
    span = data.draw(st.sampled_from([span for span in counts.spans if span.layer == "item"]))
    wanted = [counts.items.to_pylist().index(item) for item in context[span.start : span.stop]]
    (row,) = np.flatnonzero((counts.rows[span].keys == wanted).all(axis=1))
    values = counts.rows[span].values.copy()
    assume(span.width == 1 or values[row].tolist() != [1, 0])  # would begin to be held, with its f_de
    n_nu, n_de = counts.sizes("T")
    values[row] += more
    totals = np.array([n_nu + n_de + more, n_nu + more])
    # The table before has as many contexts, so that only this one frequency differs.
    before = replace(counts, totals=totals)
    changed = {**counts.rows, span: SpanRows(span, counts.rows[span].keys, values)}
    before, after = (before.with_rows(rows.values()) for rows in (counts.rows, changed))
    options = {**how[1], "shapes": False, "denominator": "complement"}
    options["longest"] = min(options["longest"], counts.n)
    low, high = (
        rg.fit(table, "T", "backoff", size=EVERYTHING, **options).log_ratio([context])[0] for table in (before, after)
    )
    assert high >= low - ROUNDING


# Tables


def test_tables_with_different_shapes_do_not_mix(monkeypatch):
    monkeypatch.setitem(SHAPES, "first letter", lambda word: (word[:1], word[:1]))
    contexts = (["a b", "c d"], ["T", None])
    tables = [
        rg.Counts.from_contexts(*contexts, spans=["shapes:2"], shape=shape) for shape in ("words", "first letter")
    ]
    with pytest.raises(ParameterError, match="different shape cannot be combined: 'words' and 'first letter'"):
        tables[0] + tables[1]
    with pytest.raises(ParameterError, match="different spans cannot be combined"):
        tables[0] + rg.Counts.from_contexts(*contexts, spans=["shapes:1"])


# Files and room


def test_a_model_that_holds_nothing_can_be_kept(tmp_path):
    """Where no item says anything, there is nothing to hold."""
    counts = rg.Counts.from_contexts(["a", "b"] * 50, ["T", "T", None, None] * 25, spans=["suffixes:1", "shapes:1"])
    model = rg.fit(counts, "T", "backoff")
    assert sum(model.sizes) == 0
    assert model.log_ratio(["a", "c"]).tolist() == [0, 0]
    model.save(tmp_path / "a.rgm")
    same_models(model, rg.Model.load(tmp_path / "a.rgm"), [["a"], ["c"]])


@pytest.fixture(scope="module")
def newswire():
    """Contexts like those of newswire: frequent short words, rare names, numbers; the target depends on two words."""
    rng = np.random.default_rng(3)
    words = np.array(
        ["in", "of", "the", "to", "said", "on", "for", "at", "by", "from"]
        + [f"{stem}{end}" for stem in ("walk", "talk", "trad", "offer", "report") for end in ("ed", "ing", "s")]
        + [f"Name{chr(97 + k // 26)}{chr(97 + k % 26)}" for k in range(200)]
        + [f"{number:,}" for number in range(1000, 3000, 17)]
        + [f"U.{chr(65 + k)}." for k in range(26)]
    )
    share = 1.0 / np.arange(2, len(words) + 2)
    drawn = words[rng.choice(len(words), (12_000, 4), p=share / share.sum())]
    near = np.isin(drawn[:, 3], ["in", "at", "from"])
    chance = np.where(near, np.where(np.isin(drawn[:, 2], ["said", "walked", "trading"]), 0.9, 0.4), 0.02)
    labels = np.where(rng.random(len(drawn)) < chance, "T", "")
    return drawn.tolist(), labels.tolist()


@pytest.fixture(scope="module")
def newswire_counts(newswire):
    return rg.Counts.from_contexts(*newswire, spans=["suffixes:4", "shapes:3"])


@pytest.fixture(scope="module")
def newswire_model(newswire_counts):
    return rg.fit(newswire_counts, "T", "backoff", size=EVERYTHING)


@pytest.mark.parametrize("size", [1, 10, 100])
@pytest.mark.parametrize("criterion", ["gain", "cet"])
def test_sizes_are_kept(newswire, newswire_counts, newswire_model, tmp_path, size, criterion):
    """Also where the best long suffixes are not stored, since the shorter ones that lead to them are not."""
    model = rg.fit(newswire_counts, "T", "backoff", size=size, criterion=criterion)
    assert max(model.sizes) <= size < max(newswire_model.sizes)
    assert model.sizes[0] == size
    model.save(tmp_path / "a.rgm")
    same_models(model, rg.Model.load(tmp_path / "a.rgm"), newswire[0][:300])


@settings(max_examples=60)
@given(samples(n=3, most=14), fits(n=3), st.sampled_from([None, 1, 2, 3]))
def test_suffixes_are_held_for_their_gain_or_for_that_of_longer_ones(sample, how, size):
    how = ({**how[0], "spans": [*how[0]["spans"], "suffixes:3"]}, {**how[1], "longest": 3})
    model, literal = fit(sample, how, size=size), Literal(sample, how[0], **how[1])
    gain = {}
    for context in sample[0]:
        outwards, _ = literal.outwards(context)
        for length, (f_nu, f_de, prior, correction) in enumerate(literal.steps(context)[2], 1):
            expected = literal.n_nu * f_de / literal.n_de * math.exp(prior)
            gain[tuple(outwards[:length])] = f_nu * correction - expected * math.expm1(correction)
    for suffix in [suffix for suffix in gain if len(suffix) == 3]:
        gain[suffix[:2]] = max(gain[suffix[:2]], gain[suffix])
    names, held = model.estimator.vocabulary.to_pylist(), set()
    for part in model.estimator.rows():
        if part.span.layer == "item" and part.span.width > 1:
            rows = [tuple(names[number] for number in key) for key in part.keys.tolist()]
            held |= {row[::-1] if literal.side == "left" else row for row in rows}
    for length in (2, 3):
        reached = {suffix for suffix in gain if len(suffix) == length and (length == 2 or suffix[:2] in held)}
        best = min((gain[suffix] for suffix in held if len(suffix) == length), default=math.inf)
        left_out = max((gain[suffix] for suffix in reached - held), default=-math.inf)
        if size is None:
            assert left_out < LEAST_GAIN + 1e-3
            assert best > LEAST_GAIN - 1e-3
        elif length == 2:
            assert left_out <= best + 1e-3
            assert len([suffix for suffix in held if len(suffix) == 2]) == min(size, len(reached))


def test_what_says_most_is_held_first(newswire, newswire_model, newswire_counts):
    """The best spans of each length, in a tenth of the bytes, keep most of what all say; chance keeps less."""
    lam = 12 / newswire_model.settings.n_de
    whole = rg.fit(newswire_counts, "T", "backoff", size=EVERYTHING, lam=lam).log_ratio(newswire[0])
    agreement = {
        criterion: np.corrcoef(
            rg.fit(newswire_counts, "T", size=60, criterion=criterion, lam=lam).log_ratio(newswire[0]),
            whole,
        )[0, 1]
        for criterion in ("gain", "cet", "random")
    }
    assert agreement["gain"] > 0.9
    assert agreement["gain"] > agreement["cet"] > agreement["random"] + 0.05


# Explanations, and every form of input


def test_numbers_for_shapes_and_for_the_rest(newswire_model):
    known, of_shape, rest = newswire_model.encode(["in in in in", "in in in Nameless", "in in in (?!"])[:, 3]
    assert 0 <= known < len(newswire_model.items) <= of_shape < newswire_model.estimator.num_codes - 1
    assert rest == newswire_model.estimator.num_codes - 1
    last = newswire_model.estimator.num_codes - 1
    numbers = newswire_model.encode(["in in in in"] * 2)
    numbers[:, 3] = [ABSENT, last]
    assert len(set(newswire_model.log_ratio(numbers))) == 1
    with pytest.raises(InputError, match=f"codes must be from -2 to {last}"):
        newswire_model.log_ratio(np.full((1, 4), last + 1))


def in_small_parts(model, texts):
    """The scores of few N-grams at a time, which are read the slow way."""
    return np.concatenate([model.log_ratio(texts[i : i + 500]) for i in range(0, len(texts), 500)])


def texts_of(newswire, count):
    """Single-spaced texts, one in seven with words that nobody has seen, of known and of unknown shapes."""
    rows = [list(row) for row in newswire[0][:count]]
    for row, new in zip(rows[::7], UNSEEN[:-1] * count, strict=False):
        row[len(new) % 4] = new
    return [" ".join(row) for row in rows]


ODD = {
    "two spaces": lambda text: text.replace(" ", "  ", 1),
    "a space in front": lambda text: " " + text,
    "a space behind": lambda text: text + " ",
    "tabs": lambda text: text.replace(" ", "\t"),
    "one tab": lambda text: text.replace(" ", "\t", 1),
    "a line break behind": lambda text: text + "\n",
    "a separator": lambda text: text.replace(" ", "\x1c", 1),
    "a hard space": lambda text: text.replace(" ", "\xa0", 1),
    "an ideographic space": lambda text: text.replace(" ", "\u3000", 1),
    "a new word with an accent": lambda text: text.rsplit(" ", 1)[0] + " Zürich",
    "an emoji": lambda text: text.rsplit(" ", 1)[0] + " \U0001f600",
    "a delete": lambda text: text.rsplit(" ", 1)[0] + " a\x7f",
    "a zero": lambda text: text.rsplit(" ", 1)[0] + " a\x00",
}


@pytest.mark.parametrize("every", [1, 2000])
def test_odd_texts_are_read_as_few_are(newswire, newswire_model, every):
    for change in ODD.values():
        texts = texts_of(newswire, 2 * MANY)
        texts[every // 2 :: every] = map(change, texts[every // 2 :: every])
        expected = newswire_model.log_ratio([text.split() for text in texts])
        np.testing.assert_array_equal(newswire_model.log_ratio(texts), expected)
        np.testing.assert_array_equal(in_small_parts(newswire_model, texts), expected)


@settings(max_examples=40)
@given(st.lists(st.text("ab \tRé\xa0\x1f", max_size=9), max_size=4), st.integers(0, MANY))
@example(["a", "a b R"], 0)  # one word less here, one more there: as many in all
@example(["a b R", "a"], 7)
@example(["", "a b R a"], 3)
@example([" a", "b R"], 3)
def test_many_texts_of_any_length_are_scored_as_few_are(texts, at):
    counts = rg.Counts.from_contexts(["a b", "R a", "b b"], ["T", None, None], spans=["suffixes:2", "shapes:2"])
    model = rg.fit(counts, "T", "backoff", size=EVERYTHING)
    many = ["a b"] * (MANY + 1)
    many[at : at + len(texts)] = texts
    many += ["a b"] * (MANY + 1 - len(many))
    np.testing.assert_array_equal(model.log_ratio(many), in_small_parts(model, many))
    np.testing.assert_array_equal(model.encode(many), model.encode([text.split() for text in many]))


def test_white_space_inside_items_is_part_of_them(monkeypatch):
    """An item from a list may end in a space, and a letter may be one; both have the shape that was counted."""
    monkeypatch.setitem(SHAPES, "space", lambda item: ("blank",) * 2 if item.isspace() else ("ink",) * 2)
    letters = rg.Counts.from_contexts(
        ["\t", "\n", "a", "b"] * 5, ["T", "T", None, None] * 5, kind="letters", spans=["shapes:1"], shape="space"
    )
    model = rg.fit(letters, "T", "backoff", size=EVERYTHING)
    assert model.log_ratio([" "])[0] == model.log_ratio(["\x0b"])[0] > 0
    names = rg.Counts.from_contexts(
        [["Oslo "], ["Rome "], ["Oslo"], ["Rome"]] * 5, ["T", "T", None, None] * 5, spans=["shapes:1"]
    )
    model = rg.fit(names, "T", "backoff", size=EVERYTHING)
    ending, bare = model.log_ratio([["Bern "], ["Bern"]])
    assert ending > 0 > bare
    assert model.explain(["Bern "]).terms[0].items == ("~Aa ",)


# Small and extreme cases


@pytest.mark.parametrize("side", SIDE.choices)
@pytest.mark.parametrize("kind", ["words", "letters"])
def test_a_target_with_one_context_of_one_item(side, kind, tmp_path):
    counts = rg.Counts.from_contexts(
        ["a", "b", "b", "7"], ["T", None, None, None], side=side, kind=kind, spans=["suffixes:3", "shapes:3"]
    )
    for options in ({}, {"size": EVERYTHING}, {"shapes": False}, {"longest": 0}, {"denominator": "all"}):
        model = rg.fit(counts, "T", "backoff", **options)
        a, b, _, other = model.log_ratio(["a", "b", "7", "8"])
        assert a > b
        assert b < 0
        if "shapes" not in options:
            assert a > 0
            assert b <= other <= a
        assert np.isfinite(model.interval(["a", "b", "7", "8", "é"])).all()
        model.save(tmp_path / "a.rgm")
        same_models(model, rg.Model.load(tmp_path / "a.rgm"), ["a", "b", "7", "8", "é"])


def test_a_long_context_that_is_certain_stays_finite():
    """The units of a hundred items, all of which only the target has, multiply to more than a double holds."""
    for items in (["x"] * 100, [f"w{k}" for k in range(100)]):
        counts = rg.Counts.from_ngrams(
            [items, ["y"] * 100], [10**6, 0], [0, 10**6], target="T", spans=["suffixes:100", "shapes:100"]
        )
        for options in ({}, {"shapes": False}):
            model = rg.fit(counts, "T", "backoff", tau=1, lam=1e-9, unit_lam=1e-8, size=EVERYTHING, **options)
            ratios = model.log_ratio([items, ["y"] * 100])
            assert np.isfinite(ratios).all()
            assert ratios[0] > 0 > ratios[1]
            assert np.isfinite(model.interval([items, ["y"] * 100])).all()


def test_items_and_shapes_of_the_same_name_are_kept_apart():
    """'~Aa' is also what the shape of 'Rome' is called."""
    contexts = [["~Aa"]] * 6 + [["Rome"]] * 6 + [["Oslo"]] * 6
    counts = rg.Counts.from_contexts(contexts, ["T"] * 6 + [None] * 12, spans=["shapes:1"])
    model = rg.fit(counts, "T", "backoff", size=EVERYTHING)
    tilde, rome, bern = model.log_ratio(["~Aa", "Rome", "Bern"])
    assert tilde > 0 > bern > rome


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lam": 0}, r"lam parameter of fit must be from 1e-30 to 1e\+30 for the back-off estimator. Got 0"),
        ({"criterion": "random", "seed": -1}, "seed parameter of fit must be a whole number >= 0. Got -1"),
        ({"longest": -1}, "longest parameter of fit must be a whole number >= 0"),
        ({"longest": 4}, "suffixes of up to 4 items are asked for, and this table counts up to 3"),
        ({"shapes": True}, "needs shapes, and this table counts none"),
    ],
)
def test_wrong_calls_are_named(options, message):
    counts = rg.Counts.from_contexts(["a b c d", "b c d a"], ["T", None], spans=["suffixes:3"])
    with pytest.raises(ParameterError, match=message):
        rg.fit(counts, "T", "backoff", **{"shapes": False, **options})


@pytest.mark.parametrize(("spans", "missing"), [(["suffixes:3"], "shapes"), (["shapes:3", "whole"], "suffixes")])
def test_a_table_without_what_it_needs_is_an_error_with_the_command_that_makes_it(spans, missing):
    counts = rg.Counts.from_contexts(["a b c d", "b c d a"], ["T", None], spans=spans)
    message = f"'backoff' needs {missing}.*`raregram count --spans units,suffixes:5,shapes:8`, the default, or fit"
    with pytest.raises(ParameterError, match=message):
        rg.fit(counts, "T")


def test_what_the_table_counts_is_what_is_used():
    contexts = (["a b c d", "b c d a"], ["T", None])
    for spans, longest, shapes in [
        (["units"], 1, 0),
        (["suffixes:3"], 3, 0),
        (["whole"], 1, 0),
        (["suffixes:3", "whole"], 4, 0),
        (["shapes:2"], 1, 2),
        (["suffixes:9", "shapes:9"], 4, 4),
    ]:
        counts, fewer = rg.Counts.from_contexts(*contexts, spans=spans), 1 if longest == 1 else None
        chosen = rg.fit(counts, "T", "backoff", shapes=shapes > 0, longest=fewer).params
        assert (chosen.longest, chosen.longest_shapes) == (longest, shapes)


# The table of pairs


@settings(max_examples=200)
@given(
    st.integers(1, 2**20),
    st.dictionaries(st.tuples(st.integers(0, 2**40), st.integers(0, 2**20)), st.none(), max_size=60),
    st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**20)), max_size=20),
    st.sampled_from([1, 2**10, 2**40]),
)
@example(
    2**16, {(2**16 - 2, 2**16 - 1): None, (0, 0): None}, [(2**16 - 2, 0)], 2**16 - 1
)  # all that fits into 32 bits
def test_pairs_are_found_as_in_a_dictionary(width, drawn, others, parents):
    pairs = list({(parent % parents, item % width): None for parent, item in drawn})
    table = PairTable(*columns_of(pairs), (parents, width))
    assert len(table) == len(pairs)
    np.testing.assert_array_equal(np.column_stack(table.pairs()).reshape(-1, 2), np.array(pairs).reshape(-1, 2))
    queries = pairs + [(parent % parents, item % width) for parent, item in others]
    queries += [((parent + step) % parents, item) for parent, item in pairs[:5] for step in (-1, 1)]
    queries += [(ABSENT, item) for _, item in pairs]
    row_of = {pair: row for row, pair in enumerate(pairs)}
    for kind in (np.int64, np.int32, np.uint32):
        found = table.find(*columns_of(queries, kind))
        assert found.tolist() == [row_of.get(pair, ABSENT) for pair in queries]


def columns_of(pairs, kind=np.int64):
    rows = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return rows[:, 0].copy(), rows[:, 1].astype(kind)


def test_rows_without_a_parent_are_left_out():
    table = PairTable(np.array([3, ABSENT, 4]), np.array([1, 1, 0]), (5, 2))
    assert len(table) == 2
    assert table.find(np.array([3, ABSENT, 4]), np.array([1, 1, 0])).tolist() == [0, ABSENT, 2]


# --- what must hold for every table, with many examples in the second stage ---------------------------------------


@pytest.mark.harness
@settings(max_examples=60)
@given(samples(), fits(), st.sampled_from([2, 7, 10**6]))
def test_with_shapes_only_relative_frequencies_count(sample, how, times):
    """At a fixed ridge ten times the corpus says the same; suffixes seen once are left out, so nothing is once."""
    assume(how[1]["shapes"])
    frequency = Counter((tuple(items), label) for items, label in zip(*sample, strict=True))
    contexts = list({tuple(items): None for items in sample[0]})
    columns = [[2 * frequency[items, label] for items in contexts] for label in ("T", None)]
    models = [
        rg.fit(
            rg.Counts.from_ngrams(contexts, *(np.array(columns) * scale), target="T", **how[0]),
            "T",
            "backoff",
            size=EVERYTHING,
            **{**how[1], "longest": min(how[1]["longest"], len(contexts[0]))},
        )
        for scale in (1, times)
    ]
    np.testing.assert_allclose(models[0].log_ratio(contexts), models[1].log_ratio(contexts), atol=1e-4)


@pytest.mark.harness
@settings(max_examples=40)
@given(samples(n=3), fits(n=3), st.data())
def test_shapes_that_were_never_seen_change_nothing_at_all(sample, how, data):
    """Longer suffixes of shapes say nothing about contexts whose shorter ones end the walk."""
    fitting = {**how[1], "shapes": True, "longest": 1}
    probes = probes_of(sample, data.draw)
    ratios = [
        fit(sample, ({**how[0], "spans": ["suffixes:1", f"shapes:{length}"]}, fitting)).log_ratio(probes)
        for length in (1, 2, 3)
    ]
    literal = Literal(sample, {**how[0], "spans": ["shapes:3"]}, **fitting)
    for row, items in enumerate(probes):
        _, shapes = literal.outwards(items)
        for length in (1, 2):
            f_nu, f_de = literal.seen("suffix of shapes", tuple(shapes[: length + 1]))
            if not f_nu and f_de <= 1:
                assert ratios[length - 1][row] == ratios[length][row]


def tables_with_more(sample, options, extra):
    """A table, and the same with further copies of a context at the target."""
    contexts, labels = sample
    context, copies = extra
    yield count(sample, **options)
    yield count((contexts + [context] * copies, labels + ["T"] * copies), **options)


def change_by_copies(sample, how, context, copies):
    before, after = (
        rg.fit(counts, "T", "backoff", size=EVERYTHING, **how[1]).log_ratio([context])[0]
        for counts in tables_with_more(sample, how[0], (context, copies))
    )
    return after - before


def once_elsewhere(literal, context):
    """Whether a suffix is left out for having been seen once, and not at the target: then it counts as never seen."""
    items, shapes = literal.outwards(context)
    kinds = [("items", items), *([("shapes", shapes)] if literal.longest_shapes else [])]
    lengths = range(2, len(context) + 1)
    return any(
        literal.seen(f"suffix of {kind}", tuple(names[:j])) == (0, 1) for kind, names in kinds for j in lengths
    )


@pytest.mark.harness
@settings(max_examples=100)
@given(samples(), fits(), st.integers(1, 5), st.data())
def test_more_copies_at_the_target_never_lower_the_ratio(sample, how, copies, data):
    """Without shapes an item that was never seen has the ratio 1, and may have less when it was seen once."""
    context = data.draw(st.sampled_from(sample[0]))
    fitting = {
        **how[1],
        "shapes": False,
        "denominator": "complement",
        "longest": min(how[1]["longest"], len(context)),
    }
    assume(not once_elsewhere(Literal(sample, how[0], **fitting), context))
    assert change_by_copies(sample, (how[0], fitting), context, copies) >= -ROUNDING


@pytest.mark.harness
@settings(max_examples=100, derandomize=True)
@given(samples(), st.sampled_from(SIDE.choices), st.sampled_from([0.5, 0.8, 1]), st.integers(1, 5), st.data())
def test_more_copies_never_lower_the_ratio_with_shapes_either(sample, side, tau, copies, data):
    """With the usual ridges, and whether or not the items were seen; a tiny tau could be an exception."""
    context = data.draw(st.sampled_from(probes_of(sample, data.draw)))
    n_de = sample[1].count(None)
    fitting = {
        "lam": 12 / n_de, "unit_lam": 120 / n_de, "tau": tau, "longest": len(context), "shapes": True,
        "denominator": "complement",
    }  # fmt: skip
    how = ({"spans": ["suffixes:4", "shapes:4"], "side": side}, fitting)
    assume(not once_elsewhere(Literal(sample, *how[:1], **fitting), context))
    assert change_by_copies(sample, how, context, copies) >= -ROUNDING


@pytest.mark.parametrize("width", [1000, 2**30])
def test_many_pairs_are_all_found(width):
    """Also where several begin with the same bits."""
    parents, items = np.divmod(np.unique(np.random.default_rng(0).integers(0, 2**31, 30_000)), 1000)
    table = PairTable(parents, items, (4_250_000, width))
    assert (np.bincount(table.hashes >> table.shift) > 3).any()
    np.testing.assert_array_equal(table.find(parents, items), np.arange(len(parents)))
    assert (table.find(parents + 2**21, items) == ABSENT).all()
