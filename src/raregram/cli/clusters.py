"""A Spark cluster for a command: its session, its log and its progress."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from raregram.errors import ClusterError, ParameterError

if TYPE_CHECKING:
    from raregram.spark.session import Cluster


@contextmanager
def spark_cluster(master: str | None, settings: list[str] | None, quiet: bool) -> Iterator[Cluster]:
    """Open a session, and stop it in the end; what Spark has to say goes to a file, which an error names."""
    from raregram.show.progress import progress
    from raregram.spark.session import Cluster, connect

    given = dict(setting.partition("=")[::2] for setting in settings or [])
    for name, value in given.items():
        if not name.startswith("spark.") or not value:
            raise ParameterError(f"--spark takes spark.NAME=VALUE, got {name + '=' + value!r}")
    handle, log = tempfile.mkstemp(prefix="raregram-spark-", suffix=".log")
    try:
        with _standard_error_to(handle):
            session = connect(master, given)
        try:
            with progress("tasks done", quiet) as tick:
                yield Cluster(session, tick)
        finally:
            with _standard_error_to(handle):
                session.stop()
    except ClusterError as error:
        raise ClusterError(f"{error}. Spark's own log is {log}") from error
    except BaseException:
        Path(log).unlink()
        raise
    else:
        Path(log).unlink()
    finally:
        os.close(handle)


@contextmanager
def _standard_error_to(handle: int) -> Iterator[None]:
    """Let processes that are started now write their standard error to a file."""
    sys.stderr.flush()
    before = os.dup(2)
    os.dup2(handle, 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(before, 2)
        os.close(before)
