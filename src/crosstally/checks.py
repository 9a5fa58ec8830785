"""Whether what was given to a public call is of the right kind: one line says what it must be, and what it is.

Packages that not everyone needs, imported where they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from math import inf
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeGuard

from crosstally.errors import CrosstallyError, MissingExtraError, QueryError

_KINDS: Mapping[Any, str] = {
    bool: "True or False",
    str: "a text",
    Callable: "a function",
    Mapping: "a mapping, such as a dictionary",
    Iterable: "a list",
    int | float: "a number",
    str | Path: "a path",
}


def check_kind(given: object, kind: Any, what: str, error: type[CrosstallyError] = QueryError) -> None:
    """Raise unless this is of a kind, which is a class.

    >>> check_kind("sex", str, "name")
    >>> check_kind(3, str, "name")
    Traceback (most recent call last):
    crosstally.errors.QueryError: name must be a text, got int
    """
    if not isinstance(given, kind):
        rule = _KINDS.get(kind) or f"a {kind.__name__}"
        raise error(f"{what} must be {rule}, got {type(given).__name__}")


def is_whole(given: Any, least: float = -inf, most: float = inf, *, numpy: bool = False) -> TypeGuard[int]:
    """Whether this is a whole number within limits; True and False are none. Of numpy's only where that is said.

    >>> is_whole(3, 1), is_whole(0, 1), is_whole(True), is_whole(3.0)
    (True, False, False, False)
    """
    whole: Any = Integral if numpy else int
    return not isinstance(given, bool) and isinstance(given, whole) and least <= given <= most


def is_number(given: object, *, numpy: bool = False) -> TypeGuard[float]:
    """Whether this is a number; True and False are none. Of numpy's only where that is said.

    >>> is_number(0.5), is_number(float("nan")), is_number(True), is_number("1")
    (True, True, False, False)
    """
    return not isinstance(given, bool) and isinstance(given, Real if numpy else int | float)


def several(given: object, what: str) -> Iterable[Any]:
    """What was given, which must be a list or anything else that is gone through; a text is not."""
    if isinstance(given, str | bytes):
        raise QueryError(f"{what} must be a list, got one text")
    check_kind(given, Iterable, what)
    assert isinstance(given, Iterable)
    return given


def names_in(given: Iterable[object]) -> tuple[str, ...]:
    """Names of attributes, given one by one or as one list of them.

    >>> names_in(["sex", "age"]), names_in([["sex", "age"]])
    (('sex', 'age'), ('sex', 'age'))
    """
    names: tuple[Any, ...] = tuple(given)
    if len(names) == 1 and not isinstance(names[0], str):
        names = tuple(several(names[0], "names of attributes"))
    for name in names:
        check_kind(name, str, "the name of an attribute")
    return names


def optional(module: str, *, extra: str, package: str | None = None) -> Any:
    """A module of an optional package; raises the line that installs it when it is not there.

    Args:
        module: What to import.
        extra: The extra of crosstally that brings it.
        package: What people install, where that is not the module's name.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:  # it is there, but something it needs is not
            raise
        raise MissingExtraError(package or module, extra) from None
