"""Concordance lines: the same as a naive search finds, spread over documents, with the text as it was."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raregram.corpus.concordance import Line, concordance, sort_lines, text_and_bounds
from raregram.corpus.documents import Options
from raregram.errors import InputError, ParameterError
from raregram.text.tokenize import Tokenizer

WORDS = Tokenizer(tokenize="words")
TOKENIZERS = [
    Tokenizer(),
    WORDS,
    Tokenizer(tokenize="words", lower=True),
    Tokenizer(lower=True),
    Tokenizer("letters"),
]
PIECES = st.sampled_from(
    ["a", "b", "B", "a,", "'b'", "don't", "é", "3.5", "\u3000", " ", "\n", "  ", "-", "😀", "ab"]
)
TEXTS = st.lists(st.lists(PIECES, max_size=30).map(" ".join), max_size=6)


def items_of(text, tokenizer):
    return tokenizer.items(text)


def naive(texts, query, tokenizer):
    """Every occurrence as (document, position), found item by item."""
    wanted = items_of(query, tokenizer)
    found = []
    for document, text in enumerate(texts):
        items = items_of(text, tokenizer)
        for position in range(len(items) - len(wanted) + 1):
            if items[position : position + len(wanted)] == wanted:
                found.append((document, position))
    return found


def expected_lines(found, most):
    """The first of each document, then the second of each, and so on; then in reading order."""
    rank = {place: sum(other < place and other[0] == place[0] for other in found) for place in found}
    return sorted(sorted(found, key=lambda place: (rank[place], place))[:most])


def squeezed(text):
    return re.sub(r"\s+", " ", text)


@given(TEXTS, st.data(), st.sampled_from(TOKENIZERS), st.integers(1, 4), st.sampled_from([1 << 25, 1]))
def test_all_occurrences_are_found_and_the_kept_ones_are_spread(texts, data, tokenizer, most, batch_bytes):
    """Against a search item by item, for many N-grams of different lengths at once, in one batch or in many."""
    every = [item for text in texts for item in items_of(text, tokenizer)] or ["a"]
    join = "".join if tokenizer.kind == "letters" else " ".join
    some = st.lists(st.sampled_from(every), min_size=1, max_size=5).map(join)
    runs = st.integers(0, len(every) - 1).flatmap(
        lambda start: st.integers(1, 5).map(lambda size: join(every[start : start + size]))
    )
    queries = data.draw(st.lists(some | runs, min_size=1, max_size=8).map(lambda q: list(dict.fromkeys(q))))
    documents = [{"id": str(number), "text": text} for number, text in enumerate(texts)]
    options = Options(batch_bytes=batch_bytes)
    result = concordance(documents, queries, tokenizer=tokenizer, lines=most, width=1000, options=options)
    assert list(result) == queries
    for query, found in result.items():
        places = naive(texts, query, tokenizer)
        counts = {}
        for document, _ in places:
            counts[str(document)] = counts.get(str(document), 0) + 1
        assert found.documents == counts
        assert found.occurrences == len(places)
        assert [(int(line.document), line.position) for line in found.lines] == expected_lines(places, most)
        for line in found.lines:
            whole = texts[int(line.document)]
            whole = re.sub(r"\s", " ", whole) if tokenizer.kind == "letters" else squeezed(whole)
            assert (line.left + line.match + line.right).strip() == whole.strip()
            wanted = re.sub(r"\s", " ", query) if tokenizer.kind == "letters" else query
            assert items_of(line.match, tokenizer) == items_of(wanted, tokenizer)


@given(TEXTS, st.sampled_from(TOKENIZERS))
def test_lists_of_items_are_found_as_texts_are(texts, tokenizer):
    """A list of items is the same as a text of them with spaces between."""
    lists = [text.split() for text in texts]
    joined = [" ".join(words) for words in lists]
    queries = sorted({" ".join(words[at : at + 2]) for words in lists for at in range(len(words))}) or ["a"]
    of_lists, of_texts = (
        concordance(documents, queries, tokenizer=tokenizer, width=9)
        for documents in (lists, [{"text": text} for text in joined])
    )
    assert of_lists == of_texts


@given(st.lists(PIECES, max_size=20).map("".join), st.sampled_from(TOKENIZERS))
def test_bounds_of_items_cut_them_out_of_the_text(content, tokenizer):
    text, bounds = text_and_bounds(content, tokenizer)
    items = Tokenizer(tokenizer.kind, tokenizer.tokenize).items(content)
    if tokenizer.kind == "letters":
        assert text == re.sub(r"\s", " ", content)
        items = [" " if item.isspace() else item for item in items]
    else:
        assert text == squeezed(content).strip()
    assert [text[a:b] for a, b in bounds.tolist()] == items


@given(st.lists(st.text("ab c", max_size=5), max_size=8), st.sampled_from(TOKENIZERS[:4]))
def test_bounds_of_items_that_hold_spaces_or_nothing(strings, tokenizer):
    text, bounds = text_and_bounds(strings, tokenizer)
    found = [text[a:b] for a, b in bounds.tolist()]
    assert text == " ".join(strings)
    if tokenizer.tokenize == "whitespace":
        assert found == strings
    else:
        assert [word for word in found if word] == text.split()


@given(
    st.lists(st.sampled_from(["a", "b", "a,", "B"]), min_size=1, max_size=200),
    st.integers(1, 60),
    st.sampled_from(TOKENIZERS[:3]),
)
def test_a_long_text_that_comes_in_pieces_is_one_document(tmp_path_factory, words, batch_bytes, tokenizer):
    """Positions and counts are those of the whole text, and nothing in two pieces is found twice."""
    path = tmp_path_factory.mktemp("long") / "long.txt"
    path.write_text(" ".join(words))
    queries = ["a", "a b", "b a, a", "a b a b a"]
    small = concordance(path, queries, tokenizer=tokenizer, lines=500, options=Options(batch_bytes=batch_bytes))
    for query in queries:
        places = [position for _, position in naive([" ".join(words)], query, tokenizer)]
        assert sorted(line.position for line in small[query].lines) == places
        assert small[query].documents == ({str(path): len(places)} if places else {})


def test_lines_show_the_text_as_it_was_and_cut_no_word():
    text = 'He said: "United\nStates, of course!"   Extraordinarily long words follow.'
    (line,) = concordance([{"id": "x", "text": text}], ["United States"], tokenizer=WORDS, width=14)[
        "United States"
    ].lines
    assert line == Line("x", 4, 'He said: "', "United States", ", of course!\"")  # fmt: skip
    (line,) = concordance([{"id": "x", "text": text}], ["long"], width=10)["long"].lines
    assert (line.left, line.right) == ("rdinarily ", " words")
    (line,) = concordance([{"id": "x", "text": text}], ["follow."], width=1000)["follow."].lines
    assert line.left == 'He said: "United States, of course!" Extraordinarily long words '


def test_documents_are_called_by_id_file_or_location(tmp_path):
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, [{"id": "one", "text": "x"}, {"text": "x"}])))
    (tmp_path / "b.txt").write_text("x")
    found = concordance([tmp_path / "a.jsonl", tmp_path / "b.txt"], ["x"])["x"]
    names = ["one", f"{tmp_path}/a.jsonl, line 2", f"{tmp_path}/b.txt"]
    assert [line.document for line in found.lines] == names
    assert found.documents == dict.fromkeys(names, 1)


def test_the_same_n_gram_written_twice_has_the_same_lines():
    found = concordance([["The", "cat"]], ["the cat", "THE  cat"], tokenizer=Tokenizer(lower=True))
    assert found["the cat"] == found["THE  cat"]
    assert found["the cat"].occurrences == 1


def test_lines_are_sorted_by_the_words_next_to_the_match():
    texts = [{"text": text} for text in ("see the b x d", "at a x c", "A the B x e")]
    lines = concordance(texts, ["x"])["x"].lines
    assert [line.right for line in sort_lines(lines, "right")] == [" c", " d", " e"]
    assert [line.left for line in sort_lines(lines, "left")] == ["at a ", "A the B ", "see the b "]
    assert sort_lines(lines, "document") == list(lines)


@pytest.mark.parametrize("queries", [[], [""], ["a", "  "]])
def test_n_grams_without_items_are_refused(queries):
    with pytest.raises(ParameterError, match="must be N-grams of one item or more"):
        concordance([["a"]], queries)


def test_bad_documents_stop_or_are_counted():
    from raregram.corpus.log import ReadingLog

    with pytest.raises(InputError, match="document 1"):
        concordance([{"no": "text"}], ["a"])
    log = ReadingLog("skip")
    assert concordance([{"no": "text"}, ["a"]], ["a"], options=Options(log=log))["a"].occurrences == 1
    assert log.skipped == 1
    with pytest.raises(InputError, match="all 1 documents were skipped"):
        concordance([{"no": "text"}], ["a"], options=Options(log=ReadingLog("skip")))
