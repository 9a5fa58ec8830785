"""Queries from their JSON, as plans and ledgers hold them."""

from __future__ import annotations

from collections.abc import Mapping

from crosstally.errors import QueryError
from crosstally.query.choice import Choice
from crosstally.query.linear import Linear, Term
from crosstally.query.operators import Matrix, read_matrices
from crosstally.query.queries import Cells, Contrast, Kronecker, Product, Query

__all__ = ["query_from_dict"]


def query_from_dict(
    given: object,
    groups: Mapping[str, tuple[int, ...]] | None = None,
    matrices: Mapping[str, Matrix] | None = None,
) -> Query:
    """A query from its JSON; ``groups`` and ``matrices`` are those that it may name instead of holding them."""
    if isinstance(given, dict) and given.keys() == {"kronecker", "matrices"}:
        return _read_kronecker(given["kronecker"], given["matrices"], matrices or {})
    if isinstance(given, dict) and given.keys() == {"cells", "groups"}:
        return _read_grouped(given["cells"], given["groups"], groups or {})
    if not isinstance(given, dict) or len(given) != 1:
        raise QueryError("a query must be an object with one of cells, contrast, linear, kronecker or choice")
    ((kind, body),) = given.items()
    if kind in ("cells", "contrast"):
        if not isinstance(body, list) or not all(isinstance(name, str) for name in body):
            raise QueryError(f"{kind} must be a list of attribute names")
        return Cells(tuple(body)) if kind == "cells" else Contrast(tuple(body))
    if kind == "linear" and isinstance(body, list):
        return Linear(tuple(map(_read_term, body)))
    if kind == "choice":
        return _read_choice(body)
    raise QueryError(f"a query must be cells, contrast, linear, kronecker or choice, got {kind!r}")


def _read_grouped(names: object, groups: object, known: Mapping[str, tuple[int, ...]]) -> Product:
    """Cells whose groups stand with them, by name of attribute, or are named only."""
    cells = query_from_dict({"cells": names})
    if isinstance(groups, list):
        if not groups or not all(isinstance(name, str) and name in known for name in groups):
            raise QueryError("cells in groups must name attributes whose groups are given")
        groups = {name: known[name] for name in groups}
    if not isinstance(groups, Mapping) or not groups:
        raise QueryError("groups must be an object: for each attribute the group of each value")
    return Cells(cells.attributes, groups)


def _read_kronecker(names: object, matrices: object, known: Mapping[str, Matrix]) -> Product:
    """A Kronecker query whose matrices stand with it, by name of attribute, or are named only."""
    attributes = query_from_dict({"cells": names}).attributes
    if isinstance(matrices, list):
        if not all(isinstance(name, str) and name in known for name in matrices):
            raise QueryError("a Kronecker query must name attributes whose matrices are given")
        matrices = {name: known[name] for name in matrices}
    return Kronecker(attributes, read_matrices(matrices))


def _read_term(given: object) -> Term:
    if (
        not isinstance(given, Mapping)
        or set(given) != {"weight", "factors"}
        or not isinstance(given["factors"], Mapping)
    ):
        raise QueryError("a term must be an object with weight and factors")
    for name, factor in given["factors"].items():
        if not isinstance(factor, list):
            raise QueryError(f"the factor of {name!r} must be a list of whole numbers")
    return Term(given["weight"], tuple((name, tuple(factor)) for name, factor in given["factors"].items()))


def _read_choice(given: object) -> Choice:
    fields = ("candidates", "reference", "weights", "penalties")
    if not isinstance(given, Mapping) or set(given) != set(fields):
        raise QueryError(f"a choice must be an object with {', '.join(fields)}")
    for field in fields:
        nested = field in ("candidates", "reference")
        if not isinstance(given[field], list) or (nested and not all(isinstance(each, list) for each in given[field])):
            raise QueryError(f"{field} of a choice must be a list, of candidates and reference a list of lists")
    if not all(isinstance(name, str) for names in given["candidates"] for name in names):
        raise QueryError("candidates of a choice must be lists of attribute names")
    if not all(isinstance(weight, str) for weight in given["weights"]):
        raise QueryError("weights of a choice must be texts of exact numbers")
    return Choice(given["candidates"], given["reference"], weights=given["weights"], penalties=given["penalties"])
