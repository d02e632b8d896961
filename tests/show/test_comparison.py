"""Comparisons in the terminal, in a notebook, as a plot and as files."""

from __future__ import annotations

import csv
import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import combinations

import pyarrow.parquet as pq
import pytest
from comparisons import HOSTILE, LAND, SEA, counted, large
from hypothesis import given
from hypothesis import strategies as st

import raregram.show.comparison
from raregram.errors import MissingExtraError, ParameterError, RaregramWarning
from raregram.measure.listing import as_html, top_rows
from raregram.measure.results import Results
from raregram.models.explain import columns_of
from raregram.show.comparison import write_comparison
from raregram.show.comparison.page import strongest
from raregram.show.comparison.plot import Box, place_labels, plot_comparison
from raregram.show.comparison.terminal import headline, lines
from raregram.show.write import write_results


def hostile():
    return counted(names=HOSTILE[:2], sides=([" ".join([*HOSTILE, *SEA[0].split()])] * 2, LAND))


@pytest.mark.parametrize("kind", ["positive", "negative", "lockword", "all"])
@pytest.mark.parametrize("sort", ["conservative", "zeta", "p", "g2"])
def test_the_first_rows_are_those_of_a_plain_sort(kind, sort):
    table = counted()[0].table
    rows = [row for row in table.to_pylist() if kind in (row["kind"], "all") and row["repeats"] is None]
    if kind == "lockword" and sort == "conservative":
        wanted = sorted((row["f_a"] + row["f_b"] for row in rows), reverse=True)
        found = [row["f_a"] + row["f_b"] for row in top_rows(table, kind, sort, 5).to_pylist()]
    else:
        rising = sort == "p" or (kind == "negative" and sort != "g2")
        wanted = sorted((row[sort] for row in rows), reverse=not rising)
        found = top_rows(table, kind, sort, 5)[sort].to_pylist()
    assert found == wanted[:5]
    assert len(top_rows(table, kind, sort)) == len(rows)
    assert len(top_rows(table, kind, sort, repeats=True)) >= len(rows)


def test_an_unknown_measure_is_named():
    with pytest.raises(ParameterError, match=r"sort parameter .* must be one of .*'conservative'"):
        top_rows(counted()[0].table, sort="mi")


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 200])
def test_lines_fit_into_the_terminal(width):
    comparison, _ = counted()
    shown = [text for text, _ in lines(comparison, top_rows(comparison.table, top=12, repeats=True), width)]
    assert len(shown) == 13
    assert max(map(columns_of, shown)) <= max(width, 50)
    assert ("█" in "".join(shown)) == (width >= 60)


def test_a_line_has_the_numbers_of_its_row():
    comparison, _ = counted()
    rows = top_rows(comparison.table, "negative", "g2", 3)
    head, *shown = lines(comparison, rows, 120, "g2")
    assert head[0].split()[:6] == ["N-gram", "sea", "/M", "land", "/M", "docs"]
    for (text, ratio), row in zip(shown, rows.to_pylist(), strict=True):
        assert ratio == row["log2_ratio"]
        for part in (f"{row['documents_a']}:{row['documents_b']}", f"{row['log2_ratio']:+.2f}", f"{row['g2']:.2f}"):
            assert part in text.split()
    assert headline(comparison) == "sea (118 words, 2 documents) against land (88 words, 2 documents)"


def test_control_characters_do_not_reach_the_terminal():
    comparison, _ = hostile()
    shown = "".join(text for text, _ in lines(comparison, comparison.table, 200)) + headline(comparison)
    assert "\\x1b" in shown
    assert all(letter.isprintable() for letter in shown)


def test_no_rows_are_a_line_of_heads():
    comparison, _ = counted()
    assert len(list(lines(comparison, comparison.table[:0], 80))) == 1


def test_a_notebook_shows_keywords_of_both_and_nothing_but_text():
    comparison, _ = hostile()
    html = as_html(comparison.names, comparison.table)
    assert html == as_html(comparison.names, comparison.table)
    assert html.count("<tr>") == 1 + 20
    assert "<img" not in html
    assert "&lt;img" in html
    ends = [tuple(map(float, pair)) for pair in re.findall(r"left:([\d.]+)%;width:([\d.]+)%", html)]
    assert len(ends) == 20
    assert all(left >= 0 and left + width <= 100.1 for left, width in ends)
    assert sum(left + width <= 50 for left, width in ends) == 10  # those of the second corpus


places = st.tuples(st.floats(0, 100), st.floats(0, 100))
sizes = st.tuples(st.floats(1, 40), st.floats(1, 10))


@given(st.lists(st.tuples(places, sizes), max_size=40))
def test_labels_lie_in_the_frame_and_apart(found):
    frame = Box(0, 0, 100, 100)
    placed = dict(place_labels([point for point, _ in found], [size for _, size in found], frame, 1))
    for box in placed.values():
        assert box.within(frame)
    for one, other in combinations(placed.values(), 2):
        assert not one.overlaps(other)
    if found and 45 < found[0][0][0] < 55 and 45 < found[0][0][1] < 55:
        assert 0 in placed  # in the middle there is always room for the first


def test_the_plot_has_the_same_bytes_twice_and_shows_words_as_they_are():
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'raregram[report]'")
    comparison, _ = hostile()
    plot, again = plot_comparison(comparison), plot_comparison(comparison)
    assert plot == again
    assert plot.png.startswith(b"\x89PNG")
    texts = [node.text for node in ET.fromstring(plot.svg).iter("{http://www.w3.org/2000/svg}text")]
    assert f"{HOSTILE[0]}, per million"[:40] in " ".join(filter(None, texts))
    assert {"\\u202egnorw", "$"} & set(texts)


def test_the_rows_with_the_strongest_evidence_stay():
    table = large(2000)[0].table
    kept = strongest(table, 500)
    assert len(kept) == 500
    left = {row["ngram"]: row for row in table.to_pylist()}
    for row in kept.to_pylist():
        del left[row["ngram"]]
    plain = [row for row in left.values() if row["kind"] and row["repeats"] is None]
    weakest = min(abs(row["conservative"]) for row in kept.to_pylist() if row["kind"] and row["repeats"] is None)
    assert all(abs(row["conservative"]) <= weakest for row in plain)
    assert kept["conservative"].to_pylist() == sorted(kept["conservative"].to_pylist(), reverse=True)


def test_a_folder_gets_all_files(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'raregram[report]'")
    comparison, found = hostile()
    page = write_comparison(comparison, found, tmp_path / "new" / "out")
    assert page.name == "index.html"
    assert {path.name for path in page.parent.iterdir()} == {
        "index.html", "table.csv", "table.parquet", "plot.svg", "plot.png"
    }  # fmt: skip
    assert pq.read_table(page.parent / "table.parquet").equals(comparison.table)
    with (page.parent / "table.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["ngram"] for row in rows] == comparison.table["ngram"].to_pylist()
    assert [float(row["low"]) for row in rows] == comparison.table["low"].to_pylist()


def test_json_lines_have_all_columns(tmp_path):
    comparison, _ = hostile()
    write_results(Results(comparison.table), str(tmp_path / "t.jsonl"), "json", "words")
    rows = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["ngram"] for row in rows] == comparison.table["ngram"].to_pylist()
    assert list(rows[0]) == comparison.table.column_names


def test_without_matplotlib_there_is_a_page_and_a_warning(tmp_path, monkeypatch):
    def missing(comparison):
        raise MissingExtraError("figures need matplotlib: pip install 'raregram[report]'")

    monkeypatch.setattr(raregram.show.comparison, "plot_comparison", missing)
    with pytest.warns(RaregramWarning, match="no plot was drawn: .*pip install 'raregram"):
        write_comparison(*counted(), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"index.html", "table.csv", "table.parquet"}


def test_an_empty_table_is_written(tmp_path):
    comparison, _ = counted()
    empty = replace(comparison, table=comparison.table[:0])
    write_comparison(empty, {}, tmp_path)
    assert len(pq.read_table(tmp_path / "table.parquet")) == 0
