"""Release files that are not what they say are refused, and take no memory."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crosstally.errors import ReleaseError
from crosstally.questions.queries import Cells
from crosstally.releases import open_release, publish
from crosstally.releases.file import reader as release_file
from crosstally.releases.file.format import column_names
from crosstally.schema import Attribute, Schema
from forged_release import forge, set_in
from released import LAPLACE, local, local_with_variances, noisy, people, saved, statement, views

# Files that are not what they say


def refused(path: Path, message: str) -> None:
    """Opening gives one clear line."""
    with pytest.raises(ReleaseError, match=message) as caught:
        open_release(path)
    text = str(caught.value)
    assert text.startswith(f"cannot read the release {str(path)!r}: ")
    assert "\n" not in text
    assert len(text) < 600


def test_the_forger_of_these_tests_can_make_a_sound_file(tmp_path: Path) -> None:
    assert open_release(forge(saved(tmp_path), lambda header: None)).schema == people()


def test_files_that_are_not_releases(tmp_path: Path) -> None:
    refused(tmp_path / "absent", "No such file or directory")
    refused(tmp_path, "it is not a file")
    for content, message in [(b"", "not a Parquet"), (b"a,b\n1,2\n", "not a Parquet"), (b"PAR1", "cut short")]:
        (tmp_path / "other").write_bytes(content)
        refused(tmp_path / "other", message)
    pq.write_table(pa.table({"a": [1]}), tmp_path / "plain")
    refused(tmp_path / "plain", "it is a Parquet file, but not a crosstally release")
    with pytest.raises(ReleaseError, match="not the name of a file"):
        open_release("a\0b")


def test_a_file_cut_short_anywhere_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path)
    for length in reversed(range(path.stat().st_size)):
        os.truncate(path, length)
        with pytest.raises(ReleaseError, match="cut short|not a Parquet file"):
            open_release(path)


@pytest.mark.parametrize("flips", [300, pytest.param(5_000, marks=pytest.mark.verify)])
def test_a_file_with_any_bit_changed_is_refused_or_means_the_same(flips: int, tmp_path: Path) -> None:
    """Only bytes that carry no content of a release may change unnoticed: the columns for people, Parquet's own."""
    release = views()
    path = saved(tmp_path, release)
    data, rng = path.read_bytes(), np.random.default_rng(5)
    damaged = tmp_path / "damaged"
    for place, bit in zip(rng.integers(len(data), size=flips), rng.integers(8, size=flips), strict=True):
        changed = bytearray(data)
        changed[place] ^= 1 << int(bit)
        damaged.write_bytes(changed)
        try:
            again = open_release(damaged)
        except ReleaseError as error:
            assert "\n" not in str(error)  # noqa: PT017 (either outcome is right)
            continue
        for one, other in zip(release.measurements, again.measurements, strict=True):
            np.testing.assert_array_equal(one.values, other.values)
        assert again.statement == release.statement


def remove(key: str) -> Callable[[dict[str, Any]], object]:
    return lambda header: header.pop(key)


HUGE = {"attributes": [{"name": name, "edges": list(range(3001))} for name in ("sex", "âge", "value")]}
BINARY = {"attributes": [{"name": f"a{i}", "values": ["0", "1"]} for i in range(60)]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_in("format", to=7), "it has format 7, made by a newer crosstally; this one reads up to format 6"),
        (set_in("format", to=5), "must be an object with exactly the fields .*, groups"),
        (set_in("statement", "plan", to="0" * 64), "from format 5 on, and not before, it must have the field 'plan'"),
        (set_in("statement", "plan", to="0" * 63), "plan must be a SHA-256 in hexadecimal"),
        (set_in("format", to=3), "exactly the fields inference, corrected"),
        (set_in("format", to=2), "exactly the fields nonnegative, rounds, corrected, variances"),
        (set_in("estimate", "variances", to=[]), "estimate must be an object with exactly the fields"),
        (set_in("format", to="1"), "its header has no format number"),
        (set_in("format", to=True), "its header has no format number"),
        (set_in("format", to=0), "its header has no format number"),
        (remove("format"), "its header has no format number"),
        (remove("measurements"), "header must be an object with exactly the fields format, schema"),
        (set_in("more", to=1), "header must be an object with exactly the fields"),
        (set_in("schema", to=HUGE), "a release must hold at most 5,000,000 cells; measurement 0 goes beyond"),
        (set_in("schema", "attributes", to=[]), "attributes must not be empty"),
        (set_in("schema", "attributes", 0, "values", to=["a", "b", "c"]), "have 29 numbers, but it has 25 rows"),
        (set_in("schema", "attributes", 1, "edges", to=[0, 10**400]), "each of edges must be a finite number"),
        (set_in("schema", "attributes", 0, "name", to="gender"), "its columns must be measurement, cell, value"),
        (set_in("schema", "unit", to={"id": "person", "max_rows": 2}), "unit of the statement must be that"),
        (set_in("statement", "budget", "epsilon", to="0"), "statement: epsilon must be positive"),
        (set_in("statement", "budget", "epsilon", to="1e999999999"), "epsilon must be between"),
        (set_in("statement", "rows", to=-3), "statement: rows must be"),
        (set_in("statement", to=3), "statement must be an object"),
        (set_in("estimate", "nonnegative", to="magic"), "must be one of joint, none, simple, global, ripple"),
        (set_in("estimate", "nonnegative", to=["none"]), "nonnegative must be one of"),
        (set_in("estimate", "nonnegative", to="shrunk"), "nonnegative must be one of joint"),
        (set_in("estimate", "rounds", to=0), "rounds must be a whole number of at least 1"),
        (set_in("estimate", "corrected", to="global"), "corrected must be none or what nonnegative says"),
        (set_in("estimate", to=[]), "estimate must be an object with exactly the fields"),
        (set_in("mechanisms", to={}), "mechanisms and measurements must be lists"),
        (set_in("mechanisms", 0, "variance", to=-1.0), "mechanism 0: variance must be a positive number"),
        (set_in("mechanisms", 0, "variance", to=None), "mechanism 0: variance must be a positive number"),
        (set_in("mechanisms", 0, "variance", to=0.01), "mechanism 0: the variance must be that of its noise"),
        (set_in("mechanisms", 0, "noise", "scale", to=0.75), "mechanism 0: the variance must be that of its noise"),
        (set_in("mechanisms", 0, "noise", "scale", to="7.5"), "scale of noise must be positive"),
        (set_in("mechanisms", 0, "noise", "kind", to="cauchy"), "kind must be laplace, gaussian or gumbel"),
        (
            set_in("mechanisms", 0, "query", to="linear"),
            "mechanism 0: query must be cells, groups, contrast or kronecker",
        ),
        (set_in("mechanisms", 0, "values", to="real"), "of the types of a release"),
        (set_in("mechanisms", 0, "origin", to=1), "mechanism 0: origin must be a text"),
        (set_in("mechanisms", 0, to=[]), "mechanism 0 must be an object with exactly the fields"),
        (set_in("measurements", 0, to=[0, 0, 3]), "measurement 0 must name mechanisms and attributes that are there"),
        (set_in("measurements", 0, to=[0, 0, -1]), "measurement 0 must name mechanisms and attributes"),
        (set_in("measurements", 0, to=[1, 0, 1]), "measurement 0 must name mechanisms and attributes"),
        (set_in("measurements", 0, to=[0, 0, 0]), "attribute 'sex' is named twice"),
        (set_in("measurements", 0, to=[0, 0, True]), "measurement 0 must be a list of whole numbers"),
        (set_in("measurements", 0, to=[]), "measurement 0 must be a list of whole numbers"),
        (set_in("measurements", 0, to="sex"), "measurement 0 must be a list of whole numbers"),
        (set_in("measurements", to=[[0, 0, 1], [0, 2, 1]]), "have 24 numbers, but it has 25 rows"),
    ],
)
def test_forged_headers(change: Callable[[dict[str, Any]], object], message: str, tmp_path: Path) -> None:
    refused(forge(saved(tmp_path), change), message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_in("format", to=4), "header must be an object with exactly the fields"),
        (set_in("matrices", to={}), "along at least one of its attributes"),
        (set_in("matrices", "sex", to=[[1, 0]]), "matrices must be those of its measurements"),
        (set_in("matrices", "nobody", to=[[1, 0]]), "unknown attribute 'nobody'"),
        (set_in("matrices", "rooms", to=[[1, 0, 0, 0]] * 3), "must say every cell"),
        (set_in("matrices", "rooms", to=[[1, 0, 0], [0, 1, 0], [0, 0, 1]]), "each of its 4 values, got 3"),
        (set_in("matrices", "rooms", 0, 0, to=1e9), "must hold whole numbers"),
        (set_in("matrices", "rooms", 0, 0, to=[[]]), "must hold whole numbers"),
        (set_in("mechanisms", 1, "query", to="cells"), "matrices must be those|numbers, but it has"),
        (set_in("measurements", 0, to=[0, 2]), "inside it and the total must be too|numbers, but it has"),
    ],
)
def test_forged_matrices(change: Callable[[dict[str, Any]], object], message: str, tmp_path: Path) -> None:
    path = tmp_path / "matrix.parquet"
    path.write_bytes((Path(__file__).parent.parent / "formats" / "release-6.parquet").read_bytes())
    open_release(path)
    refused(forge(path, change), message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_in("format", to=1), "exactly the fields nonnegative, rounds, corrected"),
        (set_in("estimate", "inference", "name", to="joint"), "must be shrunk of version 1"),
        (
            set_in("estimate", "inference", "version", to=2),
            "must be shrunk of version 1; a newer crosstally may read it",
        ),
        (set_in("estimate", "inference", "version", to=True), "must be shrunk of version 1"),
        (set_in("estimate", "inference", "options", to={"power": 2}), "shrunk has no options"),
        (set_in("estimate", "inference", to="shrunk"), "exactly the fields name, version, options"),
        (set_in("estimate", "corrected", to="joint"), "corrected must be none or the name of its inference"),
    ],
)
def test_forged_inference(change: Callable[[dict[str, Any]], object], message: str, tmp_path: Path) -> None:
    path = tmp_path / "shrunk.parquet"
    views().refit().save(path)
    assert open_release(path).nonnegative == "shrunk"
    refused(forge(path, change), message)


def with_variances(*variances: Any) -> Callable[[dict[str, Any]], None]:
    def change(header: dict[str, Any]) -> None:
        header["format"], header["estimate"]["variances"] = 2, list(variances)

    return change


@pytest.mark.parametrize(
    ("variances", "message"),
    [
        ([3.0], "variance 0 must be a list: a number, then the positions of its attributes"),
        ([[1.0, 0], 3], "variance 1 must be a list"),
        ([[1.0, True]], "variance 0 must be a list"),
        ([[-1.0, 0]], "variance 0 must be a number that is not negative"),
        ([["1", 0]], "variance 0 must be a number that is not negative"),
        ([[1.0, 3]], "variance 0 must name attributes that are there, in the schema's order"),
        ([[1.0, -1]], "variance 0 must name attributes that are there"),
        ([[1.0, 1, 0]], "variance 0 must name attributes that are there, in the schema's order"),
        ([[1.0, 1], [2.0, 1]], "variances must name each set of attributes once"),
    ],
)
def test_forged_variances(variances: list[Any], message: str, tmp_path: Path) -> None:
    refused(forge(saved(tmp_path, local_with_variances()), with_variances(*variances)), message)


def test_a_central_release_cannot_claim_smaller_errors_than_its_noise(tmp_path: Path) -> None:
    refused(forge(saved(tmp_path), with_variances([1e-6, 0])), "only a release of the local model has variances of its")


def test_variances_of_what_was_never_measured_give_no_error_bar(tmp_path: Path) -> None:
    path = forge(saved(tmp_path, local_with_variances()), with_variances([1.0, 1], [1.0, 0, 1]))
    answer = open_release(path).marginal("sex", "âge")
    assert np.isnan(answer.std_error).all()


def test_a_contrast_over_very_many_attributes_takes_no_memory(tmp_path: Path) -> None:
    def change(header: dict[str, Any]) -> None:
        header["schema"] = BINARY
        header["mechanisms"][0]["query"] = "contrast"
        header["measurements"] = [[0, *range(60)]] * 25

    refused(forge(saved(tmp_path), change), "at most 5,000,000 cells; measurement 0")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", "its header is not JSON"),
        (b"\xff\xfe", "its header is not JSON"),
        (b"[" * 200_000, "its header is nested too deeply"),
        (b'{"a":' * 200_000, "its header is nested too deeply"),
        (b'{"format": 1, "format": 1}', "its header names the field 'format' twice"),
        (b'{"format": NaN}', "its header must hold finite numbers, got NaN"),
        (b'{"format": 1e999}', "its header must hold finite numbers, got 1e999"),
        (b'{"format": ' + b"9" * 5000 + b"}", "its header is not JSON"),
        (b"[]", "its header has no format number"),
    ],
)
def test_headers_that_are_not_ours(text: bytes, message: str, tmp_path: Path) -> None:
    refused(forge(saved(tmp_path), header=text), message)


def test_a_header_beyond_the_limit_is_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path)
    monkeypatch.setattr(release_file, "MAX_HEADER", 100)
    refused(path, "its header must be at most 100 bytes")
    monkeypatch.setattr(release_file, "MAX_FILE", 1000)
    refused(path, "it must be at most 1,000 bytes")


def replaced(name: str, make: Callable[[Any], Any]) -> Callable[[dict[str, Any]], None]:
    def change(columns: dict[str, Any]) -> None:
        columns[name] = make(columns[name].to_numpy().copy())

    return change


def put(place: int, value: Any) -> Callable[[Any], Any]:
    def make(array: Any) -> Any:
        array[place] = value
        return pa.array(array)

    return make


def with_null(array: Any) -> Any:
    mask = np.zeros(len(array), np.bool_)
    mask[3] = True
    return pa.array(array, mask=mask)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (replaced("estimate", put(2, np.nan)), "its column estimate must hold finite numbers"),
        (replaced("estimate", put(2, np.inf)), "its column estimate must hold finite numbers"),
        (replaced("estimate", put(2, 1e300)), "its column estimate must hold finite numbers"),
        (replaced("estimate", put(2, 77.0)), "its column estimate must hold tables that agree"),
        (replaced("estimate", with_null), "some of its numbers are missing"),
        (replaced("value", with_null), "some of its numbers are missing"),
        (replaced("cell", put(2, 1)), "its column cell must count its rows in order"),
        (replaced("measurement", put(2, 1)), "its column measurement must count its rows in order"),
        (replaced("value", lambda a: pa.array(a.astype(np.float64))), "its columns must be measurement, cell"),
        (replaced("cell", lambda a: pa.array(a.astype(np.int64))), "its columns must be measurement, cell"),
        (replaced("estimate", lambda a: pa.array(a.astype(str))), "its columns must be measurement, cell"),
        (lambda columns: columns.pop("estimate"), "its columns must be measurement, cell"),
        (lambda columns: columns.update(extra=columns["cell"]), "its columns must be measurement, cell"),
    ],
)
def test_forged_columns(change: Callable[[dict[str, Any]], object], message: str, tmp_path: Path) -> None:
    refused(forge(saved(tmp_path), columns=change), message)


def test_forged_real_numbers(tmp_path: Path) -> None:
    path = saved(tmp_path, local())
    refused(forge(path, columns=replaced("value", put(9, 0.5))), "must hold whole numbers where the header says so")
    refused(forge(path, columns=replaced("value", put(0, np.nan))), "its column value must hold finite numbers")


def test_rows_too_many_or_too_few(tmp_path: Path) -> None:
    def cut(columns: dict[str, Any]) -> None:
        columns.update({name: array.slice(0, 20) for name, array in columns.items()})

    refused(forge(saved(tmp_path), columns=cut), "its measurements have 25 numbers, but it has 20 rows")


def test_numbers_changed_without_their_checksum(tmp_path: Path) -> None:
    path = saved(tmp_path)
    refused(forge(path, columns=replaced("value", put(0, 12345)), rehash=False), "do not match their checksum")
    path = saved(tmp_path)
    refused(forge(path, set_in("statement", "strategy", to="x"), rehash=False), "do not match their checksum")


def test_variances_come_from_the_noise_and_not_from_the_file(tmp_path: Path) -> None:
    near = LAPLACE.variance * (1 + 1e-12)
    path = forge(saved(tmp_path), set_in("mechanisms", 0, "variance", to=near))
    assert open_release(path).measurements[0].variance == LAPLACE.variance


# Pages that unpack to more than they should


def bomb(path: Path, unpacked: int) -> None:
    """Make the first page of numbers claim that it unpacks to so many bytes.

    The page header starts with its kind, then the two sizes as variable-length integers. The claimed one is written
    into the file, and what follows moves: offsets in the footer point elsewhere, which must not matter because sizes
    are checked first.
    """
    data = bytearray(path.read_bytes())
    chunk = pq.read_metadata(path).row_group(0).column(2)
    at = chunk.data_page_offset
    assert data[at : at + 3] == bytes([0x15, 0x00, 0x15])  # field 1: a data page; field 2 follows
    end = at + 3
    while data[end] >= 128:
        end += 1
    zigzag, claim = 2 * unpacked, bytearray()
    while zigzag >= 128:
        claim.append(zigzag & 127 | 128)
        zigzag >>= 7
    claim.append(zigzag)
    data[at + 3 : end + 1] = claim
    path.write_bytes(data)


def test_a_page_that_claims_to_unpack_to_gigabytes_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path)
    bomb(path, 2**31 - 1)
    refused(path, "a column of 25 numbers must unpack to at most 792 bytes, got more")


def with_long_pages(path: Path, *, unpacked: int, codec: str, values_to_a_page: int = 1) -> Path:
    """Write the numbers of the column ``value`` in pages of few values, each of which unpacks to many more bytes.

    The new pages stand before the footer, whose entry for the column then points to them: the number of values, both
    sizes and the place stand there one after the other.
    """
    forge(path, codec=codec, options={"use_dictionary": False, "write_statistics": False})
    data, values = path.read_bytes(), pq.read_table(path)["value"].to_numpy()
    pages = b""
    for start in range(0, len(values), values_to_a_page):
        part = values[start : start + values_to_a_page]
        levels = bytes([2 * len(part), 1])  # so many times: there is a value
        content = struct.pack("<I", len(levels)) + levels + part.astype("<i8").tobytes()
        packed = pa.compress(content.ljust(unpacked, b"\0"), codec=codec, asbytes=True)
        sizes = b"\x15" + zigzag(max(unpacked, len(content))) + b"\x15" + zigzag(len(packed))
        pages += b"\x15\x00" + sizes + b"\x2c\x15" + zigzag(len(part)) + b"\x15\x00\x15\x06\x15\x06\x00\x00" + packed
    length = int.from_bytes(data[-8:-4], "little")
    body, footer = data[: -8 - length], data[-8 - length : -8]
    found = pq.read_metadata(path).row_group(0).column(2)
    old = [len(values), found.total_uncompressed_size, found.total_compressed_size, found.data_page_offset]
    new = [len(values), found.total_uncompressed_size, len(pages), len(body)]
    entry, changed = (b"\x16" + b"\x16".join(map(zigzag, each[:3])) + b"\x26" + zigzag(each[3]) for each in (old, new))
    assert footer.count(entry) == 1
    footer = footer.replace(entry, changed)
    path.write_bytes(body + pages + footer + struct.pack("<I", len(footer)) + b"PAR1")
    return path


def zigzag(number: int) -> bytes:
    """A number that is not negative as Thrift's compact protocol writes it."""
    number, out = 2 * number, bytearray()
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def test_the_maker_of_pages_of_these_tests_can_make_a_sound_file(tmp_path: Path) -> None:
    path = with_long_pages(saved(tmp_path), unpacked=100, codec="zstd", values_to_a_page=10)
    assert open_release(path).schema == people()


def test_pages_that_unpack_to_far_more_than_their_numbers_take_no_time(tmp_path: Path) -> None:
    """4,447 bytes that unpacked to 1 gigabyte, 41 megabytes to a page, took 2.5 seconds; here the pages are smaller."""
    brotli = with_long_pages(saved(tmp_path), unpacked=10_000_000, codec="brotli").rename(tmp_path / "brotli")
    zstd = with_long_pages(saved(tmp_path), unpacked=10_000_000, codec="zstd", values_to_a_page=20)
    zstd = zstd.rename(tmp_path / "zstd")
    pages = with_long_pages(saved(tmp_path, views()), unpacked=0, codec="zstd").rename(tmp_path / "pages")
    assert brotli.stat().st_size < 10_000
    started = time.process_time()
    refused(brotli, "its numbers must be compressed with Zstandard")
    refused(zstd, "a column of 25 numbers must unpack to at most 792 bytes, got more")
    refused(pages, "a column of 25 numbers must have at most 3 pages, got more")
    assert time.process_time() - started < 0.5


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "brotli", "lz4"])
def test_other_codecs_are_refused(codec: str, tmp_path: Path) -> None:
    refused(forge(saved(tmp_path), codec=codec), "its numbers must be compressed with Zstandard")


def test_a_codec_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    """Asking pyarrow for its name would end the process."""
    path = saved(tmp_path)
    data = path.read_bytes()
    zstandard, unknown = b"\x15\x0c\x16" + zigzag(25), b"\x15\x7e\x16" + zigzag(25)  # codec, then number of values
    assert data.count(zstandard) == len(column_names(people()))
    path.write_bytes(data.replace(zstandard, unknown))
    refused(path, "its Parquet structure cannot be read")


def test_pages_and_groups_of_a_row_each_are_refused(tmp_path: Path) -> None:
    tiny = {"data_page_size": 1, "write_batch_size": 1, "use_dictionary": False}
    refused(forge(saved(tmp_path), options=tiny), "a column of 25 numbers must have at most 3 pages, got more")
    refused(forge(saved(tmp_path), group_rows=1), "it must have at most 16 groups of rows, got 25")


def test_pages_as_they_are_written_are_taken(tmp_path: Path) -> None:
    """Several groups of rows, dictionaries that grow too large, small pages."""
    schema = Schema([Attribute("a", edges=list(range(50_001))), Attribute("b", ["x", "y", "z"])])
    rng = np.random.default_rng(1)
    measured = tuple(
        replace(noisy(schema, Cells(names)), values=rng.integers(-(2**60), 2**60, schema.sizes(names)))
        for names in (("a", "b"), ("a",), ("a", "b"))
    )
    release = publish(schema, measured, statement(), nonnegative="none")
    path = saved(tmp_path, release)
    assert pq.read_metadata(path).num_row_groups == 3
    open_release(path)
    for options in (
        {"use_dictionary": True},
        {"use_dictionary": True, "dictionary_pagesize_limit": 1000},
        {"use_dictionary": True, "data_page_size": 1000},
    ):
        open_release(forge(path, options=options))


MEASURE_MEMORY = """
import resource, sys
from crosstally.errors import ReleaseError
from crosstally.releases import open_release
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    open_release(sys.argv[1])
except ReleaseError as error:
    print(error, file=sys.stderr)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_forged_sizes_take_no_memory(tmp_path: Path) -> None:
    """A file that holds ten million equal rows in little space."""
    path = saved(tmp_path)
    names = column_names(people())
    row = {name: pa.array(np.zeros(2_500_000), pa.float64()) for name in names}
    table = pa.table({**row, "measurement": pa.array(np.zeros(2_500_000, np.int32))})
    metadata = pq.read_metadata(path).metadata
    with pq.ParquetWriter(tmp_path / "rows", table.schema, store_schema=False, compression="zstd") as writer:
        for _ in range(4):
            writer.write_table(table)
        writer.add_key_value_metadata(metadata)
    run = subprocess.run(
        [sys.executable, "-c", MEASURE_MEMORY, str(tmp_path / "rows")], capture_output=True, text=True, check=True
    )
    assert "but it has 10,000,000 rows" in run.stderr
    assert int(run.stdout) < 100


def test_pages_must_lie_within_the_file(tmp_path: Path) -> None:
    """The page walk by itself: made-up chunks, made-up headers."""
    from crosstally.releases.file.pages import Chunk, check_pages

    def chunk(at: int, size: int, dictionary: int | None = None) -> Chunk:
        return Chunk(size, at, dictionary)

    content = b"\x28\xb5\x2f\xfdab"  # as a frame of Zstandard begins
    page = bytes([0x15, 0x00, 0x15, 0x08, 0x15, 0x0C, 0x2C, 0x15, 0x02, 0x00, 0x00]) + content
    data = b"PAR1" + page + page
    check_pages(data, chunk(4, 34), rows=1)
    check_pages(data, chunk(21, 34, dictionary=4), rows=1)
    with pytest.raises(ReleaseError, match="must be compressed with Zstandard"):
        check_pages(data.replace(content, b"\x28\xb5\x2f\x00ab"), chunk(4, 34), rows=1)
    large = bytes([0x15, 0x00, 0x15, 0xE4, 0x01, 0x15, 0x0C, 0x00]) + content  # a page that unpacks to 114 bytes
    check_pages(b"PAR1" + large, chunk(4, 14), rows=1)  # 24 for the row and 64 for each of three pages make 216
    with pytest.raises(ReleaseError, match="a column of 1 numbers must unpack to at most 216 bytes"):
        check_pages(b"PAR1" + large * 2, chunk(4, 28), rows=1)
    check_pages(b"PAR1" + page * 3, chunk(4, 51), rows=1023)
    with pytest.raises(ReleaseError, match="a column of 1,023 numbers must have at most 3 pages"):
        check_pages(b"PAR1" + page * 4, chunk(4, 68), rows=1023)
    check_pages(b"PAR1" + page * 4, chunk(4, 68), rows=1024)
    for wrong in (chunk(4, 35), chunk(-4, 34), chunk(0, 34), chunk(4, -1), chunk(2**62, 10)):
        with pytest.raises(ReleaseError, match="lies outside the file"):
            check_pages(data, wrong, rows=100)
    unsound = [
        b"\x00" + b"ab",  # no sizes
        page[:7],  # cut within the header
        bytes([0x15, 0x00, 0x15, 0x08, 0x15, 0x05, 0x00]),  # a negative size
        bytes([0x15, 0x00, 0x15, 0x08, 0x15, 0x40, 0x00]),  # more bytes than there are
        bytes([0x15] + [0xFF] * 12),  # a number without end
        bytes([0x1C] * 40),  # structures without end
        bytes([0x19, 0x15, 0x00]),  # a list
    ]
    for header in unsound:
        with pytest.raises(ReleaseError, match="no sound header"):
            check_pages(b"PAR1" + header, chunk(4, len(header)), rows=100)


def test_a_column_whose_metadata_contradicts_itself_is_refused(tmp_path: Path) -> None:
    """Asked for such a column, pyarrow ends the process: its histogram of levels is that of another kind of column."""
    path = forge(saved(tmp_path), options={})
    data = path.read_bytes()
    optional, required = b"\x25\x02\x18\x05value", b"\x25\x00\x18\x05value"  # repetition, then the name
    assert data.count(optional) == 1
    path.write_bytes(data.replace(optional, required))
    code = "import sys\nfrom crosstally.releases import open_release\nopen_release(sys.argv[1])"
    ended = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "ReleaseError: cannot read the release" in ended.stderr


def test_columns_lie_where_pyarrow_says(tmp_path: Path) -> None:
    from crosstally.releases.file.pages import Chunk, chunks_of

    for options in ({}, {"data_page_size": 1000}, {"use_dictionary": False}):
        data = forge(saved(tmp_path), options=options).read_bytes()
        metadata = pq.read_metadata(pa.BufferReader(data))
        expected = [
            [metadata.row_group(g).column(c) for c in range(metadata.num_columns)]
            for g in range(metadata.num_row_groups)
        ]
        assert chunks_of(data, columns=metadata.num_columns) == [
            [Chunk(each.total_compressed_size, each.data_page_offset, each.dictionary_page_offset) for each in group]
            for group in expected
        ]


@pytest.mark.parametrize(
    "footer",
    [
        b"\x49\xf3" + b"\xff" * 9 + b"\x01",  # a list of very many numbers of one byte
        b"\x49\xf7" + b"\xff" * 9 + b"\x01",  # of eight
        b"\x49\xfc" + b"\xff" * 9 + b"\x01",  # of very many groups
        b"\x49\x15\x00",  # groups that are numbers
        b"\x1b\x00",  # a map
        b"\x18\x7f",  # a text that ends behind the file
        b"\x1c" * 40,  # structures without end
        b"\x15",  # cut within a number
    ],
)
def test_footers_that_make_no_sense_end_at_once(footer: bytes) -> None:
    from crosstally.releases.file.pages import chunks_of

    data = b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1"
    with pytest.raises(ReleaseError, match="its Parquet structure cannot be read"):
        chunks_of(data, columns=3)


def test_a_footer_that_claims_more_than_the_file_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path)
    data = path.read_bytes()
    for length in (0, 1, len(data), 2**31 - 1, 2**32 - 1):
        path.write_bytes(data[:-8] + struct.pack("<I", length) + b"PAR1")
        refused(path, "its Parquet structure cannot be read")
