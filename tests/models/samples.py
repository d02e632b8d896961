"""Labelled contexts in which some items share their shapes, and others that share something with them."""

from __future__ import annotations

from hypothesis import strategies as st

# Some share a shape next to the boundary, some only further away, some are their own shape.
SEEN = ["in", "at", "Rome", "Oslo", "walked", "talked", "walking", "1987", "Monday,", "--"]
UNSEEN = ["Bern", "jumped", "going", "12", "Friday,", "of", "(Xy", "é"]  # the last three: shapes never seen, too
ITEMS = st.sampled_from(SEEN)
PROBES = st.sampled_from(SEEN + UNSEEN)
FREQUENCY = st.sampled_from([0, 0, 1, 1, 2, 3, 17])


@st.composite
def samples(draw, n=None, most=10, items=ITEMS):
    """Labelled contexts, some of them many times: (list of item lists, list of labels), with both samples."""
    n = draw(st.integers(1, 4)) if n is None else n
    rows = draw(
        st.lists(
            st.tuples(st.lists(items, min_size=n, max_size=n), FREQUENCY, FREQUENCY), min_size=1, max_size=most
        ).filter(lambda rows: any(f for _, f, _ in rows) and any(f for _, _, f in rows))
    )
    contexts = [context for context, f_nu, f_de in rows for _ in range(f_nu + f_de)]
    labels = [label for _, f_nu, f_de in rows for label in ["T"] * f_nu + [None] * f_de]
    return contexts, labels


def probes_of(sample, draw):
    """Contexts that were seen, and others that share something with them."""
    n = len(sample[0][0])
    seen = [list(context) for context in {tuple(context): None for context in sample[0]}]
    others = draw(st.lists(st.lists(PROBES, min_size=n, max_size=n), max_size=4))
    for context in seen[:4]:  # the same suffix behind something else
        position = draw(st.integers(0, n - 1))
        others.append([*context[:position], draw(PROBES), *context[position + 1 :]])
    return seen + others
