"""Tables of a split as Arrow stream files, which ``datasets.Dataset.from_file`` reads too, and their memory mapping."""

import mmap
import resource
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Self

import pyarrow as pa


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table as one record batch, the same bytes for the same table."""
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table.combine_chunks())


class MappedTable:
    """Memory-mapped tables, end to end.

    Pages that have been read stay in the resident memory of the process until :meth:`release`.
    """

    def __init__(self, files: Iterable[BinaryIO]) -> None:
        self._maps = []
        tables = []
        most, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
        if most < allowed:  # each mapped file holds a descriptor
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, allowed))
        for file in files:
            self._maps.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            tables.append(pa.ipc.open_stream(pa.py_buffer(self._maps[-1])).read_all())
        self.table: pa.Table = pa.concat_tables(tables)

    @classmethod
    def of_paths(cls, paths: Iterable[Path]) -> Self:
        """Map files by their names."""

        def opened() -> Iterator[BinaryIO]:
            for path in paths:
                with path.open("rb") as file:
                    yield file

        return cls(opened())

    def release(self) -> None:
        """Drop the mapped pages from the resident memory; the next access maps them again, from the page cache."""
        for mapped in self._maps:
            mapped.madvise(mmap.MADV_DONTNEED)
