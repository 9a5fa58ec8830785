"""A closed world for trees of SQL: what is not listed is not understood, and is found before anything is read.

sqlglot says what a statement means by the class of a node and by its arguments, and a new version may say in an
argument what an older one said in a class: ``x NOT LIKE p`` was ``Not(Like(x, p))`` and is ``Like(x, p, negate=True)``.
Whoever looks at classes alone then answers the opposite question. So each user of a tree lists, for each class, the
arguments that it understands. ``False`` is a value too: GROUP BY DISTINCT is ``Group(all=False)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

Known = Mapping[str, frozenset[str]]
"""The arguments that are understood, by the name of the node's class."""

# Where the name of a class, or of an argument, is not what a user wrote.
_CLASSES = {"Group": "GROUP BY", "Order": "ORDER BY", "Distinct": "DISTINCT", "Window": "a window function"}
_CLASSES |= {"Fetch": "LIMIT", "LimitOptions": "LIMIT with a percentage or ties"}
_CLASSES |= {"TableSample": "TABLESAMPLE", "Lock": "FOR UPDATE", "Rand": "random()", "Uuid": "a random UUID"}
_CLASSES |= {"Dot": "a dot after an expression", "Bracket": "[...]", "TableAlias": "AS name(columns)"}
_CLASSES |= {"NullSafeEQ": "IS NOT DISTINCT FROM", "NullSafeNEQ": "IS DISTINCT FROM", "SimilarTo": "SIMILAR TO"}
_CLASSES |= {"RegexpLike": "a regular expression", "IntDiv": "//", "WindowSpec": "ROWS or RANGE in a window"}
_CLASSES |= {"DataTypeParam": "a length or precision of a type", "ParseJSON": "JSON"}
_CLASSES |= {"ILike": "ILIKE", "Ordered": "ORDER BY", "Star": "*", "JSONExtract": "a path into JSON"}
_ARGUMENTS = {"negate": "NOT", "with_": "WITH", "from_": "FROM", "for_": "FOR", "field": "a name instead of a list"}
_ARGUMENTS |= {"query": "a subquery", "except_": "EXCEPT", "nulls_first": "NULLS FIRST", "db": "a qualified name"}
_OF_A_CLASS = {("Group", "all"): "GROUP BY DISTINCT", ("TableAlias", "columns"): "names of columns after a table"}
_OF_A_CLASS |= {("With", "recursive"): "WITH RECURSIVE"}

_PLAIN = frozenset(("Column", "Identifier", "Literal", "Paren", "Var"))  # say less than the argument that holds them


def known_trees(by_arguments: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """A table of what is understood, from names of arguments to the names of the classes that have these and no others.

    >>> known_trees({"this expression": "Add Sub", "": "Null"})["Sub"] == {"this", "expression"}
    True
    """
    return {
        name: frozenset(arguments.split()) for arguments, classes in by_arguments.items() for name in classes.split()
    }


def not_understood(tree: Any, known: Known) -> Iterator[tuple[Any, str | None]]:
    """The nodes whose class is not listed (with None), or that have an argument that is not (with its name)."""
    for node in tree.walk():
        understood = known.get(type(node).__name__)
        if understood is None:
            yield node, None
            continue
        for argument, value in node.args.items():
            if value is not None and value != [] and argument not in understood:
                yield node, argument


def in_words(node: Any, argument: str | None = None) -> str:
    """What a node is, or an argument of it, in words of SQL."""
    if argument is None:
        return _class_in_words(node)
    value = node.args[argument]
    first = value[0] if isinstance(value, list) else value
    own = _OF_A_CLASS.get((type(node).__name__, argument))
    if own is not None:
        return own
    if argument not in _ARGUMENTS and hasattr(first, "args") and type(first).__name__ not in _PLAIN:
        return _class_in_words(first)
    word = _ARGUMENTS.get(argument, argument.strip("_").replace("_", " ").upper())
    return f"{word} in {_class_in_words(node)}"


def _class_in_words(node: Any) -> str:
    kind = type(node).__name__
    if kind in ("Anonymous", "AnonymousAggFunc"):
        return f"the function {node.name!r}"
    if kind == "Var":
        return str(node.name).upper()
    return _CLASSES.get(kind) or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind).upper()
