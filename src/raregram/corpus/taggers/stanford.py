"""Named entities by Stanford NER (Finkel et al. 2005), the tagger of the paper. Extra `stanford`, and Java.

It runs in one Java process beside this one, whose threads share the classifier. Py4J passes texts and results over a
connection on the loopback address that only this process has the token for; Java ends when this process does.
Stanford NER is under the GPL: it is never shipped with raregram, only run as a program that the user has.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
import zlib
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from raregram.corpus.fetch import STANFORD_CLASSIFIER, fetched_stanford
from raregram.corpus.taggers import PIECE_CHARACTERS, Offsets, cut_text
from raregram.errors import FileError, MissingExtraError, ParameterError, RaregramError, name_some

HOME = "CORENLP_HOME"  # the environment variable that other tools use, too
MANIFEST = "META-INF/MANIFEST.MF"
PROGRAM = "edu/stanford/nlp/ie/crf/CRFClassifier.class"
ENDING = ".crf.ser.gz"
DEFAULT_CLASSIFIER = Path(STANFORD_CLASSIFIER).name.removesuffix(ENDING)
LONGEST_ITEM = 500  # characters; no name is so long, and its tokenizer takes quadratic time without white space
FOUND = re.compile(r"\(([^,()]+),(\d+),(\d+)\)")  # (label,first,after the last), as Java shows a list of triples
JAVA_OPTIONS = ["-XX:+ExitOnOutOfMemoryError", "-XX:+DisplayVMOutputToStderr"]
OUT_OF_MEMORY = 3  # Java's exit code then
MORE_MEMORY = "give it more, e.g. JAVA_TOOL_OPTIONS=-Xmx2g"


@dataclass(frozen=True)
class Program:
    """The files of Stanford NER."""

    jars: tuple[Path, ...]
    classifier: str  # a file, or a name in the jars
    facts: dict[str, str]


class StanfordTagger:
    """Stanford NER in a Java process; a text's entities do not depend on the texts before it."""

    def __init__(self, classifier: str | None = None, processes: int = 1, path: str | None = None) -> None:
        program = find_program(path, classifier or DEFAULT_CLASSIFIER)
        self.facts, self.threads = program.facts, processes
        self._py4j = _import_py4j()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._java: subprocess.Popen[bytes] | None = None
        self._gateway: Any = None
        try:
            self._gateway = self._start(program)
            self._classifier = self._load(program)
            self.labels = frozenset(map(str, self._classifier.labels())) - {self._classifier.backgroundSymbol()}
        except BaseException:
            self.close()
            raise

    def _start(self, program: Program) -> Any:
        """Start Java and connect to it."""
        path = os.pathsep.join([self._py4j.find_jar_path(), *map(str, program.jars)])
        command = [_java(), *JAVA_OPTIONS, "-classpath", path, "py4j.GatewayServer"]
        self._java = subprocess.Popen(  # it ends with its standard input, and so with this process
            [*command, "--die-on-broken-pipe", "--enable-auth", "0"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
        )  # fmt: skip
        assert self._java.stdout is not None
        port, token = self._java.stdout.readline().strip(), self._java.stdout.readline().strip()
        if not port.isdigit():
            raise FileError(f"Java did not start. It said: {self._said() or 'nothing'}")
        parameters = self._py4j.GatewayParameters(
            port=int(port),
            auth_token=token.decode(),
            enable_memory_management=False,  # with it, finalizers look for a Java that has ended; see `_find`
        )
        return self._py4j.JavaGateway(gateway_parameters=parameters)

    def _load(self, program: Program) -> Any:
        """Load the classifier."""
        jvm = self._gateway.jvm
        try:
            jvm.java.lang.Class.forName(PROGRAM.removesuffix(".class").replace("/", "."))
            return jvm.edu.stanford.nlp.ie.crf.CRFClassifier.getClassifier(program.classifier)
        except self._py4j.Py4JJavaError as error:
            reason = str(error.java_exception)
            if "UnsupportedClassVersionError" in reason:
                running = jvm.java.lang.System.getProperty("java.version")
                raise FileError(f"Java {running} is too old for {program.jars[0]}: install a newer one") from error
            raise FileError(f"cannot load the Stanford classifier {program.classifier}: {reason}") from error
        except self._py4j.Py4JError as error:
            raise self._ended() from error

    def find(self, texts: Sequence[str]) -> list[Offsets]:
        """Return the entities of each text as spans of characters."""
        try:
            return [
                [(at + start, at + end, label) for at, piece in cut_text(text, PIECE_CHARACTERS)
                 for start, end, label in self._find(piece)]
                for text in texts
            ]  # fmt: skip
        except self._py4j.Py4JJavaError as error:
            raise RaregramError(f"Stanford NER failed: {error.java_exception}") from error
        except self._py4j.Py4JError as error:
            raise self._ended() from error

    def _find(self, text: str) -> Offsets:
        masked = re.sub(rf"\S{{{LONGEST_ITEM},}}", lambda long: "x" * len(long[0]), text)
        triples = self._classifier.classifyToCharacterOffsets(masked)
        found = FOUND.findall(triples.toString())
        self._gateway.detach(triples)
        spans = [(int(start), int(end), label) for label, start, end in found]
        if not spans or max(text) <= "\uffff":
            return spans
        units = list(accumulate((1 + (letter > "\uffff") for letter in masked), initial=0))  # Java counts UTF-16
        return [(bisect_left(units, start), bisect_left(units, end), label) for start, end, label in spans]

    def _ended(self) -> RaregramError:
        """Return the error that says why Java is gone."""
        assert self._java is not None
        self._java.kill()  # if it is not
        kept = "What was finished is kept; run again to continue"
        if (code := self._java.wait()) == OUT_OF_MEMORY:
            return RaregramError(f"Java has too little memory for Stanford NER: {MORE_MEMORY}. {kept}")
        return RaregramError(f"the Java process ended too early (exit code {code}): is there enough memory? {kept}")

    def _said(self) -> str:
        """Return the beginning of what Java has to say."""
        self._log.seek(0)
        lines = map(str.strip, self._log.read().decode(errors="replace").splitlines())
        return " ".join([line for line in lines if line and not line.startswith("Picked up")][:2])

    def close(self) -> None:
        """End Java."""
        if self._gateway is not None:
            self._gateway.close()
        if self._java is not None:
            self._java.kill()
            self._java.communicate()
        self._log.close()


def find_program(path: str | None, classifier: str) -> Program:
    """Find Stanford NER: where `path` or CORENLP_HOME says, a folder or jars, or else in the cache."""
    given = path or os.environ.get(HOME)
    files = _files(given)
    jars = {file.absolute(): _names(file) for file in files if file.suffix == ".jar"}
    program = next((jar for jar, names in jars.items() if PROGRAM in names), None)
    if program is None:
        raise FileError(f"{given} has no jar with Stanford NER ({Path(PROGRAM).stem})")
    known: dict[str, tuple[Path | None, str]] = {
        _short(file.name): (None, str(file)) for file in files if file.name.endswith(ENDING)
    }
    known |= {_short(name): (jar, name) for jar, names in jars.items() for name in names if name.endswith(ENDING)}
    if Path(classifier).is_file():
        known[classifier] = None, classifier
    if classifier not in known:
        there = name_some(sorted(known)) if known else "none"
        raise ParameterError(f"there is no Stanford classifier {classifier}; there is {there}")
    within, found = known[classifier]
    manifest = _read(program, MANIFEST).decode(errors="replace") if MANIFEST in jars[program] else ""
    version = re.search(r"^Implementation-Version: *(\S+)", manifest, re.MULTILINE)
    facts = {
        "pipeline": f"Stanford NER {_short(classifier)}",
        "version": version[1] if version else "",
        "digest": hashlib.sha256(program.read_bytes() + _read(within, found)).hexdigest(),
    }
    return Program((program, *(jar for jar in jars if jar != program)), found, facts)


def _files(given: str | None) -> list[Path]:
    """Return the files in a folder, or those that are named, or those in the cache."""
    if given is not None:
        places = [Path(each).expanduser() for each in given.split(os.pathsep)]
    elif fetched := fetched_stanford():
        places = [fetched.folder]
    else:
        raise FileError(
            "Stanford NER is not installed: raregram fetch stanford-ner brings it, and --stanford or the environment "
            f"variable {HOME} names a folder or jars that have it"
        )
    for place in places:
        if not place.exists():
            raise FileError(f"{place} does not exist")
    return [file for place in places for file in (sorted(place.rglob("*")) if place.is_dir() else [place])]


def _names(jar: Path) -> list[str]:
    with _damage_named(jar), zipfile.ZipFile(jar) as archive:
        return archive.namelist()


def _read(jar: Path | None, name: str) -> bytes:
    """Return the content of a file, or of one in a jar."""
    if jar is None:
        return Path(name).read_bytes()
    with _damage_named(jar), zipfile.ZipFile(jar) as archive:
        return archive.read(name)


@contextmanager
def _damage_named(jar: Path) -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise FileError(f"{jar} is not a jar, or it is damaged") from error


def _short(classifier: str) -> str:
    return classifier.rsplit("/", 1)[-1].removesuffix(ENDING)


def _java() -> str:
    """Return the Java to run: of JAVA_HOME, or else of the path."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=Path(home) / "bin" if home else None)
    if java is None:
        where = f"in JAVA_HOME, {home}" if home else "on the path"
        raise FileError(
            f"Stanford NER needs Java, and there is none {where}: e.g. apt-get install default-jre-headless"
        )
    return java


def _import_py4j() -> Any:
    """Return the module of Py4J, and keep it from logging errors that this module raises again in plain words."""
    try:
        from py4j import java_gateway
    except ImportError as error:
        raise MissingExtraError("Stanford NER needs Py4J: pip install 'raregram[stanford]'") from error
    for logger in (logging.getLogger(), java_gateway.logger):  # it uses both
        logger.addFilter(_is_not_of_py4j)
    return java_gateway


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return record.module != "java_gateway"
