"""What the footer of a Parquet file says of its columns, read without Arrow.

Arrow reads footers too, but of some that were damaged it does not tell more about a column than to end the process.
The footer is in Thrift's compact protocol, of which this is all that is needed: whole numbers have seven bits a byte,
a field is known by its number.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from operator import index
from typing import Any, BinaryIO

from raregram.errors import FileError

END = 8  # bytes: the size of the footer, and a mark
LARGEST_FOOTER = 1 << 26  # bytes
LARGEST_PLACE = 1 << 62  # in a file
PAGE_HEADER = 32  # bytes, more than the first two fields of a page's header take
STOP, TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 11, 12
BITS = 64  # of a number, at most
WHOLE = (4, 5, 6)  # of 16, 32 and 64 bits


@dataclass(frozen=True)
class Chunk:
    """A column of a row group."""

    values: int
    dictionary: int | None  # where its dictionary page begins


@dataclass(frozen=True)
class RowGroup:
    """Some rows of a file."""

    rows: int
    size: int  # bytes, unpacked
    chunks: tuple[Chunk, ...]


def read_footer(file: BinaryIO, path: str) -> list[RowGroup]:
    """Return the row groups of a Parquet file."""
    try:
        file.seek(-END, 2)
        (size,) = struct.unpack("<I4x", file.read(END))
        if size > LARGEST_FOOTER:
            raise FileError(f"{path}: its footer has more than {LARGEST_FOOTER >> 20} MiB")
        file.seek(-END - size, 2)
        return [_row_group(group) for group in Compact(file.read(size)).struct()[4]]
    except FileError:
        raise
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, struct.error) as error:
        raise FileError(f"{path}: its footer is damaged") from error


def _row_group(fields: dict[int, Any]) -> RowGroup:
    """Pick what is needed; `index` raises for what is no whole number."""
    chunks = (column[3] for column in fields[1])
    found = tuple(Chunk(index(chunk[5]), index(chunk[11]) if 11 in chunk else None) for chunk in chunks)
    return RowGroup(index(fields[3]), index(fields[2]), found)


def dictionary_sizes(groups: list[RowGroup], file: BinaryIO) -> Iterator[int]:
    """Yield how many bytes each dictionary page has when it is unpacked, which its header says second."""
    for chunk in (chunk for group in groups for chunk in group.chunks):
        if chunk.dictionary is not None and 0 < chunk.dictionary < LARGEST_PLACE:
            file.seek(chunk.dictionary)
            header = Compact(file.read(PAGE_HEADER))
            yield header.first_fields(2)[-1]


class Compact:
    """A reader of Thrift's compact protocol."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def struct(self) -> dict[int, Any]:
        """Read fields up to the end of a structure, by their numbers."""
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._whole()
            fields[number] = self._value(head & 15)
        return fields

    def first_fields(self, count: int) -> list[int]:
        """Read the first fields of a structure, which are whole numbers; 0 for what is not there.

        >>> Compact(bytes([0x15, 0x04, 0x15, 0x80, 0x10])).first_fields(2)
        [2, 1024]
        """
        found = [0] * count
        try:
            for place in range(count):
                self._byte()
                found[place] = self._whole()
        except (IndexError, ValueError):
            pass  # Arrow will find that there is no page
        return found

    def _byte(self) -> int:
        self.place += 1
        return self.data[self.place - 1]

    def _number(self) -> int:
        """Read a number of seven bits a byte, the lowest first."""
        number = 0
        for shift in range(0, BITS, 7):
            byte = self._byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise ValueError(f"a number has more than {BITS} bits")

    def _whole(self) -> int:
        """Read a number whose last bit is its sign."""
        number = self._number()
        return number >> 1 ^ -(number & 1)

    def _value(self, kind: int) -> Any:
        if kind in (TRUE, FALSE):
            return kind == TRUE
        if kind in WHOLE:
            return self._whole()
        if kind in (BYTE, DOUBLE, BINARY):
            return self._bytes({BYTE: 1, DOUBLE: 8}.get(kind) or self._number())
        if kind in (LIST, SET):
            head = self._byte()
            return self._values(head & 15, head >> 4 if head >> 4 < 15 else self._number())
        if kind == STRUCT:
            return self.struct()
        raise ValueError(f"there is no type {kind} in a footer")

    def _bytes(self, size: int) -> bytes:
        self.place += size
        if self.place > len(self.data):
            raise ValueError("the footer breaks off")
        return self.data[self.place - size : self.place]

    def _values(self, kind: int, size: int) -> list[Any]:
        """Read what a list holds; a truth value, which is part of a field's head, takes a byte here."""
        return [self._byte() if kind in (TRUE, FALSE) else self._value(kind) for _ in range(size)]
