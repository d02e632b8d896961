"""The page of a comparison in a real browser, opened from a file."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from html.parser import HTMLParser

import pyarrow.compute as pc
import pytest
from comparisons import HOSTILE, compared, hostile, large, with_lines

from raregram.show.comparison.page import MOST_ROWS, page

MINUS = "\u2212"


def test_the_same_comparison_gives_the_same_bytes():
    assert page(*with_lines()) == page(*with_lines())


def test_twenty_thousand_rows_with_lines_take_less_than_two_megabytes():
    html = page(*large())
    assert 1_200_000 < len(html.encode()) < 2_000_000


def test_lines_are_left_out_where_they_do_not_fit():
    comparison, lines = with_lines()
    assert page(comparison, lines, max_bytes=1) == page(comparison, {})
    assert len(page(comparison, {})) < len(page(comparison, lines))


def test_words_are_nowhere_in_the_html():
    class Tags(HTMLParser):
        def __init__(self, html):
            super().__init__()
            self.tags = []
            self.feed(html)

        def handle_starttag(self, tag, attributes):
            self.tags.append(tag)

    html = page(*with_lines(hostile()))
    assert "onerror" not in html.replace("&lt;img src=x onerror=window.hacked=1&gt;", "")  # the title, escaped
    assert Tags(html).tags == Tags(page(*with_lines())).tags


pytest.importorskip("selenium", reason="selenium is not installed: pip install 'raregram[test]'")

from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402


@pytest.fixture
def show(browser, tmp_path):
    """Open comparisons; afterwards nothing may have gone wrong in the console, or come from elsewhere."""

    def open_page(comparison, lines, width=1400, height=900):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        (tmp_path / "index.html").write_text(page(comparison, lines), encoding="utf-8")
        browser.get((tmp_path / "index.html").as_uri())
        wait_for(lambda: browser.find_elements(By.CSS_SELECTOR, "body[data-ready]"))
        return browser

    yield open_page
    assert browser.get_log("browser") == []
    assert browser.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)") == []
    assert browser.execute_script("return window.hacked") is None


@pytest.fixture
def sea(show):
    return show(*with_lines())


def wait_for(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
    return found


def at(page, selector):
    return page.find_element(By.CSS_SELECTOR, selector)


def seen(page, selector):
    """Return the texts of all nodes that are shown, at one moment."""
    return page.execute_script(
        "return [...document.querySelectorAll(arguments[0])].filter((node) => node.checkVisibility())"
        ".map((node) => node.innerText.trim())",
        selector,
    )


def ngrams(page):
    return seen(page, "#grid tbody td[role=rowheader]")


def column(page, name):
    """Return the numbers of a column, of the rows in view, by the start of its head."""
    heads = [re.sub(r"\s+", " ", text) for text in seen(page, "#grid thead th")]
    place = next(place for place, text in enumerate(heads, 1) if text.startswith(name))
    texts = seen(page, f"#grid tbody tr[data-row] td:nth-child({place})")
    return [float(text.replace(",", "").replace(MINUS, "-").replace("∞", "inf")) for text in texts]


def sort_by(page, measure):
    page.execute_script(
        "const sort = document.getElementById('sort'); sort.value = arguments[0];"
        "sort.dispatchEvent(new Event('change'))",
        measure,
    )


def active(page):
    """Return the N-gram of the row that the keyboard is at."""
    row = at(page, "#grid").get_attribute("aria-activedescendant")
    return at(page, f"#{row} bdi").text


def rows_of(kind, table):
    some = table if kind == "all" else table.filter(pc.equal(table["kind"], kind))
    return some.filter(pc.is_null(some["repeats"]))


def test_the_page_shows_the_table_and_a_click_opens_the_lines(sea):
    comparison, lines = with_lines()
    table = rows_of("positive", comparison.table)
    size, table = len(table), table[: len(ngrams(sea))]
    assert ngrams(sea) == table["ngram"].to_pylist()
    assert column(sea, "sea / million") == [float(f"{x:.0f}") for x in table["per_million_a"].to_pylist()]
    assert column(sea, "log2") == [float(f"{x:.2f}") for x in table["log2_ratio"].to_pylist()]
    assert seen(sea, "#status") == [f"{size} of {len(comparison)} rows"]
    assert "sea 3,000 words, 30 documents against land 2,940 words" in re.sub(r"\s+", " ", at(sea, "#names").text)
    at(sea, "#kinds [data-kind=all]").click()
    at(sea, "#search").send_keys("then now")
    sea.find_element(By.XPATH, "//td[@role='rowheader'][.='then now']").click()
    assert seen(sea, "#row h2") == ["then now"]
    row = next(row for row in comparison if row["ngram"] == "then now")
    text = re.sub(r"\s+", " ", at(sea, "#row").text)
    for side, name, found in zip("ab", comparison.names, lines["then now"], strict=True):
        assert f"{name} {row[f'f_{side}']} (" in text
        assert f"in {row[f'documents_{side}']} of 30 documents" in text
        shown = sea.execute_script(
            f"return [...document.querySelectorAll('.lines.{side} > div')].map((line) => "
            "[...line.querySelectorAll('bdi')].map((part) => part.textContent))"
        )
        assert shown == [[line.document, line.left, line.match, line.right] for line in found.lines]
        bars = sea.execute_script(
            f"return [...document.querySelectorAll('.spread.{side} title')].map((title) => title.textContent)"
        )
        assert bars == [f"{document}: {f}" for document, f in sorted(found.documents.items())]
    assert seen(sea, "#row dd")[0].replace(MINUS, "-") == f"{row['conservative']:+.2f}".replace("+0.00", "0.00")


def test_hostile_words_are_text(show):
    comparison, lines = with_lines(hostile(1))
    page = show(comparison, lines, width=390)
    at(page, "#kinds [data-kind=all]").click()
    for word in ("</script><img", "<!--<script>", "&lt;b&gt;", "$style", "\\"):
        at(page, "#search").clear()
        at(page, "#search").send_keys(word)
        rows = page.find_elements(By.CSS_SELECTOR, "#grid tr[data-row]")
        page.execute_script("arguments[0].click()", rows[ngrams(page).index(word)])
        assert seen(page, "#row h2") == [word]
        assert word in at(page, ".lines").text
    assert len(page.find_elements(By.CSS_SELECTOR, "img, script:not(#data)")) == 1
    assert HOSTILE[0] in at(page, "#names").text


@pytest.mark.harness
def test_any_measure_sorts(sea):
    at(sea, "#kinds [data-kind=all]").click()
    for measure, head in (("g2", "G2"), ("fightin_words", "Fightin"), ("zeta", "Zeta"), ("f_b", "land frequency")):
        sort_by(sea, measure)
        values = column(sea, head)
        assert values == sorted(values, reverse=True), measure
        assert seen(sea, "th[aria-sort=descending]")[0].split(" ")[0].startswith(head.split(" ")[0])
    at(sea, "th[aria-sort] button").click()
    values = column(sea, "land frequency")
    assert values == sorted(values)
    assert sea.find_elements(By.CSS_SELECTOR, "th[aria-sort=ascending]")
    at(sea, "#kinds [data-kind=negative]").click()  # begins with what is more in the other corpus
    sort_by(sea, "log2_ratio")
    values = column(sea, "log2")
    assert values == sorted(values)
    assert values[0] < 0


@pytest.mark.harness
def test_filters_choose_rows(sea):
    table = compared().table
    for kind in ("negative", "lockword", "all", "positive"):
        at(sea, f"#kinds [data-kind={kind}]").click()
        wanted = set(rows_of(kind, table)["ngram"].to_pylist())
        assert set(ngrams(sea)) <= wanted
        assert seen(sea, "#status") == [f"{len(wanted)} of {len(table)} rows"]
    at(sea, "#kinds [data-kind=all]").click()
    at(sea, "#lengths [data-length='2']").click()
    assert {len(text.split()) for text in ngrams(sea)} == {2}
    before = int(seen(sea, "#status")[0].split()[0])
    at(sea, "#repeats").click()
    repeats = table.filter(pc.equal(table["length"], 2))["repeats"].drop_null()
    assert int(seen(sea, "#status")[0].split()[0]) == before + len(repeats)
    at(sea, "#search").send_keys("THE ")
    assert ngrams(sea)
    assert all(re.search(r"the( |$)", text.lower()) for text in ngrams(sea))
    at(sea, "#search").send_keys("zzz")
    assert ngrams(sea) == []
    assert "No row fits" in at(sea, "#grid").text


@pytest.mark.harness
def test_a_row_without_lines_says_so_and_an_empty_comparison_is_shown(show):
    page = show(compared(), {})
    assert "This page keeps no lines for this row" in at(page, "#row").text
    page = show(replace(compared(), table=compared().table[:0]), {})
    assert seen(page, "#status") == ["0 of 0 rows"]


@pytest.mark.harness
def test_a_repeat_leads_to_what_it_repeats(sea):
    at(sea, "#repeats").click()
    at(sea, "tr.repeat").click()
    (repeat,) = seen(sea, "#row h2")
    at(sea, "#row p button").click()
    assert seen(sea, "#row h2") == [row["repeats"] for row in compared() if row["ngram"] == repeat]


@pytest.mark.harness
def test_the_keyboard_is_enough(sea):
    def press(*keys):
        ActionChains(sea).send_keys(*keys).perform()

    at(sea, "#kinds [data-kind=all]").click()
    press(Keys.ESCAPE)
    assert not at(sea, "#row").is_displayed()
    shown = ngrams(sea)
    press("/")
    assert sea.switch_to.active_element.get_attribute("id") == "search"
    press("/", Keys.BACKSPACE, Keys.ARROW_DOWN)  # a slash in the search is a slash
    assert sea.switch_to.active_element.get_attribute("id") == "grid"
    press(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_UP)
    assert active(sea) == shown[1]
    assert not at(sea, "#row").is_displayed()
    press(Keys.ENTER)
    assert seen(sea, "#row h2") == [shown[1]]
    press(Keys.ARROW_DOWN)  # what is open follows
    assert seen(sea, "#row h2") == [shown[2]]
    press(Keys.ESCAPE)
    assert not at(sea, "#row").is_displayed()
    assert sea.switch_to.active_element.get_attribute("id") == "grid"
    press(Keys.END, Keys.ENTER)
    (last,) = seen(sea, "#row h2")
    assert active(sea) == last
    assert last not in shown
    press(Keys.HOME)
    assert seen(sea, "#row h2") == [shown[0]]
    press(Keys.PAGE_DOWN)
    assert active(sea) in shown[5:]


@pytest.mark.harness
def test_labels_of_the_plot_do_not_overlap_and_open_rows(show):
    page = show(*large())
    at(page, "#kinds [data-kind=all]").click()
    canvas = at(page, "#plot canvas")
    labels = wait_for(lambda: page.execute_script("return document.querySelector('#plot canvas').labels"))
    assert len(labels) > 20
    for i, one in enumerate(labels):
        for other in labels[:i]:
            apart = one["right"] <= other["left"] or other["right"] <= one["left"]
            assert apart or one["bottom"] <= other["top"] or other["bottom"] <= one["top"]
    label = labels[-1]
    x, y = ((label[a] + label[b]) / 2 for a, b in (("left", "right"), ("top", "bottom")))
    to = (canvas, round(x - canvas.size["width"] / 2), round(y - canvas.size["height"] / 2))
    ActionChains(page).move_to_element_with_offset(*to).perform()
    assert wait_for(lambda: seen(page, "#tip bdi")) == [label["text"]]
    ActionChains(page).move_to_element_with_offset(*to).click().perform()
    assert wait_for(lambda: seen(page, "#row h2")) == [label["text"]]
    assert seen(page, "#grid tr[aria-selected=true] bdi") == [label["text"]]


@pytest.mark.harness
def test_a_large_table_is_drawn_row_by_row(show):
    comparison, lines = large(MOST_ROWS + 500)
    page = show(comparison, lines)
    assert "20,500 rows; this page shows the 20,000" in at(page, "#note").text
    at(page, "#kinds [data-kind=all]").click()
    at(page, "#repeats").click()
    assert seen(page, "#status") == ["20,000 of 20,000 rows"]
    assert len(page.find_elements(By.CSS_SELECTOR, "#grid tbody tr")) < 80
    page.execute_script("document.getElementById('grid').scrollTop = 1e9")
    last = wait_for(lambda: page.find_elements(By.CSS_SELECTOR, "#grid tr[aria-rowindex='20001']"))
    assert last[0].is_displayed()


@pytest.mark.harness
def test_a_phone_shows_all_of_it(show):
    page = show(*with_lines(), width=390, height=844)
    assert page.execute_script("return document.documentElement.scrollWidth") == 390
    assert not at(page, "#row").is_displayed()
    page.execute_script("document.getElementById('grid').scrollIntoView({ block: 'end' })")
    time.sleep(0.2)  # the rows are drawn again
    at(page, "#grid tr[data-row]").click()
    assert at(page, "#row").is_displayed()
    box = at(page, "#row").rect
    assert (box["x"], box["width"]) == (0, 390)
    assert page.execute_script("return document.documentElement.scrollWidth") == 390
    at(page, "#row .close").click()
    assert not at(page, "#row").is_displayed()
    assert at(page, "#plot canvas").size["height"] > 200


@pytest.mark.harness
def test_the_theme_follows_the_system_until_it_is_chosen(sea):
    theme = "return [document.documentElement.dataset.theme, getComputedStyle(document.body).backgroundColor]"
    light = sea.execute_script(theme)
    media = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    sea.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    dark = wait_for(lambda: (found := sea.execute_script(theme))[0] == "dark" and found)
    assert light[0] == "light"
    assert light[1] != dark[1]
    at(sea, "#theme").click()
    at(sea, "#theme").click()
    assert sea.execute_script(theme) == light
    at(sea, "#theme").click()
    sea.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
