"""What replicates came to is kept in the files of large releases: nothing is inferred again, no number changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crosstally.budget import Budget, Neighbours, Noise, NoiseKind
from crosstally.inference import bootstrap
from crosstally.inference.estimates import Inference
from crosstally.measurements import Measurement
from crosstally.query.queries import Cells
from crosstally.releases import Release, Statement, open_release, publish
from forged_release import forge, refused, set_in
from released import local, views
from simulated import schema_of

SIZES = (70, 75, 3)
TABLES = [("a0",), ("a1",), ("a2",), ("a0", "a1"), ("a1", "a2"), ("a0", "a2"), ("a2", "a1", "a0")]


@cache
def large() -> Release:
    """Pairs of 5,250 and 225 cells, sparse: (5,250 - 1) + (225 - 75) + 1 coefficients, which is above 5,000."""
    random, noise = np.random.default_rng(4), Noise(NoiseKind.LAPLACE, 4.0)
    schema = schema_of(*SIZES)
    counts = random.poisson(np.outer(random.exponential(1.0, 70) ** 2, random.exponential(1.0, 75)))
    pairs = {("a0", "a1"): counts, ("a1", "a2"): random.multinomial(counts.sum(), np.full(225, 1 / 225)).reshape(75, 3)}
    measured = [
        Measurement(
            Cells(names),
            np.rint(true + random.laplace(scale=4.0, size=true.shape)).astype(np.int64),
            variance=noise.variance,
            noise=noise,
            origin="entry-1",
        )
        for names, true in pairs.items()
    ]
    stated = Statement(strategy="views", budget=Budget(epsilon=1), neighbours=Neighbours.ADD_REMOVE)
    return publish(schema, measured, stated)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "large.release.parquet"
    large().save(path)
    return path


def never(*_: object, **__: object) -> None:
    raise AssertionError


def test_an_opened_release_has_the_same_intervals_and_infers_nothing(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Inference, "again", never)
    monkeypatch.setattr("crosstally.releases.release.infer", never)
    opened = open_release(file)
    for names in TABLES:
        mine, theirs = large().marginal(*names), opened.marginal(*names)
        for level in (0.5, 0.95):
            assert np.array_equal(mine.interval(level), theirs.interval(level))
        np.testing.assert_allclose(mine.std_error, theirs.std_error, rtol=1e-9)
    some = [each.marginal("a0", where="a1 in {3, 4}").interval() for each in (large(), opened)]
    assert np.array_equal(*some)


def test_a_release_runs_its_inference_once(monkeypatch: pytest.MonkeyPatch) -> None:
    release = large().refit()
    monkeypatch.setattr("crosstally.releases.release.infer", never)
    assert (release.marginal("a0").std_error > 0).all()


def test_the_file_grows_to_at_most_twice_its_size(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header = json.loads(pq.read_metadata(file).metadata[b"crosstally"])
    assert header["replicates"]["number"] == 20
    monkeypatch.setattr("crosstally.releases.release.KEPT_FROM", 10**9)
    large().save(tmp_path / "without")
    size = (tmp_path / "without").stat().st_size
    assert size < file.stat().st_size <= 2.02 * size
    monkeypatch.undo()
    monkeypatch.setattr("crosstally.releases.file.writer._packed_size", lambda _: 10**9)
    large().save(tmp_path / "too-large")
    assert (tmp_path / "too-large").read_bytes() == (tmp_path / "without").read_bytes()
    found, same = (open_release(each).marginal("a0", "a1") for each in (tmp_path / "without", file))
    assert np.array_equal(found.interval(), same.interval())


def test_saved_again_a_file_keeps_the_same_replicates(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Inference, "again", never)
    open_release(file).save(tmp_path / "again")
    first, second = (pq.read_table(each)["replicates"] for each in (file, tmp_path / "again"))
    assert first.equals(second)


def test_small_releases_and_those_without_replicates_keep_none(tmp_path: Path) -> None:
    for number, release in enumerate((views(), local(), large().refit(nonnegative="none"))):
        release.save(tmp_path / str(number))
        assert "replicates" not in pq.read_schema(tmp_path / str(number)).names
        assert b'"replicates"' not in pq.read_metadata(tmp_path / str(number)).metadata[b"crosstally"]


def test_deviations_are_rounded_to_a_fifth_of_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each set of attributes, to a power of two: at most a factor sqrt(2) apart, and half of it is the error.

    Where the largest deviation needs more than 127 levels, to the next power of two that suffices.
    """
    rounded = large()._bootstrapped.replicates
    fitted = large().fitted
    assert fitted is not None
    assert rounded.levels.dtype == np.int8
    monkeypatch.setattr(bootstrap, "_rounded", lambda deviations, *_: (deviations, np.zeros(len(deviations[0]), int)))
    exact = bootstrap.bootstrapped(fitted).replicates.at()
    for names, part in ((("a0",), 32), (("a2",), 32), (("a0", "a1"), 5), (("a1", "a2"), 5)):
        sizes = fitted.linear.schema.sizes(names)
        places = fitted.linear.places([names])[0][0].reshape(sizes)[(slice(1, None),) * len(sizes)].ravel()
        usual = np.sqrt(np.mean(exact[:, places].astype(float) ** 2))
        most = np.abs(exact[:, places]).max()
        error = np.abs(rounded.at(places) - exact[:, places]).max()
        assert error <= max(usual / part / np.sqrt(2), most / 127) * 1.0001
        assert len(np.unique(rounded.exponents[places])) == 1


# Forged files


def with_bytes(change: Callable[[np.ndarray], object], *, width: int = 0) -> Callable[[dict[str, Any]], None]:
    def forged(arrays: dict[str, Any]) -> None:
        rows = arrays["replicates"].to_pylist()
        numbers = np.frombuffer(b"".join(rows), np.int8).copy()
        change(numbers)
        own = width or len(rows[0])
        each = numbers.tobytes().ljust(own * len(rows), b"\0")[: own * len(rows)]
        arrays["replicates"] = pa.array([each[i : i + own] for i in range(0, len(each), own)], pa.binary(own))

    return forged


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_in("replicates", "number", to=21), "number must be a whole number from 6 to 20"),
        (set_in("replicates", "number", to=True), "number must be a whole number from 6 to 20"),
        (set_in("replicates", "number", to=19), "must have the bytes of 19 replicates"),
        (set_in("replicates", "left", to=[1.0]), "left must be a list of 3 numbers, one for each order"),
        (set_in("replicates", "left", to=[1.0, 1.0, -1.0]), "left must hold numbers from 0"),
        (set_in("replicates", "stretches", to=[1.0, 1.0, 1e300]), "stretches must hold numbers from 0"),
        (set_in("replicates", "stretches", to="all"), "stretches must be a list of 3 numbers"),
        (set_in("replicates", to=[20]), "replicates must be an object with exactly the fields number"),
        (lambda header: header.pop("replicates"), "its columns must be"),
    ],
)
def test_forged_headers(change: Callable[[dict[str, Any]], object], message: str, file: Path, tmp_path: Path) -> None:
    path = tmp_path / "forged"
    path.write_bytes(file.read_bytes())
    refused(forge(path, change), message)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (with_bytes(lambda numbers: numbers.__setitem__(0, 61)), "exponents of at most 60"),
        (with_bytes(lambda numbers: numbers.__setitem__(0, -128)), "exponents of at most 60"),
        (with_bytes(lambda numbers: numbers.__setitem__(-1, 1)), "must end with zeros"),
        (with_bytes(lambda numbers: None, width=22), "must have the bytes of 20 replicates"),
        (with_bytes(lambda numbers: None, width=3), "must have the bytes of 20 replicates"),
        (with_bytes(lambda numbers: None, width=5_000), "must have at most 22 bytes in each row"),
        (lambda arrays: arrays.pop("replicates"), "must have at most 22 bytes in each row"),
    ],
)
def test_forged_bytes(columns: Callable[[dict[str, Any]], object], message: str, file: Path, tmp_path: Path) -> None:
    path = tmp_path / "forged"
    path.write_bytes(file.read_bytes())
    refused(forge(path, columns=columns), message)


def test_changed_bytes_do_not_have_the_checksum(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "forged"
    path.write_bytes(file.read_bytes())
    refused(forge(path, columns=with_bytes(lambda numbers: numbers.__setitem__(9_000, 1)), rehash=False), "checksum")
