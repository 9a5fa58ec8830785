"""Changes of JSON documents and of bytes, drawn from a seeded generator: most of what comes out is nearly right."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

__all__ = ["changed_bytes", "changed_footer", "changed_json", "changed_text"]

HUGE = "@huge@"  # stands for a number of 5,001 digits: Python neither writes nor reads one
_SCALARS: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 0.5, -0.0, 1e308, 5e-324, 2**31, 2**53 + 1, 2**63, 2**64, 10**400, HUGE),
    *(
        float("nan"),
        float("inf"),
        "",
        " ",
        "0",
        "1",
        "-1",
        "1/3",
        "1e400",
        "1e-400",
        "1/0",
        "NaN",
        "1_0",
        "٣",
        "9" * 6000,
    ),
    *("a\x00b", "\ud800", "\u202e", "=1+1", "\n", "é", "e\u0301", "(other)", "(missing)", "__proto__", "x" * 300_000),
)
_TIMES = (2, 3, 30, 1_000, 30_000, 300_000)
_MOST_TEXT = 8_000_000


def changed_json(document: Any, random: Random, *, most: int = _MOST_TEXT) -> bytes:
    """The document with one to three changes, written as JSON, now and then not quite."""
    made = copy.deepcopy(document)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        made = _changed(made, random)
    text = json.dumps(made, ensure_ascii=random.random() < 0.5).replace(f'"{HUGE}"', "9" * 5_001)
    if len(text) > most:
        text = json.dumps(document)
    if random.random() < 0.15:
        text = changed_text(text, random)
    return text.encode("utf-8", "surrogatepass")


def _places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all nodes; of long lists of a few."""
    found = [path]
    if len(path) > 12:
        return found
    if isinstance(node, dict):
        for key in list(node)[:40]:
            found += _places(node[key], (*path, key))
    elif isinstance(node, list):
        for i in sorted({*range(min(len(node), 8)), len(node) - 1} - {-1}):
            found += _places(node[i], (*path, i))
    return found


def _at(node: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        node = node[key]
    return node


def _changed(document: Any, random: Random) -> Any:
    places = _places(document)
    path = random.choice(places)
    node = _at(document, path)
    new: Any = random.choice(_SCALARS)
    kind = random.randrange(10)
    if kind == 0:
        new = copy.deepcopy(_at(document, random.choice(places)))
    elif kind in (1, 2) and isinstance(node, list) and node:
        times = random.choice(_TIMES)
        each = random.choice(node)
        new = [*node, *[each] * min(times, _MOST_TEXT // max(1, len(str(each))))]
    elif kind in (1, 2) and isinstance(node, list):
        new = [copy.deepcopy(_at(document, random.choice(places)))]
    elif kind == 3 and isinstance(node, dict):
        new = dict(node)
        new[random.choice(["more", "format", "unit", "x" * 1_000, *map(str, new)])] = random.choice(_SCALARS)
    elif kind == 4 and isinstance(node, dict | list) and node:
        new = copy.copy(node)
        del new[random.choice(list(node)) if isinstance(node, dict) else random.randrange(len(node))]
    elif kind == 5 and isinstance(node, list):
        new = random.sample(node, len(node))
    elif kind == 6:
        new = node
        for _ in range(random.choice((1, 2, 20, 100))):
            new = [new] if random.random() < 0.5 else {"a": new}
    elif kind == 7 and isinstance(node, str):
        new = random.choice((node * random.choice((2, 1_000)), node[:-1], node.upper(), node + "\u200f", node + "0"))
    elif kind in (7, 8) and isinstance(node, int | float) and not isinstance(node, bool):
        new = random.choice(
            (node + 1, node - 1, -node, node * 2, node * 10**6, node / 1 if abs(node) < 2**60 else 0, -1 / 3)
        )
    if not path:
        return new
    _at(document, path[:-1])[path[-1]] = new
    return document


def changed_text(text: str, random: Random) -> str:
    """A text with a piece cut, doubled, moved or replaced."""
    if not text:
        return random.choice(("", "\ufeff", "{}", "[]", "\0"))
    a, b = sorted(random.randrange(len(text) + 1) for _ in range(2))
    b = min(b, a + random.choice((1, 5, 50, 5_000)))
    pieces = (
        "",
        "NaN",
        "9" * 5_001,
        "[" * 100_000,
        '{"a":' * 20_000,
        "\ufeff",
        "\0",
        "\\ud800",
        "//",
        '"',
        "\u202e",
        ",",
    )
    return random.choice(
        (
            text[:a],
            text[a:],
            text[:a] + text[b:],
            text[:a] + text[a:b] * random.choice((2, 2, 500)) + text[b:],
            text[:a] + random.choice(pieces) + text[b:],
            text[:a] + random.choice(pieces) + text[a:],
        )
    )[:_MOST_TEXT]


def changed_footer(data: bytes, random: Random) -> bytes:
    """A Parquet file whose footer alone has changed bytes; its length still fits."""
    length = int.from_bytes(data[-8:-4], "little")
    footer = changed_bytes(data[-8 - length : -8], random)
    return data[: -8 - length] + footer + len(footer).to_bytes(4, "little") + data[-4:]


def changed_bytes(data: bytes, random: Random) -> bytes:
    """Bytes with some flipped, cut, doubled or set."""
    out = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 5, 40))):
        if not out:
            break
        at = random.randrange(len(out))
        kind = random.randrange(5)
        if kind == 0:
            out[at] ^= 1 << random.randrange(8)
        elif kind == 1:
            out[at] = random.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif kind == 2:
            out[at : at + 8] = random.choice((b"\xff" * 8, b"\x00" * 8, b"\xff" * 7 + b"\x7f", b"\x80" * 8))
        elif kind == 3:
            del out[at : at + random.choice((1, 4, 100, 10_000))]
        else:
            out[at:at] = out[at : at + random.choice((1, 4, 100))]
    return bytes(out)
