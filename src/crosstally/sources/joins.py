"""Joins that keep one person's influence on a query's rows within bounds.

A join on any equality lets one row of the other table change thousands of rows of the result. A key does not help: one
customer with 5,000 orders changes 5,000 rows. So each row of the result must depend on rows of one unit, and beyond
them on public tables alone:

- a table that the steward declared public may be joined. Where the schema has no unit, at most one of its rows may
  belong to a row of the data: the join equates columns of it, and the database is asked whether they are unique;
- another table may be joined where the schema has a unit, and the join equates the unit's id on both sides. The bound
  on rows per unit holds for the result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from crosstally.checks import optional
from crosstally.errors import SourceError
from crosstally.sources.parts import JOIN_KINDS

PUBLIC, OF_UNIT, ASSERTED = JOIN_KINDS
"""How a table came to be joined, as a release's statement says it."""
_HOW = (
    "declare it with --public-table (in Python public_tables) if nobody in it needs protection, give the schema a unit "
    "and equate its id on both sides, or say --rows-are-units (in Python rows_are_units=True); the release states which"
)


@dataclass(frozen=True, slots=True)
class _Source:
    """One side of a join: the name that columns say, its tree, whether all its tables are public, and if it is one."""

    name: str
    node: Any
    public: bool
    table: bool

    @property
    def shown(self) -> str:
        return table_name(self.node) if self.table else self.name or "a subquery"


def table_name(table: Any) -> str:
    """The name of a table as the query has it, in small letters."""
    return ".".join(part.name for part in (table.args.get("db"), table.this) if part is not None).lower()


def joined_tables(tree: Any) -> list[str]:
    """The tables that any join of a tree brings in."""
    exp = optional("sqlglot", extra="databases").exp
    found = (table for join in tree.find_all(exp.Join) for table in join.find_all(exp.Table))
    return list(dict.fromkeys(table_name(table) for table in found))


def joins_of(
    tree: Any, dialect: Any, *, public: Collection[str], unit: str | None
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """How each table was joined, and for each public table that must be unique a query that counts its repeats.

    The query was checked otherwise; raises where a row may depend on rows of several units.
    """
    exp = optional("sqlglot", extra="databases").exp
    public = _named_public(tree, {name.lower() for name in public})
    how: dict[str, str] = {}
    repeats: dict[str, str] = {}
    for select in [each for each in tree.find_all(exp.Select) if each.args.get("joins")]:
        sources = [_source(node, tree, public) for node in (select.args["from_"].this, *_joined(select))]
        if len({source.name for source in sources}) < len(sources):
            raise _refused("a JOIN of two tables under one name")
        private = _private(select, sources, unit)
        people = [source for source in sources if not source.public]
        how |= {source.shown: PUBLIC for source in sources if source.public}
        how |= {source.shown: OF_UNIT for source in people[1:]}
        if unit is None:
            for source, columns in _looked_up(select, sources, private):
                repeats[source.shown] = _repeats(source.node, columns, dialect)
        elif people:
            _check_id(select, unit, private, by_id=len(people) > 1)
    if how and unit is not None:
        _check_handed_on(tree, unit)
    return how, repeats


def _named_public(tree: Any, public: set[str]) -> set[str]:
    """The tables declared public; raises where one is not there, or nothing else is."""
    exp = optional("sqlglot", extra="databases").exp
    defined = set(_defined(tree))
    tables = {table_name(table) for table in tree.find_all(exp.Table)} - defined
    if public & defined:
        raise SourceError(f"a name of WITH must not be that of a public table, got {min(public & defined)!r}")
    if public - tables:
        raise SourceError(f"the public table {min(public - tables)!r} must be one that the query selects from")
    if public and not tables - public:
        raise SourceError("all tables of the query are declared public: a release would protect nobody")
    return public


def _joined(select: Any) -> Iterator[Any]:
    return (join.this for join in select.args["joins"])


def _source(node: Any, tree: Any, public: Collection[str]) -> _Source:
    table = type(node).__name__ == "Table" and table_name(node) not in _defined(tree)
    return _Source(node.alias_or_name.lower(), node, _is_public(node, tree, public), table)


def _defined(tree: Any) -> dict[str, Any]:
    """What WITH gives names to."""
    return {cte.alias.lower(): cte.this for cte in tree.find_all(optional("sqlglot", extra="databases").exp.CTE)}


def _is_public(node: Any, tree: Any, public: Collection[str]) -> bool:
    exp = optional("sqlglot", extra="databases").exp
    if isinstance(node, exp.Table):
        body = _defined(tree).get(table_name(node))
        return table_name(node) in public if body is None else _is_public(body, tree, public)
    return all(_is_public(table, tree, public) for table in node.find_all(exp.Table))


def _private(select: Any, sources: list[_Source], unit: str | None) -> set[str]:
    """The names of the sources that hold people, and whose id is there in every row; raises where joins mix units."""
    seen = set() if sources[0].public else {sources[0].name}
    sure = set(seen)
    for join, source in zip(select.args["joins"], sources[1:], strict=True):
        kind, side = join.kind.upper(), join.side.upper()
        if kind not in ("", "INNER", "OUTER", "CROSS") or side not in ("", "LEFT") or (kind == "OUTER" and not side):
            raise _refused(f"{side or kind} JOIN")
        if source.public:
            continue
        if not seen and side:
            raise _refused(f"LEFT JOIN of {source.shown!r} to public tables alone, whose rows say who is not there,")
        of_people = not any(each.public for each in sources[: sources.index(source)])
        if seen and not (unit is not None and _equates_id(join, unit, source.name, seen, of_people=of_people)):
            by = "" if unit is None else f" without {unit!r} of both sides equated"
            raise _refused(f"a JOIN of {source.shown!r}{by}")
        seen.add(source.name)
        sure |= set() if side else {source.name}
    return sure


def _equates_id(join: Any, unit: str, own: str, others: Collection[str], *, of_people: bool) -> bool:
    if any(each.name.lower() == unit.lower() for each in join.args.get("using") or ()):
        return of_people  # a public table might have a column of that name
    pairs = [pair for pair in _equal_columns(join) if all(name == unit.lower() for _, name in pair)]
    return any({a, b} & {own} and {a, b} & set(others) for (a, _), (b, _) in pairs)


def _equal_columns(join: Any) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    """The pairs of columns, each with its table's name, that must be equal."""
    for condition in _all_of(join.args.get("on")):
        sides = (condition.this, condition.args.get("expression"))
        if type(condition).__name__ == "EQ" and all(type(side).__name__ == "Column" and side.table for side in sides):
            (one, other) = ((side.table.lower(), side.name.lower()) for side in sides)
            if one[0] != other[0]:
                yield one, other


def _all_of(condition: Any) -> Iterator[Any]:
    """The conditions that must all hold."""
    kind = type(condition).__name__
    if kind == "And":
        yield from _all_of(condition.this)
        yield from _all_of(condition.expression)
    elif kind == "Paren":
        yield from _all_of(condition.this)
    elif condition is not None:
        yield condition


# Without a unit: a row of the data finds at most one row of each public table


def _looked_up(select: Any, sources: list[_Source], private: set[str]) -> Iterator[tuple[_Source, list[Any]]]:
    """Each public source, with the columns by which it is found from sources that are found already."""
    found, left = set(private), [source for source in sources if source.name not in private]
    while left:
        for source in left:
            columns = _found_by(select, sources, source, found)
            if columns and source.table:
                break
        else:
            raise _refused(f"a JOIN of {left[0].shown!r} without an equality that finds one row of it")
        yield source, columns
        found.add(source.name)
        left.remove(source)


def _found_by(select: Any, sources: list[_Source], wanted: _Source, found: Collection[str]) -> list[Any]:
    """The columns of a source that joins equate with columns of sources that are found already."""
    out = {}
    earlier = {sources[0].name}
    for join, source in zip(select.args["joins"], sources[1:], strict=True):
        usable = source is wanted or not join.side  # a row of LEFT JOIN may be there without the equality
        for pair in _equal_columns(join) if usable else ():
            for (table, name), (other, _) in (pair, pair[::-1]):
                if table == wanted.name and other in found:
                    out[name] = name
        using = [each.name for each in join.args.get("using") or ()]
        if using and (
            (source is wanted and earlier <= set(found))
            or (usable and earlier == {wanted.name} and source.name in found)
        ):
            out |= {name.lower(): name for name in using}
        earlier.add(source.name)
    return list(out.values())


def _repeats(table: Any, columns: list[str], dialect: Any) -> str:
    """The query that says how many values of a public table's columns are there several times."""
    exp = optional("sqlglot", extra="databases").exp
    keys = [exp.column(exp.to_identifier(name)) for name in columns]
    own = table.copy()
    own.set("alias", None)
    repeated = exp.select("1 AS one").from_(own).group_by(*keys).having("COUNT(*) > 1")
    for key in keys:
        repeated = repeated.where(exp.Not(this=exp.Is(this=key.copy(), expression=exp.Null())))
    return str(exp.select("COUNT(*)").from_(repeated.subquery("repeated")).sql(dialect))


# With a unit: its id comes from the table of people


def _check_id(select: Any, unit: str, private: Collection[str], *, by_id: bool) -> None:
    """Raise unless the unit's id is a column of a table that holds people; by its name, where a join equates it."""
    stars = []
    for item in select.expressions:
        column = item.this if type(item).__name__ == "Alias" else item
        if type(column).__name__ == "Column" and type(column.this).__name__ == "Star":
            stars.append(column.table.lower())
        elif item.alias_or_name.lower() == unit.lower() and type(column).__name__ == "Column":
            merged = not column.table and _is_merged(select, unit)
            if (merged or column.table.lower() in private) and not (by_id and column.name.lower() != unit.lower()):
                return
    if len(stars) == 1 and stars[0] in private:
        return
    raise SourceError(
        f"a query that joins tables must select {unit!r}, the unit's id, as a column of the table that holds the "
        f"people, such as {min(private)}.{unit}"
    )


def _is_merged(select: Any, unit: str) -> bool:
    return any(
        each.name.lower() == unit.lower() for join in select.args["joins"] for each in join.args.get("using") or ()
    )


def _check_handed_on(tree: Any, unit: str) -> None:
    """Raise where a SELECT around a join gives the name of the unit's id to something else."""
    for select in tree.find_all(optional("sqlglot", extra="databases").exp.Select):
        inner = select.args["from_"].this
        if select.args.get("joins") or (type(inner).__name__ == "Table" and table_name(inner) not in _defined(tree)):
            continue
        for item in select.expressions:
            renamed = type(item).__name__ == "Alias" and item.alias.lower() == unit.lower()
            if renamed and not (type(item.this).__name__ == "Column" and item.this.name.lower() == unit.lower()):
                raise SourceError(f"a query that joins tables must not give the name of {unit!r} to another column")


def _refused(what: str) -> SourceError:
    return SourceError(f"the query has {what}, so that one person may change many rows: {_HOW}")
