"""Folders of Parquet files, written by tasks themselves: Spark's own writer takes longer than counting or scoring."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from raregram.errors import ClusterError
from raregram.spark.session import Cluster, Frame, Work, partition_number

# A column whose values hardly repeat gives up its dictionary early, which is faster and makes smaller files.
PARQUET = {"compression": "zstd", "compression_level": 1, "dictionary_pagesize_limit": 1 << 16}


def write_parts(
    cluster: Cluster, frame: Frame, work: Work, columns: Mapping[str, str], like: Frame | None, folder: str
) -> list[str]:
    """Write the rows of `cluster.map` to a folder, and return the names of the files; none if there are no rows.

    Each task writes one file, under its final name only when it is whole. So a task that runs twice changes nothing.
    Where Arrow cannot write, Spark does.
    """
    if not writable(folder):
        rows = cluster.map(frame, work, columns, like)
        rows.write.option("compression", "zstd").parquet(folder)
        return [folder]
    files, path = cluster.path(folder)
    files.mkdirs(path)
    names = [row["file"] for row in cluster.map(frame, _writing(work, folder), {"file": "string"}).collect()]
    for name in names:
        if not files.exists(cluster.path(f"{folder}/{name}")[1]):
            raise ClusterError(
                f"a task wrote to {folder}, but not to the one of this machine: use storage that is shared"
            )
    cluster.write_bytes(f"{folder}/_SUCCESS", b"")
    return names


def writable(uri: str) -> bool:
    """Whether tasks can write files at an address themselves."""
    try:
        _file_system(uri)
    except (pa.ArrowException, OSError, ValueError):
        return False
    return True


def _file_system(uri: str) -> tuple[Any, str]:
    """Return Arrow's file system and path of an address as Hadoop writes it."""
    from pyarrow.fs import FileSystem

    return FileSystem.from_uri(re.sub("^file:/+", "file:///", uri))  # type: ignore[no-any-return]


def _writing(work: Work, folder: str) -> Work:
    """Return a function for tasks that writes what another yields, and yields the name of the file."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files, path = _file_system(folder)
        rows = work(batches)
        first = next(rows, None)
        if first is None:
            return
        name = f"part-{partition_number():05d}.parquet"
        temporary = f"{path}/.{name}.{uuid.uuid4().hex}"
        with (
            files.open_output_stream(temporary) as stream,
            pq.ParquetWriter(stream, first.schema, **PARQUET) as writer,
        ):
            for batch in chain([first], rows):
                writer.write_batch(batch)
        files.move(temporary, f"{path}/{name}")
        yield pa.record_batch([pa.array([name])], names=["file"])

    return write
