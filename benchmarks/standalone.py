"""A Spark cluster of one's own: a master and workers, processes on the loopback address."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType

LOOPBACK = "127.0.0.1"
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"


def java_version() -> int:
    """Return the major version of Java, 0 if there is none."""
    java = shutil.which("java", path=f"{os.environ.get('JAVA_HOME', '')}/bin:{os.environ['PATH']}")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr if java else ""
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else 0


class Standalone:
    """A Spark master and some workers; stopped at the end of a `with` block.

    Each worker runs one task at a time. With `pinned`, it keeps to one core with all the processes that it starts.
    """

    def __init__(self, folder: Path, workers: int = 2, memory: str = "1g", pinned: bool = False) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        address = ["--host", LOOPBACK, "--port", "0", "--webui-port", "0"]
        self._start("master", MASTER, *address)
        self.url = self._wait("master", r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            resources = ["-c", "1", "-m", memory, "-d", str(folder / f"work-{number}")]
            self._start(f"worker-{number}", WORKER, *resources, *address, self.url)
            if pinned:  # before it starts anything
                os.sched_setaffinity(self.processes[-1].pid, {sorted(os.sched_getaffinity(0))[number]})
        for number in range(workers):
            self._wait(f"worker-{number}", r"(Successfully registered)")

    def __enter__(self) -> Standalone:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Stop all processes."""
        for process in reversed(self.processes):
            os.killpg(process.pid, signal.SIGTERM)
        for process in self.processes:
            process.wait(30)

    def _start(self, name: str, *command: str) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": LOOPBACK}
        start = [str(home / "bin" / "spark-class"), *command]
        with (self.folder / f"{name}.log").open("w") as log:
            process = subprocess.Popen(start, stdout=log, stderr=log, env=environment, start_new_session=True)
        self.processes.append(process)

    def _wait(self, name: str, pattern: str, seconds: float = 90) -> str:
        log, end = self.folder / f"{name}.log", time.monotonic() + seconds
        while time.monotonic() < end:
            if found := re.search(pattern, log.read_text(errors="replace")):
                return found[1]
            time.sleep(0.1)
        raise TimeoutError(f"{name} did not start: {log.read_text(errors='replace')[-2000:]}")

    def executors(self) -> list[int]:
        """Return the process ids of the executors that the workers have started."""
        workers = {process.pid for process in self.processes}
        found = []
        for status in Path("/proc").glob("[0-9]*/stat"):
            try:
                command = (status.parent / "cmdline").read_text()
                parent = int(status.read_text().rsplit(")", 1)[1].split()[1])
            except OSError:  # it has ended in the meantime
                continue
            if "CoarseGrainedExecutorBackend" in command and parent in workers:
                found.append(int(status.parent.name))
        return found
