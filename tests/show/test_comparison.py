"""Comparisons in the terminal, in a notebook, as a plot and as files."""

from __future__ import annotations

import csv
import io
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import combinations

import pyarrow.parquet as pq
import pytest
from comparisons import HOSTILE, compared, hostile, large
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import raregram as rg
import raregram.show.comparison
from raregram.errors import MissingExtraError, ParameterError, RaregramWarning
from raregram.measure.listing import top_rows
from raregram.models.explain import columns_of, visible
from raregram.show.comparison import PAGE
from raregram.show.comparison.page import strongest
from raregram.show.comparison.plot import overlap, place_labels
from raregram.show.comparison.terminal import print_comparison, table
from raregram.show.write import write_results

pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'raregram[report]'")


@pytest.mark.parametrize("kind", ["positive", "negative", "lockword", "all"])
@pytest.mark.parametrize("sort", ["conservative", "zeta", "p", "g2"])
def test_the_first_rows_are_those_of_a_plain_sort(kind, sort):
    table = compared().table
    rows = [row for row in table.to_pylist() if kind in (row["kind"], "all") and row["repeats"] is None]
    if kind == "lockword" and sort == "conservative":
        wanted = sorted((row["f_a"] + row["f_b"] for row in rows), reverse=True)
        found = [row["f_a"] + row["f_b"] for row in top_rows(table, kind, sort, 5).to_pylist()]
    else:
        rising = sort == "p" or (kind == "negative" and sort != "g2")
        wanted = sorted((row[sort] for row in rows), reverse=not rising)
        found = top_rows(table, kind, sort, 5)[sort].to_pylist()
    assert found == wanted[:5]
    assert len(found) >= 2
    assert len(top_rows(table, kind, sort)) == len(rows)
    assert len(top_rows(table, kind, sort, repeats=True)) >= len(rows)


def test_an_unknown_measure_is_named():
    with pytest.raises(ParameterError, match=r"sort parameter .* must be one of .*'conservative'"):
        compared().top(sort="mi")


@pytest.mark.parametrize("width", [20, 60, 80, 100, 200])
def test_lines_fit_into_the_terminal(width):
    console = Console(width=max(width, 50))
    with console.capture() as printed:
        console.print(table(compared(), compared().top(12, repeats=True).table, console.width))
    shown = [line.rstrip() for line in printed.get().splitlines()]
    assert len(shown) == 13
    assert max(map(columns_of, shown)) <= max(width, 50)
    assert ("█" in "".join(shown)) == (width >= 70)


def test_what_is_printed_has_the_numbers_of_its_rows():
    out = io.StringIO()
    print_comparison(compared(), "negative", "g2", 3, file=out)
    head, columns, *shown, foot = out.getvalue().splitlines()
    assert head == "sea (3,000 words, 30 documents) against land (2,940 words, 30 documents)"
    assert columns.split()[:6] == ["N-gram", "sea", "/M", "land", "/M", "docs"]
    for text, row in zip(shown, compared().top(3, "g2", kind="negative"), strict=True):
        for part in (f"{row['documents_a']}:{row['documents_b']}", f"{row['log2_ratio']:+.2f}", f"{row['g2']:.2f}"):
            assert part in text.split()
    assert re.fullmatch(r"\d+ of \d+ N-grams mark land \(q below 0.05\); 3 shown", foot)


def test_hostile_words_do_not_reach_the_terminal_or_a_notebook():
    out = io.StringIO()
    print_comparison(hostile(), "all", top=None, file=out)
    assert "\\x1b" in out.getvalue()
    assert all(letter.isprintable() for letter in out.getvalue().replace("\n", ""))
    html = hostile()._repr_html_()
    assert "<img" not in html
    assert "&lt;img" in html
    ends = [tuple(map(float, pair)) for pair in re.findall(r"left:([\d.]+)%;width:([\d.]+)%", html)]
    assert len(ends) == html.count("<tr>") - 1 == 20
    assert all(left >= 0 and left + width <= 100.1 for left, width in ends)
    assert sum(left + width <= 50 for left, width in ends) == 10  # those of the second corpus


places = st.tuples(st.floats(0, 100), st.floats(0, 100))
sizes = st.tuples(st.floats(1, 40), st.floats(1, 10))


@given(st.lists(st.tuples(places, sizes), max_size=40))
def test_labels_lie_in_the_frame_and_apart(found):
    labels = dict(place_labels([point for point, _ in found], [size for _, size in found], (0, 0, 100, 100), 1))
    for left, bottom, right, top in labels.values():
        assert 0 <= left < right <= 100
        assert 0 <= bottom < top <= 100
    assert not any(overlap(one, other) for one, other in combinations(labels.values(), 2))
    if found and 45 < found[0][0][0] < 55 and 45 < found[0][0][1] < 55:
        assert 0 in labels  # in the middle there is always room for the first


def test_the_plot_has_the_same_bytes_twice_and_shows_words_as_they_are():
    plot = hostile(1).plot()
    assert plot == rg.plot_comparison(hostile(1))
    assert plot.png.startswith(b"\x89PNG")
    texts = [node.text for node in ET.fromstring(plot.svg).iter("{http://www.w3.org/2000/svg}text")]
    assert f"{HOSTILE[0]}, per million"[:40] in " ".join(filter(None, texts))
    assert {visible(word) for text in HOSTILE for word in text.split() if not word.isalpha()} & set(texts)


def test_the_rows_with_the_strongest_evidence_stay():
    table = large()[0].table[::10]
    kept = strongest(table, 500)
    assert len(kept) == 500
    left = {row["ngram"]: row for row in table.to_pylist()}
    weakest = min(abs(left.pop(row["ngram"])["conservative"]) for row in kept.to_pylist())
    assert all(abs(row["conservative"]) <= weakest for row in left.values() if row["kind"])
    assert kept["conservative"].to_pylist() == sorted(kept["conservative"].to_pylist(), reverse=True)


def test_a_folder_gets_all_files_and_the_page_can_be_had_alone(tmp_path):
    page = hostile().write(tmp_path / "new" / "out")
    assert page == tmp_path / "new" / "out" / PAGE
    assert {path.name for path in page.parent.iterdir()} == {
        "index.html", "table.csv", "table.parquet", "plot.svg", "plot.png"
    }  # fmt: skip
    assert pq.read_table(page.parent / "table.parquet").equals(hostile().table)
    with (page.parent / "table.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["ngram"] for row in rows] == hostile()["ngram"].to_pylist()
    assert [float(row["low"]) for row in rows] == hostile()["low"].to_pylist()
    hostile().to_html(tmp_path / "alone.html")
    assert (tmp_path / "alone.html").read_bytes() == page.read_bytes()


def test_without_matplotlib_there_is_a_page_and_a_warning(tmp_path, monkeypatch):
    def missing(comparison):
        raise MissingExtraError("figures need matplotlib: pip install 'raregram[report]'")

    monkeypatch.setattr(raregram.show.comparison, "plot_comparison", missing)
    with pytest.warns(RaregramWarning, match="no plot was drawn: .*pip install 'raregram"):
        compared().write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"index.html", "table.csv", "table.parquet"}


def test_an_empty_table_is_written(tmp_path):
    empty = replace(compared(), table=compared().table[:0])
    empty.write(tmp_path)
    assert len(pq.read_table(tmp_path / "table.parquet")) == 0
    write_results(empty, str(tmp_path / "t.jsonl"), "json", "words")
    assert (tmp_path / "t.jsonl").read_text() == ""
    assert table(empty, empty.table, 80).row_count == 0
