"""Files as Arrow record batches: CSV, Parquet, Arrow IPC and Feather. Nothing here words an error about content."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa

from crosstally.errors import SourceError

__all__ = ["open_file"]

Read = Callable[[Sequence[str]], Iterator[tuple[pa.RecordBatch, int]]]
"""Reads the columns named: each batch, and how many bytes of the file were read by then."""
_BLOCK_BYTES = 4 << 20
_READ_ROWS = 65_536


def open_file(path: Path) -> tuple[list[str], Read]:
    """The names of a file's columns, and a function that reads some of them.

    The names may be a person's: a CSV file without a header has a row in their place.
    """
    openers = {
        ".csv": _open_csv,
        ".csv.gz": _open_csv,
        ".parquet": _open_parquet,
        ".pq": _open_parquet,
        ".arrow": _open_ipc,
        ".arrows": _open_ipc,
        ".feather": _open_ipc,
        ".ipc": _open_ipc,
    }
    name = path.name.lower()
    opener = next((openers[end] for end in openers if name.endswith(end)), None)
    if path.is_dir():
        raise SourceError(f"{str(path)!r} is a directory; name its files, for example {str(path / '*.parquet')!r}")
    if path.exists() and not path.is_file():  # its format is looked at first, and then its rows are read
        raise SourceError(f"{str(path)!r} is a pipe or a device, which can be read once; save it as a file first")
    if opener is None:
        raise SourceError(f"{str(path)!r} must end in one of {', '.join(openers)}")
    return opener(path)


def _open_csv(path: Path) -> tuple[list[str], Read]:
    with pa.input_stream(str(path), compression="detect") as stream:
        lines = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline="")
        names = next(filter(None, csv.reader(lines)), None)
        has_rows = any(line.strip("\r\n") for line in lines)
    if names is None:
        raise SourceError(f"cannot read {str(path)!r}: it is empty, without even a header")
    return names, lambda chosen: _read_csv(path, chosen) if has_rows else iter(())


def _read_csv(path: Path, chosen: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, int]]:
    from pyarrow import csv as arrow_csv

    # Every field stays the text it is: types guessed from a block would make 01 and 1 the same.
    convert = arrow_csv.ConvertOptions(include_columns=chosen, column_types=dict.fromkeys(chosen, pa.string()))
    compression = "gzip" if path.name.lower().endswith(".gz") else None
    with pa.OSFile(str(path)) as file, pa.input_stream(file, compression=compression) as stream:
        for batch in arrow_csv.open_csv(
            stream,
            read_options=arrow_csv.ReadOptions(block_size=_BLOCK_BYTES),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
            convert_options=convert,
        ):
            yield batch, file.tell()


def _open_parquet(path: Path) -> tuple[list[str], Read]:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        schema, metadata = file.schema_arrow, file.metadata
    texts = [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)]

    def read(chosen: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, int]]:
        # Texts that repeat are stored once in the file: reading them so is several times faster.
        repeated = [name for name in texts if name in chosen]
        rows, ends = 0, _ends_of_groups(metadata)
        with parquet.ParquetFile(path, read_dictionary=repeated) as file:
            for batch in file.iter_batches(_READ_ROWS, columns=list(chosen)):
                rows += batch.num_rows
                yield batch.select(chosen), max((end for last, end in ends if last <= rows), default=0)

    return schema.names, read


def _ends_of_groups(metadata: Any) -> list[tuple[int, int]]:
    """Where each row group of a Parquet file ends: in rows, and in bytes.

    Bytes are told group by group. In proportion to the rows of a batch they would tell how many rows the file has.
    """
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    sizes = (sum(group.column(c).total_compressed_size for c in range(group.num_columns)) for group in groups)
    return list(zip(accumulate(group.num_rows for group in groups), accumulate(sizes), strict=True))


def _open_ipc(path: Path) -> tuple[list[str], Read]:
    with pa.OSFile(str(path)) as file:
        is_file = file.read(6) == b"ARROW1"
    with pa.OSFile(str(path)) as file:
        reader = pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)
        names = reader.schema.names
    read = _read_ipc_file if is_file else _read_ipc_stream
    return names, lambda chosen: read(path, names, chosen)


def _read_ipc_file(path: Path, names: Sequence[str], chosen: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, int]]:
    options = pa.ipc.IpcReadOptions(included_fields=[names.index(name) for name in chosen])
    with pa.OSFile(str(path)) as file:
        reader = pa.ipc.open_file(file, options=options)
        for i in range(reader.num_record_batches):
            yield _validated(reader.get_batch(i)).select(chosen), file.size() * (i + 1) // reader.num_record_batches


def _read_ipc_stream(path: Path, names: Sequence[str], chosen: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, int]]:
    options = pa.ipc.IpcReadOptions(included_fields=[names.index(name) for name in chosen])
    with pa.OSFile(str(path)) as file:
        for batch in pa.ipc.open_stream(file, options=options):
            yield _validated(batch).select(chosen), file.tell()


def _validated(batch: pa.RecordBatch) -> pa.RecordBatch:
    batch.validate(full=True)  # lengths and indices come from the file, and a wrong one would read foreign memory
    return batch
