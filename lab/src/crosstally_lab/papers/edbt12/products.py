"""Inner products of queries under a prior (EDBT 2012, 3.2 and 3.4): never over the universe."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from crosstally.notebook.history.bundles import QueryBatch, QueryGroup
from crosstally.notebook.history.prior import Prior
from crosstally.query.linear import Linear
from crosstally.schema import Schema

# Queries of more terms are multiplied as tables. It changes time alone: pairs of terms grow with the square.
_MAX_TERMS = 4


def kernel(first: Sequence[Linear], second: Sequence[Linear], prior: Prior) -> NDArray[np.float64]:
    """The matrix of inner products of two lists of queries, in the cheaper of the two forms.

    Queries of few terms are multiplied attribute by attribute (equations 12 and 19), others over the attributes that
    both have (equation 15).
    """
    schema = prior.schema
    terms = max((len(query.terms) for query in (*first, *second)), default=0)
    cells = max((math.prod(schema.sizes(query.attributes)) for query in (*first, *second)), default=0)
    if terms == 1 or (terms <= _MAX_TERMS and cells > sum(schema.shape)):
        return kernel_of_terms(first, second, prior)
    return kernel_of_tables(QueryBatch.of(first, schema), QueryBatch.of(second, schema), prior)


def kernel_of_terms(first: Sequence[Linear], second: Sequence[Linear], prior: Prior) -> NDArray[np.float64]:
    """Equations 12 and 19: for each pair of terms the product over attributes of sums over one attribute's values."""
    schema = prior.schema
    owners_a, weights_a, factors_a = _terms(first, schema)
    owners_b, weights_b, factors_b = _terms(second, schema)
    products = np.multiply.outer(weights_a, weights_b)
    for name, p in zip(schema.names, prior.probabilities, strict=True):
        if name in factors_a or name in factors_b:
            ones = np.ones((1, len(p)))
            products *= (factors_a.get(name, ones) * p) @ factors_b.get(name, ones).T
    if len(owners_a) == len(first) and len(owners_b) == len(second):
        return products
    rows = np.zeros((len(first), len(owners_b)))
    np.add.at(rows, owners_a, products)
    out = np.zeros((len(second), len(first)))
    np.add.at(out, owners_b, rows.T)
    return out.T


def _terms(
    queries: Sequence[Linear], schema: Schema
) -> tuple[NDArray[np.intp], NDArray[np.float64], dict[str, NDArray[np.float64]]]:
    """For each term the query it belongs to and its weight; for each attribute that some term names, all factors."""
    owners = np.array([i for i, query in enumerate(queries) for _ in query.terms], np.intp)
    terms = [term for query in queries for term in query.terms]
    weights = np.array([term.weight for term in terms], np.float64)
    factors: dict[str, NDArray[np.float64]] = {}
    for i, term in enumerate(terms):
        for name, values in term.factors:
            if name not in factors:
                factors[name] = np.ones((len(terms), schema[name].size))
            factors[name][i] = values
    return owners, weights, factors


def kernel_of_tables(first: QueryBatch, second: QueryBatch, prior: Prior) -> NDArray[np.float64]:
    """Equation 15: each query averaged onto the attributes that both have, then summed over these."""
    out = np.empty((first.size, second.size))
    for a in first.bundles:
        for b in second.bundles:
            common = tuple(position for position in a.positions if position in b.positions)
            weights = np.sqrt(prior.joint(common)).ravel()
            products = (_averaged(a, common, prior) * weights) @ (_averaged(b, common, prior) * weights).T
            out[np.ix_(a.rows, b.rows)] = products
    return out


def _averaged(bundle: QueryGroup, common: tuple[int, ...], prior: Prior) -> NDArray[np.float64]:
    table = bundle.tables
    for axis in reversed(range(len(bundle.positions))):
        position = bundle.positions[axis]
        if position not in common:
            table = np.tensordot(table, prior.probabilities[position], axes=(axis + 1, 0))
    return table.reshape(len(table), -1)
