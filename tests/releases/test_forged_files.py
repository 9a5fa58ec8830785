"""Release files whose header or numbers are not what they say are refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crosstally.errors import ReleaseError
from crosstally.releases import open_release
from crosstally.releases.file import header as release_header
from crosstally.releases.file import reader as release_reader
from forged_release import forge, refused, set_in
from released import LAPLACE, local, local_with_variances, people, saved, views

# Files that are not what they say


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
        (
            set_in("format", to=2),
            "it has format 2, this crosstally reads format 1; it was made by a newer version, or by a development",
        ),
        (set_in("statement", "plan", to="0" * 63), "plan must be a SHA-256 in hexadecimal"),
        (lambda header: header["statement"].pop("plan"), "statement: the field 'plan' is missing"),
        (lambda header: header["estimate"].pop("variances"), "estimate must be an object with exactly the fields"),
        (
            lambda header: header["mechanisms"][0].pop("matrices"),
            "mechanism 0 must be an object with exactly the fields",
        ),
        (remove("groups"), "header must be an object with exactly the fields"),
        (remove("choices"), "header must be an object with exactly the fields"),
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
        (set_in("estimate", "inference", to="magic"), "inference must be one of shrunk, joint, none, simple, global"),
        (set_in("estimate", "inference", to=["none"]), "inference must be one of"),
        (set_in("estimate", "inference", to="shrunk"), "corrected must be none or the name of its inference"),
        (set_in("estimate", "rounds", to=0), "rounds must be a whole number of at least 1"),
        (set_in("estimate", "corrected", to="global"), "corrected must be none or the name of its inference"),
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
        (remove("matrices"), "header must be an object with exactly the fields"),
        (set_in("matrices", to={}), "must name matrices that are there"),
        (set_in("matrices", "sex", to=[[[1, 0]]]), "matrices must be those of its measurements"),
        (set_in("matrices", "nobody", to=[[[1, 0]]]), "unknown attribute 'nobody'"),
        (set_in("matrices", "rooms", 0, to=[[1, 0, 0, 0]] * 3), "must say every cell"),
        (set_in("matrices", "rooms", 0, to=[[1, 0, 0], [0, 1, 0], [0, 0, 1]]), "each of its 4 values, got 3"),
        (set_in("matrices", "rooms", 0, 0, 0, to=1e9), "must hold whole numbers"),
        (set_in("matrices", "rooms", 0, 0, 0, to=[[]]), "must hold whole numbers"),
        (set_in("mechanisms", 1, "query", to="cells"), "only a kronecker query names matrices"),
        (set_in("measurements", 0, to=[0, 2]), "inside it and the total must be too|numbers, but it has"),
    ],
)
def test_forged_matrices(change: Callable[[dict[str, Any]], object], message: str, tmp_path: Path) -> None:
    refused(forge(_kept("release-1-matrix.parquet", tmp_path), change), message)


def _kept(name: str, folder: Path) -> Path:
    """A copy of a file of the formats, which opens."""
    path = folder / name
    path.write_bytes((Path(__file__).parent.parent / "formats" / name).read_bytes())
    open_release(path)
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_in("matrices", to=[]), "matrices must map names of attributes to lists"),
        (set_in("matrices", "rooms", to=[]), "matrices must map names of attributes to lists"),
        (set_in("mechanisms", 0, "matrices", to={"rooms": 0}), "only a kronecker query names matrices"),
        (set_in("mechanisms", 1, "matrices", to={"rooms": 1}), "must name matrices that are there"),
        (set_in("mechanisms", 1, "matrices", to={"sex": 0}), "must name matrices that are there"),
        (set_in("mechanisms", 1, "matrices", to={"rooms": True}), "matrices must map names of attributes to numbers"),
        (set_in("mechanisms", 1, "matrices", to={}), "along at least one of its attributes"),
        (set_in("mechanisms", to=[{}] * 4), "at most as many mechanisms as measurements"),
        (set_in("measurements", 2, to=[0, 0]), "numbers, but it has"),
    ],
)
def test_forged_matrices_of_several_ways(change: Callable[[dict[str, Any]], object], message: str, tmp_path) -> None:
    refused(forge(_kept("release-1-two-ways.parquet", tmp_path), change), message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_in("estimate", "inference", to="joint"), "corrected must be none or the name of its inference"),
        (set_in("estimate", "rounds", to=True), "rounds must be a whole number of at least 1"),
        (set_in("estimate", "power", to=2), "estimate must be an object with exactly the fields"),
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
        header["estimate"]["variances"] = list(variances)

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
    monkeypatch.setattr(release_header, "MAX_HEADER", 100)
    refused(path, "its header must be at most 100 bytes")
    monkeypatch.setattr(release_reader, "MAX_FILE", 1000)
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
