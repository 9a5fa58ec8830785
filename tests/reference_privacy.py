"""Sensitivity by brute force, from the definitions: every unit, every pair of neighbouring tables, plain loops.

Queries, noise and schemas are read from their JSON, so that nothing here rests on the code under test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import exp, lcm, prod, sqrt
from typing import Any

Row = tuple[int, ...]
Rows = tuple[Row, ...]


def sizes_of(schema: dict[str, Any]) -> dict[str, int]:
    """How many cells each attribute has."""
    sizes = {}
    for attribute in schema["attributes"]:
        cells = len(attribute["values"]) if "values" in attribute else len(attribute["edges"]) - 1
        cells += attribute.get("outside") == "other"
        cells += attribute.get("missing", False)
        sizes[attribute["name"]] = cells
    return sizes


def units(schema: dict[str, Any]) -> list[Rows]:
    """All that one unit may put into the table: every multiset of rows that is allowed."""
    possible = list(product(*(range(n) for n in sizes_of(schema).values())))
    if schema.get("unit", {}).get("divided"):  # any number of rows: up to three, of which none is left out
        counts = range(4)
    elif "unit" in schema:  # a unit may come with up to max_rows rows, and with none that is counted
        counts = range(schema["unit"]["max_rows"] + 1)
    elif any(attribute.get("outside") == "drop" for attribute in schema["attributes"]):
        counts = range(2)
    else:
        counts = range(1, 2)
    return [rows for count in counts for rows in combinations_with_replacement(possible, count)]


def neighbouring_tables(schema: dict[str, Any], neighbours: str, others: int) -> Iterator[tuple[Rows, Rows]]:
    """Every pair of neighbouring tables that have up to this many other units in common."""
    one = units(schema)
    for count in range(others + 1):
        for crowd in combinations_with_replacement(one, count):
            common = tuple(row for rows in crowd for row in rows)
            for before in one if neighbours == "replace" else [()]:
                for after in one:
                    yield common + before, common + after


def answer(query: dict[str, Any], schema: dict[str, Any], rows: Rows) -> list[int]:
    """The answer to a query, number by number, each a loop over the rows."""
    query = dict(query)
    groups, matrices = query.pop("groups", {}), query.pop("matrices", {})
    ((kind, body),) = query.items()
    sizes, place = sizes_of(schema), {name: i for i, name in enumerate(sizes_of(schema))}
    if kind == "choice":
        return _scores(body, schema, rows)
    if kind == "linear":
        return [sum(_term(term, place, row) for term in body for row in rows)]
    if kind == "kronecker":
        return _kronecker(body, matrices, sizes, place, rows)
    cells = list(product(*(range(sizes[name]) for name in body)))
    if groups:
        maps = [groups.get(name, range(sizes[name])) for name in body]
        keys = [tuple(each[row[place[n]]] for n, each in zip(body, maps, strict=True)) for row in rows]
        return [keys.count(cell) for cell in product(*(range(max(each) + 1) for each in maps))]
    if kind == "cells":
        return [sum(all(row[place[n]] == v for n, v in zip(body, cell, strict=True)) for row in rows) for cell in cells]
    kept = [cell for cell in cells if all(v == 0 or sizes[n] > 2 for n, v in zip(body, cell, strict=True))]
    return [sum(_contrast(cell, row, body, sizes, place) for row in rows) for cell in kept]


def counted(query: dict[str, Any], schema: dict[str, Any], rows: Rows) -> list[Any]:
    """The answer to a query about one unit, which is a sum over its rows: each counts 1/r where it is divided over r.

    A row counts the largest whole number of parts that r of it have room for; there are 720,720 parts.
    """
    if not rows or not schema.get("unit", {}).get("divided"):
        return answer(query, schema, rows)
    each = Fraction(720_720 // len(rows), 720_720)
    return [each * number for number in answer(query, schema, rows)]


def _kronecker(
    names: list[str], matrices: dict[str, list[list[int]]], sizes: dict[str, int], place: dict[str, int], rows: Rows
) -> list[int]:
    """For each combination of rows of the matrices the sum over all rows of the product of their entries."""
    residual = all(len(matrix) < len(matrix[0]) for matrix in matrices.values())
    along = []
    for name in names:
        n = sizes[name]
        plain = [[int(i == j) for j in range(n)] for i in range(n)]
        if residual:
            plain = [[1, -1]] if n == 2 else [[n * int(i == j) - 1 for j in range(n)] for i in range(n)]
        along.append(matrices.get(name, plain))
    return [
        sum(prod(entries[row[place[name]]] for name, entries in zip(names, chosen, strict=True)) for row in rows)
        for chosen in product(*along)
    ]


def _scores(choice: dict[str, Any], schema: dict[str, Any], rows: Rows) -> list[int]:
    """Whole scores: weights over their common denominator, times the distance beyond the penalty."""
    weights = [Fraction(weight) for weight in choice["weights"]]
    common = lcm(*(weight.denominator for weight in weights))
    out = []
    for i, names in enumerate(choice["candidates"]):
        own = {name: choice["groups"][name] for name in names if name in choice["groups"]}
        counts = answer({"cells": names, "groups": own}, schema, rows) if names else []
        distance = sum(abs(a - b) for a, b in zip(counts, choice["reference"][i], strict=True))
        out.append(int(weights[i] * common) * (distance - choice["penalties"][i]))
    return out


def brute_force_choice(query: dict[str, Any], schema: dict[str, Any], neighbours: str, others: int) -> int:
    """The farthest that any two neighbouring tables move a whole score of a choice."""
    pairs = neighbouring_tables(schema, neighbours, others)
    moved = (zip(answer(query, schema, a), answer(query, schema, b), strict=True) for a, b in pairs)
    return max(abs(x - y) for scores in moved for x, y in scores)


def _term(term: dict[str, Any], place: dict[str, int], row: Row) -> int:
    return term["weight"] * prod(factor[row[place[name]]] for name, factor in term["factors"].items())


def _contrast(cell: Row, row: Row, names: list[str], sizes: dict[str, int], place: dict[str, int]) -> int:
    """The entry of the tensor product of (n I - J), or of (1, -1) along an attribute of two values."""
    entry = 1
    for name, value in zip(names, cell, strict=True):
        same = row[place[name]] == value
        if sizes[name] == 2:
            entry *= 1 if same else -1
        else:
            entry *= sizes[name] - 1 if same else -1
    return entry


def brute_force_sensitivity(
    queries: list[dict[str, Any]], schema: dict[str, Any], neighbours: str, others: int = 0
) -> tuple[int, int]:
    """The largest L1 and squared L2 distance of the answers to all queries together."""
    known: dict[Rows, list[int]] = {}
    l1 = l2_squared = 0
    for before, after in neighbouring_tables(schema, neighbours, others):
        for rows in (before, after):
            if rows not in known:
                known[rows] = [number for query in queries for number in answer(query, schema, rows)]
        moved = [abs(a - b) for a, b in zip(known[before], known[after], strict=True)]
        l1, l2_squared = max(l1, sum(moved)), max(l2_squared, sum(m * m for m in moved))
    return l1, l2_squared


def brute_force_cost(schema: Any, requests: Any, neighbours: Any) -> tuple[Fraction | None, Fraction]:
    """The largest epsilon (None with Gaussian noise) and rho that any two neighbouring tables make of the requests.

    Give a plan's schema, requests and neighbours. Laplace noise of scale b adds L1 / b to epsilon and half of its
    square to rho; Gaussian noise of scale s adds squared L2 / (2 s^2) to rho; a choice adds 2 Linf / b to epsilon and
    an eighth of its square to rho.
    """
    given = schema.to_dict()
    asked = [(request.query.to_dict(), request.noise.to_dict()) for request in requests]
    known = {rows: [counted(query, given, rows) for query, _ in asked] for rows in [(), *units(given)]}
    epsilon, rho = Fraction(0), Fraction(0)
    for before, after in neighbouring_tables(given, str(neighbours), 0):
        pair_epsilon, pair_rho = Fraction(0), Fraction(0)
        for (query, noise), a, b in zip(asked, known[before], known[after], strict=True):
            scale = Fraction(noise["scale"])
            if noise["kind"] == "laplace":
                loss = sum(abs(x - y) for x, y in zip(a, b, strict=True)) / scale
                pair_epsilon += loss
                pair_rho += loss * loss / 2
            elif noise["kind"] == "gumbel":
                loss = 2 * max(abs(x - y) for x, y in zip(a, b, strict=True)) / scale
                picks = query["choice"]["picks"]
                pair_epsilon += picks * loss
                pair_rho += picks * loss * loss / 8
            else:
                pair_rho += sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) / (2 * scale * scale)
        epsilon, rho = max(epsilon, pair_epsilon), max(rho, pair_rho)
    return (None if any(noise["kind"] == "gaussian" for _, noise in asked) else epsilon), rho


def brute_force_spent(budget: Any, schema: Any, requests: Any, neighbours: Any) -> Fraction:
    """The same in what the budget adds up: epsilon, rho, or mu^2 in doubles, less their rounding."""
    if budget.currency == "mu2":
        return Fraction(brute_force_mu2(schema, requests, neighbours))
    found = brute_force_cost(schema, requests, neighbours)[0 if budget.pure else 1]
    assert found is not None
    return found


def brute_force_mu2(schema: Any, requests: Any, neighbours: Any) -> float:
    """The largest mu^2 that two neighbouring tables make of the requests, less a part in 10^13 for rounding.

    Laplace noise and choices: 11/14 of their epsilon squared times two, and of its half. Gaussian noise of scale s:
    squared L2 times the y with y - y^2 / 12 = 1 / s^2.
    """
    given = schema.to_dict()
    asked = [(request.query.to_dict(), request.noise.to_dict()) for request in requests]
    known = {rows: [answer(query, given, rows) for query, _ in asked] for rows in [(), *units(given)]}
    most = 0.0
    for before, after in neighbouring_tables(given, str(neighbours), 0):
        total = 0.0
        for (query, noise), a, b in zip(asked, known[before], known[after], strict=True):
            moved, scale = [abs(x - y) for x, y in zip(a, b, strict=True)], float(noise["scale"])
            if noise["kind"] == "gaussian":
                root = sqrt(1 - 1 / (3 * scale**2)) if any(moved) else 1.0  # what does not move has tiny noise
                total += sum(m * m for m in moved) * 2 / (scale**2 * (1 + root))
            else:
                spread = 2 * (max(moved) if noise["kind"] == "gumbel" else sum(moved)) / scale
                picks = query["choice"]["picks"] if noise["kind"] == "gumbel" else 1
                total += picks * 11 / 28 * spread**2
        most = max(most, total)
    return most * (1 - 1e-13)


def noise_weights(kind: str, scale: float, reach: int) -> list[float]:
    """The probabilities of -reach..reach, from the definition of the discrete Laplace or Gaussian distribution."""
    if kind == "laplace":
        weights = [exp(-abs(k) / scale) for k in range(-reach, reach + 1)]
    else:
        weights = [exp(-(k * k) / (2 * scale * scale)) for k in range(-reach, reach + 1)]
    total = sum(weights)
    return [weight / total for weight in weights]


def noise_p_value(sample: list[int], kind: str, scale: float) -> float:
    """The p-value of Pearson's chi-square test that a sample is discrete noise of this scale.

    Neighbouring values are pooled until a twentieth of the sample, at least, is expected in each group.
    """
    from scipy.stats import chi2

    reach = max(60, int(60 * scale))
    found, expected, groups = 0, 0.0, []
    times = Counter(min(max(k, -reach), reach) for k in sample)
    for k, weight in zip(range(-reach, reach + 1), noise_weights(kind, scale, reach), strict=True):
        found, expected = found + times[k], expected + len(sample) * weight
        if expected >= len(sample) / 20:
            groups.append((found, expected))
            found, expected = 0, 0.0
    last = groups.pop()
    groups.append((last[0] + found, last[1] + expected))
    statistic = sum((found - expected) ** 2 / expected for found, expected in groups)
    return float(chi2.sf(statistic, len(groups) - 1))
