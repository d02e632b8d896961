"""Shared by the tests: stages, small corpora, a way to run commands, and how Hypothesis looks for mistakes."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

import raregram as rg
from combinations import run as run_command  # (*arguments, stdin=b"") -> exit code, output as bytes, errors

FEW = 20  # examples, whatever a test asks for
settings.register_profile("raregram", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("few", settings.get_profile("raregram"), max_examples=FEW)
settings.register_profile(  # the same few for every mutant, without the search for a smaller one
    "mutants",
    settings.get_profile("few"),
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
)
settings.load_profile("raregram")

# The files that take longest go first, so that none of them runs alone in the end.
LONGEST = (
    "test_experiment",
    "test_spark",
    "test_combinations",
    "test_tagging",
    "test_fuzz",
    "test_kills",
    "test_tune",
)


def pytest_collection_modifyitems(config, items):
    """Mark tests by Hypothesis and those that need a large download; begin with the longest files."""
    few = config.getoption("--hypothesis-profile") == "few"
    for item in items:
        if "MUTANT_UNDER_TEST" in os.environ:
            item._nodeid = item.nodeid  # mutmut 3.8 reads the name under which older versions of pytest had it
        if any("Stanford NER" in str(mark.kwargs.get("reason")) for mark in item.iter_markers("skipif")):
            item.add_marker("trust")  # a download of 475 MB
        test = getattr(item, "obj", None)
        if getattr(test, "is_hypothesis_test", False):
            item.add_marker("property")
            own = getattr(test, "_hypothesis_internal_use_settings", None)  # of `@settings`, which beats a profile
            if few and own and own.max_examples > FEW:
                test._hypothesis_internal_use_settings = settings(own, max_examples=FEW)
    items.sort(key=lambda item: LONGEST.index(item.path.stem) if item.path.stem in LONGEST else len(LONGEST))


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A real browser without a window, whose downloads go to the folder `browser.downloads`."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
        "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
        "--window-size=1200,900", f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):  # fmt: skip
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    downloads = tmp_path_factory.mktemp("downloads")
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    service = webdriver.chrome.service.Service(shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    driver.downloads = downloads
    yield driver
    driver.quit()


# Few items, so that they meet again; with bytes that sort differently as text and as UTF-16.
ITEMS = st.sampled_from(["a", "b", "c", "A", "é", "\uffee", "\U0001f600", "zz"])
LABELS = st.sampled_from([None, "O", "", "LOC", "PER", ("LOC", "PER")])


@st.composite
def corpora(draw, n=None, min_size=1, max_size=40):
    """Labelled contexts: (list of item lists, list of labels)."""
    n = draw(st.integers(1, 4)) if n is None else n
    rows = draw(
        st.lists(st.tuples(st.lists(ITEMS, min_size=n, max_size=n), LABELS), min_size=min_size, max_size=max_size)
    )
    return [items for items, _ in rows], [label for _, label in rows]


def as_dictionary(counts):
    """A count table as {(start, end, items): [total, targets...]}."""
    items = counts.items.to_pylist()
    return {
        (*span.columns(counts.n), tuple(items[number] for number in key)): values
        for span, part in counts.rows.items()
        for key, values in zip(part.keys.tolist(), part.values.tolist(), strict=True)
    }


@pytest.fixture(scope="session")
def corpus() -> tuple[list[str], list[str | None]]:
    """A thousand contexts of four words at two targets, never changing."""
    source = random.Random(7)
    words = "the a in at of to said met mr from with city bank he she it was near by old".split()  # noqa: SIM905
    contexts, labels = [], []
    for _ in range(1000):
        items = [source.choice(words) for _ in range(4)]
        at_place = items[-1] in ("in", "at", "near", "from") and source.random() < 0.6
        at_person = items[-1] in ("mr", "by", "said") and source.random() < 0.5
        contexts.append(" ".join(items))
        labels.append("LOC" if at_place else "PER" if at_person else None)
    return contexts, labels


@pytest.fixture(scope="session")
def counts(corpus) -> rg.Counts:
    contexts, labels = corpus
    return rg.Counts.from_contexts(contexts, labels, spans=["units", "suffixes:3", "shapes:3", "whole"])


@pytest.fixture(scope="session")
def model(counts) -> rg.Model:
    return rg.fit(counts, "LOC", "selective", size=6)


@pytest.fixture
def model_file(model, tmp_path) -> Path:
    path = tmp_path / "loc.rgm"
    model.save(path)
    return path


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run `raregram ...` in a folder of its own; check the exit code and return what it printed, or its error."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, code=0, stdin=b""):
        found, out, error = run_command(*arguments, stdin=stdin if isinstance(stdin, bytes) else stdin.encode())
        assert found == code, error
        assert code or "-q" not in arguments or error == ""
        return error if code else out.decode()

    return run


def peak_kilobytes(command, lines):
    """Feed lines to a command through a pipe and return the most memory it held."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        for _ in range(lines // 10_000):
            process.stdin.write(b"the a in at\n" * 10_000)
        process.stdin.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss
