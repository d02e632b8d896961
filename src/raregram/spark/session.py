"""What raregram needs of Spark: a session, work for its executors, files, and errors that say what to do.

The one place that imports pyspark. Extra `spark`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa

from raregram import errors
from raregram.errors import ClusterError, FileError, MissingExtraError, RaregramError

Frame: TypeAlias = Any  # a DataFrame
Work: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]  # done by an executor
Tick: TypeAlias = Callable[[int], None]

T = TypeVar("T")

MARK = "raregram-error:"  # before an error of ours in what Spark says of a failed job
EXECUTOR_TIMEOUT = "120"  # seconds until an executor must be there
TIMEOUT_KEY = "spark.raregram.executorTimeout"
POLL = 0.2  # seconds between two looks at a running job

# While a job of ours is planned: labels may differ in their case alone, large inputs make large tasks, since what is
# shuffled falls with the size of a task, and small files are put together.
PLANNING = {
    "spark.sql.caseSensitive": "true",
    "spark.sql.files.maxPartitionBytes": "512m",
    "spark.sql.files.openCostInBytes": "64k",
}

MORE_MEMORY = (
    "give them more (spark.executor.memory, spark.executor.memoryOverhead), fewer cores or a lower memory limit"
)

# What Spark says, and what it means to a user.
REASONS = {
    r"No module named '?(\w+)": "the Python of the executors lacks {0}: install 'raregram[spark]' there, or name "
    "another Python with spark.pyspark.python",
    r"Path does not exist: (?:file:)?(\S+?)\.?(?:\s|$)": "{0} does not exist",
    r"(OutOfMemoryError|Container killed|MemoryError|exit code 137|exitStatus: 52|SparkOutOfMemory)": "executors ran "
    "out of memory ({0}): " + MORE_MEMORY,
    r"(ExecutorLostFailure|Remote RPC client disassociated|Python worker exited unexpectedly)": "executors were lost "
    "again and again ({0}), most often for lack of memory: " + MORE_MEMORY,
    r"(All masters are unresponsive|Could not parse Master URL)": "there is no Spark cluster at this master ({0})",
}


def import_pyspark() -> Any:
    """Return the module `pyspark`, or say how to install it."""
    try:
        import pyspark.sql
    except ImportError as error:
        raise MissingExtraError("this needs Spark: pip install 'raregram[spark]', and Java 17 or newer") from error
    return pyspark


class TaskReports:
    """What tasks report to the driver, by key; a task that runs again reports the same, which changes nothing."""

    def __init__(self, context: Any) -> None:
        from pyspark.accumulators import AccumulatorParam

        class Update(AccumulatorParam[dict[Any, Any]]):
            def zero(self, value: dict[Any, Any]) -> dict[Any, Any]:
                return {}

            def addInPlace(self, value1: dict[Any, Any], value2: dict[Any, Any]) -> dict[Any, Any]:  # noqa: N802
                value1.update(value2)
                return value1

        self.accumulator = context.accumulator({}, Update())

    def add_of_task(self, key: Any, value: Any) -> None:
        """Report a value; called by a task, which has one for each key."""
        self.accumulator.add({(key, partition_number()): value})

    @property
    def values(self) -> list[Any]:
        """What all tasks reported; read by the driver when their job is done."""
        return list(self.accumulator.value.values())


class Cluster:
    """A Spark session and what is done with it."""

    def __init__(self, session: Any, progress: Tick = lambda tasks: None) -> None:
        self.session, self.progress = session, progress
        if not hasattr(session, "_jsc"):
            raise ClusterError(
                "a session of Spark Connect cannot do this: use a session of its own, not a remote one"
            )
        self.context = session.sparkContext

    def broadcast(self, value: T) -> Callable[[], T]:
        """Send something to every executor once, and return what gives it there."""
        sent = self.context.broadcast(value)
        return lambda: sent.value

    def map(self, frame: Frame, work: Work, columns: Mapping[str, str], like: Frame | None = None) -> Frame:
        """Let executors turn the rows of each partition into others.

        Args:
            frame: the rows.
            work: gets the record batches of a partition and yields others.
            columns: their names and Spark's names of their types, in order.
            like: a frame whose columns come first, if they are kept.
        """
        from pyspark.sql.types import StructType

        new = ", ".join(f"{quote(name)} {kind}" for name, kind in columns.items())
        schema: Any = StructType.fromDDL(new)
        if like is not None:
            kept = [field for field in like.schema.fields if field.name not in columns]
            schema = StructType([*kept, *schema.fields])
        with _quiet():
            return frame.mapInArrow(_with_marked_errors(work), schema)

    def fixed(self, frame: Frame) -> Frame:
        """Return the rows of files as they are cut into partitions now, whatever the session's settings are later."""
        rows, schema = frame._jdf.toJavaRDD(), frame._jdf.schema()
        return type(frame)(self.session._jsparkSession.createDataFrame(rows, schema), self.session)

    @contextmanager
    def planning(self, more: Mapping[str, str] | None = None) -> Iterator[None]:
        """Set what our jobs need while they are planned and run, and set it back."""
        conf, given = self.session.conf, self.context.getConf()
        wanted = {name: value for name, value in PLANNING.items() if not given.contains(name)} | dict(more or {})
        before = {name: conf.get(name, None) for name in wanted}
        for name, value in wanted.items():
            conf.set(name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                conf.unset(name) if value is None else conf.set(name, value)

    def run(self, action: Callable[[], Any]) -> Any:
        """Run a Spark job, report its progress, and turn what Spark says of a failure into an error of ours."""
        group, over, timed_out = f"raregram-{uuid.uuid4()}", threading.Event(), threading.Event()
        self.context.setJobGroup(group, "raregram", interruptOnCancel=True)
        watch = threading.Thread(target=self._watch, args=(group, over, timed_out), daemon=True)
        watch.start()
        with errors_explained():
            try:
                with _quiet():
                    return action()
            except BaseException:
                self.context.cancelJobGroup(group)
                if timed_out.is_set():
                    raise self._no_executor() from None
                raise
            finally:
                over.set()
                watch.join()

    def _watch(self, group: str, over: threading.Event, timed_out: threading.Event) -> None:
        """Report the progress of jobs until they are over, and cancel them if they get no executor."""
        tracker, waited, done = self.context.statusTracker(), 0.0, 0
        while not over.wait(POLL):
            with suppress(Exception):  # the session may be going down
                stages = {
                    stage for job in tracker.getJobIdsForGroup(group) for stage in tracker.getJobInfo(job).stageIds
                }
                found = sum(info.numCompletedTasks for info in map(tracker.getStageInfo, stages) if info is not None)
                if found > done:
                    self.progress(found - done)
                    done = found
                waited = 0.0 if self._has_executor() else waited + POLL
                if waited > float(self._setting(TIMEOUT_KEY, EXECUTOR_TIMEOUT)):
                    timed_out.set()
                    self.context.cancelJobGroup(group)

    def _has_executor(self) -> bool:
        # The driver is among them.
        executors = self.context._jsc.sc().statusTracker().getExecutorInfos()
        return self.context.master.startswith("local") or len(executors) > 1

    def _setting(self, name: str, default: str) -> str:
        return str(self.context.getConf().get(name, default))

    def _no_executor(self) -> ClusterError:
        seconds, memory = self._setting(TIMEOUT_KEY, EXECUTOR_TIMEOUT), self._setting("spark.executor.memory", "1g")
        return ClusterError(
            f"no executor has started at {self.context.master} within {seconds} seconds: its workers have less than "
            f"{memory} of memory or no core free. Ask for less (spark.executor.memory, spark.executor.cores), or "
            f"wait longer ({TIMEOUT_KEY})"
        )

    def path(self, name: str) -> tuple[Any, Any]:
        """Return Hadoop's file system and path of a name."""
        path = self.session._jvm.org.apache.hadoop.fs.Path(name)
        return path.getFileSystem(self.context._jsc.hadoopConfiguration()), path

    def read_bytes(self, name: str) -> bytes:
        """Read a small file."""
        with errors_explained():
            files, path = self.path(name)
            if not files.exists(path):
                raise FileError(f"{name} does not exist")
            stream = files.open(path)
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

    def write_bytes(self, name: str, content: bytes) -> None:
        """Write a small file."""
        files, path = self.path(name)
        stream = files.create(path, True)
        stream.write(bytearray(content))
        stream.close()

    @contextmanager
    def temporary_folder(self, final: str) -> Iterator[str]:
        """Give a temporary folder to write to; move it to `final` at the end, or remove it if the work failed."""
        with errors_explained():
            files, path = self.path(final)
            _, finished = self.path(f"{final.rstrip('/')}/_SUCCESS")
            if files.exists(path) and not files.exists(finished):
                raise FileError(f"cannot write {final}: it exists and is not a folder that Spark has finished")
            name = f".{path.getName()}.{uuid.uuid4().hex[:16]}.draft"  # other machines have the same process numbers
            parent = path.getParent()
            _, temporary = self.path(f"{parent.toString()}/{name}" if parent is not None else name)
            try:
                yield temporary.toString()
                files.delete(path, True)
                if not files.rename(temporary, path):
                    raise FileError(f"cannot write {final}: {temporary.toString()} could not be renamed")
            finally:
                with suppress(Exception):  # the session may be gone
                    files.delete(temporary, True)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence pyspark's words on the newest pandas, which we do not use."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


def quote(name: str) -> str:
    """Return a column's name as Spark's SQL wants it."""
    return "`" + name.replace("`", "``") + "`"


def partition_number() -> int:
    """Return the number of the partition that this task works on."""
    from pyspark import TaskContext

    context: Any = TaskContext.get()
    return int(context.partitionId())


def _with_marked_errors(work: Work) -> Work:
    """Let an error that we raise in a task reach the driver word by word."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)  # an executor runs as many tasks as it has cores
        try:
            yield from work(batches)
        except RaregramError as error:
            raise RuntimeError(f"{MARK}{json.dumps([type(error).__name__, str(error)])}") from None

    return run


@contextmanager
def errors_explained() -> Iterator[None]:
    """Turn what Spark raises into an error of ours that says what to do."""
    try:
        yield
    except RaregramError:
        raise
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark", "py4j")):
            raise
        raise _explained(f"{error}") from error


def _explained(said: str) -> RaregramError:
    """Return our error for what Spark said."""
    if MARK in said:
        name, message = json.JSONDecoder().raw_decode(said.partition(MARK)[2])[0]
        return getattr(errors, name)(message)  # type: ignore[no-any-return]
    for pattern, reason in REASONS.items():
        if match := re.search(pattern, said):
            kind = FileError if reason.endswith("does not exist") else ClusterError
            return kind(reason.format(match[1]))
    # The line that says most: the end of a traceback in a task, or else the first.
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Interrupt)\b", line)]
    plain = [line for line in lines if not line.startswith("An error occurred while calling")]
    return ClusterError(f"Spark failed: {next(iter([*raised[-1:], *plain, 'no reason is given']))}")


def connect(master: str | None = None, settings: Mapping[str, str] | None = None) -> Any:
    """Return the session that is active, or a new one.

    Args:
        master: the cluster's URL; None: the one that Spark is configured for, else all cores of this machine.
        settings: Spark's own, such as spark.executor.memory.
    """
    pyspark = import_pyspark()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = pyspark.sql.SparkSession.builder.appName("raregram")
    builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    if master is not None:
        builder = builder.master(master)
    for name, value in (settings or {}).items():
        builder = builder.config(name, value)
    try:
        with errors_explained(), _quiet():
            return builder.getOrCreate()
    except ClusterError as error:
        if "JAVA_GATEWAY_EXITED" not in str(error.__cause__):
            raise
        if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
            raise MissingExtraError(
                "Spark needs Java 17 or newer, such as Debian's openjdk-17-jre-headless"
            ) from error
        raise ClusterError(f"Spark did not start: is Java 17 or newer, and is {master!r} a master's URL?") from error
