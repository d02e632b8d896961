"""The explorer page in a real browser. The first tests are quick and telling, the others run with `make test-all`."""

from __future__ import annotations

import csv
import threading
import time
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import raregram as rg

pytest.importorskip("fastapi", reason="FastAPI is not installed: pip install 'raregram[serve]'")
pytest.importorskip("selenium", reason="selenium is not installed: pip install 'raregram[test]'")

import uvicorn
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from raregram.serve.app import create_app
from raregram.serve.limits import Limits

TEXT = "She said that the talks in Rome with Ann were good and that Bob was in Oslo"
WORDS = TEXT.split()
MINUS = "\u2212"
ALERT, CONTEXT, FIGURE, GAP = "#alert:not([hidden])", "#why .context bdi", "#why .figure strong", ".gap"
HOSTILE = (
    "<script>window.hacked=1</script> in <img/src=x/onerror=window.hacked=1> in &lt;b&gt; \u202egnorw\u202c in "
    "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd in \U0001f469\u200d\U0001f680\U0001f30d ${1+1} in =cmd()"
)


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    names = {"Rome": "LOC", "Oslo": "LOC", "Ann": "PER", "Bob": "PER"}
    corpus, letters = [], []
    for i in range(30):
        items = [*WORDS[i % 9 :], f"w{i}"]
        spans = [(start, start + 1, names[item]) for start, item in enumerate(items) if item in names]
        after = " ".join(items).find("in ") + 3
        corpus.append({"items": items, "spans": spans})
        letters.append({"items": list(" ".join(items)), "spans": [(after, after + 1, "NAME")]})
    counts = rg.count(corpus, n=2, targets=["LOC", "PER"], spans=["units", "suffixes:2", "shapes:2"])
    rg.fit(counts, "LOC", "backoff").save(folder / "loc.rgm")
    rg.fit(counts, "PER", "selective", size=8, unseen="formula").save(folder / "per.rgm")
    rg.fit(rg.count(letters, n=3, kind="letters", targets=["NAME"]), "NAME", "product").save(folder / "name.rgm")
    return [str(folder / f"{name}.rgm") for name in ("loc", "per", "name")]


@contextmanager
def running(*models, **limits):
    """Run a service in a thread, and give its address."""
    config = uvicorn.Config(create_app(models, Limits(**limits)), port=0, log_config=None, access_log=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_for(lambda: server.started)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(20)


@pytest.fixture(scope="session")
def service(models):
    with running(*models, max_bytes=3_000_000) as url:
        yield url


@pytest.fixture
def page(browser, service):
    """The page, without its example; afterwards nothing may have been requested from elsewhere."""
    open_page(browser, service)
    clear(browser)
    browser.get_log("browser")
    yield browser
    requested = browser.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert not [url for url in requested if not url.startswith((service, "blob:"))]


def wait_for(condition, seconds=15.0):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
    return found


def open_page(browser, url):
    browser.get(url)
    wait_for(lambda: browser.find_elements(By.CSS_SELECTOR, "body[data-ready]"))


def at(page, selector):
    return page.find_element(By.CSS_SELECTOR, selector)


def click(page, selector):
    at(page, selector).click()


def seen(page, selector):
    """Return the texts of all nodes that are shown, at one moment."""
    return page.execute_script(
        "return [...document.querySelectorAll(arguments[0])].filter((node) => node.checkVisibility())"
        ".map((node) => node.innerText.trim())",
        selector,
    )


def wait_until_seen(page, selector, texts=None):
    """Wait until nodes are shown, or until they have these texts."""
    return wait_for(lambda: (found := seen(page, selector)) and texts in (None, found) and found)


def clear(page):
    """Clear the text, and wait until the page shows that."""
    click(page, "#clear")
    wait_for(lambda: not seen(page, "#heat p, #why .figure, #why .context") and not seen(page, "#status")[0])


def write(page, text):
    """Put a long text into the field at once, as pasting does."""
    page.execute_script(
        "const field = document.getElementById('text'); field.value = arguments[0];"
        "field.dispatchEvent(new Event('input'))",
        text,
    )


def labels(page):
    return page.execute_script(
        "return [...document.querySelectorAll('.gap')].map((gap) => gap.getAttribute('aria-label'))"
    )


def shown_items(page):
    return page.execute_script("return [...document.querySelectorAll('#heat bdi')].map((item) => item.textContent)")


def drop(page, name, content, view):
    """Drop a file on a view of the page."""
    click(page, f"#tab-{view}")
    page.execute_script(
        "const transfer = new DataTransfer();"
        "transfer.items.add(new File([new Uint8Array(arguments[1])], arguments[0]));"
        "document.body.dispatchEvent("
        "  new DragEvent('drop', { dataTransfer: transfer, bubbles: true, cancelable: true }))",
        name,
        list(content),
    )


def box(page, selector):
    return page.execute_script("return document.querySelector(arguments[0]).getBoundingClientRect()", selector)


def brightness(page, name):
    colour = page.execute_script(f"return getComputedStyle(document.body).{name}")
    return sum(map(int, colour.removeprefix("rgb(").rstrip(")").split(","))) / 3


def test_typing_colours_the_gaps_and_a_click_explains(page, models):
    loc, per = (rg.Model.load(path) for path in models[:2])
    at(page, "#text").send_keys(TEXT)
    wait_for(lambda: len(labels(page)) == len(WORDS))
    for boundary, label in enumerate(labels(page), 1):
        context = " ".join(WORDS[max(boundary - 2, 0) : boundary])
        shown = [float(part.split()[-1].replace(MINUS, "-")) for part in label.rpartition(": ")[2].split(", ")]
        assert shown == pytest.approx([model.log_ratio([context])[0] for model in (loc, per)], abs=0.0052)
    gap = at(page, '.gap[aria-label*="before Rome"]')
    heat = float(page.execute_script("return arguments[0].style.getPropertyValue('--h')", gap))
    assert heat == pytest.approx(min(loc.log_ratio(["talks in"])[0] / 5, 1), abs=0.002)
    gap.click()
    explained = loc.explain("talks in")
    wait_until_seen(page, FIGURE, [f"{explained.log_ratio:+.2f}"])
    assert len(seen(page, "#why .terms tbody tr:not(.section)")) == len(explained.terms)
    ends = [f"{end:+.2f}".replace("-", MINUS) for end in explained.interval]
    assert seen(page, "#why .whisker .lower, #why .whisker .upper") == ends
    assert seen(page, "#why .whisker .zero") == ["0 (ratio 1)"]
    assert f"log ratio from {ends[0]} to {ends[1]}" in at(page, "#why").text
    reach, lower, upper, zero = (box(page, f"#why .{name}") for name in ("reach", "lower", "upper", "zero"))
    assert lower["right"] == pytest.approx(reach["left"], abs=1.5)  # the numbers are at the ends
    assert upper["left"] == pytest.approx(reach["right"], abs=1.5)
    assert (zero["left"] < reach["left"]) == (explained.interval[0] > 0)
    assert explained.sentence() in at(page, "#why .figure").text
    wait_until_seen(page, "#why td.up, #why td.down")
    click(page, '#why [data-name="PER"]')
    wait_for(lambda: "not selected" in at(page, "#why").text or "·" in at(page, "#why").text)
    assert len(page.find_elements(By.CSS_SELECTOR, "#why .terms tbody tr")) == 2
    assert not [entry for entry in page.get_log("browser") if entry["level"] == "SEVERE"]


def test_hostile_text_is_shown_as_text(page):
    write(page, HOSTILE)
    words = HOSTILE.split()
    wait_for(lambda: len(labels(page)) == len(words))
    assert shown_items(page) == words
    assert not page.find_elements(By.CSS_SELECTOR, "#heat script, #heat img, #heat b")
    for gap in page.find_elements(By.CSS_SELECTOR, GAP)[:8]:
        gap.click()
        shown = min(int(gap.get_attribute("data-boundary")), 2)
        wait_for(lambda shown=shown: len(seen(page, CONTEXT)) == shown)
    click(page, "#tab-rank")
    click(page, "#rank-form button")
    wait_until_seen(page, "#rank-rows tr")
    assert any("<script>window.hacked=1</script>" in text for text in seen(page, "#rank-rows td.text"))
    assert page.execute_script("return window.hacked") is None


def test_an_uploaded_text_is_ranked_searched_and_saved(page, models, tmp_path):
    file = tmp_path / "new.txt"
    file.write_text(TEXT + " =1+1 in Rome")
    click(page, "#tab-rank")
    at(page, "#file").send_keys(str(file))
    click(page, "#rank-form button")
    wait_until_seen(page, "#rank-rows tr")
    model, words = rg.Model.load(models[0]), file.read_text().split()
    contexts = [" ".join(words[max(i - 2, 0) : i]) for i in range(1, len(words) + 1)]
    assert seen(page, "#rank-rows td.text button")[0] == max(contexts, key=lambda c: model.log_ratio([c])[0])
    at(page, "#rank-search").send_keys("in")
    wait_for(lambda: all("in" in text.lower() for text in seen(page, "#rank-rows td.text:not(.note)")))
    click(page, "#download")
    saved = wait_for(lambda: [file for file in page.downloads.glob("ranking-LOC.csv") if file.stat().st_size])[0]
    with saved.open(newline="") as stream:
        table = list(csv.DictReader(stream))
    assert len(table) == len(seen(page, "#rank-rows tr"))
    for row in table:
        assert float(row["log_ratio"]) == model.log_ratio([row["context"].removeprefix("'")])[0]
        assert not row["context"].startswith("=")
    click(page, "#rank-rows button")
    wait_until_seen(page, FIGURE)


@pytest.mark.harness
class TestReading:
    """The view in which a text is coloured and explained."""

    def test_a_change_in_the_middle_is_the_same_as_a_new_text(self, page, service):
        changed = TEXT.replace("with Ann were", "with her friend Ann").replace("She", "He")
        write(page, TEXT)
        wait_for(lambda: len(labels(page)) == len(WORDS))
        write(page, changed)
        wait_for(lambda: "friend" in shown_items(page))
        found = labels(page)
        open_page(page, service)
        clear(page)
        write(page, changed)
        assert wait_for(lambda: labels(page)) == found

    def test_the_first_gap_with_a_score_is_explained_from_the_start(self, browser, service):
        open_page(browser, service)
        wait_until_seen(browser, "#why .terms")
        gaps = browser.find_elements(By.CSS_SELECTOR, GAP)
        assert [gap.get_attribute("aria-current") for gap in gaps] == ["true"] + [None] * (len(gaps) - 1)
        assert seen(browser, CONTEXT) == seen(browser, "#heat bdi")[: int(gaps[0].get_attribute("data-boundary"))]
        assert browser.switch_to.active_element.tag_name == "body"  # nothing takes the focus

    def test_a_gap_without_context_says_so(self, page):
        write(page, "Rome")
        wait_until_seen(page, "#heat bdi")
        none = at(page, "#heat .none")
        assert none.get_attribute("title") == "no context here"
        assert none.get_attribute("aria-label") == "gap 0 before Rome: no context here"
        assert "no context here" in at(page, "#scale").text
        assert "150 or more" in at(page, "#scale").text

    def test_a_megabyte_is_coloured_where_it_is_looked_at(self, page):
        text = (TEXT + "\n") * 14_000
        write(page, text)
        wait_for(lambda: f"{len(text.split()):,} words" in seen(page, "#status"), 40)
        assert 100 < len(labels(page)) < 20_000
        write(page, "Bob is in " + text)
        wait_for(lambda: shown_items(page)[:5] == ["Bob", "is", "in", "She", "said"], 40)

    def test_letters_have_gaps_and_no_line_ends_within_a_word(self, page):
        for chosen in (1, 2):
            click(page, f"#kinds button:nth-child({chosen})")
            buttons = page.find_elements(By.CSS_SELECTOR, "#kinds button")
            assert [button.get_attribute("aria-pressed") == "true" for button in buttons] == [
                chosen == 1,
                chosen == 2,
            ]
            assert len({button.value_of_css_property("background-color") for button in buttons}) == 2
        write(page, "Ann in\tOslo")
        wait_for(lambda: len(labels(page)) == len("Ann in\tOslo"))
        assert shown_items(page) == [*"Ann␣in⇥Oslo"]
        for boundary, context in ((7, ["i", "n", "⇥"]), (4, ["n", "n", "␣"])):
            click(page, f'.gap[data-boundary="{boundary}"]')
            wait_until_seen(page, CONTEXT, context)
        text = " ".join([TEXT, TEXT.replace(" ", "\u2003"), TEXT + "\n"])
        write(page, text)
        wait_for(lambda: f"{len(text)} letters" in seen(page, "#status"))
        tops = page.execute_script("return [...document.querySelectorAll('#heat bdi')].map((item) => item.offsetTop)")
        lasts = [
            letter for letter, top, after in zip(shown_items(page), tops, tops[1:], strict=False) if top != after
        ]
        assert len(lasts) >= 5
        assert set(lasts) <= {"␣", "↵"}

    def test_the_keyboard_is_enough(self, page):
        at(page, "#text").send_keys(TEXT)
        wait_for(lambda: len(labels(page)) == len(WORDS))
        active = page.switch_to
        for _ in range(8):  # over the buttons and the chips
            active.active_element.send_keys(Keys.TAB)
            if "gap" in (active.active_element.get_attribute("class") or ""):
                break
        assert active.active_element.get_attribute("data-boundary") == "1"
        keys = {Keys.ARROW_RIGHT: 2, Keys.END: 17, Keys.ARROW_LEFT: 16, Keys.HOME: 1}
        for key, boundary in keys.items():
            active.active_element.send_keys(key)
            assert active.active_element.get_attribute("data-boundary") == str(boundary)
            wait_until_seen(page, CONTEXT, WORDS[max(boundary - 2, 0) : boundary])
        at(page, "#tab-read").send_keys(Keys.ARROW_RIGHT)
        assert active.active_element.get_attribute("id") == "tab-rank"
        assert at(page, "#rank").is_displayed()
        active.active_element.send_keys(Keys.ARROW_RIGHT)
        assert "LOC: loc.rgm" in wait_until_seen(page, "#model h2")[0]


@pytest.mark.harness
class TestService:
    """What the page shows of its service: models, errors, tokens, the interface."""

    def test_a_file_of_another_format_is_read_or_refused(self, page, tmp_path):
        pq.write_table(pa.table({"id": ["a", "b"], "text": ["Ann was here", TEXT]}), tmp_path / "docs.parquet")
        parquet = (tmp_path / "docs.parquet").read_bytes()
        drop(page, "docs.parquet", parquet, "rank")
        wait_until_seen(page, "#rank-rows tr")
        assert "2 documents have" in seen(page, "#rank-count")[0]
        gaps = [*(f"a, gap {gap}" for gap in range(1, 4)), *(f"b, gap {gap}" for gap in range(1, len(WORDS) + 1))]
        assert sorted(seen(page, "#rank-rows td.note:last-child")) == sorted(gaps)
        drop(page, "picture.png", b"\x89PNG\r\n\x1a\n\0", "rank")
        wait_until_seen(page, ALERT, ["picture.png, line 1 is not valid UTF-8"])
        for name, content in (("docs.parquet", parquet), ("zeros", bytes(9)), ("latin", b"caf\xe9")):
            drop(page, name, content, "read")
            message = f"{name} is not plain text. The Rank view reads files of other formats."
            wait_until_seen(page, ALERT, [message])
            assert not labels(page)
        drop(page, "text.txt", TEXT.encode(), "read")
        wait_for(lambda: shown_items(page) == WORDS)
        assert not seen(page, ALERT)

    def test_an_error_is_shown_kindly_and_goes_away(self, page, models):
        write(page, "word " * 700_000)
        wait_until_seen(page, ALERT, ["a request may have 3,000,000 bytes at most: send less at a time"])
        write(page, TEXT)
        wait_for(lambda: labels(page))
        assert not seen(page, ALERT)
        click(page, "#tab-rank")
        page.execute_script("document.getElementById('text').value = ' '")
        click(page, "#rank-form button")
        wait_until_seen(page, ALERT, ["There is no context in it: the model reads 2 words beside a gap."])

    def test_a_token_is_asked_for_and_a_service_that_is_gone_is_named(self, browser, models):
        with running(models[0], token="s3cret") as url:
            browser.get(url)
            wait_until_seen(browser, "dialog[open]")
            at(browser, "#token").send_keys("s3cret", Keys.ENTER)
            wait_for(lambda: browser.find_elements(By.CSS_SELECTOR, "body[data-ready]"))
            browser.execute_script("sessionStorage.clear()")
            browser.get("about:blank")
            open_page(browser, url + "#token=s3cret")
            assert browser.current_url == url
        write(browser, TEXT)
        wait_until_seen(browser, ALERT, ["The service does not answer. Is `raregram serve` still running?"])

    def test_words_are_those_of_the_models(self, page, tmp_path):
        assert "likelier before LOC or before PER than elsewhere" in at(page, "#hint").text
        counts = rg.count(numerator=[{"text": TEXT}] * 3, denominator=[{"text": "Ann was here"}], n=2)
        rg.fit(counts, estimator="product").save(tmp_path / "two.rgm")
        with running(str(tmp_path / "two.rgm")) as url:
            open_page(page, url)
            for view, place in (("read", "#hint"), ("rank", "#rank-about")):
                click(page, f"#tab-{view}")
                assert "likelier in the numerator than in the denominator" in at(page, place).text
            click(page, "#tab-models")
            assert wait_until_seen(page, "#model h3")[0] == "Likelier in the numerator at position 2 of 2"
            assert "contexts in the denominator (n_de)" in seen(page, "#model dt")
            assert "before" not in page.find_element(By.TAG_NAME, "body").text
            page.get("about:blank")

    def test_numbers_are_in_order_and_have_two_digits(self, page):
        click(page, "#tab-models")
        wait_until_seen(page, "#model .pair td")
        for position in page.find_elements(By.CSS_SELECTOR, ".pillars button"):
            position.click()
            for column, sign in ((1, -1), (2, 1)):
                shown = seen(page, f"#model .pair > div:nth-child({column}) td:nth-child(4)")
                numbers = [sign * float(number.replace(MINUS, "-")) for number in shown]
                assert numbers == sorted(numbers)
        ratios = [160.8, 100, 200.4, 999.9, 20, 1.5, 2, 0.104, 0.0284, 5_312_345, 1.2e-7, 0, "inf", "nan"]
        script = "import('/static/dom.js').then(({ times }) => arguments[1](arguments[0].map(times)))"
        shown = page.execute_async_script(script, ratios)
        assert shown[:9] == ["160", "100", "200", "1,000", "20", "1.5", "2", "0.1", "0.028"]
        assert shown[9:] == ["5,300,000", "1.2e-7", "0", "∞", "\u2013"]

    def test_the_page_of_the_interface_tries_requests(self, page, service):
        page.get(service + "docs")
        wait_for(lambda: len(seen(page, ".method")) == 10)
        at(page, "textarea").clear()
        at(page, "textarea").send_keys('{"contexts": ["talks in"], "models": ["LOC"]}')
        page.find_element(By.XPATH, "//button[text()='Try']").click()
        wait_for(lambda: '"scores"' in "".join(seen(page, "pre[aria-live]:not([hidden])")))

    def test_the_page_splits_words_from_punctuation_as_the_model_does(self, browser, tmp_path):
        docs = [{"text": f'talks (in "{name}") on {name}', "spans": [(2, 3, "LOC")]} for name in ("Rome", "Oslo")]
        counts = rg.count(docs, n=2, tokenize="words", lower=True, spans=["units", "suffixes:2", "shapes:2"])
        model = rg.fit(counts, "LOC", "backoff")
        model.save(tmp_path / "apart.rgm")
        with running(str(tmp_path / "apart.rgm")) as url:
            open_page(browser, url)
            write(browser, 'It\'s (in "Rome"), na\u00efve 3.14%\u2026 字 \U0001f1e9\U0001f1ea\u0308')
            items = ["It's", "(", "in", '"', "Rome", '"', ")", ",", "na\u00efve", "3.14", "%", "\u2026", "字",
                     "\U0001f1e9\U0001f1ea\u0308"]  # fmt: skip
            wait_for(lambda: f"{len(items)} words and signs" in seen(browser, "#status"))
            wait_until_seen(browser, "#heat bdi", items)
            label = next(label for label in labels(browser) if label.startswith("gap 4 before Rome"))
            [expected] = model.log_ratio(['in "'])
            assert f"{expected:.2f}" in label.replace(MINUS, "-")

    @pytest.mark.parametrize("theme", ["light", "dark"])
    @pytest.mark.parametrize("width", [390, 1200])
    def test_it_fits_in_both_themes_and_on_a_phone(self, page, service, theme, width):
        features = [{"name": "prefers-color-scheme", "value": theme}]
        size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 500}
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        try:
            open_page(page, service)
            gap = wait_for(lambda: page.find_elements(By.CSS_SELECTOR, GAP))[3]
            gap.click()
            wait_until_seen(page, "#why .terms")
            bottom = page.execute_script("return arguments[0].getBoundingClientRect().bottom", gap)
            assert (
                width > 500 or bottom < box(page, "#why")["top"]
            )  # the sheet does not hide the gap that it explains
            for view in ("rank", "models"):
                page.execute_script(f"document.getElementById('tab-{view}').click()")
                assert page.execute_script("return document.documentElement.scrollWidth - innerWidth") <= 0
            ink, paper = (brightness(page, name) for name in ("color", "backgroundColor"))
            assert (ink < paper) == (theme == "light")
            assert abs(ink - paper) > 150
        finally:
            page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
            page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
