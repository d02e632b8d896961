"""The command line: what commands print and write, and their errors."""

from __future__ import annotations

import gzip
import json
import re
import select
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
from raregram.cli import app

RAREGRAM = Path(sys.executable).with_name("raregram")
COMMANDS = [command.callback.__name__ for command in app.registered_commands]


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
    assert [(-row["log_ratio"], row["ngram"]) for row in ranked] == best
    assert [row["rank"] for row in ranked] == list(range(1, 11))
    shown = run("rank", "loc.rgm", "new.txt", "--top", 1)
    assert shown == f"1\t{-best[0][0]:.3f}\t{best[0][1]}\n"

    drawn = run("explain", "loc.rgm", best[0][1])
    assert drawn.startswith("LOC: log ratio +")
    assert drawn.count("│") == 4
    assert "█" in drawn
    (explained,) = json.loads(run("explain", "loc.rgm", best[0][1], "--json"))
    assert sum(term["value"] for term in explained["terms"]) == explained["log_ratio"] == -best[0][0]


@pytest.mark.parametrize("source", ["table.parquet", "table.csv"])
@pytest.mark.parametrize("estimator", ["selective", "mle", "backoff"])
def test_tables_with_two_frequencies_give_the_model_of_the_contexts(run, folder, source, estimator):
    run("fit", "train.tsv", "--target", "LOC", "--estimator", estimator, "--out", "lines.rgm")
    run("fit", source, "--estimator", estimator, "--out", "table.rgm")
    probes = (folder / "new.txt").read_text().splitlines()
    np.testing.assert_array_equal(
        rg.Model.load(folder / "lines.rgm").log_ratio(probes), rg.Model.load(folder / "table.rgm").log_ratio(probes)
    )


def test_score_keeps_the_columns_of_a_table(run, folder, model_file):
    for out in ("scored.parquet", "scored.csv", "scored.jsonl"):
        run("score", "loc.rgm", "table.parquet", "--out", out)
    expected = pq.read_table(folder / "table.parquet")
    log_ratio = rg.Model.load(model_file).log_ratio(expected["ngram"].to_pylist())
    expected = expected.append_column("log_ratio", pa.array(log_ratio)).sort_by("id").to_pylist()
    assert pq.read_table(folder / "scored.parquet").to_pylist() == expected
    assert pyarrow.csv.read_csv(folder / "scored.csv").to_pylist() == expected
    assert [json.loads(line) for line in (folder / "scored.jsonl").read_text().splitlines()] == expected


def test_columns_of_a_table_can_be_named(run, tmp_path):
    (tmp_path / "mine.csv").write_text("text,hits,rest\na b, 3,1\nc d,0,2\n")
    run("fit", "mine.csv", "--columns", "ngram=text,f_nu=hits,f_de=rest", "--estimator", "mle", "--out", "m.rgm")
    assert float(run("score", "m.rgm", stdin="a b\n").split("\t")[0]) == round(np.log(3), 4)


def test_count_merge_subtract_and_info(run, folder, corpus):
    half = len(corpus[0]) // 2
    lines = (folder / "train.tsv").read_text().splitlines(keepends=True)
    (folder / "a.tsv").write_text("".join(lines[:half]))
    (folder / "b.tsv").write_text("".join(lines[half:]))
    for name in ("a", "b", "train"):
        run("count", f"{name}.tsv", "--spans", "units,suffixes:2,whole", "--out", f"{name}.counts")
    run("merge", "a.counts", "b.counts", "--out", "both.counts")
    whole, both = (json.loads(run("info", f"{name}.counts", "--json")) for name in ("train", "both"))
    assert both["digest"] == whole["digest"]
    assert both["targets"] == {"LOC": 113, "PER": 65}
    run("merge", "both.counts", "--subtract", "b.counts", "--out", "back.counts")
    assert rg.Counts.load(folder / "back.counts") == rg.Counts.load(folder / "a.counts")
    run("count", "a.counts", "b.tsv", "--spans", "units,suffixes:2,whole", "--out", "mixed.counts")
    assert rg.Counts.load(folder / "mixed.counts") == rg.Counts.load(folder / "train.counts")
    shown = run("info", "both.counts")
    assert "contexts                    1,000" in shown
    run(
        "fit",
        "both.counts",
        "--target",
        "PER",
        "--estimator",
        "selective",
        "--criterion",
        "random",
        "--seed",
        3,
        "--out",
        "per.rgm",
    )
    facts = json.loads(run("info", "per.rgm", "--json"))
    assert (facts["target"], facts["criterion"], facts["seed"]) == ("PER", "random", 3)
    assert facts["lam0"] == 1 / 67 - 1 / 937
    assert "strongest_for" in run("info", "per.rgm")


def test_a_label_that_only_one_part_has_is_zero_in_the_other(run, tmp_path):
    (tmp_path / "a.tsv").write_text("X\ta b\nO\tc d\n")
    (tmp_path / "b.tsv").write_text("Y\ta b\n")
    run("count", "a.tsv", "b.tsv", "--out", "ab.counts")
    assert rg.Counts.load(tmp_path / "ab.counts").totals.tolist() == [3, 1, 1]
    run("count", "a.tsv", "--out", "a.counts")
    run("count", "b.tsv", "--out", "b.counts")
    # Count files do not say whether they counted every label, so nothing is made up.
    assert "different targets" in run("merge", "a.counts", "b.counts", "--out", "no.counts", code=2)
    assert "different targets" in run("count", "a.counts", "b.tsv", "--out", "no.counts", code=2)
    assert not (tmp_path / "no.counts").exists()


def test_letters_and_the_right_side(run, tmp_path):
    (tmp_path / "letters.tsv").write_text("X\ta b\nO\tccc\n")
    run("fit", "letters.tsv", "--kind", "letters", "--side", "right", "--out", "m.rgm")
    facts = json.loads(run("info", "m.rgm", "--json"))
    assert (facts["n"], facts["items"], facts["side"]) == (3, "letters", "right")
    assert "␣" in run("explain", "m.rgm", "a b")


def test_compressed_and_windows_text(run, tmp_path, model_file):
    text = b"\xef\xbb\xbfthe a in at\r\nold bank was near"
    (tmp_path / "x.txt").write_bytes(text)
    (tmp_path / "x.txt.gz").write_bytes(gzip.compress(text))
    plain = run("score", "loc.rgm", "x.txt")
    assert [line.split("\t")[1] for line in plain.splitlines()] == ["the a in at", "old bank was near"]
    assert run("score", "loc.rgm", "x.txt.gz") == plain


def test_score_answers_each_line_before_the_next_one_comes(model_file):
    pipe, command = subprocess.PIPE, [RAREGRAM, "score", model_file]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        for ngram in ("the a in at", "old bank was near"):
            process.stdin.write(ngram + "\n")
            process.stdin.flush()
            assert process.stdout.readline().endswith(f"\t{ngram}\n")
        process.stdin.close()
        assert process.wait(timeout=20) == 0


@pytest.mark.parametrize("command", ["score", "rank"])
@pytest.mark.harness
def test_memory_stays_flat_however_long_the_input_is(model_file, command):
    short, long = (peak_kilobytes([RAREGRAM, command, model_file], lines) for lines in (100_000, 2_000_000))
    assert long < short + 40_000


def test_a_reader_that_leaves_early_is_no_error(folder, model_file):
    (folder / "long.txt").write_text("the a in at\n" * 300_000)
    command = f"{RAREGRAM} score loc.rgm long.txt | head -n 1"
    done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, timeout=60, check=False)
    assert (done.stderr, done.stdout.count(b"\n")) == (b"", 1)


def test_lines_before_a_bad_one_are_still_scored(model_file):
    lines = b"the a in at\nold bank was near\nold \xff was near\nthe a in at\n"
    done = subprocess.run([RAREGRAM, "score", model_file], input=lines, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout.count(b"\n")) == (1, 2)
    assert done.stderr.startswith(b"raregram: error: standard input, line 3 is not valid UTF-8")
    assert done.stderr.count(b"\n") == 1


BAD_INPUT = [
    (["fit", "nowhere.tsv"], None, "nowhere.tsv does not exist"),
    (["fit", "."], None, r"there is no file in the folder ."),
    (["fit", "bad"], b"", "no document is long enough: the longest has 0 words, and n is 10"),
    (["fit", "bad"], b"X\ta b\nO\ta b c\n", "bad, line 2 has 3 words, expected 2: 'a b c'"),
    (["fit", "bad"], b"X\ta b\nO\ta \xff\n", "bad, line 2 is not valid UTF-8"),
    (["fit", "bad"], b"X\ta b\na b\n", "Labelled contexts have a line each: label<TAB>items"),
    (["fit", "bad"], b"a b\n", "no document is long enough: the longest has 2 words"),
    (["fit", "bad"], b"O\ta b\n", "no context of these counts has a label"),
    (["fit", "bad"], b"X\ta b\n", "every context belongs to 'X'"),
    (["fit", "bad", "--target", "X"], b"O\ta b\nX\ta\n", "bad, line 2 has 1 words, expected 2"),
    (["fit", "bad.csv"], b"ngram,f_nu,f_de\na b,1,2\na b,-1,2\n", "bad.csv, row 2: f_nu must be a whole number"),
    (["fit", "bad.csv"], b"ngram,f_nu,f_de\na b,1.5,2\n", "bad.csv, row 1: f_nu must be a whole number"),
    (["fit", "bad.csv"], b"ngram,f_nu,f_de\na b,1,2\na b,x,2\n", "row 2: f_nu must be a whole number, got 'x'"),
    (["fit", "bad.csv"], b"ngram,f_nu,f_de\na b,1_000,1\n", "f_nu must be a whole number, got '1_000'"),
    (["fit", "bad.csv"], b"ngram,f_nu,f_de\na b,1,2\na b c,1,2\n", "bad.csv, row 2 has 3 words, expected 2"),
    (["fit", "bad.csv"], b"text,f_nu,f_de\na b,1,2\n", "no column 'ngram'; it has text, f_nu, f_de. Say which one"),
    (["fit", "bad.csv"], b"ngram,f_nu,f_de\na b,1\n", "bad.csv: CSV parse error"),
    (["fit", "bad.csv"], b"", "bad.csv: Empty CSV file"),
    (["fit", "bad.parquet"], b"PAR1 not really", "bad.parquet: "),
    (["fit", "bad.gz"], b"not gzip at all", "bad.gz: "),
    (["fit", "bad.csv", "--denominator", "all"], b"ngram,f_nu,f_de\na b,2,1\n", "row 1: f_nu is 2 but f_de"),
]


@pytest.mark.parametrize(("arguments", "content", "message"), BAD_INPUT)
def test_bad_input_exits_1_and_says_where(run, tmp_path, arguments, content, message):
    if content is not None:
        (tmp_path / arguments[1]).write_bytes(content)
    error = run(*arguments, "--out", "out.rgm", code=1)
    assert error.startswith("raregram: error: ")
    assert message in error
    assert not (tmp_path / "out.rgm").exists()


def test_a_line_that_never_ends_is_refused(run, tmp_path):
    (tmp_path / "long").write_bytes(b"X\t" + b"a" * (80 << 20))
    assert "long, line 1 is longer than 64 MiB: is this a text file?" in run("fit", "long", "--out", "x.rgm", code=1)


WRONG_CALLS = [
    (["fit", "train.tsv", "--out", "x.rgm", "--lam", "-1"], "Invalid value for '--lam'"),
    (["fit", "train.tsv", "--out", "x.rgm", "--size", "0", "--target", "LOC"], "Invalid value for '--size'"),
    (["fit", "train.tsv", "--out", "x.rgm", "--target", "ORG"], "must be one of 'LOC', 'PER'. Got 'ORG'"),
    (["fit", "train.tsv", "--out", "x.rgm"], "choose a target: the table has LOC, PER"),
    (["fit", "train.tsv", "--out", "x.rgm", "--criterion", "mi"], "'random', 'tf', 'cet'"),
    (["fit", "train.tsv"], "Missing option '--out'"),
    (["fit", "table.csv", "--columns", "gram=text", "--out", "x.rgm"], "one of 'ngram', 'label', 'f_nu', 'f_de'"),
    (["count", "train.tsv", "--spans", "parts", "--out", "x.counts"], "--spans must be made of"),
    (["rank", "loc.rgm", "new.txt", "--top", "0"], "'--top'"),
    (["frobnicate"], "No such command"),
]


def test_a_ridge_that_is_not_a_number_exits_2(run, folder):
    error = run("fit", "train.tsv", "--out", "x.rgm", "--lam", "nan", "--target", "LOC", code=2)
    assert "--lam must be a finite number >= 0. Got nan instead." in error


@pytest.mark.parametrize(("arguments", "message"), WRONG_CALLS)
def test_wrong_calls_exit_2(run, folder, model_file, arguments, message):
    assert message in " ".join(run(*arguments, code=2).replace("│", " ").split())


def test_files_that_are_not_what_they_should_be(run, folder, model_file):
    assert "train.tsv is not a raregram file" in run("info", "train.tsv", code=1)
    assert "is a raregram model file, expected a counts file" in run("merge", "loc.rgm", "--out", "x", code=1)
    assert "there is nothing to score in standard input" in run("score", "loc.rgm", stdin="", code=1)
    assert "the folder nowhere does not exist" in run("score", "loc.rgm", "new.txt", "-o", "nowhere/x", code=1)
    run("count", "train.tsv", "--spans", "units", "--out", "units.counts")
    assert "units.counts holds no whole N-grams" in run("rank", "loc.rgm", "units.counts", code=1)
    (folder / "cut.counts").write_bytes((folder / "units.counts").read_bytes()[:-50])
    assert "cut.counts is not a raregram file, or it is truncated or damaged" in run(
        "fit", "cut.counts", "--out", "x.rgm", code=1
    )
    assert "truncated or damaged" in run("info", "cut.counts", code=1)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_an_example(run, command):
    shown = " ".join(run(command, "--help").split())
    assert "Example: " in shown
    assert f"raregram {command} " in shown.partition("Example: ")[2]


def test_the_version_is_printed(run):
    assert run("--version") == f"raregram {rg.__version__}\n"


def test_long_work_shows_progress_on_standard_error(model_file):
    pipe, command = subprocess.PIPE, [RAREGRAM, "score", model_file]
    with subprocess.Popen(command, stdin=pipe, stdout=subprocess.DEVNULL, stderr=pipe) as process:
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


def test_contexts_of_one_item_and_labels_with_spaces_are_contexts(run, tmp_path):
    (tmp_path / "one.tsv").write_text("LOC\tin\nO\tthat\n")
    run("count", "one.tsv", "-n", 1, "--out", "one.counts")
    assert rg.Counts.load(tmp_path / "one.counts").totals.tolist() == [2, 1]
    (tmp_path / "spaces.tsv").write_text("New York\tlives in\nO\tsaid that\n")
    run("count", "spaces.tsv", "--out", "spaces.counts")
    assert rg.Counts.load(tmp_path / "spaces.counts").targets == ("New York",)


def test_options_that_do_not_apply_are_refused(run, folder):
    for option in (["--pad"], ["--labels", "LOC=PLACE"], ["--on-error", "skip"]):
        assert "are for documents; these are contexts" in run("count", "train.tsv", *option, "-o", "x", code=2)
    run("count", "train.tsv", "--targets", "LOC, PER", "--out", "x.counts")
    assert rg.Counts.load(folder / "x.counts").targets == ("LOC", "PER")


def test_a_renamed_column_keeps_its_name_beside_another_called_ngram(run, tmp_path, model_file):
    (tmp_path / "both.csv").write_text("text,ngram\nthe a in at,OTHER\n")
    (row,) = [json.loads(run("score", "loc.rgm", "both.csv", "--columns", "ngram=text", "--json"))]
    assert (row["text"], row["ngram"]) == ("the a in at", "OTHER")
    (tmp_path / "twice.csv").write_text("ngram,ngram\na,b\n")
    assert "several columns called 'ngram'" in run("score", "loc.rgm", "twice.csv", code=1)


def test_letters_that_would_break_a_line_are_escaped(run, tmp_path):
    (tmp_path / "l.jsonl").write_text(json.dumps({"text": "a\tb\nc\x1bd", "spans": [[1, 2, "X"]]}) + "\n")
    run("count", "l.jsonl", "-n", 2, "--kind", "letters", "--spans", "whole", "--out", "l.counts")
    run("fit", "l.counts", "--estimator", "product", "--out", "l.rgm")
    ranked = run("rank", "l.rgm", "l.counts")
    assert len(ranked.splitlines()) == 6
    assert "\x1b" not in ranked


def test_a_full_standard_output_is_an_error_not_a_traceback(model_file):
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([RAREGRAM, "info", model_file], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode != 0
    assert b"Traceback" not in done.stderr


def test_merge_names_the_file_that_does_not_fit(run, tmp_path):
    (tmp_path / "a.tsv").write_text("X\ta b\n")
    (tmp_path / "b.tsv").write_text("X\ta b c\n")
    run("count", "a.tsv", "--out", "a.counts")
    run("count", "b.tsv", "--out", "b.counts")
    assert "b.counts: count tables with different n" in run("merge", "a.counts", "b.counts", "-o", "x", code=2)
