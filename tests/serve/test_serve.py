"""The service: the same answers as the library, clear refusals, and nothing lost, kept or let through."""

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
import urllib.error
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
from raregram.serve.handlers import THREADS  # noqa: E402
from raregram.serve.limits import Limits  # noqa: E402
from raregram.serve.metrics import Metrics  # noqa: E402
from raregram.serve.registry import Registry  # noqa: E402

RAREGRAM = Path(sys.executable).with_name("raregram")
TEXT = "Ann met Bob in Rome and they said that the talks in Oslo on 5 May were good for Ann"
MODELS = {
    "backoff": {"n": 3, "estimator": "backoff", "spans": ["units", "suffixes:3", "shapes:3"]},
    "bare": {"n": 4, "estimator": "backoff", "spans": ["units", "suffixes:2"], "shapes": False},
    "right": {"n": 2, "side": "right", "estimator": "backoff", "spans": ["units", "suffixes:2", "shapes:2"]},
    "padded": {"n": 3, "pad": True, "estimator": "backoff", "spans": ["units", "suffixes:3", "shapes:3"]},
    "padded right": {"n": 3, "pad": True, "side": "right", "estimator": "product"},
    "selective": {"n": 3, "estimator": "selective", "size": 3},
    "formula": {"n": 3, "estimator": "product", "unseen": "formula"},
    "mle": {"n": 2, "estimator": "mle", "spans": ["units", "whole"]},
    "direct": {"n": 2, "estimator": "direct", "spans": ["units", "whole"]},
    "letters": {"n": 3, "kind": "letters", "estimator": "backoff", "spans": ["units", "suffixes:3", "shapes:3"]},
    "split words": {
        "n": 3,
        "tokenize": "words",
        "lower": True,
        "estimator": "backoff",
        "spans": ["units", "suffixes:3", "shapes:3"],
    },
    "letters mle": {"n": 2, "kind": "letters", "pad": True, "estimator": "mle", "spans": ["units", "whole"]},
}
JSON = {"Content-Type": "application/json"}
COUNTED = ("n", "side", "kind", "tokenize", "lower", "pad", "spans")


def documents():
    names = ["Ann", "Bob", "Rome", "Oslo", "Paris"]
    made = []
    for seed in range(40):
        words = [*TEXT.split()[seed % 5 :], f"no{seed}", "was", "in", names[seed % 5], "."]
        made.append((words, [i for i, word in enumerate(words) if word in names[2:]]))
    return made


def fitted(name, target="LOC"):
    """Fit one of `MODELS` on words, or on letters with a span at each name."""
    options = dict(MODELS[name])
    counted = {key: options.pop(key) for key in COUNTED if key in options}
    letters = counted.get("kind") == "letters"
    corpus = []
    for words, at in documents():
        if letters:
            text, starts = " ".join(words), []
            for place in at:
                starts.append(sum(len(word) + 1 for word in words[:place]))
            corpus.append({"items": list(text), "spans": [(s, s + 1, target) for s in starts]})
        else:
            corpus.append({"items": words, "spans": [(i, i + 1, target) for i in at]})
    return rg.fit(rg.count(corpus, targets=[target], **counted), target, **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models")
    for name in MODELS:
        fitted(name, target=name).save(path / f"{name}.rgm")
    return path


@pytest.fixture(scope="module")
def paths(folder):
    return [folder / f"{name}.rgm" for name in MODELS]


@pytest.fixture(scope="module")
def client(paths):
    with served_on(*paths, max_bytes=300_000, poll=0.05) as client:
        yield client


def same(found, expected):
    """Whether numbers of JSON, where infinity and NaN are strings, are these."""
    return np.array_equal([float(number) for number in found], expected, equal_nan=True)


def items_of(model):
    return model.settings.tokenizer.items(TEXT)


def contexts_of(model):
    """Return the context of every boundary of the text, the slow way; None where there is none."""
    s, items = model.settings, items_of(model)
    parts = [items[max(i - s.n, 0) : i] if s.side == "left" else items[i : i + s.n] for i in range(len(items) + 1)]
    pads = [[""] * (s.n - len(part)) if s.pad else [] for part in parts]
    parts = [pad + part if s.side == "left" else part + pad for part, pad in zip(parts, pads, strict=True)]
    return [part or None for part in parts]


def post(client, route, **request):
    return client.post(f"/api/{route}", json=request).json()


def served_on(*models, poll=1.0, **limits):
    """Return a client of a service; inside a `with` it also watches its files."""
    return TestClient(create_app(models, Limits(**limits), poll), base_url="http://127.0.0.1")


def metric(client, name):
    """Return the value of a metric, 0 for one that has not been counted yet."""
    found = re.search(rf"^raregram_{re.escape(name)} (\S+)$", client.get("/metrics").text, re.MULTILINE)
    return float(found[1]) if found else 0.0


@pytest.mark.parametrize("name", MODELS)
def test_few_and_many_contexts_are_bit_for_bit_what_the_library_finds(client, name):
    model = fitted(name)
    n = model.settings.n
    words = [*TEXT.split(), "Zürich", "x1", "", "no7"] if model.settings.kind == "words" else [*TEXT, "ß", ""]
    rng = np.random.default_rng(0)
    contexts = [[words[i] for i in rng.integers(0, len(words), n)] for _ in range(300)]
    contexts += [words[i : i + n] for i in range(len(words) - n)]
    expected = model.log_ratio(contexts)
    for size in (1, 50, len(contexts)):  # a few are scored one by one
        found = []
        for first in range(0, len(contexts), size):
            part = contexts[first : first + size]
            found += post(client, "score", contexts=part, models=[name])["scores"][name]
        assert same(found, expected)


@pytest.mark.parametrize("name", MODELS)
def test_a_text_is_scored_at_every_boundary(client, name):
    model = fitted(name)
    text, empty, _ = post(client, "texts", texts=[TEXT, "", "Ann"], models=[name])["texts"]
    found, contexts = text["scores"][name], contexts_of(model)
    assert text["items"] == {str(model.settings.tokenizer): len(items_of(model))}
    assert [score is None for score in found] == [context is None for context in contexts]
    known = [context for context in contexts if context is not None]
    assert same([score for score in found if score is not None], model.log_ratio(known))
    assert len(empty["scores"][name]) == 1


def test_texts_are_split_as_the_model_was_counted(client):
    model = fitted("split words")
    for context in ('were (in "Rome', ["WERE", "(in", '"Rome'], '( IN " rome'):
        found = post(client, "score", contexts=[context], models=["split words"])["scores"]["split words"]
        assert same(found, model.log_ratio(['in " rome']))
        explained = post(client, "explain", context=context, model="split words")
        assert explained["ngram"] == ["in", '"', "rome"]
    [text] = post(client, "texts", texts=['(in "Rome'], models=["split words", "selective"])["texts"]
    assert text["items"] == {"words by Unicode's rules, lower case": 4, "words": 2}
    assert len(text["scores"]["split words"]) == 5
    ranked = post(client, "rank", text='(in "Rome', model="split words", top=9)["ranking"]
    assert ["in", '"', "rome"] in [row["items"] for row in ranked]


@pytest.mark.parametrize("name", MODELS)
def test_contexts_are_scored_explained_and_ranked(client, name):
    model = fitted(name)
    s = model.settings
    contexts = [context for context in contexts_of(model) if context is not None]
    for some in (contexts[:3], contexts * 12):
        assert same(post(client, "score", contexts=some, models=[name])["scores"][name], model.log_ratio(some))
    explained = post(client, "explain", context=contexts[5], model=name)
    assert same([sum(float(term["value"]) for term in explained["terms"])], [float(explained["log_ratio"])])
    assert (explained["interval"] is None) == (s.estimator in ("mle", "direct"))
    ranked = post(client, "rank", text=TEXT, model=name, top=5)
    assert ranked["contexts"] == len(contexts)
    values = np.nan_to_num(model.log_ratio(contexts), nan=-np.inf, posinf=1e300, neginf=-1e299)
    best = [contexts[row] for row in np.argsort(-values, kind="stable")[:5]]  # ties in order of position
    assert [row["items"] for row in ranked["ranking"]] == best


def test_the_largest_changes_are_the_largest(client):
    model = fitted("selective")
    context = ["the", "talks", "in"]
    found = post(client, "changes", context=context, model="selective")
    before = model.log_ratio([context])[0]
    for position in range(3):
        tried = {}
        for item in model.items.to_pylist():
            changed = [*context[:position], item, *context[position + 1 :]]
            tried[item] = model.log_ratio([changed])[0] - before
        for direction, best in (("up", max(tried.values())), ("down", min(tried.values()))):
            rows = [row for row in found[direction] if row["position"] == position + 1]
            assert [row["change"] for row in rows] == ([pytest.approx(best)] if best else [])
            assert all(tried[row["item"]] == pytest.approx(row["change"]) for row in rows)
    for direction, sign in (("up", -1), ("down", 1)):
        changes = [sign * row["change"] for row in found[direction]]
        assert changes == sorted(changes)


def test_ranking_by_the_lower_end(client):
    model = fitted("backoff")
    ranked = post(client, "rank", text=TEXT, model="backoff", top=4, by="lower")["ranking"]
    lower = sorted({model.interval([context])[0, 0] for context in contexts_of(model) if context})
    assert [row["lower"] for row in ranked] == pytest.approx(lower[::-1][:4])


@pytest.mark.parametrize("name", MODELS)
def test_a_ranked_context_stands_where_the_ranking_says(client, name):
    model = fitted(name)
    found = post(client, "rank", text=TEXT, model=name, top=1000)
    items, contexts = items_of(model), contexts_of(model)
    between = " " if model.settings.kind == "words" else ""
    assert found["documents"] == 1
    assert {row["position"] for row in found["ranking"]} == {
        i for i, context in enumerate(contexts) if context is not None
    }
    for row in found["ranking"]:
        assert row["items"] == contexts[row["position"]]
        assert row["document"] is None
        assert between.join(items[: row["position"]]).endswith(row["left"])
        assert between.join(items[row["position"] :]).startswith(row["right"])


def file_fields(name, content):
    return {"file_name": name, "file": base64.b64encode(content).decode()}


def file_formats(tmp_path):
    """Return the same two documents as files of several formats, with the names of the documents."""
    texts = ["nothing to see here, just some words", TEXT]
    pq.write_table(pa.table({"id": ["a", "b"], "text": texts}), tmp_path / "docs.parquet")
    parquet = (tmp_path / "docs.parquet").read_bytes()
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
    columns = "\n\n".join("\n".join(f"{word} O" for word in text.split()) for text in texts).encode()
    return {
        "docs.parquet": (parquet, ["a", "b"]),
        "docs without an ending": (parquet, ["a", "b"]),
        "docs.jsonl": (lines, ["line 1", "line 2"]),
        "docs.jsonl.gz": (gzip.compress(lines), ["line 1", "line 2"]),
        "docs.conll": (columns.replace(b"\n\n", b"\n\n-DOCSTART- O\n\n"), ["line 1", "line 11"]),
        "docs.txt": (TEXT.encode(), ["docs.txt"]),
        "/etc/passwd": (TEXT.encode(), ["passwd"]),
    }


@pytest.mark.parametrize("name", ["backoff", "padded", "right", "letters"])
def test_a_file_is_ranked_whatever_its_format(client, tmp_path, name):
    expected = {row["position"]: row for row in post(client, "rank", text=TEXT, model=name, top=1000)["ranking"]}
    for file, (content, documents) in file_formats(tmp_path).items():
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
def test_a_file_that_cannot_be_read_is_refused_with_a_sentence(client, file, content, message):
    answer = client.post("/api/rank", json={**file_fields(file, content), "model": "backoff"})
    assert answer.status_code == 422
    assert message in answer.json()["error"]["message"]
    assert ".." not in answer.json()["error"]["message"]


def test_a_ranking_is_of_a_text_or_of_a_file(client):
    for fields in ({}, {"text": TEXT, **file_fields("a.txt", b"a b c")}):
        answer = client.post("/api/rank", json={**fields, "model": "backoff"})
        assert (answer.status_code, answer.json()["error"]["message"]) == (422, "send either a text or a file")
    answer = client.post("/api/rank", json={"file": "abc", "model": "backoff"})
    assert answer.status_code == 422
    assert answer.json()["error"]["message"].startswith("file: ")


def test_models_say_in_words_what_they_compare(tmp_path):
    for name, options in {"left": {}, "right": {"side": "right"}}.items():
        counts = rg.count([{"text": TEXT, "spans": [(4, 5, "LOC")]}], n=2, **options)
        rg.fit(counts, "LOC", "product").save(tmp_path / f"{name}.rgm")
        rg.fit(counts, "LOC", "product", denominator="all").save(tmp_path / f"{name} all.rgm")
    counts = rg.count(numerator=[{"text": TEXT}], denominator=[{"text": "we were there"}], n=2)
    rg.fit(counts, estimator="product").save(tmp_path / "two.rgm")
    listed = served_on(*sorted(tmp_path.glob("*.rgm"))).get("/api/models").json()["models"]
    assert [(model["here"], model["elsewhere"]) for model in listed] == [
        ("before LOC", "anywhere"), ("before LOC", "elsewhere"), ("after LOC", "anywhere"),
        ("after LOC", "elsewhere"), ("in the numerator", "in the denominator"),
    ]  # fmt: skip


def test_the_strongest_items_of_a_position_are_in_the_order_of_their_log_ratio(client):
    for name in MODELS:
        for row in client.get(f"/api/models/{name}").json()["strongest_by_position"]:
            strongest = {
                side: [entry["log_ratio"] for entry in row[f"strongest_{side}"]] for side in ("for", "against")
            }
            assert strongest["for"] == sorted(strongest["for"], reverse=True)
            assert strongest["against"] == sorted(strongest["against"])


def test_models_are_described(client):
    listed = client.get("/api/models").json()["models"]
    assert [model["name"] for model in listed] == list(MODELS)
    facts = client.get("/api/models/selective").json()
    assert facts["selected_by_position"] == [3, 3, 3]
    assert facts["file"] == "selective.rgm"
    assert [row["selected"] for row in facts["strongest_by_position"]] == [3, 3, 3]
    for row in facts["strongest_by_position"]:
        assert all(entry["log_ratio"] > 0 for entry in row["strongest_for"])
        assert all(entry["log_ratio"] < 0 for entry in row["strongest_against"])
    assert len(client.get("/api/models/mle").json()["strongest_by_position"]) == 1
    assert "corpus" not in facts


def test_a_target_with_a_slash_is_served(tmp_path):
    rg.fit(rg.Counts.from_contexts(["a b", "c d"], ["a/b", None]), "a/b").save(tmp_path / "m.rgm")
    client = served_on(tmp_path / "m.rgm")
    for name in ("a/b", "a%2Fb"):
        assert client.get(f"/api/models/{name}").json()["target"] == "a/b"
    assert client.get("/api/models/a").status_code == 404


def test_a_model_without_items_is_served(tmp_path):
    counts = rg.Counts.from_contexts(["a b", "c d"] * 2, ["E", "E", None, None], spans=["suffixes:2", "shapes:2"])
    rg.fit(counts, "E", "backoff").save(tmp_path / "m.rgm")
    found = post(served_on(tmp_path / "m.rgm"), "changes", context="a b", model="E")
    assert (found["up"], found["down"]) == ([], [])


def test_a_model_names_the_digest_of_its_corpus(tmp_path):
    counts = rg.Counts.from_contexts(["lives in", "said that"], ["LOC", None])
    counts.save(tmp_path / "all.counts")
    rg.fit(rg.Counts.load(tmp_path / "all.counts"), "LOC", "selective", size=2).save(tmp_path / "loc.rgm")
    facts = served_on(tmp_path / "loc.rgm").get("/api/models/LOC").json()
    assert facts["corpus"] == counts.digest()
    more = rg.Counts.load(tmp_path / "all.counts") + counts
    assert more.known_digest is None
    assert more.digest() != counts.digest()


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/api/score", "{", 400, "the body is not valid JSON"),
        ("/api/score", '{"contexts": ["\\ud800 a b"]}', 400, "not valid JSON"),
        ("/api/score", b"\xff\xfe", 400, "not valid JSON"),
        ("/api/score", "{}", 422, "contexts: Field required"),
        ("/api/score", '{"contexts": [], "models": ["mle"]}', 422, "contexts: List should have at least 1 item"),
        ("/api/score", '{"contexts": ["a b c"], "more": 1}', 422, "no such field; there is contexts, models"),
        ("/api/score", '{"contexts": ["a b c"], "models": ["X"]}', 404, "no model 'X'; there is 'backoff', "),
        ("/api/rank", '{"text": "a b c", "model": "mle", "by": "lower"}', 422, "'mle' has no interval"),
        ("/api/rank", '{"text": "a b", "model": "mle", "top": 0}', 422, "top: Input should be greater than or equal"),
        ("/api/nothing", "{}", 404, "see /docs for all requests"),
    ],
)
def test_errors_have_one_form(client, path, body, status, message):
    answer = client.post(path, content=body, headers=JSON)
    assert answer.status_code == status
    assert list(answer.json()) == ["error"]
    assert message in answer.json()["error"]["message"]


def test_bodies_that_are_too_large_or_not_json_are_refused(client):
    large = json.dumps({"texts": ["word " * 100_000]}).encode()
    chunks = (large[i : i + 10_000] for i in range(0, len(large), 10_000))
    for content, headers, expected in (
        (large, JSON, (413, "too_large")),
        (chunks, JSON, (413, "too_large")),
        (b"{}", {"Content-Type": "text/plain"}, (415, "not_json")),
    ):
        answer = client.post("/api/texts", content=content, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == expected
    answer = client.put("/api/texts", content="{}")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_a_response_that_takes_too_long_is_given_up(folder):
    text = " ".join(f"{word} {place}" for place, word in enumerate(TEXT.split() * 15_000))
    before = set(threading.enumerate())
    with served_on(folder / "backoff.rgm", timeout=0.2) as client:
        answer = client.post("/api/rank", json={"text": text, "model": "backoff", "by": "lower"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "too_long")
        assert "takes longer than 0.2 s" in answer.json()["error"]["message"]
        assert metric(client, 'requests_total{route="rank",status="503"}') == 1
    wait_for(lambda: set(threading.enumerate()) <= before)  # the thread that handled it gives up, too


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


PART = {"type": "http.request", "body": b"{", "more_body": True}


def test_a_request_that_does_not_arrive_is_given_up(folder):
    sent = post_in_parts(served_on(folder / "mle.rgm", timeout=0.05).app, PART)
    assert sent[0]["status"] == 408
    assert "did not arrive within 0.05 s" in json.loads(sent[1]["body"])["error"]["message"]


def test_a_client_that_leaves_is_counted_and_not_logged(folder, caplog):
    client = served_on(folder / "mle.rgm")
    assert post_in_parts(client.app, PART, {"type": "http.disconnect"}) == []
    assert metric(client, 'requests_total{route="score",status="499"}') == 1
    assert not [record for record in caplog.records if record.name.startswith("raregram")]


def test_a_busy_service_says_so(folder):
    def ask(_):
        return client.post("/api/rank", json={"text": TEXT * 2000, "model": "backoff"})

    with served_on(folder / "backoff.rgm", max_waiting=0) as client, ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(ask, range(12)))
    assert {answer.status_code for answer in answers} == {200, 503}
    busy = next(answer for answer in answers if answer.status_code == 503)
    assert (busy.headers["retry-after"], busy.json()["error"]["code"]) == ("1", "busy")


def test_a_busy_service_still_says_that_it_lives(folder):
    with served_on(folder / "backoff.rgm", max_waiting=-THREADS) as client:
        assert client.post("/api/score", json={"contexts": ["a b c"]}).status_code == 503
        assert [client.get(path).status_code for path in ("/live", "/ready", "/metrics", "/")] == [200] * 4


def test_headers_keep_others_out(client):
    for path in ("/", "/api/models", "/static/style.css", "/nothing"):
        headers = client.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in headers
    assert client.get("/api/models").headers["cache-control"] == "no-store"
    page = client.get("/")
    assert client.get("/", headers={"If-None-Match": page.headers["etag"]}).status_code == 304
    for host, status in (("evil.example", 421), ("localhost:80", 200), ("[::1]:80", 200), ("10.0.0.7", 200)):
        assert client.get("/ready", headers={"Host": host}).status_code == status
    assert client.get("/static/..%2f..%2fapp.py").status_code == 404
    assert client.get("/static/app.py").status_code == 404


def test_a_token_is_wanted_by_everything_but_the_page(paths):
    secret = create_app(paths[:1], Limits(token="s3cret", hosts=("names.example",)))
    with TestClient(secret, base_url="http://names.example") as client:
        for path in ("/api/models", "/metrics", "/openapi.json", "/nothing"):
            answer = client.get(path)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert client.get(path, headers={"Authorization": "Bearer wrong"}).status_code == 401
        for path in ("/", "/docs", "/static/main.js", "/ready"):
            assert client.get(path).status_code == 200
        assert client.get("/api/models", headers={"Authorization": "Bearer s3cret"}).status_code == 200


def test_no_text_is_kept_or_logged(paths, monkeypatch, caplog):
    def failing(model, context):
        raise RuntimeError(f"cannot explain {context}")

    monkeypatch.setattr(rg.Model, "explain", failing)
    with caplog.at_level(logging.DEBUG), served_on(paths[0]) as client:
        answer = client.post("/api/explain", json={"context": "Confidential and private", "model": "backoff"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "failed")
        client.post("/api/score", json={"contexts": ["Confidential and private"] * 200})
        client.post("/api/texts", json={"texts": ["Confidential and private stuff"]})
        client.post("/api/score", json={"contexts": ["Confidential"]})
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("raregram")]
    assert ours == [f"RuntimeError at failing, line {ours[0].split()[-1]}"]
    assert not [record for record in caplog.records if "Confidential" in record.getMessage()]


def test_words_that_a_model_does_not_hold_are_looked_at_again_each_time(paths, monkeypatch):
    """Their shapes are not remembered: that would keep words of texts, and very long ones would fill the memory."""
    seen = []
    plain = shapes.word_shape
    monkeypatch.setitem(shapes.SHAPES, "words", lambda word: seen.append(word) or plain(word))
    with served_on(*paths) as client:
        for _ in range(2):
            client.post("/api/score", json={"contexts": ["in Xanadu today"], "models": ["backoff"]})
            client.post("/api/score", json={"contexts": ["in Xanadu today"] * 200, "models": ["backoff"]})
            client.post("/api/texts", json={"texts": ["we met in Xanadu today"], "models": ["backoff"]})
            client.post("/api/explain", json={"context": "in Xanadu today", "model": "backoff"})
            seen.append("-")
    first, second = " ".join(seen).split("-")[:2]
    assert first.count("Xanadu") == second.count("Xanadu") >= 4


def test_a_model_whose_file_was_replaced_or_removed_is_described_as_it_was_read(folder, tmp_path):
    path = tmp_path / "live.rgm"
    shutil.copy(folder / "mle.rgm", path)
    known = served_on(path).get("/api/models/mle").json()
    for change in (lambda: shutil.copy(folder / "direct.rgm", path), path.unlink):
        shutil.copy(folder / "mle.rgm", path)
        client = served_on(path)
        change()
        assert client.get("/api/models/mle").json() == known


def test_metrics_count_requests_and_models(client):
    name = 'requests_total{route="score",status="422"}'
    before = metric(client, name)
    client.post("/api/score", json={"contexts": 1})
    assert metric(client, name) == before + 1
    assert metric(client, 'request_seconds_count{route="score"}') >= before + 1
    assert metric(client, "models") == len(MODELS)
    routes = {"/api/models/mle": "models", "/static/main.js": "page", "/docs": "page", "/x": "other"}
    for path, route in routes.items():
        name = f'requests_total{{route="{route}",status="{client.get(path).status_code}"}}'
        before = metric(client, name)
        client.get(path)
        assert metric(client, name) >= before + 1
    assert client.get("/ready").json() == {"ready": True, "models": list(MODELS)}
    assert client.get("/live").status_code == 200


def test_a_new_model_file_is_read_without_losing_a_request(folder, tmp_path, caplog):
    path = tmp_path / "live.rgm"
    shutil.copy(folder / "backoff.rgm", path)
    old, new = (fitted(name, target="backoff") for name in ("backoff", "selective"))
    context = "talks in Oslo"
    expected = {old.log_ratio([context])[0], new.log_ratio([context])[0]}
    with served_on(path, poll=0.02) as client:
        seen, done = [], threading.Event()

        def hammer():
            while not done.is_set():
                answer = client.post("/api/score", json={"contexts": [context]})
                seen.append((answer.status_code, answer.json()["scores"]["backoff"][0]))

        hammering = threading.Thread(target=hammer)
        hammering.start()
        for reloads, model in enumerate((new, old, new), 1):
            model.save(path)
            wait_for(lambda reloads=reloads: metric(client, "model_reloads_total") == reloads)
            time.sleep(0.05)
        (tmp_path / "other").write_bytes(b"no model at all")
        (tmp_path / "other").replace(path)
        wait_for(lambda: metric(client, "model_reload_failures_total") == 1)
        time.sleep(0.1)
        assert metric(client, "model_reload_failures_total") == 1  # it is tried once
        new.save(path)
        wait_for(lambda: metric(client, "model_reloads_total") == 4)
        done.set()
        hammering.join()
    assert {status for status, _ in seen} == {200}
    assert {number for _, number in seen} == expected
    assert "or it is truncated or damaged; the model backoff stays as it was" in caplog.text


def test_a_model_of_another_target_does_not_answer_in_the_name_of_the_first(folder, tmp_path, caplog):
    first, second = tmp_path / "first.rgm", tmp_path / "second.rgm"
    shutil.copy(folder / "backoff.rgm", first)
    shutil.copy(folder / "selective.rgm", second)
    registry = Registry([first, second], Metrics())
    known = registry.get("backoff")
    for target, name in (("PER", "PER"), ("selective", "selective (first)")):
        fitted("bare", target).save(first)
        registry.refresh()
        assert registry.get("backoff") is known
        said = f"first.rgm holds the model {name} now: start the service again to serve it; the model backoff stays"
        assert said in caplog.text
    fitted("bare", "backoff").save(first)
    registry.refresh()
    assert registry.get("backoff").model.settings.n == 4


def wait_for(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def test_models_have_names_that_differ(folder, tmp_path):
    for name in ("a", "b"):
        shutil.copy(folder / "mle.rgm", tmp_path / f"{name}.rgm")
    client = served_on(tmp_path / "a.rgm", tmp_path / "b.rgm", folder / "direct.rgm")
    assert client.get("/ready").json()["models"] == ["mle (a)", "mle (b)", "direct"]
    with pytest.raises(rg.errors.FileError, match="does not exist"):
        served_on(tmp_path / "c.rgm")


def test_a_server_of_ones_own_serves_what_the_environment_names(paths, monkeypatch):
    monkeypatch.setenv("RAREGRAM_MODELS", os.pathsep.join(map(str, paths[:2])))
    monkeypatch.setenv("RAREGRAM_TOKEN", "s3cret")
    client = TestClient(create_app(), base_url="http://127.0.0.1")
    assert client.get("/ready").json()["models"] == list(MODELS)[:2]
    assert client.get("/api/models").status_code == 401
    monkeypatch.delenv("RAREGRAM_MODELS")
    with pytest.raises(rg.errors.ParameterError, match="model file"):
        create_app()


def test_processes_share_their_metrics(paths, tmp_path):
    """Each in its own files of a folder that prometheus_client knows by an environment variable."""
    script = (
        "from starlette.testclient import TestClient; from raregram.serve.app import create_app\n"
        "client = TestClient(create_app(), base_url='http://127.0.0.1')\n"
        "client.post('/api/score', json={'contexts': ['a b c']}); print(client.get('/metrics').text)"
    )
    env = {**os.environ, "RAREGRAM_MODELS": str(paths[0]), "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    for asked in (1, 2):
        done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
        assert f'raregram_requests_total{{route="score",status="200"}} {asked}.0' in done.stdout
        assert "raregram_models 1.0" in done.stdout


@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
def test_the_service_does_what_its_description_says(paths, mode):
    """Requests made from the OpenAPI description, valid and invalid: responses must be as described."""
    served = create_app(paths[:1], Limits(max_bytes=100_000, hosts=("testserver",)))
    schema = schemathesis.openapi.from_asgi("/openapi.json", served)
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) == 10
    for operation in operations:
        if mode == "NEGATIVE" and operation.method == "get":
            continue  # nothing about them can be wrong

        @given(case=operation.as_strategy(generation_mode=schemathesis.GenerationMode[mode]))
        @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
        def check(case):
            # How many items a context needs depends on the model, which no schema can say.
            case.call_and_validate(excluded_checks=[positive_data_acceptance])

        check()


def ask(url, question=None):
    data = None if question is None else json.dumps(question).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def test_the_command_serves_and_stops(folder):
    command = [RAREGRAM, "serve", folder / "backoff.rgm", "--port", "0", "--no-browser"]
    with subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True) as process:
        try:
            url = re.search(r"http://127\.0\.0\.1:\d+/", process.stderr.readline())[0]
            wait_for(lambda: is_up(url), 30)
            response = ask(url + "api/score", {"contexts": ["talks in Oslo"]})
            assert response["scores"]["backoff"] == fitted("backoff").log_ratio(["talks in Oslo"]).tolist()
            for _ in range(9):
                ask(url + "api/score", {"contexts": ["talks in Oslo"]})
            with urllib.request.urlopen(url + "metrics", timeout=20) as answer:
                assert 'raregram_requests_total{route="score",status="200"} 10.0' in answer.read().decode()
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(20)
        assert "Traceback" not in process.stderr.read()


def is_up(url):
    try:
        return ask(url + "ready")["ready"]
    except (urllib.error.URLError, ConnectionError):
        return False


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
def test_wrong_calls_are_named(folder, arguments, code, message):
    given = [str(folder / "mle.rgm") if argument == "M" else argument for argument in arguments]
    done = subprocess.run([RAREGRAM, "serve", *given], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr


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
