"""A Spark session for a command."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from raregram.errors import ClusterError, ParameterError
from raregram.show.progress import Progress

if TYPE_CHECKING:
    from raregram.spark.session import Cluster


@contextmanager
def spark_cluster(master: str | None, settings: list[str] | None, quiet: bool = False) -> Iterator[Cluster]:
    """Open a Spark session and stop it at the end; Spark's own log goes to a file, which a `ClusterError` names."""
    import tempfile

    from raregram.spark.session import Cluster, connect

    given = dict(setting.partition("=")[::2] for setting in settings or [])
    for name, value in given.items():
        if not name.startswith("spark.") or not value:
            raise ParameterError(f"--spark takes spark.NAME=VALUE, got {name + '=' + value!r}")
    handle, log = tempfile.mkstemp(prefix="raregram-spark-", suffix=".log")
    keep_log = False
    try:
        with _standard_error_to(handle):
            session = connect(master, given)
        try:
            with Progress("finished {:,} tasks", quiet) as tick:
                yield Cluster(session, tick)
        finally:
            with _standard_error_to(handle):
                session.stop()
    except ClusterError as error:
        keep_log = True
        raise ClusterError(f"{error}. Spark's own log is {log}") from error
    finally:
        os.close(handle)
        if not keep_log:
            Path(log).unlink()


@contextmanager
def _standard_error_to(handle: int) -> Iterator[None]:
    """Redirect standard error, also of processes that are started now, to a file."""
    before = os.dup(2)
    os.dup2(handle, 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
