"""Queries from their JSON, as plans and ledgers hold them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crosstally.errors import QueryError
from crosstally.query.choice import Choice
from crosstally.query.linear import Linear, Term
from crosstally.query.operators import Matrix, read_matrices
from crosstally.query.queries import Cells, Contrast, Kronecker, Query
from crosstally.query.summed import ROWS, Summed
from crosstally.query.unit_table import UnitTable


def query_from_dict(
    given: object,
    groups: Mapping[str, tuple[int, ...]] | None = None,
    matrices: Mapping[str, Matrix] | None = None,
) -> Query:
    """A query from its JSON; ``groups`` and ``matrices`` are those that it may name instead of holding them."""
    said = [key for key in ("of", "having") if isinstance(given, dict) and key in given]
    if said and isinstance(given, dict):
        asked = query_from_dict({key: each for key, each in given.items() if key != said[0]}, groups, matrices)
        if not asked.is_table or asked.summed != ROWS or not isinstance(given[said[0]], str):
            raise QueryError("only cells can sum a measure, one of them, by its name")
        return Cells(asked.attributes, asked.groups, Summed(given[said[0]], values=said[0] == "of"))
    if isinstance(given, dict) and given.keys() == {"kronecker", "matrices"}:
        own = _named(given["matrices"], matrices, "a Kronecker query must name attributes whose matrices are given")
        return Kronecker(_names(given["kronecker"], "cells"), read_matrices(own))
    if isinstance(given, dict) and given.keys() == {"cells", "groups"}:
        own = _named(given["groups"], groups, "cells in groups must name attributes whose groups are given")
        if not isinstance(own, Mapping) or not own:
            raise QueryError("groups must be an object: for each attribute the group of each value")
        return Cells(_names(given["cells"], "cells"), own)
    if not isinstance(given, dict) or len(given) != 1:
        raise QueryError("a query must be an object with one of cells, contrast, linear, kronecker, choice or units")
    ((kind, body),) = given.items()
    if kind in ("cells", "contrast"):
        return (Cells if kind == "cells" else Contrast)(_names(body, kind))
    if kind == "linear" and isinstance(body, list):
        return Linear(tuple(map(_read_term, body)))
    if kind == "choice":
        return _read_choice(body)
    if kind == "units" and isinstance(body, list):
        return UnitTable(tuple(body))
    raise QueryError(f"a query must be cells, contrast, linear, kronecker, choice or units, got {kind!r}")


def _names(given: object, kind: str) -> tuple[str, ...]:
    if not isinstance(given, list) or set(map(type, given)) - {str}:
        raise QueryError(f"{kind} must be a list of attribute names")
    return tuple(given)


def _named(given: object, known: Mapping[str, Any] | None, message: str) -> object:
    """Groups or matrices by name of attribute: given in the query, or only named there."""
    if not isinstance(given, list):
        return given
    if not given or not all(isinstance(name, str) and name in (known or {}) for name in given):
        raise QueryError(message)
    return {name: (known or {})[name] for name in given}


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
    fields = ("candidates", "reference", "weights", "penalties")  # each a list
    if not isinstance(given, Mapping) or set(given) != {*fields, "picks", "groups"}:
        raise QueryError(f"a choice must be an object with {', '.join(fields)}, picks and groups")
    for field in fields:
        nested = field in ("candidates", "reference")
        if not isinstance(given[field], list) or (nested and not all(isinstance(each, list) for each in given[field])):
            raise QueryError(f"{field} of a choice must be a list, of candidates and reference a list of lists")
    if not all(isinstance(name, str) for names in given["candidates"] for name in names):
        raise QueryError("candidates of a choice must be lists of attribute names")
    if not all(isinstance(weight, str) for weight in given["weights"]):
        raise QueryError("weights of a choice must be texts of exact numbers")
    if not isinstance(given["groups"], Mapping) or not all(isinstance(own, list) for own in given["groups"].values()):
        raise QueryError("groups of a choice must be an object: for each attribute the group of each value")
    return Choice(given["candidates"], **{name: each for name, each in given.items() if name != "candidates"})
