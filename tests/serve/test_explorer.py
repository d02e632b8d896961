"""The explorer page in a real browser."""

from __future__ import annotations

import csv
import shutil
import threading
import time
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import raregram as rg

pytest.importorskip("fastapi", reason="FastAPI is not installed: pip install 'raregram[serve]'")
webdriver = pytest.importorskip(
    "selenium.webdriver", reason="selenium is not installed: pip install 'raregram[test]'"
)
MISSING = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
if MISSING:
    reason = f"{', '.join(MISSING)} is not installed: apt-get install chromium chromium-driver"
    pytest.skip(reason, allow_module_level=True)

import uvicorn  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

from raregram.serve.app import create_app  # noqa: E402
from raregram.serve.limits import Limits  # noqa: E402

TEXT = "She said that the talks in Rome with Ann were good and that Bob was in Oslo"
MINUS = "\u2212"
HOSTILE = (
    "<script>window.hacked=1</script> in <img/src=x/onerror=window.hacked=1> in &lt;b&gt; \u202egnorw\u202c in "
    "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd in \U0001f469\u200d\U0001f680\U0001f30d ${1+1} in =cmd()"
)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    names = {"Rome": "LOC", "Oslo": "LOC", "Ann": "PER", "Bob": "PER"}
    words = [[*TEXT.split()[i % 9 :], f"w{i}"] for i in range(30)]
    corpus = [
        {"items": some, "spans": [(i, i + 1, names[w]) for i, w in enumerate(some) if w in names]} for some in words
    ]
    letters = []
    for text in map(" ".join, words):
        after = text.find("in ") + 3
        letters.append({"items": list(text), "spans": [(after, after + 1, "NAME")]})
    spans = ["units", "suffixes:2", "shapes:2"]
    counts = rg.count(corpus, n=2, targets=["LOC", "PER"], spans=spans)
    rg.fit(counts, "LOC", "backoff").save(folder / "loc.rgm")
    rg.fit(counts, "PER", "selective", size=8, unseen="formula").save(folder / "per.rgm")
    rg.fit(rg.count(letters, n=3, kind="letters", targets=["NAME"]), "NAME", "product").save(folder / "name.rgm")
    return [str(folder / f"{name}.rgm") for name in ("loc", "per", "name")]


@contextmanager
def running(*models, **limits):
    """Run a service in a thread, and give its address."""
    app = create_app(models, Limits(**limits))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_for(lambda: server.started)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(20)


@pytest.fixture(scope="module")
def service(models):
    with running(*models, max_bytes=3_000_000) as url:
        yield url


@pytest.fixture(scope="module")
def downloads(tmp_path_factory):
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="module")
def browser(downloads, tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
                     "--disable-background-networking", "--disable-component-update", "--window-size=1200,900",
                     f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):  # fmt: skip
        options.add_argument(argument)
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    yield driver
    driver.quit()


@pytest.fixture
def page(browser, service):
    """The page, without its example; afterwards nothing may have gone wrong in its console or come from elsewhere."""
    browser.get(service)
    wait_until_ready(browser)
    empty(browser)
    browser.get_log("browser")
    yield browser
    asked = browser.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert not [url for url in asked if not url.startswith((service, "blob:"))]


def wait_for(condition, seconds=15.0):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
    return found


def wait_until_ready(browser):
    wait_for(lambda: browser.find_elements(By.CSS_SELECTOR, "body[data-ready]"))


def empty(page):
    """Clear the text, and wait until the page shows that."""
    at(page, "#clear").click()
    wait_for(lambda: not seen(page, "#heat p, #why .figure, #why .context") and not seen(page, "#status")[0])


def write(page, text):
    """Put a long text into the field at once, as pasting does."""
    page.execute_script(
        "const field = document.getElementById('text'); field.value = arguments[0];"
        "field.dispatchEvent(new Event('input'))",
        text,
    )


def at(page, selector):
    return page.find_element(By.CSS_SELECTOR, selector)


def labels(page):
    return page.execute_script(
        "return [...document.querySelectorAll('.gap')].map((gap) => gap.getAttribute('aria-label'))"
    )


def seen(page, selector):
    """Return the texts of all nodes that are shown, at one moment."""
    return page.execute_script(
        "return [...document.querySelectorAll(arguments[0])].filter((node) => node.checkVisibility())"
        ".map((node) => node.innerText.trim())",
        selector,
    )


def shown_text(page):
    return page.execute_script(
        "return [...document.querySelectorAll('#heat bdi')].map((word) => word.textContent).join(' ')"
    )


def test_typing_colours_the_gaps(page, models):
    at(page, "#text").send_keys(TEXT)
    wait_for(lambda: len(labels(page)) == len(TEXT.split()))
    loc, per = (rg.Model.load(path) for path in models[:2])
    words = TEXT.split()
    for boundary, label in enumerate(labels(page), 1):
        context = " ".join(words[max(boundary - 2, 0) : boundary])
        shown = [float(part.split()[-1].replace(MINUS, "-")) for part in label.rpartition(": ")[2].split(", ")]
        assert shown == pytest.approx([model.log_ratio([context])[0] for model in (loc, per)], abs=0.0052)
    before_rome = at(page, '.gap[aria-label*="before Rome"]')
    heat = float(page.execute_script("return arguments[0].style.getPropertyValue('--h')", before_rome))
    assert heat == pytest.approx(min(loc.log_ratio(["talks in"])[0] / 5, 1), abs=0.002)
    assert "k0" in before_rome.get_attribute("class")
    assert not [entry for entry in page.get_log("browser") if entry["level"] == "SEVERE"]


def test_a_change_in_the_middle_is_the_same_as_a_new_text(page):
    write(page, TEXT)
    wait_for(lambda: len(labels(page)) == len(TEXT.split()))
    changed = TEXT.replace("with Ann were", "with her friend Ann").replace("She", "He")
    write(page, changed)
    wait_for(lambda: "friend" in shown_text(page))
    found = labels(page)
    write(page, "")
    wait_for(lambda: not labels(page))
    page.refresh()
    wait_until_ready(page)
    empty(page)
    write(page, changed)
    assert wait_for(lambda: labels(page)) == found


def test_a_click_explains(page, models):
    write(page, TEXT)
    wait_for(lambda: labels(page))
    at(page, '.gap[aria-label*="before Rome"]').click()
    wait_for(lambda: seen(page, "#why .figure strong"))
    model = rg.Model.load(models[0])
    explained = model.explain("talks in")
    assert seen(page, "#why .figure strong") == [f"{explained.log_ratio:+.2f}"]
    assert len(seen(page, "#why .terms tbody tr:not(.section)")) == len(explained.terms)
    ends = [f"{end:+.2f}".replace("-", MINUS) for end in explained.interval]
    assert seen(page, "#why .whisker .lower, #why .whisker .upper") == ends
    assert seen(page, "#why .whisker .zero") == ["0 (ratio 1)"]
    assert f"log ratio from {ends[0]} to {ends[1]}" in at(page, "#why").text
    reach, lower, upper, zero = (
        page.execute_script("return document.querySelector(arguments[0]).getBoundingClientRect()", f"#why .{name}")
        for name in ("reach", "lower", "upper", "zero")
    )
    assert lower["right"] == pytest.approx(reach["left"], abs=1.5)  # the numbers stand at the ends
    assert upper["left"] == pytest.approx(reach["right"], abs=1.5)
    assert (zero["left"] < reach["left"]) == (explained.interval[0] > 0)
    assert explained.sentence() in at(page, "#why .figure").text
    assert "times as likely before LOC as elsewhere" in explained.sentence()
    wait_for(lambda: seen(page, "#why td.up, #why td.down"))
    at(page, '#why [data-name="PER"]').click()
    wait_for(lambda: "not selected" in at(page, "#why").text or "·" in at(page, "#why").text)
    assert len(page.find_elements(By.CSS_SELECTOR, "#why .terms tbody tr")) == 2


def test_ratios_are_shown_with_two_digits(page):
    ratios = [160.8, 100, 200.4, 999.9, 20, 1.5, 2, 0.104, 0.0284, 5_312_345, 1.2e-7, 0, "inf", "nan"]
    script = "import('/static/dom.js').then(({ times }) => arguments[1](arguments[0].map(times)))"
    shown = page.execute_async_script(script, ratios)
    assert shown[:9] == ["160", "100", "200", "1,000", "20", "1.5", "2", "0.1", "0.028"]
    assert shown[9:] == ["5,300,000", "1.2e-7", "0", "∞", "\u2013"]


def test_the_keyboard_is_enough(page):
    at(page, "#text").send_keys(TEXT)
    wait_for(lambda: len(labels(page)) == len(TEXT.split()))
    active = page.switch_to
    for _ in range(8):  # over the buttons and the chips
        active.active_element.send_keys(Keys.TAB)
        if "gap" in (active.active_element.get_attribute("class") or ""):
            break
    assert active.active_element.get_attribute("data-boundary") == "1"
    keys = (Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.END, Keys.ARROW_LEFT, Keys.HOME)
    for key, boundary in zip(keys, (2, 3, 17, 16, 1), strict=True):
        active.active_element.send_keys(key)
        assert active.active_element.get_attribute("data-boundary") == str(boundary)
        wait_for(lambda: seen(page, "#why .context"))
    words = TEXT.split()
    wait_for(lambda: seen(page, "#why .context bdi") == words[:1])
    at(page, "#tab-read").send_keys(Keys.ARROW_RIGHT)
    assert active.active_element.get_attribute("id") == "tab-rank"
    assert at(page, "#rank").is_displayed()
    active.active_element.send_keys(Keys.ARROW_RIGHT)
    wait_for(lambda: seen(page, "#model h2"))
    assert "LOC: loc.rgm" in seen(page, "#model h2")[0]


def test_an_uploaded_text_is_ranked_searched_and_saved(page, models, tmp_path, downloads):
    file = tmp_path / "new.txt"
    file.write_text(TEXT + " =1+1 in Rome")
    at(page, "#tab-rank").click()
    at(page, "#file").send_keys(str(file))
    at(page, "#rank-form button").click()
    wait_for(lambda: seen(page, "#rank-rows tr"))
    model = rg.Model.load(models[0])
    words = file.read_text().split()
    contexts = [" ".join(words[max(i - 2, 0) : i]) for i in range(1, len(words) + 1)]
    assert seen(page, "#rank-rows td.text button")[0] == max(contexts, key=lambda c: model.log_ratio([c])[0])
    at(page, "#rank-search").send_keys("in")
    wait_for(lambda: all("in" in text.lower() for text in seen(page, "#rank-rows td.text:not(.note)")))
    rows = len(seen(page, "#rank-rows tr"))
    at(page, "#download").click()
    saved = wait_for(lambda: [file for file in downloads.glob("ranking-LOC.csv") if file.stat().st_size])[0]
    with saved.open(newline="") as stream:
        table = list(csv.DictReader(stream))
    assert len(table) == rows
    for row in table:
        context = row["context"].removeprefix("'")
        assert float(row["log_ratio"]) == model.log_ratio([context])[0]
        assert not row["context"].startswith("=")
    at(page, "#rank-rows button").click()
    wait_for(lambda: seen(page, "#why .figure strong"))


def drop(page, name, content, view):
    """Drop a file on a view of the page."""
    at(page, f"#tab-{view}").click()
    page.execute_script(
        "const transfer = new DataTransfer();"
        "transfer.items.add(new File([new Uint8Array(arguments[1])], arguments[0]));"
        "document.body.dispatchEvent("
        "  new DragEvent('drop', { dataTransfer: transfer, bubbles: true, cancelable: true }))",
        name,
        list(content),
    )


def test_a_file_of_another_format_is_read_or_refused(page, tmp_path):
    pq.write_table(pa.table({"id": ["a", "b"], "text": ["Ann was here", TEXT]}), tmp_path / "docs.parquet")
    parquet = (tmp_path / "docs.parquet").read_bytes()
    drop(page, "docs.parquet", parquet, "rank")
    wait_for(lambda: seen(page, "#rank-rows tr"))
    assert "2 documents have" in seen(page, "#rank-count")[0]
    assert set(seen(page, "#rank-rows td.note:last-child")) == {
        *(f"a, gap {gap}" for gap in range(1, 4)), *(f"b, gap {gap}" for gap in range(1, len(TEXT.split()) + 1))
    }  # fmt: skip
    drop(page, "picture.png", b"\x89PNG\r\n\x1a\n\0", "rank")
    assert wait_for(lambda: seen(page, "#alert:not([hidden])")) == ["picture.png, line 1 is not valid UTF-8"]
    for name, content in (("docs.parquet", parquet), ("zeros", bytes(9)), ("latin", b"caf\xe9")):
        drop(page, name, content, "read")
        refused = [f"{name} is not plain text. The Rank view reads files of other formats."]
        wait_for(lambda refused=refused: seen(page, "#alert:not([hidden])") == refused)
        assert not labels(page)
    drop(page, "text.txt", TEXT.encode(), "read")
    wait_for(lambda: shown_text(page) == TEXT)
    assert not seen(page, "#alert:not([hidden])")


def test_an_error_is_shown_kindly_and_goes_away(page):
    write(page, "word " * 700_000)
    shown = wait_for(lambda: seen(page, "#alert:not([hidden])"))
    assert shown == ["a request may have 3,000,000 bytes at most: send less at a time"]
    write(page, TEXT)
    wait_for(lambda: labels(page))
    assert not at(page, "#alert").is_displayed()
    at(page, "#tab-rank").click()
    page.execute_script("document.getElementById('text').value = ' '")
    at(page, "#rank-form button").click()
    shown = wait_for(lambda: seen(page, "#alert:not([hidden])"))
    assert shown == ["There is no context in it: the model reads 2 words beside a gap."]


def test_a_service_that_is_gone_is_named(browser, models):
    with running(models[0]) as url:
        browser.get(url)
        wait_until_ready(browser)
    write(browser, TEXT)
    shown = wait_for(lambda: seen(browser, "#alert:not([hidden])"))
    assert shown == ["The service does not answer. Is `raregram serve` still running?"]


def test_a_token_is_asked_for_or_taken_from_the_address(browser, models):
    with running(models[0], token="s3cret") as url:
        browser.get(url)
        field = wait_for(lambda: browser.find_elements(By.CSS_SELECTOR, "dialog[open] #token"))[0]
        field.send_keys("s3cret", Keys.ENTER)
        wait_until_ready(browser)
        browser.execute_script("sessionStorage.clear()")
        browser.get("about:blank")
        browser.get(url + "#token=s3cret")
        wait_until_ready(browser)
        assert browser.current_url == url


def test_hostile_text_is_shown_as_text(page):
    write(page, HOSTILE)
    wait_for(lambda: len(labels(page)) == len(HOSTILE.split()))
    assert shown_text(page) == " ".join(HOSTILE.split())
    assert page.execute_script("return window.hacked") is None
    assert not page.find_elements(By.CSS_SELECTOR, "#heat script, #heat img, #heat b")
    for gap in page.find_elements(By.CSS_SELECTOR, ".gap")[:8]:
        gap.click()
        boundary = int(gap.get_attribute("data-boundary"))
        words = HOSTILE.split()[max(boundary - 2, 0) : boundary]
        wait_for(lambda words=words: len(seen(page, "#why .context bdi")) == len(words))
    assert page.execute_script("return window.hacked") is None
    at(page, "#tab-rank").click()
    at(page, "#rank-form button").click()
    wait_for(lambda: seen(page, "#rank-rows tr"))
    assert page.execute_script("return window.hacked") is None
    assert any("<script>window.hacked=1</script>" in text for text in seen(page, "#rank-rows td.text"))


def test_a_megabyte_is_coloured_where_it_is_looked_at(page):
    text = (TEXT + "\n") * 14_000
    assert len(text) > 1_000_000
    write(page, text)
    wait_for(lambda: f"{len(text.split()):,} words" in seen(page, "#status"), 40)
    drawn = len(labels(page))
    assert 100 < drawn < 20_000
    write(page, "Bob is in " + text)
    wait_for(lambda: shown_text(page).startswith("Bob is in She said"), 40)


def test_letters_have_gaps_too(page):
    write(page, "Ann in\tOslo")
    wait_for(lambda: labels(page))
    at(page, "#kinds button:nth-child(2)").click()
    wait_for(lambda: len(labels(page)) == len("Ann in\tOslo"))
    at(page, '.gap[data-boundary="7"]').click()
    wait_for(lambda: seen(page, "#why .context bdi") == ["i", "n", "⇥"])
    assert seen(page, "#heat bdi") == [*"Ann␣in⇥Oslo"]
    at(page, '.gap[data-boundary="4"]').click()
    wait_for(lambda: seen(page, "#why .context bdi") == ["n", "n", "␣"])


def test_no_line_of_letters_ends_within_a_word(page):
    at(page, "#kinds button:nth-child(2)").click()
    text = " ".join([TEXT, TEXT.replace(" ", "\u2003"), TEXT + "\n"])
    write(page, text)
    wait_for(lambda: f"{len(text)} letters" in seen(page, "#status"))
    tops = page.execute_script(
        "return [...document.querySelectorAll('#heat bdi')].map((letter) => [letter.textContent, letter.offsetTop])"
    )
    assert len(tops) == len(text)
    lines = [[]]
    for (_, before), (letter, top) in zip([tops[0], *tops[:-1]], tops, strict=True):
        lines += [[]] if top != before else []
        lines[-1].append(letter)
    assert len(lines) > 5
    assert all(line[-1] in "␣↵" for line in lines[:-1])


def test_the_switch_shows_which_kind_is_on(page):
    for chosen in (1, 2, 1):
        at(page, f"#kinds button:nth-child({chosen})").click()
        pressed = [
            page.find_elements(By.CSS_SELECTOR, "#kinds button")[i].get_attribute("aria-pressed") for i in (0, 1)
        ]
        assert pressed == [str(i == chosen).lower() for i in (1, 2)]
        colours = page.execute_script(
            "return [...document.querySelectorAll('#kinds button')].map((b) => getComputedStyle(b).backgroundColor)"
        )
        assert colours[0] != colours[1]


def test_the_first_gap_with_a_score_is_explained_from_the_start(browser, service):
    browser.get(service)
    wait_until_ready(browser)
    wait_for(lambda: seen(browser, "#why .terms"))
    gaps = browser.find_elements(By.CSS_SELECTOR, ".gap")
    assert [gap.get_attribute("aria-current") for gap in gaps] == ["true"] + [None] * (len(gaps) - 1)
    words = seen(browser, "#heat bdi")
    assert seen(browser, "#why .context bdi") == words[: int(gaps[0].get_attribute("data-boundary"))]
    assert browser.switch_to.active_element.tag_name == "body"  # nothing takes the focus


def test_a_gap_without_context_says_so(page):
    write(page, "Rome")
    wait_for(lambda: seen(page, "#heat bdi"))
    none = page.find_elements(By.CSS_SELECTOR, "#heat .none")
    assert none[0].get_attribute("title") == "no context here"
    assert none[0].get_attribute("aria-label") == "gap 0 before Rome: no context here"
    assert labels(page) or seen(page, "#why") == ["No gap of this text has a context yet. Write more."]
    assert "no context here" in at(page, "#scale").text
    assert "150 or more" in at(page, "#scale").text


def test_words_are_those_of_the_models(browser, models, tmp_path):
    counts = rg.count(numerator=[{"text": TEXT}] * 3, denominator=[{"text": "Ann was here"}], n=2)
    rg.fit(counts, estimator="product").save(tmp_path / "two.rgm")
    with running(str(tmp_path / "two.rgm")) as url:
        browser.get(url)
        wait_until_ready(browser)
        assert "likelier in the numerator than in the denominator" in at(browser, "#hint").text
        at(browser, "#tab-rank").click()
        assert "likelier in the numerator than in the denominator" in at(browser, "#rank-about").text
        at(browser, "#tab-models").click()
        heads = wait_for(lambda: seen(browser, "#model h3"))
        assert heads[0] == "Likelier in the numerator at position 2 of 2"
        assert "contexts in the denominator (n_de)" in seen(browser, "#model dt")
        shown = browser.find_element(By.TAG_NAME, "body").text
        assert "before" not in shown
    with running(*models) as url:
        browser.get(url)
        wait_until_ready(browser)
        assert "likelier before LOC or before PER than elsewhere" in at(browser, "#hint").text


def test_the_strongest_items_are_in_the_order_of_the_number_shown(page):
    at(page, "#tab-models").click()
    wait_for(lambda: seen(page, "#model .pair td"))
    for position in page.find_elements(By.CSS_SELECTOR, ".pillars button"):
        position.click()
        for column, sign in ((1, -1), (2, 1)):
            shown = seen(page, f"#model .pair > div:nth-child({column}) td:nth-child(4)")
            numbers = [sign * float(number.replace(MINUS, "-")) for number in shown]
            assert numbers == sorted(numbers)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1200])
def test_it_fits_in_both_themes_and_on_a_phone(page, service, theme, width):
    features = [{"name": "prefers-color-scheme", "value": theme}]
    size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 500}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        page.get(service)
        wait_until_ready(page)
        gap = wait_for(lambda: page.find_elements(By.CSS_SELECTOR, ".gap"))[3]
        gap.click()
        wait_for(lambda: seen(page, "#why .terms"))
        assert gap.is_displayed()
        below = page.execute_script("return arguments[0].getBoundingClientRect().bottom", gap)
        panel = page.execute_script("return document.getElementById('why').getBoundingClientRect().top")
        assert width > 500 or below < panel  # the sheet does not hide the gap that it explains
        for view in ("rank", "models"):
            page.execute_script(f"document.getElementById('tab-{view}').click()")
            assert page.execute_script("return document.documentElement.scrollWidth - innerWidth") <= 0
        ink, paper = (brightness(page, name) for name in ("color", "backgroundColor"))
        assert (ink < paper) == (theme == "light")
        assert abs(ink - paper) > 150
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def brightness(page, name):
    colour = page.execute_script(f"return getComputedStyle(document.body).{name}")
    return sum(map(int, colour.removeprefix("rgb(").rstrip(")").split(","))) / 3


def test_the_page_of_the_interface_tries_requests(page, service):
    page.get(service + "docs")
    wait_for(lambda: len(seen(page, ".method")) == 10)
    field = at(page, "textarea")
    field.clear()
    field.send_keys('{"contexts": ["talks in"], "models": ["LOC"]}')
    page.find_element(By.XPATH, "//button[text()='Try']").click()
    assert '"scores"' in "".join(wait_for(lambda: list(filter(None, seen(page, "pre[aria-live]:not([hidden])")))))


def test_the_page_splits_words_from_punctuation_as_the_model_does(browser, tmp_path):
    docs = [
        {"text": f'talks (in "{name}") on {i}', "spans": [(2, 3, "LOC")]} for i, name in enumerate(["Rome", "Oslo"])
    ]
    counts = rg.count(docs, n=2, tokenize="words", lower=True, spans=["units", "suffixes:2", "shapes:2"])
    model = rg.fit(counts, "LOC", "backoff")
    model.save(tmp_path / "apart.rgm")
    with running(str(tmp_path / "apart.rgm")) as url:
        browser.get(url)
        wait_until_ready(browser)
        write(browser, 'It\'s (in "Rome"), na\u00efve 3.14%\u2026 字 \U0001f1e9\U0001f1ea\u0308')
        items = ["It's", "(", "in", '"', "Rome", '"', ")", ",", "na\u00efve", "3.14", "%", "\u2026", "字",
                 "\U0001f1e9\U0001f1ea\u0308"]  # fmt: skip
        wait_for(lambda: f"{len(items)} words and signs" in seen(browser, "#status"))
        wait_for(lambda: seen(browser, "#heat bdi") == items)
        gaps = browser.execute_script("return [...document.querySelectorAll('.gap')].map((gap) => gap.ariaLabel)")
        label = next(label for label in gaps if label.startswith("gap 4 before Rome"))
        expected = model.log_ratio(['in "'])[0]
        assert f"{expected:.2f}" in label.replace("\u2212", "-")
