"""Release files made to say something else, their checksum made to fit, as a forger would."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crosstally.errors import ReleaseError
from crosstally.releases import open_release


def forge(
    path: Path,
    change: Callable[[dict[str, Any]], object] | None = None,
    *,
    header: bytes | None = None,
    columns: Callable[[dict[str, Any]], object] | None = None,
    rehash: bool = True,
    codec: str = "zstd",
    options: dict[str, Any] | None = None,
    group_rows: int | None = None,
) -> Path:
    """The same file with another header or other columns, its checksum made to fit, as a forger would."""
    table = pq.read_table(path)
    metadata = pq.read_metadata(path).metadata
    text = metadata[b"crosstally"] if header is None else header
    if change is not None:
        fields = json.loads(text)
        change(fields)
        text = json.dumps(fields, ensure_ascii=False).encode()
    arrays: dict[str, Any] = {name: table[name].combine_chunks() for name in table.column_names}
    if columns is not None:
        columns(arrays)
    digest = hashlib.sha256(text)
    for name in ("measurement", "cell", "value", "estimate"):
        if name in arrays:
            digest.update(np.ascontiguousarray(arrays[name].to_numpy(zero_copy_only=False)).data)
    if "replicates" in arrays:
        digest.update(b"".join(arrays["replicates"].to_pylist()))
    own = digest.hexdigest().encode() if rehash else metadata[b"crosstally.sha256"]
    with pq.ParquetWriter(
        path, pa.table(arrays).schema, store_schema=False, compression=codec, **(options or {})
    ) as writer:
        writer.write_table(pa.table(arrays), row_group_size=group_rows)
        writer.add_key_value_metadata({b"crosstally": text, b"crosstally.sha256": own})
    return path


def set_in(*keys: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    """A change of one field, however deep."""

    def change(header: dict[str, Any]) -> None:
        inner: Any = header
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = to

    return change


def refused(path: Path, message: str) -> None:
    """Opening gives one clear line."""
    with pytest.raises(ReleaseError, match=message) as caught:
        open_release(path)
    text = str(caught.value)
    assert text.startswith(f"cannot read the release {str(path)!r}: ")
    assert "\n" not in text
    assert len(text) < 600
