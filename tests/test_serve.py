"""The service: the same answers as the library, clear refusals, and nothing lost, kept or let through."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
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

from raregram.serve import answers, app, metrics, questions  # noqa: E402
from raregram.serve.guard import Refusal  # noqa: E402
from raregram.serve.models import ReadyModel, Shelf  # noqa: E402
from raregram.serve.options import ServeOptions  # noqa: E402
from raregram.serve.questions import Questions  # noqa: E402

RAREGRAM = Path(sys.executable).with_name("raregram")
TEXT = "Ann met Bob in Rome and they said that the talks in Oslo on 5 May were good for Ann"
MODELS = {
    "backoff": {"n": 3, "estimator": "backoff", "spans": ["units", "suffixes:3", "shapes:3"]},
    "bare": {"n": 4, "estimator": "backoff", "spans": ["units", "suffixes:2"]},
    "right": {"n": 2, "side": "right", "estimator": "backoff", "spans": ["units", "suffixes:2", "shapes:2"]},
    "padded": {"n": 3, "pad": True, "estimator": "backoff", "spans": ["units", "suffixes:3", "shapes:3"]},
    "padded right": {"n": 3, "pad": True, "side": "right", "estimator": "product"},
    "selective": {"n": 3, "estimator": "selective", "size": 3},
    "formula": {"n": 3, "estimator": "product", "unseen": "formula"},
    "mle": {"n": 2, "estimator": "mle", "spans": ["units", "whole"]},
    "direct": {"n": 2, "estimator": "direct", "spans": ["units", "whole"]},
    "letters": {"n": 3, "kind": "letters", "estimator": "backoff", "spans": ["units", "suffixes:3", "shapes:3"]},
    "letters mle": {"n": 2, "kind": "letters", "pad": True, "estimator": "mle", "spans": ["units", "whole"]},
}
COUNTED = ("n", "side", "kind", "pad", "spans")


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
def options(folder):
    return ServeOptions(models=tuple(str(folder / f"{name}.rgm") for name in MODELS), max_bytes=300_000, poll=0.05)


@pytest.fixture(scope="module")
def client(options):
    with TestClient(app.create_app(options), base_url="http://127.0.0.1") as client:
        yield client


def value(number):
    return float(number) if number is not None else None


def same(a, b):
    return a == b or (np.isnan(a) and np.isnan(b))


def contexts_of(items, s):
    """Yield every boundary with its context, the slow way."""
    for boundary in range(len(items) + 1):
        part = items[max(boundary - s.n, 0) : boundary] if s.side == "left" else items[boundary : boundary + s.n]
        yield boundary, part if len(part) == s.n or s.pad else None


@pytest.mark.parametrize("name", MODELS)
def test_one_context_at_a_time_is_bit_for_bit_what_numpy_finds(name):
    model = fitted(name)
    ready = ReadyModel.of(model)
    n = model.settings.n
    words = [*TEXT.split(), "Zürich", "x1", "", "no7"] if model.settings.kind == "words" else [*TEXT, "ß", ""]
    rng = np.random.default_rng(0)
    contexts = [[words[i] for i in rng.integers(0, len(words), n)] for _ in range(300)]
    contexts += [words[i : i + n] for i in range(len(words) - n)]
    expected = model.log_ratio(contexts)
    assert np.array_equal([ready.single(context) for context in contexts], expected, equal_nan=True)
    assert np.array_equal(ready.log_ratio(contexts), expected, equal_nan=True)
    assert str(ready.explain(contexts[3]).to_dict()) == str(model.explain(contexts[3]).to_dict())


@pytest.mark.parametrize("name", MODELS)
def test_a_text_is_scored_at_every_boundary(client, name):
    model = fitted(name)
    items = TEXT.split() if model.settings.kind == "words" else list(TEXT)
    told = client.post("/api/texts", json={"texts": [TEXT, "", "Ann"], "models": [name]}).json()["texts"]
    found = told[0]["scores"][name]
    assert told[0]["items"] == {model.settings.kind: len(items)}
    assert len(found) == len(items) + 1
    for boundary, context in contexts_of(items, model.settings):
        if context is None:
            assert found[boundary] is None
        else:
            assert same(value(found[boundary]), model.log_ratio([context])[0])
    assert len(told[1]["scores"][name]) == 1


@pytest.mark.parametrize("name", MODELS)
def test_contexts_are_scored_explained_and_ranked(client, name):
    model = fitted(name)
    s = model.settings
    items = TEXT.split() if s.kind == "words" else list(TEXT)
    contexts = [context for _, context in contexts_of(items, s) if context is not None]
    for some in (contexts[:3], contexts * 12):
        told = client.post("/api/score", json={"contexts": some, "models": [name]}).json()["scores"][name]
        assert all(same(value(a), b) for a, b in zip(told, model.log_ratio(some), strict=True))
    told = client.post("/api/explain", json={"context": contexts[5], "model": name}).json()
    assert same(sum(value(term["value"]) for term in told["terms"]), value(told["log_ratio"]))
    assert (told["interval"] is None) == (s.estimator in ("mle", "direct"))
    told = client.post("/api/rank", json={"text": TEXT, "model": name, "top": 5}).json()
    assert told["contexts"] == len(contexts)
    best = sorted({tuple(model.parse([context]).items.to_pylist()) for context in contexts}, key=lambda x: (
        -np.nan_to_num(model.log_ratio([list(x)])[0], nan=-np.inf, posinf=1e300, neginf=-1e299),
        (" " if s.kind == "words" else "").join(x).encode()))[:5]  # fmt: skip
    assert [tuple(row["items"]) for row in told["ranking"]] == best


def test_the_largest_changes_are_the_largest(client):
    model = fitted("selective")
    context = ["the", "talks", "in"]
    told = client.post("/api/changes", json={"context": context, "model": "selective"}).json()
    before = model.log_ratio([context])[0]
    for position in range(3):
        tried = {}
        for item in model.items.to_pylist():
            changed = [*context[:position], item, *context[position + 1 :]]
            tried[item] = model.log_ratio([changed])[0] - before
        for direction, best in (("up", max(tried.values())), ("down", min(tried.values()))):
            rows = [row for row in told[direction] if row["position"] == position + 1]
            assert [row["change"] for row in rows] == ([pytest.approx(best)] if best else [])
            assert all(tried[row["item"]] == pytest.approx(row["change"]) for row in rows)
    assert [row["change"] for row in told["up"]] == sorted((row["change"] for row in told["up"]), reverse=True)


def test_ranking_by_the_lower_end(client):
    model = fitted("backoff")
    told = client.post("/api/rank", json={"text": TEXT, "model": "backoff", "top": 4, "by": "lower"}).json()[
        "ranking"
    ]
    lower = sorted({model.interval([" ".join(c)])[0, 0] for _, c in contexts_of(TEXT.split(), model.settings) if c})
    assert [row["lower"] for row in told] == pytest.approx(lower[::-1][:4])


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


def test_a_model_names_the_digest_of_its_corpus(tmp_path):
    counts = rg.Counts.from_contexts(["lives in", "said that"], ["LOC", None])
    counts.save(tmp_path / "all.counts")
    rg.fit(rg.Counts.load(tmp_path / "all.counts"), "LOC", size=2).save(tmp_path / "loc.rgm")
    served = Shelf([str(tmp_path / "loc.rgm")])["LOC"]
    assert served.facts["corpus"] == counts.digest()
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
        ("/api/score", '{"contexts": ["a b"], "models": ["formula"]}', 422, "context 1 has 2 words, expected 3"),
        (
            "/api/score",
            '{"contexts": ["a b c"], "models": ["X"]}',
            404,
            "there is no model 'X'; there is 'backoff', ",
        ),
        ("/api/explain", '{"context": "a b", "model": "formula"}', 422, "has 2 words, expected 3"),
        ("/api/rank", '{"text": "a b c", "model": "mle", "by": "lower"}', 422, "'mle' has no interval"),
        (
            "/api/rank",
            '{"text": "a b c", "model": "mle", "top": 0}',
            422,
            "top: Input should be greater than or equal",
        ),
        ("/api/nothing", "{}", 404, "the page /docs lists what can be asked"),
    ],
)
def test_mistakes_get_a_sentence_in_one_form(client, path, body, status, message):
    answer = client.post(path, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status
    assert list(answer.json()) == ["error"]
    assert message in answer.json()["error"]["message"]


def test_what_is_too_large_or_no_json_is_refused(client):
    large = json.dumps({"texts": ["word " * 100_000]})
    answer = client.post("/api/texts", content=large, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
    pieces = (large[i : i + 10_000].encode() for i in range(0, len(large), 10_000))
    answer = client.post("/api/texts", content=pieces, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
    answer = client.post("/api/texts", content="{}", headers={"Content-Type": "text/plain"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (415, "not_json")
    answer = client.put("/api/texts", content="{}")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_an_answer_that_takes_too_long_is_given_up(options, monkeypatch):
    def slow(shelf, question, check):
        while True:
            time.sleep(0.01)
            check()

    monkeypatch.setattr(answers, "explain", slow)
    brief = ServeOptions(models=options.models[:1], seconds=0.2)
    with TestClient(app.create_app(brief), base_url="http://127.0.0.1") as client:
        answer = client.post("/api/explain", json={"context": "a b c", "model": "backoff"})
    assert answer.status_code == 503
    assert "takes longer than 0.2 s" in answer.json()["error"]["message"]


def test_a_request_that_does_not_arrive_is_given_up(options):
    async def receive():
        await asyncio.sleep(20)

    asked = Questions(Shelf(options.models[:1]), seconds=0.05).direct["/api/score"]
    with pytest.raises(Refusal, match=r"did not arrive within 0.05 s") as refused:
        asyncio.run(asked({b"content-type": b"application/json"}, receive))
    assert refused.value.status == 408


def test_a_busy_service_says_so(client, monkeypatch):
    monkeypatch.setattr(questions, "WAITING", 0)
    answer = client.post("/api/explain", json={"context": "a b c", "model": "backoff"})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.json()["error"]["code"] == "busy"


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


def test_a_token_is_wanted_by_everything_but_the_page(options):
    secret = ServeOptions(models=options.models[:1], token="s3cret", hosts=("names.example",))
    with TestClient(app.create_app(secret), base_url="http://names.example") as client:
        for path in ("/api/models", "/metrics", "/openapi.json", "/nothing"):
            answer = client.get(path)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert client.get(path, headers={"Authorization": "Bearer wrong"}).status_code == 401
        for path in ("/", "/docs", "/static/main.js", "/ready"):
            assert client.get(path).status_code == 200
        assert client.get("/api/models", headers={"Authorization": "Bearer s3cret"}).status_code == 200


def test_no_text_is_kept_or_logged(options, monkeypatch, caplog):
    def failing(shelf, question, check):
        raise RuntimeError(f"cannot explain {question.context}")

    monkeypatch.setattr(answers, "explain", failing)
    served = app.create_app(ServeOptions(models=options.models[:1]))
    with caplog.at_level(logging.DEBUG), TestClient(served, base_url="http://127.0.0.1") as client:
        answer = client.post("/api/explain", json={"context": "Confidential and private", "model": "backoff"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "failed")
        client.post("/api/score", json={"contexts": ["Confidential and private"] * 200})
        client.post("/api/texts", json={"texts": ["Confidential and private stuff"]})
        client.post("/api/score", json={"contexts": ["Confidential"]})
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("raregram")]
    assert ours == [f"RuntimeError at failing, line {ours[0].split()[-1]}"]
    assert not [record for record in caplog.records if "Confidential" in record.getMessage()]


def test_words_that_a_model_does_not_hold_are_looked_at_again_each_time(options, monkeypatch):
    """Their shapes are not remembered: that would keep words of texts, and very long ones would fill the memory."""
    seen = []
    plain = shapes.word_shape
    monkeypatch.setitem(shapes.SHAPES, "words", lambda word: seen.append(word) or plain(word))
    with TestClient(app.create_app(options), base_url="http://127.0.0.1") as client:
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
    known = Shelf([str(path)])["mle"].facts
    for change in (lambda: shutil.copy(folder / "direct.rgm", path), path.unlink):
        shutil.copy(folder / "mle.rgm", path)
        shelf = Shelf([str(path)])
        change()
        assert shelf["mle"].facts == known


def test_counters_tell_what_was_asked(client):
    def counted():
        text = client.get("/metrics").text
        return float((re.search(r'requests_total\{route="score",status="422"\} (\d+)', text) or [0, 0])[1]), text

    before, _ = counted()
    client.post("/api/score", json={"contexts": 1})
    after, text = counted()
    assert after == before + 1
    assert "raregram_model_reload_failures_total" in text
    assert client.get("/ready").json() == {"ready": True, "models": list(MODELS)}


def test_a_new_model_file_is_read_without_losing_a_request(folder, tmp_path):
    path = tmp_path / "live.rgm"
    shutil.copy(folder / "backoff.rgm", path)
    old, new = (rg.Model.load(folder / f"{name}.rgm") for name in ("backoff", "selective"))
    context = "talks in Oslo"
    expected = {old.log_ratio([context])[0], new.log_ratio([context])[0]}
    served = app.create_app(ServeOptions(models=(str(path),), poll=0.02))
    with TestClient(served, base_url="http://127.0.0.1") as client:
        seen, done = [], threading.Event()

        def hammer():
            while not done.is_set():
                answer = client.post("/api/score", json={"contexts": [context]})
                seen.append((answer.status_code, answer.json()["scores"]["backoff"][0]))

        hammering = threading.Thread(target=hammer)
        hammering.start()
        for model in (new, old, new):
            reloads = served.state.shelf.reloads
            model.save(path)
            wait_for(lambda reloads=reloads: served.state.shelf.reloads > reloads)
            time.sleep(0.05)
        (tmp_path / "draft").write_bytes(b"no model at all")
        (tmp_path / "draft").replace(path)
        wait_for(lambda: served.state.shelf.failures == 1)
        time.sleep(0.1)
        assert served.state.shelf.failures == 1  # it is told once
        new.save(path)
        wait_for(lambda: served.state.shelf.reloads == 4)
        done.set()
        hammering.join()
    assert {status for status, _ in seen} == {200}
    assert {number for _, number in seen} == expected


def wait_for(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def test_models_have_names_that_differ(folder, tmp_path):
    for name in ("a", "b"):
        shutil.copy(folder / "mle.rgm", tmp_path / f"{name}.rgm")
    shelf = Shelf([str(tmp_path / "a.rgm"), str(tmp_path / "b.rgm"), str(folder / "direct.rgm")])
    assert shelf.names == ["mle (a)", "mle (b)", "direct"]
    with pytest.raises(rg.errors.FileError, match="does not exist"):
        Shelf([str(tmp_path / "c.rgm")])


@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
def test_the_service_does_what_its_description_says(options, mode):
    """Questions made from the OpenAPI description, right ones and wrong ones: answers must be as described."""
    served = app.create_app(ServeOptions(models=options.models[:1], max_bytes=100_000, hosts=("testserver",)))
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


def test_the_counters_of_several_processes_add_up(tmp_path):
    path = tmp_path / "metrics"
    metrics.make_file(path, 2)
    code = f"from raregram.serve.metrics import Metrics; Metrics({str(path)!r}, 2).count('score', 200, 0.003)"
    own = metrics.Metrics(str(path), 2)
    own.count("score", 200, 0.7)
    subprocess.run([sys.executable, "-c", code], check=True)
    assert 'requests_total{route="score",status="200"} 2' in own.text({})
    assert own.all[:, 0].tolist() == [1, 1]


def ask(url, question=None):
    data = None if question is None else json.dumps(question).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_command_serves_and_stops(folder, workers):
    command = [RAREGRAM, "serve", folder / "backoff.rgm", "--port", "0", "--workers", workers, "--no-browser"]
    with subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True) as process:
        try:
            url = re.search(r"http://127\.0\.0\.1:\d+/", process.stderr.readline())[0]
            wait_for(lambda: is_up(url), 30)
            told = ask(url + "api/score", {"contexts": ["talks in Oslo"]})
            assert told["scores"]["backoff"] == fitted("backoff").log_ratio(["talks in Oslo"]).tolist()
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
        (["M", "--token", "a b"], 2, "--token takes plain letters"),
        (["M", "--time-limit", "0"], 2, "--time-limit takes a number of seconds above 0"),
    ],
)
def test_wrong_calls_are_told(folder, arguments, code, message):
    given = [str(folder / "mle.rgm") if argument == "M" else argument for argument in arguments]
    done = subprocess.run([RAREGRAM, "serve", *given], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed: apt-get install wrk")
def test_the_benchmark_measures_the_service_beside_an_echo(folder, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    import serving

    for name, small in (("SECONDS", 1), ("ROUNDS", 1), ("WORDS", 300)):
        monkeypatch.setattr(serving, name, small)
    monkeypatch.setattr(sys, "argv", ["serving.py", str(folder / "backoff.rgm"), str(folder / "selective.rgm")])
    serving.main()
    figures = dict(re.findall(r"^(.+?)  +([\d,.]+)", capsys.readouterr().out, re.MULTILINE))
    assert float(figures["cost of score, one model over that of the echo"]) > 0
    assert float(figures["contexts a second, texts of 300 words"].replace(",", "")) > 0
