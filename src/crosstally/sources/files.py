"""Files as Arrow record batches: CSV, Parquet, Arrow IPC and Feather. Nothing here words an error about content."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from crosstally.errors import SourceError

__all__ = ["open_file"]

Read = Callable[[Sequence[str]], Iterator[pa.RecordBatch]]
_BLOCK_BYTES = 4 << 20
_READ_ROWS = 65_536


def open_file(path: Path) -> tuple[list[str], Read]:
    """The names of a file's columns, and a function that reads some of them."""
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


def _read_csv(path: Path, chosen: Sequence[str]) -> Iterator[pa.RecordBatch]:
    from pyarrow import csv as arrow_csv

    # Every field stays the text it is: types guessed from a block would make 01 and 1 the same.
    convert = arrow_csv.ConvertOptions(include_columns=chosen, column_types=dict.fromkeys(chosen, pa.string()))
    with pa.input_stream(str(path), compression="detect") as stream:
        yield from arrow_csv.open_csv(
            stream,
            read_options=arrow_csv.ReadOptions(block_size=_BLOCK_BYTES),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
            convert_options=convert,
        )


def _open_parquet(path: Path) -> tuple[list[str], Read]:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        schema = file.schema_arrow
    texts = [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)]

    def read(chosen: Sequence[str]) -> Iterator[pa.RecordBatch]:
        # Texts that repeat are stored once in the file: reading them so is several times faster.
        repeated = [name for name in texts if name in chosen]
        with parquet.ParquetFile(path, read_dictionary=repeated) as file:
            for batch in file.iter_batches(_READ_ROWS, columns=list(chosen)):
                yield batch.select(chosen)

    return schema.names, read


def _open_ipc(path: Path) -> tuple[list[str], Read]:
    with pa.OSFile(str(path)) as file:
        is_file = file.read(6) == b"ARROW1"
    with pa.OSFile(str(path)) as file:
        reader = pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)
        names = reader.schema.names
    read = _read_ipc_file if is_file else _read_ipc_stream
    return names, lambda chosen: read(path, names, chosen)


def _read_ipc_file(path: Path, names: Sequence[str], chosen: Sequence[str]) -> Iterator[pa.RecordBatch]:
    options = pa.ipc.IpcReadOptions(included_fields=[names.index(name) for name in chosen])
    with pa.OSFile(str(path)) as file:
        reader = pa.ipc.open_file(file, options=options)
        for i in range(reader.num_record_batches):
            yield _validated(reader.get_batch(i)).select(chosen)


def _read_ipc_stream(path: Path, names: Sequence[str], chosen: Sequence[str]) -> Iterator[pa.RecordBatch]:
    options = pa.ipc.IpcReadOptions(included_fields=[names.index(name) for name in chosen])
    with pa.OSFile(str(path)) as file:
        for batch in pa.ipc.open_stream(file, options=options):
            yield _validated(batch).select(chosen)


def _validated(batch: pa.RecordBatch) -> pa.RecordBatch:
    batch.validate(full=True)  # lengths and indices come from the file, and a wrong one would read foreign memory
    return batch
