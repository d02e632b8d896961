"""Search for inputs that a reader cannot bear, led by which lines of raregram they reach.

    pip install -r requirements/trust.txt      # atheris, which works on Linux from Python 3.11 on
    python -m reliability.guided [--seconds 150] [--only conll,csv] [--processes 2] [--out build/reliability]

The readers, files and judgement are those of `readers.py`, but the inputs come from libFuzzer: it keeps those that
reach lines in a new way, and changes them further. It does not look into Arrow, nor get behind a digest; that is left
to `readers.py`. All that was kept lies in OUT/guided, where the next run goes on; so an input that was judged wrong
is met again at once until the reader is mended. The exit code is 1 if there was any.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

MEMORY = 2048  # megabytes that the process may hold


def run_worker(name: str, corpus: Path, seconds: int) -> None:
    """Be the process that libFuzzer works in, and ends."""
    import atheris

    with (
        atheris.instrument_imports(include=["raregram"]),  # those inside functions, too
        tempfile.TemporaryDirectory(prefix="raregram-guided-") as folder,
    ):
        from reliability.readers import SECONDS, judge
        from reliability.subjects import make_subjects

        (subject,) = make_subjects([name])
        names = list(subject.files)
        for number, content in enumerate(subject.files.values()):
            (corpus / f"valid-{number}").write_bytes(bytes([number]) + content)

        def test(data: bytes) -> None:
            """Read an input, whose first byte says which of the names it has."""
            if data:
                path = Path(folder, names[data[0] % len(names)])
                path.write_bytes(data[1:])
                outcome = judge(subject, path, random.Random(data[0]))
                assert outcome in ("read", "error"), outcome

        longest = 4 * max(map(len, subject.files.values()))
        limits = [f"-max_total_time={seconds}", f"-timeout={SECONDS:.0f}", f"-rss_limit_mb={MEMORY}"]
        paths = [f"-artifact_prefix={corpus}/", str(corpus)]
        atheris.Setup([sys.argv[0], *limits, f"-max_len={longest}", *paths], test)
        atheris.Fuzz()


def search(name: str, seconds: int, out: Path) -> dict[str, Any]:
    """Let a process search, and return what it has found."""
    corpus = (out / "guided" / name).absolute()
    corpus.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "reliability.guided",
        "--worker",
        name,
        "--seconds",
        str(seconds),
        "--out",
        str(corpus),
    ]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    corpus.with_suffix(".log").write_text(done.stdout + done.stderr)
    inputs = [int(number) for number in re.findall(r"^#(\d+)", done.stderr, re.MULTILINE)]
    places = [int(number) for number in re.findall(r" cov: (\d+)", done.stderr)]
    found = {"inputs": max(inputs, default=0), "places": max(places, default=0), "fault": ""}
    if done.returncode:
        said = re.search(r"AssertionError: .*|libFuzzer: .*", done.stdout + done.stderr)
        found["fault"] = said[0] if said else f"exit code {done.returncode}: see {corpus.with_suffix('.log')}"
    return found


def main() -> None:
    """Search with every reader, or those that are named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=int, default=150, help="for each reader")
    parser.add_argument("--only", type=lambda text: text.split(","))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("build/reliability"))
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not find_spec("atheris"):
        sys.exit("guided.py needs atheris, on Linux with Python 3.11 or newer: pip install -r requirements/trust.txt")
    if arguments.worker:
        run_worker(arguments.worker, arguments.out, arguments.seconds)
    from reliability.subjects import make_subjects

    names = arguments.only or [subject.name for subject in make_subjects()]
    results = {}
    print(f"{'reader':20} {'inputs':>9} {'places reached':>15}  fault")
    with ThreadPoolExecutor(arguments.processes) as pool:
        searches = pool.map(partial(search, seconds=arguments.seconds, out=arguments.out), names)
        for name, found in zip(names, searches, strict=True):
            print(f"{name:20} {found['inputs']:9,} {found['places']:15,}  {found['fault']}", flush=True)
            results[name] = found
    print(f"{'all':20} {sum(found['inputs'] for found in results.values()):9,}")
    (arguments.out / "guided.json").write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(any(found["fault"] for found in results.values()))


if __name__ == "__main__":
    main()
