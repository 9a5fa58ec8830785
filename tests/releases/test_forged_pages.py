"""Release files whose Parquet pages or sizes are not what they claim are refused, and take no memory."""

from __future__ import annotations

import struct
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crosstally.errors import ReleaseError
from crosstally.query.queries import Cells
from crosstally.releases import open_release, publish
from crosstally.releases.file.header import column_names
from crosstally.schema import Attribute, Schema
from forged_release import forge, refused
from released import noisy, people, saved, statement, views

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
    from crosstally.releases.file.reader import Chunk, check_pages

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
    from crosstally.releases.file.reader import Chunk, chunks_of

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
    from crosstally.releases.file.reader import chunks_of

    data = b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1"
    with pytest.raises(ReleaseError, match="its Parquet structure cannot be read"):
        chunks_of(data, columns=3)


def test_a_footer_that_claims_more_than_the_file_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path)
    data = path.read_bytes()
    for length in (0, 1, len(data), 2**31 - 1, 2**32 - 1):
        path.write_bytes(data[:-8] + struct.pack("<I", length) + b"PAR1")
        refused(path, "its Parquet structure cannot be read")
