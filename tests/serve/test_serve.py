"""The service: the numbers of the library, clear errors, and no text kept, logged or let through."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import raregram as rg
from raregram.text import shapes

schemathesis = pytest.importorskip(
    "schemathesis", reason="schemathesis is not installed: pip install 'raregram[test]'"
)
pytest.importorskip("fastapi", reason="FastAPI is not installed: pip install 'raregram[serve]'")

from hypothesis import HealthCheck, given, settings  # noqa: E402
from schemathesis.specs.openapi.checks import positive_data_acceptance  # noqa: E402
from starlette.testclient import TestClient  # noqa: E402

from raregram.serve.app import create_app  # noqa: E402
from raregram.serve.limits import THREADS, Limits  # noqa: E402
from raregram.serve.metrics import Metrics  # noqa: E402
from raregram.serve.registry import Registry  # noqa: E402

RAREGRAM = Path(sys.executable).with_name("raregram")
TEXT = "Ann met Bob in Rome and they said that the talks in Oslo on 5 May were good for Ann"
BACKOFF = {"estimator": "backoff", "spans": ["units", "suffixes:3", "shapes:3"]}
WHOLE = {"n": 2, "spans": ["units", "whole"]}
MODELS = {
    "backoff": {"n": 3, **BACKOFF},
    "bare": {"n": 4, "estimator": "backoff", "spans": ["units", "suffixes:2"], "shapes": False},
    "right": {"n": 2, "side": "right", "estimator": "backoff", "spans": ["units", "suffixes:2", "shapes:2"]},
    "padded": {"n": 3, "pad": True, **BACKOFF},
    "padded right": {"n": 3, "pad": True, "side": "right", "estimator": "product"},
    "selective": {"n": 3, "estimator": "selective", "size": 3},
    "formula": {"n": 3, "estimator": "product", "unseen": "formula"},
    "mle": {"estimator": "mle", **WHOLE},
    "direct": {"estimator": "direct", **WHOLE},
    "letters": {"n": 3, "kind": "letters", **BACKOFF},
    "split words": {"n": 3, "tokenize": "words", "lower": True, **BACKOFF},
    "letters mle": {"kind": "letters", "pad": True, "estimator": "mle", **WHOLE},
}
COUNTED = ("n", "side", "kind", "tokenize", "lower", "pad", "spans")
JSON = {"Content-Type": "application/json"}


def fit_one(name, target):
    """Fit one of `MODELS`, on words or on letters, with a span at each place."""
    options = dict(MODELS[name])
    counted = {key: options.pop(key) for key in COUNTED if key in options}
    corpus = []
    for seed in range(40):
        place = ["Ann", "Bob", "Rome", "Oslo", "Paris"][seed % 5]
        items = [*TEXT.split()[seed % 5 :], f"no{seed}", "was", "in", place, "."]
        starts = [i for i, item in enumerate(items) if item in ("Rome", "Oslo", "Paris")]
        if counted.get("kind") == "letters":
            starts = [sum(len(item) + 1 for item in items[:start]) for start in starts]
            items = list(" ".join(items))
        corpus.append({"items": items, "spans": [(start, start + 1, target) for start in starts]})
    return rg.fit(rg.count(corpus, targets=[target], **counted), target, **options)


@pytest.fixture(scope="session")
def models():
    """All models, whose targets are their names."""
    return {name: fit_one(name, name) for name in MODELS}


@pytest.fixture(scope="session")
def folder(models, tmp_path_factory):
    path = tmp_path_factory.mktemp("models")
    for name, model in models.items():
        model.save(path / f"{name}.rgm")
    return path


@pytest.fixture(scope="session")
def paths(folder):
    return [folder / f"{name}.rgm" for name in MODELS]


@pytest.fixture(scope="session")
def client(paths):
    with served(*paths, max_bytes=300_000) as client:
        yield client


def served(*paths, poll=60.0, **limits):
    """Return a client of a service; inside a `with` it also watches its files."""
    return TestClient(create_app(paths, Limits(**limits), poll), base_url="http://127.0.0.1")


def post(client, route, **request):
    answer = client.post(f"/api/{route}", json=request)
    assert answer.status_code == 200, answer.text
    return answer.json()


def error_of(answer):
    assert list(answer.json()) == ["error"]
    return answer.status_code, answer.json()["error"]["code"], answer.json()["error"]["message"]


def same(found, expected):
    """Whether numbers of JSON, where infinity and NaN are strings, are these."""
    return np.array_equal([float(number) for number in found], expected, equal_nan=True)


def contexts_of(model):
    """Return the items of TEXT and the context of every boundary, the slow way; None where there is none."""
    s, items = model.settings, model.settings.tokenizer.items(TEXT)
    parts = [items[max(i - s.n, 0) : i] if s.side == "left" else items[i : i + s.n] for i in range(len(items) + 1)]
    pads = [[""] * (s.n - len(part)) if s.pad else [] for part in parts]
    parts = [pad + part if s.side == "left" else part + pad for part, pad in zip(parts, pads, strict=True)]
    return items, [part or None for part in parts]


def metric(client, name):
    """Return the value of a metric, 0 for one that has not been counted yet."""
    found = re.search(rf"^raregram_{re.escape(name)} (\S+)$", client.get("/metrics").text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def wait_for(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


# The numbers of the library


@pytest.mark.parametrize("name", MODELS)
def test_contexts_and_texts_have_the_log_ratios_of_the_library(client, models, name):
    model = models[name]
    s = model.settings
    words = [*TEXT.split(), "Zürich", "x1", "", "no7"] if s.kind == "words" else [*TEXT, "ß", ""]
    drawn = np.random.default_rng(0).integers(0, len(words), (300, s.n)).tolist()
    items, around = contexts_of(model)
    known = [context for context in around if context is not None]
    for contexts in ([[words[i] for i in row] for row in drawn], known[:5], [" ".join(words[:3])]):
        expected = model.log_ratio(contexts)
        assert same(post(client, "score", contexts=contexts, models=[name])["scores"][name], expected)
        first = post(client, "score", contexts=contexts[:1], models=[name])["scores"][name]
        assert same(first, expected[:1])
    text, empty = post(client, "texts", texts=[TEXT, ""], models=[name])["texts"]
    found = text["scores"][name]
    assert text["items"] == {str(s.tokenizer): len(items)}
    assert [score is None for score in found] == [context is None for context in around]
    assert same([score for score in found if score is not None], model.log_ratio(known))
    assert len(empty["scores"][name]) == 1
    explained = post(client, "explain", context=known[5], model=name)
    assert same([sum(float(term["value"]) for term in explained["terms"])], [float(explained["log_ratio"])])
    assert (explained["interval"] is None) == (s.estimator in ("mle", "direct"))


@pytest.mark.parametrize("name", MODELS)
def test_boundaries_are_ranked_and_named(client, models, name):
    model = models[name]
    items, around = contexts_of(model)
    positions = [i for i, context in enumerate(around) if context is not None]
    values = model.log_ratio([around[i] for i in positions])
    values = np.nan_to_num(values, nan=-np.inf, posinf=1e300, neginf=-1e299)
    best = [positions[row] for row in np.argsort(-values, kind="stable")]  # ties in order of position
    found = post(client, "rank", text=TEXT, model=name, top=1000)
    assert (found["documents"], found["contexts"]) == (1, len(positions))
    assert [(row["rank"], row["position"]) for row in found["ranking"]] == list(enumerate(best, 1))
    between = " " if model.settings.kind == "words" else ""
    for row in found["ranking"]:
        assert row["items"] == around[row["position"]]
        assert row["document"] is None
        assert between.join(items[: row["position"]]).endswith(row["left"])
        assert between.join(items[row["position"] :]).startswith(row["right"])
    assert post(client, "rank", text=TEXT, model=name, top=5)["ranking"] == found["ranking"][:5]


def test_ranking_by_the_lower_end(client, models):
    ranked = post(client, "rank", text=TEXT, model="backoff", top=4, by="lower")["ranking"]
    contexts = [context for context in contexts_of(models["backoff"])[1] if context]
    lower = np.unique(models["backoff"].interval(contexts)[:, 0])
    assert [row["lower"] for row in ranked] == pytest.approx(lower[::-1][:4])


def test_the_largest_changes_are_the_largest(client, models):
    model, context = models["selective"], ["the", "talks", "in"]
    found = post(client, "changes", context=context, model="selective")
    for position in range(3):
        items = model.items.to_pylist()
        tried = model.log_ratio([[*context[:position], item, *context[position + 1 :]] for item in items])
        change = dict(zip(items, tried - model.log_ratio([context]), strict=True))
        for direction, best in (("up", max(change.values())), ("down", min(change.values()))):
            rows = [row for row in found[direction] if row["position"] == position + 1]
            assert [row["change"] for row in rows] == ([pytest.approx(best)] if best else [])
            assert all(change[row["item"]] == pytest.approx(row["change"]) for row in rows)
    for direction, sign in (("up", -1), ("down", 1)):
        changes = [sign * row["change"] for row in found[direction]]
        assert changes == sorted(changes)


def test_texts_are_split_as_the_model_was_counted(client, models):
    expected = models["split words"].log_ratio(['in " rome'])
    for context in ('were (in "Rome', ["WERE", "(in", '"Rome'], '( IN " rome'):
        assert same(
            post(client, "score", contexts=[context], models=["split words"])["scores"]["split words"], expected
        )
        assert post(client, "explain", context=context, model="split words")["ngram"] == ["in", '"', "rome"]
    [text] = post(client, "texts", texts=['(in "Rome'], models=["split words", "selective"])["texts"]
    assert text["items"] == {"words by Unicode's rules, lower case": 4, "words": 2}
    ranked = post(client, "rank", text='(in "Rome', model="split words", top=9)["ranking"]
    assert ["in", '"', "rome"] in [row["items"] for row in ranked]


# Files


def file_fields(name, content):
    return {"file_name": name, "file": base64.b64encode(content).decode()}


@pytest.mark.parametrize("name", ["backoff", "padded", "right", "letters"])
def test_a_file_is_ranked_whatever_its_format(client, tmp_path, name):
    expected = {row["position"]: row for row in post(client, "rank", text=TEXT, model=name, top=1000)["ranking"]}
    texts = ["nothing to see here, just some words", TEXT]
    pq.write_table(pa.table({"id": ["a", "b"], "text": texts}), tmp_path / "docs.parquet")
    parquet = (tmp_path / "docs.parquet").read_bytes()
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
    columns = "\n\n-DOCSTART- O\n\n".join("\n".join(f"{word} O" for word in text.split()) for text in texts).encode()
    for file, content, documents in (
        ("docs.parquet", parquet, ["a", "b"]),
        ("docs without an ending", parquet, ["a", "b"]),
        ("docs.jsonl", lines, ["line 1", "line 2"]),
        ("docs.jsonl.gz", gzip.compress(lines), ["line 1", "line 2"]),
        ("docs.conll", columns, ["line 1", "line 11"]),
        ("docs.txt", TEXT.encode(), ["docs.txt"]),
        ("/etc/passwd", TEXT.encode(), ["passwd"]),
    ):
        found = post(client, "rank", **file_fields(file, content), model=name, top=1000)
        assert found["documents"] == len(documents)
        assert {row["document"] for row in found["ranking"]} == set(documents)
        rows = {row["position"]: row for row in found["ranking"] if row["document"] == documents[-1]}
        for row in (*rows.values(), *expected.values()):
            row.update(rank=None, document=None)
        assert rows == expected, file


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("a.png", b"\x89PNG\r\n\x1a\n\x00\x00", "a.png, line 1 is not valid UTF-8"),
        ("a.parquet", b"PAR1" + bytes(100), "a.parquet: "),
        ("a.csv", b"ngram,f_nu,f_de\na b,1,2\n", "a.csv holds contexts, not documents"),
        ("../../secret.jsonl", b"{]", "secret.jsonl, line 1"),
        ("large.txt.gz", gzip.compress((TEXT + "\n").encode() * 60_000), "unpacks to more than 2,400,000 bytes"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(client, file, content, message):
    answer = client.post("/api/rank", json={**file_fields(file, content), "model": "backoff"})
    assert error_of(answer)[:2] == (422, "wrong_input")
    assert message in error_of(answer)[2]
    assert ".." not in error_of(answer)[2]


# Models


def test_models_are_described(client):
    assert [model["name"] for model in client.get("/api/models").json()["models"]] == list(MODELS)
    facts = client.get("/api/models/selective").json()
    assert (facts["selected_by_position"], facts["file"]) == ([3, 3, 3], "selective.rgm")
    assert "corpus" not in facts
    for name in MODELS:
        rows = client.get(f"/api/models/{name}").json()["strongest_by_position"]
        assert len(rows) == (1 if name.endswith(("mle", "direct")) else MODELS[name]["n"])
        for row in rows:
            strong, weak = ([entry["log_ratio"] for entry in row[f"strongest_{side}"]] for side in ("for", "against"))
            assert strong == sorted(strong, reverse=True)
            assert weak == sorted(weak)
            assert name != "selective" or min(strong) > 0 > max(weak, default=-1)


def test_models_say_in_words_what_they_compare(tmp_path):
    for name, options in {"left": {}, "right": {"side": "right"}}.items():
        counts = rg.count([{"text": TEXT, "spans": [(4, 5, "LOC")]}], n=2, **options)
        rg.fit(counts, "LOC", "product").save(tmp_path / f"{name}.rgm")
        rg.fit(counts, "LOC", "product", denominator="all").save(tmp_path / f"{name} all.rgm")
    counts = rg.count(numerator=[{"text": TEXT}], denominator=[{"text": "we were there"}], n=2)
    rg.fit(counts, estimator="product").save(tmp_path / "two.rgm")
    listed = served(*sorted(tmp_path.glob("*.rgm"))).get("/api/models").json()["models"]
    assert [(model["here"], model["elsewhere"]) for model in listed] == [
        ("before LOC", "anywhere"), ("before LOC", "elsewhere"), ("after LOC", "anywhere"),
        ("after LOC", "elsewhere"), ("in the numerator", "in the denominator"),
    ]  # fmt: skip


def test_models_that_are_unusual_are_served(tmp_path):
    counts = rg.Counts.from_contexts(["a b", "c d"], ["a/b", None])
    counts.save(tmp_path / "all.counts")
    rg.fit(rg.Counts.load(tmp_path / "all.counts"), "a/b").save(tmp_path / "slash.rgm")
    counts = rg.Counts.from_contexts(["a b", "c d"] * 2, ["E", "E", None, None], spans=["suffixes:2", "shapes:2"])
    rg.fit(counts, "E", "backoff").save(tmp_path / "empty.rgm")  # it has no items
    client = served(tmp_path / "slash.rgm", tmp_path / "empty.rgm")
    for name in ("a/b", "a%2Fb"):
        facts = client.get(f"/api/models/{name}").json()
        assert (facts["target"], facts["corpus"]) == ("a/b", rg.Counts.load(tmp_path / "all.counts").digest())
    assert client.get("/api/models/a").status_code == 404
    found = post(client, "changes", context="a b", model="E")
    assert (found["up"], found["down"]) == ([], [])


def test_models_have_names_that_differ(folder, tmp_path):
    for name in ("a", "b"):
        shutil.copy(folder / "mle.rgm", tmp_path / f"{name}.rgm")
    client = served(tmp_path / "a.rgm", tmp_path / "b.rgm", folder / "direct.rgm")
    assert client.get("/ready").json()["models"] == ["mle (a)", "mle (b)", "direct"]
    with pytest.raises(rg.errors.FileError, match="does not exist"):
        served(tmp_path / "c.rgm")


def test_a_model_is_described_as_it_was_read(folder, tmp_path):
    path = tmp_path / "live.rgm"
    known = served(shutil.copy(folder / "mle.rgm", path)).get("/api/models/mle").json()
    for change in (lambda: shutil.copy(folder / "direct.rgm", path), path.unlink):
        client = served(shutil.copy(folder / "mle.rgm", path))
        change()
        assert client.get("/api/models/mle").json() == known


def test_a_new_model_file_is_read_without_losing_a_request(tmp_path, caplog):
    path = tmp_path / "live.rgm"
    old, new, context = fit_one("backoff", "X"), fit_one("selective", "X"), "talks in Oslo"
    old.save(path)
    with served(path, poll=0.02) as client:
        seen, done = [], threading.Event()

        def hammer():
            while not done.is_set():
                seen.append(post(client, "score", contexts=[context])["scores"]["X"][0])

        with ThreadPoolExecutor(1) as pool:
            hammering = pool.submit(hammer)
            for reloads, model in enumerate((new, old, new), 1):
                model.save(path)
                wait_for(lambda reloads=reloads: metric(client, "model_reloads_total") == reloads)
            (tmp_path / "other").write_bytes(b"no model at all")
            (tmp_path / "other").replace(path)
            wait_for(lambda: metric(client, "model_reload_failures_total") == 1)
            time.sleep(0.1)
            assert metric(client, "model_reload_failures_total") == 1  # it is tried once
            old.save(path)
            wait_for(lambda: metric(client, "model_reloads_total") == 4)
            done.set()
            hammering.result()
    assert set(seen) <= {old.log_ratio([context])[0], new.log_ratio([context])[0]}
    assert "or it is truncated or damaged; the model X stays as it was" in caplog.text


def test_a_model_of_another_target_does_not_answer_in_the_name_of_the_first(folder, tmp_path, caplog):
    first, second = (shutil.copy(folder / f"{name}.rgm", tmp_path) for name in ("backoff", "selective"))
    registry = Registry([first, second], Metrics())
    known = registry.get("backoff")
    for target, name in (("PER", "PER"), ("selective", "selective (backoff)")):
        fit_one("bare", target).save(first)
        registry.refresh()
        assert registry.get("backoff") is known
        assert f"holds the model {name} now: start the service again" in caplog.text
    fit_one("bare", "backoff").save(first)
    registry.refresh()
    assert registry.get("backoff").model.settings.n == 4


# Errors and limits


LARGE = json.dumps({"texts": ["word " * 100_000]}).encode()


@pytest.mark.parametrize(
    ("path", "body", "status", "code", "message"),
    [
        ("score", "{", 400, "not_json", "the body is not valid JSON"),
        ("score", '{"contexts": ["\\ud800 a b"]}', 400, "not_json", "not valid JSON"),
        ("score", '{"contexts": [NaN]}', 400, "not_json", "not valid JSON"),
        ("score", b"\xff\xfe", 400, "not_json", "not valid JSON"),
        ("score", "{}", 422, "wrong_request", "contexts: Field required"),
        (
            "score",
            '{"contexts": [], "models": ["mle"]}',
            422,
            "wrong_request",
            "contexts: List should have at least 1",
        ),
        ("score", '{"contexts": ["a"], "more": 1}', 422, "wrong_request", "no such field; there is contexts, models"),
        ("score", '{"contexts": ["a"], "models": ["X"]}', 404, "unknown_model", "no model 'X'; there is 'backoff', "),
        ("rank", '{"text": "a b", "model": "mle", "by": "lower"}', 422, "wrong_input", "'mle' has no interval"),
        ("rank", '{"text": "a b", "model": "mle", "top": 0}', 422, "wrong_request", "top: Input should be greater"),
        ("rank", '{"model": "mle"}', 422, "wrong_input", "send either a text or a file"),
        ("rank", '{"text": "a", "file": "YWJj", "model": "mle"}', 422, "wrong_input", "either a text or a file"),
        ("rank", '{"file": "abc", "model": "mle"}', 422, "wrong_request", "file: "),
        ("nothing", "{}", 404, "not_found", "see /docs for all requests"),
        ("texts", LARGE, 413, "too_large", "300,000 bytes"),
        ("texts", (LARGE[i : i + 10_000] for i in range(0, len(LARGE), 10_000)), 413, "too_large", "300,000 bytes"),
    ],
)
def test_errors_have_one_form(client, path, body, status, code, message):
    found = error_of(client.post(f"/api/{path}", content=body, headers=JSON))
    assert found[:2] == (status, code)
    assert message in found[2]


def test_methods_and_content_types(client):
    answer = client.put("/api/texts", content="{}")
    assert (error_of(answer)[:2], answer.headers["allow"]) == ((405, "method_not_allowed"), "POST")
    answer = client.post("/api/texts", content="{}", headers={"Content-Type": "text/plain"})
    assert error_of(answer)[:2] == (415, "not_json")


def test_a_response_that_takes_too_long_is_given_up(folder):
    text = " ".join(f"{word} {place}" for place, word in enumerate(TEXT.split() * 15_000))
    before = set(threading.enumerate())
    with served(folder / "backoff.rgm", timeout=0.2) as client:
        found = error_of(client.post("/api/rank", json={"text": text, "model": "backoff", "by": "lower"}))
        assert found[:2] == (503, "too_long")
        assert "takes longer than 0.2 s" in found[2]
        assert metric(client, 'requests_total{route="rank",status="503"}') == 1
    wait_for(lambda: set(threading.enumerate()) <= before)  # the thread that handled it gives up, too


PART = {"type": "http.request", "body": b"{", "more_body": True}


def post_in_parts(app, *parts):
    """Send the parts of a request, then nothing more, straight to an application; return what it sends."""
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/api/score", "headers": headers, "query_string": b""}
    messages, sent = list(parts), []

    async def receive():
        return messages.pop(0) if messages else await asyncio.sleep(20)

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    return sent


def test_a_request_that_does_not_arrive_is_given_up(folder):
    sent = post_in_parts(served(folder / "mle.rgm", timeout=0.05).app, PART)
    assert sent[0]["status"] == 408
    assert "did not arrive within 0.05 s" in json.loads(sent[1]["body"])["error"]["message"]


def test_a_client_that_leaves_is_counted_and_not_logged(folder, caplog):
    client = served(folder / "mle.rgm")
    assert post_in_parts(client.app, PART, {"type": "http.disconnect"}) == []
    assert metric(client, 'requests_total{route="score",status="499"}') == 1
    assert not [record for record in caplog.records if record.name.startswith("raregram")]


def test_a_busy_service_says_so(folder):
    def ask(_):
        return client.post("/api/rank", json={"text": TEXT * 2000, "model": "backoff"})

    with served(folder / "backoff.rgm", max_waiting=0) as client, ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(ask, range(12)))
    assert {answer.status_code for answer in answers} == {200, 503}
    busy = next(answer for answer in answers if answer.status_code == 503)
    assert (busy.headers["retry-after"], busy.json()["error"]["code"]) == ("1", "busy")
    with served(folder / "backoff.rgm", max_waiting=-THREADS) as client:
        assert client.post("/api/score", json={"contexts": ["a b c"]}).status_code == 503
        assert [client.get(path).status_code for path in ("/live", "/ready", "/metrics", "/")] == [200] * 4


def test_headers_keep_others_out(client):
    for path in ("/", "/api/models", "/static/style.css", "/nothing"):
        headers = client.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
        assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")
        assert "access-control-allow-origin" not in headers
    assert client.get("/api/models").headers["cache-control"] == "no-store"
    assert client.get("/", headers={"If-None-Match": client.get("/").headers["etag"]}).status_code == 304
    for host, status in (("evil.example", 421), ("localhost:80", 200), ("[::1]:80", 200), ("10.0.0.7", 200)):
        assert client.get("/ready", headers={"Host": host}).status_code == status
    for path in ("/static/..%2f..%2fapp.py", "/static/app.py"):
        assert client.get(path).status_code == 404


def test_a_token_is_wanted_by_everything_but_the_page(paths):
    client = served(paths[0], token="s3cret", hosts=("names.example",))
    client.headers["Host"] = "names.example"
    for path in ("/api/models", "/metrics", "/openapi.json", "/nothing"):
        for wrong in ({}, {"Authorization": "Bearer wrong"}):
            answer = client.get(path, headers=wrong)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    for path in ("/", "/docs", "/static/main.js", "/ready"):
        assert client.get(path).status_code == 200
    assert client.get("/api/models", headers={"Authorization": "Bearer s3cret"}).status_code == 200


def test_no_text_is_kept_or_logged(paths, monkeypatch, caplog):
    def failing(model, context):
        raise RuntimeError(f"cannot explain {context}")

    monkeypatch.setattr(rg.Model, "explain", failing)
    with caplog.at_level(logging.DEBUG), served(paths[0]) as client:
        answer = client.post("/api/explain", json={"context": "Confidential and private", "model": "backoff"})
        assert error_of(answer)[:2] == (500, "failed")
        client.post("/api/score", json={"contexts": ["Confidential and private"] * 200})
        client.post("/api/texts", json={"texts": ["Confidential and private stuff"]})
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("raregram")]
    assert ours == [f"RuntimeError at failing, line {ours[0].split()[-1]}"]
    assert "Confidential" not in caplog.text


def test_shapes_of_unknown_words_are_computed_anew_each_time(paths, monkeypatch):
    """To remember them would keep words of texts, and very long ones would fill the memory."""
    seen, plain = [], shapes.word_shape
    monkeypatch.setitem(shapes.SHAPES, "words", lambda word: seen.append(word) or plain(word))
    with served(paths[0]) as client:
        for _ in range(2):
            post(client, "score", contexts=["in Xanadu today"])
            post(client, "score", contexts=["in Xanadu today"] * 200)
            post(client, "texts", texts=["we met in Xanadu today"])
            post(client, "explain", context="in Xanadu today", model="backoff")
            seen.append("-")
    first, second = " ".join(seen).split("-")[:2]
    assert first.count("Xanadu") == second.count("Xanadu") >= 4


# Metrics, description, processes


def test_metrics_count_requests_and_models(client):
    for path, route in {
        "/api/models/mle": "models", "/api/score": "score", "/static/main.js": "page", "/docs": "page", "/x": "other",
    }.items():  # fmt: skip
        name = f'requests_total{{route="{route}",status="{client.get(path).status_code}"}}'
        before = metric(client, name)
        client.get(path)
        assert metric(client, name) >= before + 1
        assert metric(client, f'request_seconds_count{{route="{route}"}}') >= before + 1
    assert metric(client, "models") == len(MODELS)
    for path in ("/live", "/ready"):
        assert client.get(path).json() == {"ready": True, "models": list(MODELS)}


def test_processes_share_their_metrics(tmp_path):
    """Each in its own files of a folder that prometheus_client knows by an environment variable."""
    script = (
        "from raregram.serve.metrics import Metrics; metrics = Metrics(); metrics.models.set(1)\n"
        "metrics.observe('score', 200, 0.1); print(metrics.exposition().decode())"
    )
    env = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    for count in (1, 2):
        done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
        assert f'raregram_requests_total{{route="score",status="200"}} {count}.0' in done.stdout
        assert "raregram_models 1.0" in done.stdout


@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
@pytest.mark.parametrize("examples", [3, pytest.param(40, marks=pytest.mark.harness)])
def test_the_service_does_what_its_description_says(paths, mode, examples):
    """Requests made from the OpenAPI description, valid and invalid: responses must be as described."""
    # Within the size limit, whatever is made: schemathesis takes error 413 for an invalid request that was accepted.
    app = create_app(paths[:1], Limits(hosts=("testserver",)))
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) == 10
    for operation in operations:
        if mode == "NEGATIVE" and operation.method == "get":
            continue  # nothing about them can be wrong

        @given(case=operation.as_strategy(generation_mode=schemathesis.GenerationMode[mode]))
        @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
        def check(case):
            # How many items a context needs depends on the model, which no schema can say.
            case.call_and_validate(excluded_checks=[positive_data_acceptance])

        check()


def test_a_server_of_ones_own_serves_what_the_environment_names(paths, monkeypatch):
    monkeypatch.setenv("RAREGRAM_MODELS", os.pathsep.join(map(str, paths[:2])))
    monkeypatch.setenv("RAREGRAM_TOKEN", "s3cret")
    client = TestClient(create_app(), base_url="http://127.0.0.1")
    assert client.get("/ready").json()["models"] == list(MODELS)[:2]
    assert client.get("/api/models").status_code == 401
    monkeypatch.delenv("RAREGRAM_MODELS")
    with pytest.raises(rg.errors.ParameterError, match="model file"):
        create_app()


def test_the_command_serves_and_stops(folder, models):
    command = [RAREGRAM, "serve", folder / "backoff.rgm", "--port", "0", "--no-browser"]
    with subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True) as process:
        try:
            url = re.search(r"http://127\.0\.0\.1:\d+/", process.stderr.readline())[0]
            request = urllib.request.Request(f"{url}api/score", b'{"contexts": ["talks in Oslo"]}', JSON)
            for _ in range(5):
                with urllib.request.urlopen(request, timeout=20) as answer:  # it listens already, and soon answers
                    scores = json.load(answer)["scores"]
            assert scores["backoff"] == models["backoff"].log_ratio(["talks in Oslo"]).tolist()
            with urllib.request.urlopen(f"{url}metrics", timeout=20) as answer:
                assert 'raregram_requests_total{route="score",status="200"} 5.0' in answer.read().decode()
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(20)
        assert "Traceback" not in process.stderr.read()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nothing.rgm"], 1, "nothing.rgm does not exist"),
        (["M", "--host", "256.1.1.1"], 1, "cannot listen at 256.1.1.1, port 8000"),
        (["M", "--max-request", "much"], 2, "must be a size such as 512MB"),
        (["M", "--token", "a b"], 2, "token takes plain letters"),
        (["M", "--time-limit", "0"], 2, "number of seconds above 0"),
    ],
)
def test_wrong_calls_are_named(run, folder, arguments, code, message):
    given = [str(folder / "mle.rgm") if argument == "M" else argument for argument in arguments]
    assert message in run("serve", *given, code=code)


@pytest.mark.harness
@pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed: apt-get install wrk")
def test_the_benchmark_measures_the_service_beside_an_echo(folder, monkeypatch, capsys):
    from benchmarks import serving

    for name, small in (("SECONDS", 1), ("ROUNDS", 1), ("WORDS", 300)):
        monkeypatch.setattr(serving, name, small)
    monkeypatch.setattr(sys, "argv", ["serving.py", str(folder / "backoff.rgm"), str(folder / "selective.rgm")])
    serving.main()
    figures = dict(re.findall(r"^(.+?)  +([\d,.]+)", capsys.readouterr().out, re.MULTILINE))
    assert float(figures["cost of score, one model over that of the echo"]) > 0
    assert float(figures["contexts a second, texts of 300 words"].replace(",", "")) > 0
