"""JSON as every file of crosstally is read: what one reader understands, every other reader must understand too.

The standard library takes the last of two fields of one name, and numbers that are none. A schema whose second
``"unit": null`` takes back the first protects other people than the reviewer saw; so both are refused, everywhere.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any, NoReturn

MAX_BYTES = 512 * 2**20  # the largest plan, of 5,000,000 requests, has less
_MAX_DEPTH = 32  # no file of crosstally is nested deeper than 8
_MAX_DIGITS = 4_000  # Python reads whole numbers of up to 4,300 digits
_SHOWN = 40  # characters of a text that an error repeats: it must stay one line
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NO_BRACKET = re.compile(r"[^\[\]{}]+")


class JsonError(ValueError):
    """Why a text is not strict JSON, as the end of a sentence about it: ``is not JSON: ...``."""


def read_json(text: str | bytes, *, finite: bool = True) -> Any:
    """The value that a JSON text says.

    Where ``finite`` is false, numbers of any size are taken, and NaN: a row on somebody's device must not be refused
    for what it holds, since a refusal tells.

    >>> read_json('{"unit": {"id": "person"}, "unit": null}')
    Traceback (most recent call last):
    crosstally.json_text.JsonError: names the field 'unit' twice
    """
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError:
            raise JsonError("is not JSON: it is not UTF-8 text") from None
    _check_depth(text)
    try:
        if not finite:
            return json.loads(text, object_pairs_hook=_without_doubles, parse_int=_whole_or_infinite)
        return json.loads(
            text, object_pairs_hook=_without_doubles, parse_constant=_no_constant, parse_float=_finite_float
        )
    except JsonError:
        raise
    except json.JSONDecodeError as error:
        raise JsonError(f"is not JSON: {error.msg} at line {error.lineno}") from None
    except RecursionError:
        raise JsonError("is nested too deeply") from None
    except ValueError:  # more digits than Python reads
        raise JsonError("is not JSON: a number in it is too long") from None


def read_json_file(path: str | Path) -> Any:
    """The value in a JSON file (UTF-8, a byte order mark is skipped); OSError where it cannot be read."""
    try:
        size = Path(path).stat().st_size
        if size > MAX_BYTES:
            raise JsonError(f"must have at most {MAX_BYTES:,} bytes, got {size:,}")
        return read_json(Path(path).read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError:
        raise JsonError("is not JSON: it is not UTF-8 text") from None


def _check_depth(text: str) -> None:
    """Raise when brackets are nested too deeply: Python would go on until it runs out of stack."""
    if text.count("[") + text.count("{") <= _MAX_DEPTH:
        return
    brackets = _NO_BRACKET.sub("", _STRING.sub("", text))
    for _ in range(_MAX_DEPTH):  # each round takes the innermost pairs away
        brackets = brackets.replace("[]", "").replace("{}", "")
    if brackets:
        raise JsonError("is nested too deeply, or is not JSON: its brackets do not match")


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise JsonError(f"names the field {twice[:_SHOWN]!r} twice")
    return out


def _no_constant(name: str) -> NoReturn:
    raise JsonError(f"must hold finite numbers, got {name}")


def _whole_or_infinite(text: str) -> float:
    return int(text) if len(text) <= _MAX_DIGITS else math.copysign(math.inf, -(text[0] == "-"))


def _finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise JsonError(f"must hold finite numbers, got {text[:_SHOWN]}")
    return number
