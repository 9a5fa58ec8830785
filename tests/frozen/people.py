"""What the cases are about: rows that follow from arithmetic alone, and noise that is the same every time."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.random import Philox

import crosstally as ct
from crosstally.privacy.noise import Mechanism
from crosstally.schema import Attribute, Outside, PublicCounts, Schema

# Noise that is the same every time


@contextmanager
def injected(seed: int) -> Iterator[None]:
    """Noise and reports drawn from a seed: rounded normal or Laplace noise of the scale that was asked for."""
    words, coins = Philox(key=seed), random.Random(seed)

    def uniform(size: int) -> Any:
        return ((np.asarray(words.random_raw(size), np.uint64) >> np.uint64(11)).astype(float) + 0.5) * 2.0**-53

    def draw(self: Mechanism, values: Any) -> Any:
        p = uniform(values.size).reshape(values.shape)
        noise = -np.sign(p - 0.5) * np.log(1 - 2 * np.abs(p - 0.5)) * self.noise.scale
        return values + np.rint(noise).astype(np.int64)

    def choose(self: Mechanism, scores: Any) -> Any:
        return np.array(np.argmax(scores - self.noise.scale * np.log(-np.log(uniform(scores.size)))), np.int64)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Mechanism, "draw", draw)
        patch.setattr(Mechanism, "choose", choose)
        patch.setattr(secrets, "randbelow", coins.randrange)
        patch.setattr(secrets, "token_bytes", lambda number=16: coins.randbytes(number))
        yield


# Rows that follow from arithmetic alone


@cache
def rows(number: int = 4_000) -> pa.Table:
    i = np.arange(number)
    mixed = (i * 2654435761 + 97) % 4294967296
    sex = (mixed >> 7) % 2
    age = (mixed >> 9) % 80 + 3 * sex
    job = np.where(age < 20, 0, (mixed >> 13) % 3 + (age > 60))
    region = ((mixed >> 17) % 7) % 4
    owns = ((mixed >> 21) % 10 + job > 6).astype(int)
    code = ((mixed >> 11) % 97 * ((mixed >> 19) % 3 + 1)) % 60
    return pa.table(
        {
            "sex": np.array(["Female", "Male"])[sex],
            "age": age,
            "job": np.array(["none", "part", "full", "retired"])[job],
            "region": np.array(["North", "East", "South", "West"])[region],
            "owns": np.array(["no", "yes"])[owns],
            "code": np.array([f"c{k:02}" for k in range(60)])[code],
            "hours": (mixed >> 15) % 50,
            "person": (i * 7919) % 2_500,
        }
    )


SEX, OWNS = Attribute("sex", ["Female", "Male"]), Attribute("owns", ["no", "yes"])
AGE = Attribute("age", edges=[0, 18, 30, 45, 60, 100])
ADULT = Attribute("age", edges=[18, 30, 45, 60], outside=Outside.DROP)
JOB = Attribute("job", ["none", "part", "full", "retired"])
REGION = Attribute("region", ["North", "East", "South", "West"])
CODE = Attribute("code", [f"c{k:02}" for k in range(60)])
FIVE = Schema([SEX, AGE, JOB, REGION, OWNS])
TWO = Schema([SEX, AGE, Attribute("hours", edges=[0, 10, 20, 30, 40, 50])])
LEVELS = Schema.from_dict(
    {
        "crosstally-schema": 1,
        "attributes": [
            {"name": "sex", "values": ["Female", "Male"]},
            {
                "name": "region",
                "values": ["North", "East", "South", "West"],
                "hierarchy": [{"name": "side", "groups": {"a": ["North", "East"], "b": ["South", "West"]}}],
            },
        ],
    }
)
SIX = Schema([SEX, AGE, JOB, REGION, OWNS, CODE])
BINARY = Schema([Attribute(f"b{k}", ["0", "1"]) for k in range(6)])
PAIRS = ct.Workload.all_ways(FIVE, 2)
HALVES = PublicCounts("sex", (2_000, 2_000))
PURE, DELTA, RHO = {"epsilon": 1}, {"epsilon": 1, "delta": "1e-6"}, {"rho": "0.1"}


@cache
def bits() -> pa.Table:
    mixed = (np.arange(3_000) * 2654435761 + 11) % 4294967296
    return pa.table(
        {f"b{k}": np.array(["0", "1"])[((mixed >> (5 + 3 * k)) % 5 > k % 3 + 1).astype(int)] for k in range(6)}
    )
