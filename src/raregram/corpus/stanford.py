"""Named entities by Stanford NER (Finkel et al. 2005), the tagger of the paper. It needs Java.

Stanford NER is under the GPL: it is never shipped with raregram, only run as a program that the user has.
"""

from __future__ import annotations

import io
import os
import re
import secrets
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from raregram.corpus.fetch import DAMAGE, STANFORD_CLASSIFIER, fetched_stanford
from raregram.errors import FileError, ParameterError, RaregramError, name_some, reraise, shorten

HOME = "CORENLP_HOME"  # the environment variable that other tools use, too
MANIFEST = "META-INF/MANIFEST.MF"
PROGRAM = "edu.stanford.nlp.ie.crf.CRFClassifier"
ENDING = ".crf.ser.gz"
DEFAULT_CLASSIFIER = Path(STANFORD_CLASSIFIER).name.removesuffix(ENDING)
LONGEST_ITEM = 500  # characters; no name is so long, and its tokenizer takes quadratic time without white space
JAVA_OPTIONS = ["-XX:+ExitOnOutOfMemoryError", "-XX:+DisplayVMOutputToStderr"]
OUT_OF_MEMORY = 3  # Java's exit code with ExitOnOutOfMemoryError


class StanfordTagger:
    """Stanford NER's own command, started once for all texts of a call; these do not influence each other."""

    labels: frozenset[str] = frozenset()  # only the program itself can read its classifiers

    def __init__(self, classifier: str | None = None, threads: int = 1, path: str | None = None) -> None:
        name = classifier or DEFAULT_CLASSIFIER
        self._jars, self._classifier, version = find_program(path, name)
        self._java, self._threads = _java(), threads
        self.facts = {"pipeline": f"Stanford NER {_short(name)}", "version": version}

    def find(self, texts: Sequence[str]) -> Iterator[list[tuple[int, int, str]]]:
        """Yield the entities of each text as (first character, after the last one, label)."""
        masked = [re.sub(rf"\S{{{LONGEST_ITEM},}}", lambda long: "x" * len(long[0]), text) for text in texts]
        # Texts that have no word leave no trace in the output, so a mark after each says where its output ends.
        mark = secrets.token_hex(16) + "\n"
        with tempfile.TemporaryDirectory(prefix="raregram-") as folder:
            for name, text in [*enumerate(masked), ("mark", mark)]:
                Path(folder, str(name)).write_text(text, encoding="utf-8", newline="")
            names = ",".join(f"{number},mark" for number in range(len(masked)))
            Path(folder, "settings").write_text(f"textFiles={names}\n", encoding="utf-8")
            for text, tagged in zip(masked, self._run(Path(folder), mark), strict=True):
                yield read_entities(tagged, text)

    def _run(self, folder: Path, mark: str) -> Iterator[str]:
        """Run the command on the files in a folder, and yield what it writes for each."""
        command = [self._java, *JAVA_OPTIONS, "-classpath", os.pathsep.join(map(str, self._jars)), PROGRAM]
        command += ["-loadClassifier", self._classifier, "-multiThreadClassifier", str(self._threads)]
        command += ["-prop", "settings", "-outputFormat", "inlineXML"]
        command += ["-inputEncoding", "utf-8", "-outputEncoding", "utf-8"]
        with (
            (folder / "log").open("wb") as log,
            subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log
            ) as java,
        ):
            assert java.stdout is not None
            lines: list[str] = []
            try:
                with io.TextIOWrapper(java.stdout, encoding="utf-8", newline="\n") as output:
                    for line in output:
                        lines.append(line)
                        if line.endswith(mark):
                            yield "".join(lines).removesuffix(mark)
                            lines = []
            except BaseException:
                java.kill()
                raise
        if java.returncode:
            raise _failure(java.returncode, (folder / "log").read_text(errors="replace"))


def read_entities(tagged: str, text: str) -> list[tuple[int, int, str]]:
    """Return the entities of a text that Stanford NER put elements around.

    Such output is not XML: nothing is escaped, and elements that the text has itself stay in it. So it is read along
    with the text, which `parse_xml` of the formats has not. White space may be of another kind than it was.

    >>> read_entities("<b>in</b> <LOCATION>Rome</LOCATION> &amp; so", "<b>in</b> Rome &amp; so")
    [(10, 14, 'LOCATION')]
    """
    tagged, text = (re.sub(r"\s", " ", each) for each in (tagged, text))
    entities, at, start = [], 0, 0
    for part in re.split(r"(</?[^ <>/]+>)", tagged):
        if text.startswith(part, at):  # also an element that the text itself has
            at += len(part)
        elif not part.startswith("<"):
            raise RaregramError(f"Stanford NER changed a text: expected {shorten(text[at:])}, got {shorten(part)}")
        elif part.startswith("</"):
            entities.append((start, at, part[2:-1]))
        else:
            start = at
    return entities


def _failure(code: int, log: str) -> RaregramError:
    """Return the error that says why Java ended."""
    if code == OUT_OF_MEMORY:
        return RaregramError("Java has too little memory for Stanford NER: e.g. JAVA_TOOL_OPTIONS=-Xmx2g gives more")
    if "UnsupportedClassVersionError" in log:
        return FileError("this Java is too old for Stanford NER: install a newer one")
    lines = [line for line in map(str.strip, log.splitlines()) if line and not line.startswith("Picked up")]
    reason = next((line for line in lines if re.search("Exception|Error", line)), "".join(lines[-1:]))
    return FileError(f"Stanford NER ended with exit code {code}. Java said: {reason or 'nothing'}")


def find_program(path: str | None, classifier: str) -> tuple[list[Path], str, str]:
    """Find Stanford NER where `path` or CORENLP_HOME says, a folder or jars, or else in the cache.

    Returns the jars, that of the program first; the classifier as a file or a name in the jars; and the version.
    """
    given = path or os.environ.get(HOME)
    files = _files(given)
    contents, manifests = {}, {}
    for file in files:
        if file.suffix == ".jar":
            damaged = "{path} is not a jar, or it is damaged: {reason}"
            with reraise(file, says=damaged, errors=DAMAGE), zipfile.ZipFile(file) as jar:
                contents[file] = jar.namelist()
                manifests[file] = jar.read(MANIFEST).decode(errors="replace") if MANIFEST in contents[file] else ""
    class_file = f"{PROGRAM.replace('.', '/')}.class"
    jars = sorted(contents, key=lambda jar: class_file not in contents[jar])
    if not jars or class_file not in contents[jars[0]]:
        raise FileError(f"{given} has no jar with Stanford NER ({PROGRAM})")
    names = [*map(str, files), *(name for names in contents.values() for name in names)]
    known = {_short(name): name for name in names if name.endswith(ENDING)}
    if Path(classifier).is_file():
        known[classifier] = str(Path(classifier).absolute())
    if classifier not in known:
        raise ParameterError(
            f"there is no Stanford classifier {classifier}; there is {name_some(sorted(known)) or 'none'}"
        )
    version = re.search(r"^Implementation-Version: *(\S+)", manifests[jars[0]], re.MULTILINE)
    return jars, known[classifier], version[1] if version else ""


def _files(given: str | None) -> list[Path]:
    """Return the files in a folder, or those that are named, or those in the cache."""
    if given is None:
        if fetched := fetched_stanford():
            return list(fetched.files)
        raise FileError(
            "Stanford NER is not installed: raregram fetch stanford-ner brings it, and --stanford or the environment "
            f"variable {HOME} names a folder or jars that have it"
        )
    files = []
    for each in given.split(os.pathsep):
        path = Path(each).expanduser().absolute()
        if not path.exists():
            raise FileError(f"{path} does not exist")
        files += sorted(path.rglob("*")) if path.is_dir() else [path]
    return files


def _short(classifier: str) -> str:
    return re.split(r"[/\\]", classifier)[-1].removesuffix(ENDING)


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
