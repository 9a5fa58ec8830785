"""A whole collection at once: the counts that a collector would hold, with the law of real reports.

Which people are in which group is drawn as devices draw it; then the true table of a group's people is all that its
reports depend on, and their counts are binomial and multinomial. That needs no reports and no ids.
Randomness comes from the numpy generator given: nothing here is a release.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from crosstally.local.bulk import answers
from crosstally.local.oracles import Oracle
from crosstally.local.oracles.answers import ReportTally
from crosstally.local.oracles.hadamard_response import HadamardResponse, ResidualBit, hadamard_transform
from crosstally.local.oracles.local_hashing import LocalHashing, hashes
from crosstally.local.oracles.oracle import cell_numbers
from crosstally.local.oracles.randomised_response import RandomisedResponse
from crosstally.local.oracles.subset_selection import SubsetSelection
from crosstally.local.oracles.unary_encoding import UnaryEncoding
from crosstally.local.planning.report_groups import Group
from crosstally.local.protocol import Protocol
from crosstally.typing import Integers

# Limits time: subset selection with more possible reports is drawn person by person. The law is the same.
_MOST_SETS = 100


def collection(
    protocol: Protocol, codes: NDArray[np.uint8], random: np.random.Generator
) -> tuple[Integers, list[Integers]]:
    """How many people each group has, and what a collector would hold of their reports.

    Args:
        protocol: What is asked.
        codes: A row for each attribute, a column for each person.
        random: Who is where and what is reported.
    """
    shares = np.array([group.share for group in protocol.groups], np.float64)
    people = random.multinomial(codes.shape[1], shares / shares.sum())
    order = random.permutation(codes.shape[1]).astype(np.int32)
    ends = np.cumsum(people)
    members = (order[end - number : end] for end, number in zip(ends, people, strict=True))
    counts = [_group_counts(group, codes, rows, random) for group, rows in zip(protocol.groups, members, strict=True)]
    return np.asarray(people, np.int64), counts


def _group_counts(
    group: Group, codes: NDArray[np.uint8], rows: NDArray[np.int32], random: np.random.Generator
) -> Integers:
    oracle = group.oracle
    if not isinstance(oracle, UnaryEncoding) and not _is_small(oracle, len(rows)):
        drawn = answers(oracle, codes[np.array(group.attributes)[:, None], rows])
        return ReportTally.of([oracle.answers]).counts(np.zeros(len(rows), np.int64), drawn)
    lines = (codes[attribute][rows] for attribute in group.attributes)
    table = np.bincount(cell_numbers(lines, oracle.sizes, len(rows)), minlength=oracle.cells)
    if isinstance(oracle, UnaryEncoding):
        set_bits = random.binomial(table, float(oracle.own)) + random.binomial(len(rows) - table, float(oracle.other))
        return np.asarray(set_bits, np.int64)
    law, slots = report_law(oracle)
    return np.asarray(random.multinomial(table, law).sum(axis=0) @ slots, np.int64)


def _is_small(oracle: Oracle, people: int) -> bool:
    """Whether drawing counts of all reports from all cells is less work than drawing every person's report."""
    match oracle:
        case RandomisedResponse() | ResidualBit() | HadamardResponse() | LocalHashing():
            reports = oracle.answers.limit
        case SubsetSelection():
            reports = math.comb(oracle.cells, oracle.members)
            if reports > _MOST_SETS:
                return False
        case _:
            return False
    return bool(oracle.cells * reports <= max(2 * people, 64))


@lru_cache(maxsize=256)
def report_law(oracle: Oracle) -> tuple[NDArray[np.float64], Integers]:
    """The probability of each report from each cell: (cells, reports); and what a report adds: (reports, slots)."""
    cells = oracle.cells
    match oracle:
        case RandomisedResponse():
            law = np.where(np.eye(cells, dtype=np.bool_), float(oracle.true), float(oracle.false))
        case SubsetSelection():
            return _law_of_sets(oracle)
        case LocalHashing():
            same = hashes(cells, oracle.buckets, oracle.digits).T[..., None] == np.arange(oracle.buckets)
            other = float((1 - oracle.keep) / (oracle.buckets - 1))
            law = np.where(same, float(oracle.keep), other).reshape(cells, -1) / oracle.buckets**oracle.digits
        case HadamardResponse():
            law = _law_of_signs(_signs(oracle.order)[:cells], float(oracle.keep))
            law = np.concatenate([np.zeros((cells, 2)), law], axis=1)
        case ResidualBit():
            signs: NDArray[np.float64] = np.ones((1, 1))
            for size, order in zip(oracle.sizes, oracle.orders, strict=True):
                signs = np.asarray(np.kron(signs, _signs(order)[:size]))
            law = _law_of_signs(signs, float(oracle.keep))
        case _:
            raise TypeError(f"{type(oracle).__name__} has too many reports")
    return law, np.eye(law.shape[1], dtype=np.int64)


def _signs(order: int) -> NDArray[np.float64]:
    """Hadamard's matrix without its first row, a line for each value."""
    return np.stack([hadamard_transform(unit) for unit in np.eye(order)])[:, 1:]


def _law_of_signs(signs: NDArray[np.float64], keep: float) -> NDArray[np.float64]:
    """A row drawn evenly, its sign kept: the reports of each row are its sign and the other one."""
    plus = np.where(signs > 0, keep, 1 - keep) / signs.shape[1]
    return np.stack([plus, 1 / signs.shape[1] - plus], axis=2).reshape(len(signs), -1)


def _law_of_sets(oracle: SubsetSelection) -> tuple[NDArray[np.float64], Integers]:
    cells, members, keep = oracle.cells, oracle.members, float(oracle.keep)
    sets = np.zeros((math.comb(cells, members), cells), np.int64)
    for row, chosen in zip(sets, combinations(range(cells), members), strict=True):
        row[list(chosen)] = 1
    own, other = math.comb(cells - 1, members - 1), math.comb(cells - 1, members)
    return np.where(sets.T == 1, keep / own, (1 - keep) / other), sets
