"""The command compare: what it prints and writes, and its errors."""

from __future__ import annotations

import base64
import json
import re
import zlib

import pyarrow.parquet as pq
import pytest

import combinations
from raregram.measure.compare import compare

SEA = "the old sailor said that the whale swam by the ship at sea and the whale was white {}"
LAND = "the old farmer said that the horse ran by the barn at home and the horse was brown {}"
COUNTABLE = ("-n", "2", "--spans", "suffixes:2", "--pad", "--documents")
SETTINGS = {"n": (1, 2), "tokenize": "words", "min_count": 5, "min_documents": 2}


@pytest.fixture
def folder(tmp_path):
    for name, text in (("sea", SEA), ("land", LAND)):
        (tmp_path / name).mkdir()
        for i in range(12):
            (tmp_path / name / f"{name}{i}.txt").write_text(text.format(f"word{i}") * (1 + i % 3))
    return tmp_path


def test_the_first_rows_are_printed(run, folder):
    found = compare(str(folder / "sea"), str(folder / "land"), **SETTINGS)
    head, columns, *rows, foot = run("compare", "sea", "land", "-n", "1-2", "--top", 4).splitlines()
    assert foot == "17 of 47 N-grams mark sea (q below 0.05); 4 shown"
    assert re.fullmatch(r"sea \([\d,]+ words, 12 documents\) against land \([\d,]+ words, 12 documents\)", head)
    assert columns.split()[:5] == ["N-gram", "sea", "/M", "land", "/M"]
    expected = found.top(4, kind="positive")
    assert [row.split("  ")[0] for row in rows] == expected["ngram"].to_pylist()
    assert "whale" in rows[0]
    assert not re.search(r"\x1b", head + "".join(rows))
    negative = run("compare", "sea", "land", "-n", "1-2", "--negative", "--sort", "g2").splitlines()[2:]
    assert "horse" in "".join(negative)
    assert "whale" not in "".join(negative)


def test_where_little_is_significant_the_rest_can_be_seen(run, folder):
    for name, word in (("one", "red"), ("two", "blue")):
        (folder / name).mkdir()
        for k in range(2):
            (folder / name / f"{k}.txt").write_text(f"a {word} house and a {word} door, number {k} of them")
    last = run("compare", "one", "two", "-n", "1", "--min-count", 1).splitlines()[-1]
    assert re.fullmatch(r"0 of \d+ N-grams mark one \(q below 0\.05\); 0 shown; --all prints others, too", last)
    printed = run("compare", "one", "two", "-n", "1", "--min-count", 1, "--all", "--top", 3).splitlines()
    assert printed[2].startswith("red ")
    assert re.fullmatch(r"3 of \d+ N-grams", printed[-1])


def test_json_has_all_columns(run, folder):
    found = json.loads(run("compare", "sea", "land", "-n", "1-2", "--top", 3, "--json", "--names", "a b,c"))
    assert found["names"] == ["a b", "c"]
    assert found["documents"] == [12, 12]
    assert len(found["top"]) == 3
    table = compare(str(folder / "sea"), str(folder / "land"), **SETTINGS).table
    assert found["rows"] == len(table)
    assert list(found["top"][0]) == table.column_names


def test_a_folder_gets_the_page_and_the_table(run, folder):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'raregram[report]'")
    run("compare", "sea", "land", "-n", "1-2", "--out", "out")
    assert {path.name for path in (folder / "out").iterdir()} == {
        "index.html", "table.csv", "table.parquet", "plot.svg", "plot.png"
    }  # fmt: skip
    table = compare(str(folder / "sea"), str(folder / "land"), **SETTINGS).table
    assert pq.read_table(folder / "out" / "table.parquet").equals(table)
    before = {path.name: path.read_bytes() for path in (folder / "out").iterdir()}
    run("compare", "sea", "land", "-n", "1-2", "--out", "out")
    assert {path.name: path.read_bytes() for path in (folder / "out").iterdir()} == before
    run("compare", "sea", "land", "-n", "1-2", "--out", "t.jsonl")
    assert len((folder / "t.jsonl").read_text().splitlines()) == len(table)


def test_samples_of_one_corpus_are_compared_with_the_rest(run, folder):
    rows = [{"text": SEA.format(i), "where": "sea"} for i in range(12)]
    rows += [{"text": LAND.format(i), "where": "land/home"} for i in range(12)]
    rows += [{"text": "up in the air birds fly over clouds", "where": "air"} for _ in range(12)]
    (folder / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    shown = run("compare", "all.jsonl", "--by", "where", "-n", "1-2", "--top", 50, "--out", "out")
    parts = re.split(r"(?m)^(?=\S+ \([\d,]+ words)", shown)[1:]
    assert [part.split(" (")[0] for part in parts] == ["air", "land/home", "sea"]
    for part, word in zip(parts, ("birds", "horse", "whale"), strict=True):
        assert word in part
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["01-air", "02-land-home", "03-sea"]
    two = run("compare", "all.jsonl", "--by", "where", "--names", "sea,air", "-n", "1", "--top", 50)
    assert "horse" not in two
    assert "whale" in two
    error = run("compare", "all.jsonl", "--by", "where", "--out", "x.csv", code=2)
    assert "name a folder with --out, not a file" in error


ERRORS = [
    ("sea", 2, "compare takes two corpora, or one with --by or --reference, or one count file"),
    ("sea land --negative --lockwords", 2, "exclude each other"),
    ("sea land --all --negative", 2, "exclude each other"),
    ("sea land -n 5-1", 2, "--n must be a length such as 3"),
    ("sea land --sort mi", 2, "'conservative', 'log2_ratio'"),
    ("sea land --names s,s", 2, "two different names"),
    ("sea land --reference list.tsv", 2, "--reference is compared with one corpus"),
    ("sea --reference list.tsv --names s,s", 2, "two different names"),
    ("sea --reference list.tsv -n 1-5", 2, "cannot be compared with -n 1-5: take -n 1"),
    ("sea land --out x.xlsx", 2, "--out must be a folder"),
    ("sea nowhere", 1, "nowhere"),
    ("sea land --out list.tsv/", 1, "cannot write list.tsv/"),
    ("sea one.txt -n 2", 1, "no document of one has 2 items"),
    ("sea --reference bad.tsv", 1, "line 1: expected a word, a tab and its frequency"),
    ("sea --reference large.tsv", 1, "large.tsv, line 2: the frequencies"),
    ("sea --reference none.tsv", 1, "none.tsv: No such file"),
]


@pytest.mark.parametrize(("call", "code", "message"), ERRORS)
def test_errors_say_what_to_do(run, folder, call, code, message):
    files = {"list": "the\t300\n", "bad": "the 900\n", "large": f"a\t1\nthe\t{2**64}\n"}
    for name, content in files.items():
        (folder / f"{name}.tsv").write_text(content)
    (folder / "one.txt").write_text("word")
    error = run("compare", *call.split(), code=code)
    assert message in error
    assert "Traceback" not in error


def test_a_list_of_frequencies_is_a_reference(run, folder):
    (folder / "list.tsv").write_text("the\t900\nhorse\t50\nwhale\t1\nship\t2\n")
    head, _, first, *_ = run("compare", "sea", "--reference", "list.tsv").splitlines()
    assert head.startswith("sea (")
    assert "against list (953 words" in head
    assert first.startswith(("whale", "ship", "sea"))
    assert "whale" in run("compare", "sea", "--reference", "list.tsv", "-n", "1")


def test_a_document_without_the_field_is_named(run, folder):
    """Also where another file of the same folder has it."""
    (folder / "mixed").mkdir()
    (folder / "mixed" / "a.jsonl").write_text(json.dumps({"text": "so it goes", "party": "x"}) + "\n")
    (folder / "mixed" / "b.txt").write_text("a licence, which has no party")
    found = run("compare", "mixed", "--by", "party", code=1)
    assert "b.txt: its documents have no field 'party' to cut by" in found


def lines_of_page(page):
    """Return by N-gram the names of the documents of both corpora, of the rows that have lines."""
    data = re.search(r'id="data">([^<]*)<', page.read_text())[1]
    head, *rows = map(json.loads, zlib.decompress(base64.b64decode(data)).splitlines())
    ngrams = head["columns"]["ngram"]
    return head, {ngrams[row]: [[line[3] for line in side[0]] for side in sides] for row, _, *sides in rows}


def test_options_that_contradict_a_count_file_are_refused(run, folder):
    for name, option in (("plain", ()), ("lower", ("--lower",))):
        run("count", "sea", *COUNTABLE, "--tokenize", "words", *option, "--out", f"{name}.counts")
    refused = "counted with lower=False, so it cannot be compared with lower=True: leave lower out"
    assert refused in run("compare", "plain.counts", "land", "-n", "1", "--lower", code=2)
    assert "tokenize='whitespace'" in run(
        "compare", "plain.counts", "land", "-n", "1", "--tokenize", "whitespace", code=2
    )
    assert "different lower" in run("compare", "plain.counts", "lower.counts", "-n", "1", code=2)
    (folder / "land" / "land0.txt").write_text(LAND.upper())
    shown = run("compare", "lower.counts", "land", "-n", "1", "--negative", "--json", "--out", "out")
    assert {row["ngram"] for row in json.loads(shown)["top"]} >= {"horse", "farmer"}
    _, lines = lines_of_page(folder / "out" / "index.html")
    assert "HORSE" in lines["horse"][1]


def test_a_list_of_frequencies_is_in_small_letters_where_the_corpus_is(run, folder):
    (folder / "list.tsv").write_text("the\t300\nThe\t100\n")
    found = run("compare", "sea", "--reference", "list.tsv", "--lower", "--all", "--json", "--top", 50)
    rows = {row["ngram"]: row["f_b"] for row in json.loads(found)["top"]}
    assert rows["the"] == 400
    assert "The" not in rows


def test_a_sample_may_have_any_name(run, folder):
    """Lines are those of the sample, whatever it is called."""
    words = {"a": "alpha", "the rest": "beta", "all but a": "gamma"}
    rows = [
        {"text": f"we say {word} and {word} again, number {i}", "g": name}
        for name, word in words.items()
        for i in range(12)
    ]
    (folder / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for names in ("a", "the rest", "the rest,a", r"a,all\ but\ a"):
        run("compare", "all.jsonl", "--by", "g", "--names", names, "-n", "1", "--out", "out")
        head, lines = lines_of_page(folder / "out" / "index.html")
        first, second = head["names"]
        assert first != second
        assert lines[words[first]] == [[words[first]] * 12, []]
        others = [words[second]] if "," in names else sorted(set(words.values()) - {words[first]})
        assert all(lines[word] == [[], [word] * 12] for word in others)


def test_few_documents_are_said_to_be_few_in_the_terminal_and_on_the_page(folder):
    for name in ("sea", "land"):
        for path in sorted((folder / name).iterdir())[3:]:
            path.unlink()
    code, _, error = combinations.run("compare", folder / "sea", folder / "land", "-n", "1", "--out", folder / "out")
    assert code == 0
    assert "few documents (sea has 3, land has 3): how words are spread" in error
    head, _ = lines_of_page(folder / "out" / "index.html")
    assert head["caution"].startswith("few documents (sea has 3, land has 3)")


def test_one_count_file_with_samples_is_compared(run, folder):
    run("count", "sea", "land", "--by", "folder", *COUNTABLE, "--tokenize", "words", "-o", "by.counts")
    texts = run("compare", "sea", "land", "--by", "folder", "--names", "sea,land", "-n", "1-2")
    assert run("compare", "by.counts", "--names", "sea,land", "-n", "1-2") == texts
    assert run("compare", "by.counts", "-n", "1-2").count(" against ") == 2
    assert "name a folder with --out" in run("compare", "by.counts", "-n", "1-2", "-o", "x.csv", code=2)
    run("compare", "by.counts", "-n", "1-2", "-o", "pages")
    assert len(list((folder / "pages").glob("*/index.html"))) == 2
    run("count", "sea", *COUNTABLE, "-o", "one.counts")
    assert "there is only one sample" in run("compare", "one.counts", "-n", "1-2", code=1)
