"""Real public tables: the rows as the library reads them, their schema, and codes from which truth is counted.

The files lie in the folder that CROSSTALLY_DATA names (lab/evidence/data.md). Labels of text columns are
those of the public file. Bins are round numbers, set once and never tuned.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache, partial

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

import crosstally as ct
from crosstally.generate.people import people
from crosstally_lab.papers.data import find

KOSARAK_ROWS = 912_627
"""The rows of the whole Kosarak file, of which 100,000 can be had: the rest is drawn again from these."""

Edges = Sequence[float]


class MissingFileError(Exception):
    """A file is not in the data folder: its lines are left out, and said to be."""


@dataclass(frozen=True, slots=True, eq=False)
class RealTable:
    """Public rows, twice: as an Arrow table for the library, and as codes (rows x attributes) for the truth."""

    name: str
    schema: ct.Schema
    _: KW_ONLY
    rows: pa.Table
    codes: NDArray[np.integer]

    @property
    def number(self) -> int:
        """How many rows there are."""
        return len(self.codes)

    def counts(self, names: Sequence[str]) -> NDArray[np.int64]:
        """The true table, counted from the codes and not by the library."""
        sizes = self.schema.sizes(names)
        cell = np.zeros(len(self.codes), np.int64)
        for name, size in zip(names, sizes, strict=True):
            cell = cell * size + self.codes[:, self.schema.positions[name]]
        return np.bincount(cell, minlength=math.prod(sizes)).reshape(sizes)

    def part(self, name: str, attributes: Sequence[str]) -> RealTable:
        """Some attributes alone, under a name of its own."""
        columns = [self.schema.positions[each] for each in attributes]
        schema = self.schema.subset(*attributes)
        return RealTable(name, schema, rows=self.rows.select(attributes), codes=self.codes[:, columns])


def _adult() -> RealTable:
    gains = [0, 1, 1000, 2000, 3000, 4000, 5000, 7500, 10000, 15000, 20000, 50000, 100000]
    losses = [0, 1, 500, 1000, 1500, 1750, 2000, 2250, 2500, 3000, 4500]
    edges = {
        "age": range(15, 95, 5),
        "capital-gain": gains,
        "capital-loss": losses,
        "hours-per-week": range(0, 101, 5),
    }
    return _table("adult", _read("adult.csv").drop(["fnlwgt"]), edges)  # fnlwgt is a survey weight


def _fars() -> RealTable:
    drugs = [0, 1, 2, 100, 200, 300, 400, 500, 600, 700, 800, 900, 995, 996, 997, 998, 999, 1000]
    edges: dict[str, Edges] = {f"drug_test_results_{i}_of_3": drugs for i in (1, 2, 3)}
    edges["age"] = range(0, 105, 5)
    edges["alcohol_test_result"] = [0, 1, 5, 10, 15, 20, 25, 30, 40, 60, 95, 96, 97, 98, 100]
    return _table("fars", _read("fars.parquet"), edges)


def _smallest(name: str, attributes: int) -> RealTable:
    """The columns with the fewest values; of equal ones the first."""
    whole = real_table(name)
    smallest = sorted(whole.schema.names, key=lambda each: whole.schema[each].size)[:attributes]
    return whole.part(f"{name}-{attributes}", [each for each in whole.schema.names if each in smallest])


def _adult_8() -> RealTable:
    """The eight attributes of ICDE 2013."""
    names = ("workclass", "education", "marital-status", "occupation", "relationship", "race", "sex", "income")
    return real_table("adult").part("adult-8", names)


def _adult_6() -> RealTable:
    """The eight without the two of most values, education and occupation."""
    return real_table("adult-8").part(
        "adult-6", ("workclass", "marital-status", "relationship", "race", "sex", "income")
    )


def _first(name: str, attributes: int) -> RealTable:
    whole = real_table(name)
    return whole.part(f"{name}-{attributes}", whole.schema.names[:attributes])


def _acs() -> RealTable:
    """Without survey weights, and without INDP and DENSITY, which INDP_CAT and PUMA hold in fewer values."""
    return _table("acs", _read("acs-ma.csv").drop(["PWGTP", "WGTP", "INDP", "DENSITY"]), _ACS_EDGES)


_ACS_EDGES: dict[str, Edges] = {
    "AGEP": [0, 5, 10, 15, 18, 21, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 100],
    "PINCP": [-1e5, 0, 1, 5e3, 1e4, 2e4, 3e4, 4e4, 5e4, 75e3, 1e5, 15e4, 25e4, 2e6],
    "POVPIP": [0, 50, 100, 150, 200, 300, 400, 500, 501, 502],
}


def _kosarak_resampled() -> RealTable:
    once = real_table("kosarak")
    drawn = np.random.default_rng(20_261_116).integers(0, once.number, KOSARAK_ROWS)
    return RealTable("kosarak-resampled", once.schema, rows=once.rows.take(pa.array(drawn)), codes=once.codes[drawn])


def _aside(file: str, without: Sequence[str] = (), only: Sequence[str] = ()) -> RealTable:
    """A data set of an R package as CSV. Numbers of more than 20 values are cut into ten bins, eight of equal width.

    The first column of these files numbers the rows; where some columns alone are wanted, it is not among them.
    """
    rows = _read(file)
    names = only or [name for name in rows.column_names[1:] if name not in without]
    columns = {}
    for name in names:
        values = rows[name].to_numpy(zero_copy_only=False)
        is_number = np.issubdtype(values.dtype, np.number) and len(np.unique(values[~np.isnan(values)])) > _FEW
        columns[name] = _in_ten_bins(values) if is_number else values.astype(str)
    return _table(file.removesuffix(".csv"), pa.table(columns), {})


_FEW = 20  # different numbers up to which each is a value, as in ``schema draft``


def _in_ten_bins(values: NDArray) -> NDArray:
    """Eight bins of equal width between the 1% and the 99% quantile, one on each side; NaN is a value of its own."""
    low, high = np.nanquantile(values, [0.01, 0.99]).tolist()
    return np.where(np.isnan(values), -1, np.searchsorted(np.linspace(low, high, 9), values, side="right"))


def _adult_fine() -> RealTable:
    """Adult with a cell for each year of age and hour of work, and fine steps of capital."""
    steps = [0, 1, *range(1_000, 20_001, 1_000), 30_000, 50_000, 100_000]
    edges = {
        "age": range(17, 92),
        "hours-per-week": range(1, 101),
        "capital-gain": steps,
        "capital-loss": [0, 1, *range(500, 4_501, 250)],
    }
    return _table("adult-fine", _read("adult.csv").drop(["fnlwgt"]), edges)


def _crc() -> RealTable:
    """The 21 columns of the national excerpt that are neither weights nor the industries that INDP_CAT holds."""
    rows = _read("crc-national.parquet").drop(["PWGTP", "WGTP", "INDP"])
    return _table("crc", rows, _ACS_EDGES)


def _coded(name: str) -> RealTable:
    """A table of codes; how many values each column has is in a file of its own."""
    path = find(f"{name}.domain.json")
    rows = _read(f"{name}.parquet")
    sizes = json.loads(path.read_text()) if path else {}
    attributes = [ct.Attribute(each, [str(code) for code in range(sizes[each])]) for each in rows.column_names]
    codes = np.stack([rows[each].to_numpy() for each in rows.column_names], axis=1)
    return RealTable(name, ct.Schema(attributes), rows=rows, codes=codes.astype(np.uint16))


def _people() -> RealTable:
    """The demo's generated people: no real table, but one that is always there."""
    rows, schema = people(50_000, np.random.default_rng(20_261_118))
    codes = [_codes(rows[each.name].to_numpy(zero_copy_only=False), each) for each in schema.attributes]
    return RealTable("people", schema, rows=rows, codes=np.stack(codes, axis=1).astype(np.uint8))


def _codes(values: NDArray, attribute: ct.Attribute) -> NDArray[np.integer]:
    if attribute.edges:
        return np.searchsorted(attribute.edges[1:-1], values, side="right")
    return np.array([attribute.values.index(each) for each in values])


_FLIGHTS = ("month", "dep_delay", "arr_delay", "carrier", "origin", "dest", "air_time", "distance", "hour")

TABLES: Mapping[str, Callable[[], RealTable]] = {
    "adult": _adult,
    "fars": _fars,
    "fars-16": lambda: _smallest("fars", 16),
    "acs": _acs,
    "census-9": lambda: _table("census-9", _read("census-9.parquet"), {}),
    "msnbc": lambda: _table("msnbc", _read("msnbc-17.parquet"), {}),
    "kosarak": lambda: _table("kosarak", _read("kosarak-100k-top32.parquet"), {}),
    "kosarak-resampled": _kosarak_resampled,
    "adult-8": _adult_8,
    "adult-6": _adult_6,
    "acs-8": lambda: _smallest("acs", 8),
    "fars-7": lambda: _smallest("fars", 7),
    "fars-8": lambda: _smallest("fars", 8),
    "msnbc-9": lambda: _first("msnbc", 9),
    "kosarak-12": lambda: _first("kosarak", 12),
    "people": _people,
    "adult-fine": _adult_fine,
    "crc": _crc,
    **{name: partial(_coded, name) for name in ("salary", "titanic", "loans", "stroke")},
    "HI": lambda: _aside("HI.csv", without=["wght"]),
    "DoctorContacts": lambda: _aside("DoctorContacts.csv"),
    "Benefits": lambda: _aside("Benefits.csv", without=["bluecol"]),
    "diamonds": lambda: _aside("diamonds.csv"),
    "flchain": lambda: _aside("flchain.csv"),
    "bfi": lambda: _aside("bfi.csv"),
    "epi": lambda: _aside("epi.csv"),
    "flights": lambda: _aside("flights.csv", only=_FLIGHTS),
}
"""The tables of the accuracy targets; parts of them on which slow peers can be drawn; and, from HI on, tables kept
aside: nothing of planning, inference or intervals was chosen by looking at how these come out."""


@lru_cache
def real_table(name: str) -> RealTable:
    """A table by its name; MissingFileError when its file is not there."""
    return TABLES[name]()


def present_tables(names: Iterable[str]) -> Iterator[RealTable]:
    """Those of some tables whose file is there."""
    for name in names:
        with suppress(MissingFileError):
            yield real_table(name)


def _read(file: str) -> pa.Table:
    path = find(file)
    if path is None:
        raise MissingFileError(f"no file {file} in the folder of CROSSTALLY_DATA")
    return pyarrow.csv.read_csv(path) if path.suffix == ".csv" else pyarrow.parquet.read_table(path)


def _table(name: str, rows: pa.Table, edges: Mapping[str, Edges]) -> RealTable:
    columns, attributes, codes = {}, [], []
    for each in rows.column_names:
        values = rows[each].to_numpy(zero_copy_only=False)
        if each in edges:
            attribute, code, column = _binned(each, values, list(edges[each]))
        else:
            labels, code = np.unique(values.astype(str), return_inverse=True)
            attribute = ct.Attribute(each, labels.tolist())
            column = pa.array(labels).take(pa.array(code)).dictionary_encode() if values.dtype == object else values
        attributes.append(attribute)
        codes.append(code)
        columns[each] = column
    return RealTable(
        name, ct.Schema(attributes), rows=pa.table(columns), codes=np.stack(codes, axis=1).astype(np.uint8)
    )


def _binned(name: str, values: NDArray, edges: list[float]) -> tuple[ct.Attribute, NDArray[np.int64], pa.Array]:
    """A numeric column in bins; "N" means not applicable, which is a cell of its own, the last."""
    absent = values == "N" if values.dtype == object else np.zeros(len(values), bool)
    numbers = np.where(absent, "nan", values).astype(float) if absent.any() else values.astype(float)
    code = np.minimum(np.searchsorted(edges, numbers, side="right") - 1, len(edges) - 2)
    code[absent] = len(edges) - 1
    attribute = ct.Attribute(name, edges=edges, missing=bool(absent.any()))
    return attribute, code.astype(np.int64), pa.array(numbers, mask=absent)
