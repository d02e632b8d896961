"""The command line itself: help, exit codes, streams, progress; and commands on contexts, from lines to scores."""

from __future__ import annotations

import gzip
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import raregram as rg
from conftest import peak_kilobytes
from raregram.cli import app, options
from raregram.show import progress

RAREGRAM = Path(sys.executable).with_name("raregram")
COMMANDS = [command.callback.__name__ for command in app.registered_commands]
PIPE = subprocess.PIPE


@pytest.fixture
def folder(tmp_path, corpus):
    """A folder with labelled lines, plain lines and tables of the same corpus."""
    contexts, labels = corpus
    (tmp_path / "train.tsv").write_text(
        "".join(f"{label or 'O'}\t{context}\n" for context, label in zip(contexts, labels, strict=True))
    )
    (tmp_path / "new.txt").write_text("".join(f"{context}\n" for context in contexts))
    at_loc = [int(label == "LOC") for label in labels]
    table = pa.table(
        {"ngram": contexts, "f_nu": at_loc, "f_de": [1 - nu for nu in at_loc], "id": range(len(contexts))}
    )
    pq.write_table(table, tmp_path / "table.parquet")
    pyarrow.csv.write_csv(table, tmp_path / "table.csv")
    return tmp_path


# --- help, start-up, streams, exit codes -------------------------------------------------------------------------
@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_an_example_and_says_what_everything_is(run, command):
    shown = " ".join(run(command, "-h").split())
    assert f"raregram {command} " in shown.partition("Example: ")[2]
    for parameter in app_command(command).params:
        assert parameter.help


def app_command(name):
    from typer.main import get_group

    return get_group(app).commands[name]


def test_the_version_and_the_list_of_commands(run):
    assert run("--version") == f"raregram {rg.__version__}\n"
    assert re.findall(r"(?m)^  (\w+) ", run("--help").partition("Commands:")[2]) == COMMANDS
    done = subprocess.run([sys.executable, "-m", "raregram", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"raregram {rg.__version__}\n"
    assert "Usage: " in run(code=2)


def test_heavy_libraries_wait_until_they_are_needed(model_file):
    """Also pandas, for which Arrow asks; it can still be imported afterwards."""
    run = "import sys, raregram.cli as cli\ntry: cli.main()\nfinally:\n"
    program = run + " print('then', *sys.modules); import pandas"
    for arguments, heavy in (
        (["--help"], {"numpy", "pyarrow", "rich", "pydantic", "pandas"}),
        (["explain", "--help"], {"numpy", "pyarrow", "rich", "pandas"}),
        (["explain", str(model_file), "was in"], {"rich", "pandas", "scipy", "pyspark", "spacy"}),
    ):
        done = subprocess.run([sys.executable, "-c", program, *arguments], check=True, capture_output=True, text=True)
        assert not heavy & set(done.stdout.rpartition("then")[2].split())


def test_a_limit_is_for_all_that_the_process_holds():
    assert 10**12 - 10**10 < options.parse_memory("1TB", "local", "count") < 10**12
    assert options.parse_memory("1kB", "local", "count") == 250
    assert options.parse_memory("1kB", "spark", "count") == 1000


@pytest.mark.parametrize("closed", ["<&-", "2>&-", "<&- 2>&-"])
def test_a_closed_stream_is_no_error(folder, model_file, closed):
    command = f"{RAREGRAM} score loc.rgm new.txt -o s.csv {closed} && head -n 1 s.csv"
    assert subprocess.check_output(["bash", "-c", command], cwd=folder, text=True) == '"ngram","log_ratio"\n'


def test_a_reader_that_leaves_early_is_no_error(folder, model_file):
    (folder / "long.txt").write_text("the a in at\n" * 300_000)
    command = f"{RAREGRAM} score loc.rgm long.txt | head -n 1"
    done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, timeout=60, check=False)
    assert (done.stderr, done.stdout.count(b"\n")) == (b"", 1)


def test_a_full_standard_output_is_an_error_not_a_traceback(model_file):
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([RAREGRAM, "info", model_file], stdout=full, stderr=PIPE, check=False)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr


def test_lines_are_scored_as_they_come_and_ctrl_c_ends_with_130(model_file):
    with subprocess.Popen(
        [RAREGRAM, "score", model_file], stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True
    ) as process:
        for ngram in ("the a in at", "old bank was near"):
            process.stdin.write(ngram + "\n")
            process.stdin.flush()
            assert process.stdout.readline().endswith(f"\t{ngram}\n")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 130
        assert "Traceback" not in process.stderr.read()


def test_lines_before_a_bad_one_are_still_scored(model_file):
    lines = b"the a in at\nold bank was near\nold \xff was near\nthe a in at\n"
    done = subprocess.run([RAREGRAM, "score", model_file], input=lines, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout.count(b"\n"), done.stderr.count(b"\n")) == (1, 2, 1)
    assert done.stderr.startswith(b"raregram: error: standard input, line 3 is not valid UTF-8")


def test_long_work_shows_progress_on_standard_error(model_file):
    command = [RAREGRAM, "score", model_file]
    with subprocess.Popen(command, stdin=PIPE, stdout=subprocess.DEVNULL, stderr=PIPE) as process:
        begun = time.monotonic()
        for _ in range(60):  # on a busy machine it is long before it begins
            process.stdin.write(b"the a in at\n" * 1000)
            process.stdin.flush()
            if select.select([process.stderr], [], [], 1)[0]:
                break
        delay = time.monotonic() - begun
        process.stdin.close()
        error = process.stderr.read().decode()
        assert process.wait(timeout=60) == 0
    assert re.match(r"scored \d+,000 contexts \([\d,]+/s\)\n", error)
    assert delay > 2


@pytest.mark.parametrize("terminal", [False, True])
def test_a_terminal_gets_a_bar_and_a_log_some_lines(monkeypatch, terminal, capsys):
    monkeypatch.setattr(progress, "DELAY", 0.0)
    parent, child = pty.openpty()
    with os.fdopen(child, "w") as screen:
        if terminal:
            monkeypatch.setattr(sys, "stderr", screen)
            monkeypatch.setenv("TERM", "xterm")
        with progress.Progress("tagged {:,} [documents]", total=4000) as tick:
            for _ in range(3):
                tick(1000)
                time.sleep(progress.TERMINAL_EVERY)
        with progress.Progress("tagged {:,}", quiet=True) as quiet:
            quiet(5)
    said = os.read(parent, 10_000).decode() if terminal else capsys.readouterr().err
    os.close(parent)
    assert (tick.done, quiet.done) == (3000, 5)
    if terminal:
        assert "tagged 3,000 [documents]" in said
        assert "━" in said
    else:
        assert re.fullmatch(r"tagged 1,000 \[documents\] \([\d,]+/s\) 25%\n", said)


@pytest.mark.parametrize("command", [["score"], ["rank", "--by", "lower"]])
@pytest.mark.harness
def test_memory_stays_flat_however_long_the_input_is(model_file, command):
    short, long = (peak_kilobytes([RAREGRAM, *command, model_file], lines) for lines in (100_000, 2_000_000))
    assert long < short + 40_000


# --- from lines to scores ----------------------------------------------------------------------------------------
def test_fit_score_rank_explain_from_labelled_lines(run, folder, corpus):
    run("fit", "train.tsv", "--target", "LOC", "--estimator", "selective", "--size", 6, "--out", "loc.rgm")
    model = rg.fit(rg.Counts.from_contexts(*corpus), "LOC", "selective", size=6)
    expected = model.log_ratio(corpus[0])
    lines = run("score", "loc.rgm", "new.txt").splitlines()
    assert [float(line.split("\t")[0]) for line in lines] == expected.round(4).tolist()
    exact = run("score", "loc.rgm", "new.txt", "--json").splitlines()
    assert [json.loads(line)["log_ratio"] for line in exact] == expected.tolist()
    assert [line.split("\t")[1] for line in lines] == corpus[0]
    assert run("score", "loc.rgm", stdin=(folder / "new.txt").read_bytes()).splitlines() == lines
    labelled = run("score", "loc.rgm", "train.tsv").splitlines()
    assert labelled[0].split("\t")[1:] == (folder / "train.tsv").read_text().splitlines()[0].split("\t")

    best = sorted(set(zip((-expected).tolist(), corpus[0], strict=True)))[:10]
    ranked = json.loads(run("rank", "loc.rgm", "new.txt", "--top", 10, "--json"))
    assert [(row["rank"], -row["log_ratio"], row["ngram"]) for row in ranked] == [
        (rank, *row) for rank, row in enumerate(best, 1)
    ]
    assert run("rank", "loc.rgm", "new.txt", "-k", 1) == f"1\t{-best[0][0]:.3f}\t{best[0][1]}\n"

    drawn = run("explain", "loc.rgm", best[0][1])
    assert drawn.startswith("LOC: log ratio +")
    assert (drawn.count("│"), "█" in drawn, "\x1b" in drawn) == (4, True, False)
    (explained,) = json.loads(run("explain", "loc.rgm", best[0][1], "--json"))
    assert sum(term["value"] for term in explained["terms"]) == explained["log_ratio"] == -best[0][0]
    assert run("explain", "loc.rgm", "--in", "new.txt", "--top", 1) == drawn


@pytest.mark.parametrize("estimator", ["selective", "mle", "backoff"])
def test_tables_with_two_frequencies_give_the_model_of_the_contexts(run, folder, estimator):
    run("fit", "train.tsv", "--target", "LOC", "--estimator", estimator, "--out", "lines.rgm")
    probes = (folder / "new.txt").read_text().splitlines()
    for source in ("table.parquet", "table.csv"):
        run("fit", source, "--target", "LOC", "--estimator", estimator, "--out", "table.rgm")
        found = rg.Model.load(folder / "table.rgm").log_ratio(probes)
        np.testing.assert_array_equal(rg.Model.load(folder / "lines.rgm").log_ratio(probes), found)


def test_score_keeps_the_columns_of_a_table(run, folder, model_file):
    for out in ("scored.parquet", "scored.csv", "scored.jsonl"):
        run("score", "loc.rgm", "table.parquet", "--out", out)
    expected = pq.read_table(folder / "table.parquet")
    log_ratio = rg.Model.load(model_file).log_ratio(expected["ngram"].to_pylist())
    expected = expected.append_column("log_ratio", pa.array(log_ratio)).sort_by("id").to_pylist()
    assert pq.read_table(folder / "scored.parquet").to_pylist() == expected
    assert pyarrow.csv.read_csv(folder / "scored.csv").to_pylist() == expected
    assert [json.loads(line) for line in (folder / "scored.jsonl").read_text().splitlines()] == expected


def test_an_ending_that_is_not_known_is_refused_before_any_work(run, folder, model_file):
    before = set(folder.iterdir())
    for command in (["score", "nowhere.rgm"], ["rank", "nowhere.rgm"], ["compare", "new.txt", "train.tsv"]):
        for name in ("x.xlsx", "out.JSON"):
            error = run(*command, "-o", name, code=2)
            assert error.startswith("raregram: error: --out must be a")
            assert all(ending in error for ending in (".csv", ".jsonl", ".parquet", name))
    assert "write x.csv instead" in run("score", "loc.rgm", "new.txt", "-o", "x.csv.gz", code=2)
    assert set(folder.iterdir()) == before
    lines = run("score", "loc.rgm", "new.txt")
    for name in ("x.txt", "x.TSV", "x"):
        run("score", "loc.rgm", "new.txt", "-o", name)
        assert (folder / name).read_text() == lines


def test_columns_of_a_table_can_be_named(run, tmp_path, model_file):
    (tmp_path / "mine.csv").write_text("text,hits,rest\na b, 3,1\nc d,0,2\n")
    run("fit", "mine.csv", "--columns", "ngram=text,f_nu=hits,f_de=rest", "--estimator", "mle", "--out", "m.rgm")
    assert float(run("score", "m.rgm", stdin="a b\n").split("\t")[0]) == round(np.log(3), 4)
    (tmp_path / "both.csv").write_text("text,ngram\nthe a in at,OTHER\n")
    (row,) = [json.loads(run("score", "loc.rgm", "both.csv", "--columns", "ngram=text", "--json"))]
    assert (row["text"], row["ngram"]) == ("the a in at", "OTHER")
    (tmp_path / "twice.csv").write_text("ngram,ngram\na,b\n")
    assert "several columns called 'ngram'" in run("score", "loc.rgm", "twice.csv", code=1)


def test_count_merge_subtract_and_info(run, folder, corpus):
    half = len(corpus[0]) // 2
    lines = (folder / "train.tsv").read_text().splitlines(keepends=True)
    (folder / "a.tsv").write_text("".join(lines[:half]))
    (folder / "b.tsv").write_text("".join(lines[half:]))
    spans = ("--spans", "units,suffixes:2,whole")
    for name in ("a", "b", "train"):
        run("count", f"{name}.tsv", *spans, "--out", f"{name}.counts")
    run("merge", "a.counts", "b.counts", "--out", "both.counts")
    whole, both = (json.loads(run("info", f"{name}.counts", "--json")) for name in ("train", "both"))
    assert both["digest"] == whole["digest"]
    assert both["targets"] == {"LOC": 113, "PER": 65}
    run("merge", "both.counts", "--subtract", "b.counts", "--out", "back.counts")
    assert rg.Counts.load(folder / "back.counts") == rg.Counts.load(folder / "a.counts")
    run("count", "a.counts", "b.tsv", *spans, "--out", "mixed.counts")
    assert rg.Counts.load(folder / "mixed.counts") == rg.Counts.load(folder / "train.counts")
    assert "contexts                    1,000" in run("info", "both.counts")
    chosen = ("--target", "PER", "--estimator", "selective", "--criterion", "random", "--seed", 3)
    run("fit", "both.counts", *chosen, "--out", "per.rgm")
    facts = json.loads(run("info", "per.rgm", "--json"))
    assert (facts["target"], facts["criterion"], facts["seed"]) == ("PER", "random", 3)
    assert facts["lam0"] == 1 / 67 - 1 / 937
    assert "strongest_for" in run("info", "per.rgm")
    (folder / "longer.tsv").write_text("X\ta b c\n")
    run("count", "longer.tsv", *spans, "--out", "longer.counts")
    error = run("merge", "a.counts", "longer.counts", "-o", "x", code=2)
    assert "longer.counts: count tables with different n" in error


def test_a_label_that_only_one_part_has_is_zero_in_the_other(run, tmp_path):
    (tmp_path / "a.tsv").write_text("X\ta b\nO\tc d\n")
    (tmp_path / "b.tsv").write_text("New York\ta b\n")
    run("count", "a.tsv", "b.tsv", "--out", "ab.counts")
    counts = rg.Counts.load(tmp_path / "ab.counts")
    assert (counts.targets, counts.totals.tolist()) == (("New York", "X"), [3, 1, 1])
    run("count", "a.tsv", "--out", "a.counts")
    run("count", "b.tsv", "--out", "b.counts")
    # Count files do not say whether they counted every label, so nothing is made up.
    for command in (["merge", "a.counts", "b.counts"], ["count", "a.counts", "b.tsv"]):
        assert "different targets" in run(*command, "--out", "no.counts", code=2)
    assert not (tmp_path / "no.counts").exists()


def test_letters_and_the_right_side(run, tmp_path):
    (tmp_path / "letters.tsv").write_text("X\ta b\nO\tccc\n")
    run("fit", "letters.tsv", "--kind", "letters", "--side", "right", "--out", "m.rgm")
    facts = json.loads(run("info", "m.rgm", "--json"))
    assert (facts["n"], facts["items"], facts["side"]) == (3, "letters", "right")
    assert "␣" in run("explain", "m.rgm", "a b")
    (tmp_path / "l.jsonl").write_text(json.dumps({"text": "a\tb\nc\x1bd", "spans": [[1, 2, "X"]]}) + "\n")
    run("count", "l.jsonl", "-n", 2, "--kind", "letters", "--spans", "whole", "--out", "l.counts")
    run("fit", "l.counts", "--estimator", "product", "--out", "l.rgm")
    ranked = run("rank", "l.rgm", "l.counts")
    assert (len(ranked.splitlines()), "\x1b" in ranked) == (6, False)


def test_compressed_and_windows_text(run, tmp_path, model_file):
    text = b"\xef\xbb\xbfthe a in at\r\nold bank was near"
    (tmp_path / "x.txt").write_bytes(text)
    (tmp_path / "x.txt.gz").write_bytes(gzip.compress(text))
    plain = run("score", "loc.rgm", "x.txt")
    assert [line.split("\t")[1] for line in plain.splitlines()] == ["the a in at", "old bank was near"]
    assert run("score", "loc.rgm", "x.txt.gz") == plain


def test_contexts_of_one_item_are_contexts_and_options_of_documents_are_refused(run, folder):
    (folder / "one.tsv").write_text("LOC\tin\nO\tthat\n")
    run("count", "one.tsv", "-n", 1, "--out", "one.counts")
    assert rg.Counts.load(folder / "one.counts").totals.tolist() == [2, 1]
    for option in (["--pad"], ["--labels", "LOC=PLACE"], ["--on-error", "skip"]):
        assert "are for documents; these are contexts" in run("count", "train.tsv", *option, "-o", "x", code=2)
    run("count", "train.tsv", "--targets", "LOC, PER", "--out", "x.counts")
    assert rg.Counts.load(folder / "x.counts").targets == ("LOC", "PER")


# --- errors ------------------------------------------------------------------------------------------------------
BAD_INPUT = [
    ("nowhere.tsv", None, "nowhere.tsv does not exist"),
    (".", None, r"there is no file in the folder ."),
    ("bad", b"", "no document is long enough: the longest has 0 words, and n is 10"),
    ("bad", b"X\ta b\nO\ta b c\n", "bad, line 2 has 3 words, expected 2: 'a b c'"),
    ("bad", b"X\ta b\nO\ta\n", "bad, line 2 has 1 words, expected 2"),
    ("bad", b"X\ta b\nO\ta \xff\n", "bad, line 2 is not valid UTF-8"),
    ("bad", b"X\ta b\na b\n", "Labelled contexts have a line each: label<TAB>items"),
    ("bad", b"a b\n", "no document is long enough: the longest has 2 words"),
    ("bad", b"O\ta b\n", "no context of these counts has a label"),
    ("bad", b"X\ta b\n", "every context belongs to 'X'"),
    ("bad.csv", b"ngram,f_nu,f_de\na b,1,2\na b,-1,2\n", "bad.csv, row 2: f_nu must be a whole number"),
    ("bad.csv", b"ngram,f_nu,f_de\na b,1.5,2\n", "bad.csv, row 1: f_nu must be a whole number"),
    ("bad.csv", b"ngram,f_nu,f_de\na b,1,2\na b,x,2\n", "row 2: f_nu must be a whole number, got 'x'"),
    ("bad.csv", b"ngram,f_nu,f_de\na b,1_000,1\n", "f_nu must be a whole number, got '1_000'"),
    ("bad.csv", b"ngram,f_nu,f_de\na b,1,2\na b c,1,2\n", "bad.csv, row 2 has 3 words, expected 2"),
    ("bad.csv", b"text,f_nu,f_de\na b,1,2\n", "no column 'ngram'; it has text, f_nu, f_de. Say which one"),
    ("bad.csv", b"ngram,f_nu,f_de\na b,1\n", "bad.csv: CSV parse error"),
    ("bad.csv", b"", "bad.csv: Empty CSV file"),
    ("bad.parquet", b"PAR1 not really", "bad.parquet: "),
    ("bad.gz", b"not gzip at all", "bad.gz: "),
    ("all.csv", b"ngram,f_nu,f_de\na b,2,1\n", "row 1: f_nu is 2 but f_de"),
    ("long", b"X\t" + b"a" * (80 << 20), "long, line 1 is longer than 64 MiB: is this a text file?"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD_INPUT)
def test_bad_input_exits_1_and_says_where(run, tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    denominator = "all" if name == "all.csv" else "complement"
    error = run("fit", name, "--denominator", denominator, "--out", "out.rgm", code=1)
    assert error.startswith("raregram: error: ")
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out.rgm").exists()


WRONG_CALLS = [
    ("fit train.tsv --out x.rgm --lam -1", "Invalid value for '--lam'"),
    ("fit train.tsv --out x.rgm --lam nan --target LOC", "--lam"),
    ("fit train.tsv --out x.rgm --lam inf --target LOC", "--lam must be a finite number >= 0. Got inf instead."),
    ("fit train.tsv --out x.rgm --size 0 --target LOC", "Invalid value for '--size'"),
    ("fit train.tsv --out x.rgm --target ORG", "must be one of 'LOC', 'PER'. Got 'ORG'"),
    ("fit train.tsv --out x.rgm", "choose a target: the table has LOC, PER"),
    ("fit train.tsv --out x.rgm --criterion mi", "'random', 'tf', 'cet'"),
    ("fit train.tsv", "Missing option '--out'"),
    ("fit table.csv --columns gram=text --out x.rgm", "one of 'ngram', 'label', 'f_nu', 'f_de'"),
    ("count train.tsv --spans parts --out x.counts", "--spans must be made of"),
    ("count train.tsv -n 0 --out x.counts", "Invalid value for '-"),
    ("count train.tsv --folds 11 --out x.counts", "Invalid value for '--folds'"),
    ("rank loc.rgm new.txt --top 0", "'--top'"),
    ("explain loc.rgm", "explain takes N-grams, or documents with --in"),
    ("score loc.rgm new.txt --engine spark", "on Spark, scores go to a folder: name it with --out"),
    ("count train.tsv -o x --engine spark --spark memory=4g", "--spark takes spark.NAME=VALUE, got 'memory=4g'"),
    ("frobnicate", "No such command"),
]


@pytest.mark.parametrize(("call", "message"), WRONG_CALLS)
def test_wrong_calls_exit_2(run, folder, model_file, call, message):
    assert message in " ".join(run(*call.split(), code=2).split())


def test_files_that_are_not_what_they_should_be(run, folder, model_file):
    assert "train.tsv is not a raregram file" in run("info", "train.tsv", code=1)
    assert "is a raregram model file, expected a counts file" in run("merge", "loc.rgm", "--out", "x", code=1)
    assert "there is nothing to score in standard input" in run("score", "loc.rgm", stdin="", code=1)
    assert "the folder nowhere does not exist" in run("score", "loc.rgm", "new.txt", "-o", "nowhere/x", code=1)
    run("count", "train.tsv", "--spans", "units", "--out", "units.counts")
    assert "units.counts holds no whole N-grams" in run("rank", "loc.rgm", "units.counts", code=1)
    (folder / "cut.counts").write_bytes((folder / "units.counts").read_bytes()[:-50])
    for command in (["fit", "cut.counts", "--out", "x.rgm"], ["info", "cut.counts"]):
        assert "truncated or damaged" in run(*command, code=1)
