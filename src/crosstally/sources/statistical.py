"""Files of SPSS, SAS and Stata, with the labels of their codes; what they mark as missing is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from crosstally.checks import optional
from crosstally.errors import SourceError
from crosstally.schema import canonical_text
from crosstally.sources.python_values import column_of
from crosstally.sources.reading import Reading

__all__ = ["READERS", "open_statistical"]

READERS = {
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".por": "read_por",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
    ".dta": "read_dta",
}
_CHUNK_ROWS = 100_000  # rows of a batch: limits memory. More than elsewhere, for every batch opens the file anew


def open_statistical(
    path: Path, reading: Reading
) -> tuple[list[str], Callable[[Sequence[str]], Iterator[tuple[pa.RecordBatch, int]]]]:
    """The names of a file's columns, and a function that reads some of them."""
    path.stat()  # the system's own error, when it is not there
    package = optional("pyreadstat", extra="files")
    reader = getattr(package, READERS[path.suffix.lower()])
    options: dict[str, Any] = {"output_format": "dict"}
    if reading.encoding is not None:
        options["encoding"] = reading.encoding
    _, found = reader(str(path), metadataonly=True, **options)
    labels = found.variable_value_labels

    def read(chosen: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, int]]:
        start = 0
        while True:
            columns, _ = reader(str(path), usecols=list(chosen), row_offset=start, row_limit=_CHUNK_ROWS, **options)
            rows = len(next(iter(columns.values()), ()))
            if not rows:
                return
            start += rows
            arrays = [_column(columns[name], labels.get(name, {})) for name in chosen]
            yield pa.record_batch(arrays, names=list(chosen)), 0

    return list(found.column_names), read


def _column(values: Sequence[object], labels: Mapping[object, str]) -> pa.Array:
    """The values, a code that has a label as its label.

    What the file marks as missing comes as None, or as an empty text.
    """
    if not labels:
        return column_of(values)
    texts = {canonical_text(code): label for code, label in labels.items()}
    if None in texts:
        raise SourceError("a missing value has a label")
    return pa.array([texts.get(text, text) for text in map(canonical_text, values)], pa.large_string())
