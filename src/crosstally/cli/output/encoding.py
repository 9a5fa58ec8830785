"""Output in any encoding: characters it lacks are spelled out for people, escaped in JSON, and refused in CSV."""

from __future__ import annotations

import codecs
import io
import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from crosstally.errors import CrosstallyError
from crosstally.platform_files import whole_file, writing

_FOR_PEOPLE, _IN_JSON = "crosstally.people", "crosstally.json"

# ASCII spellings of the non-ASCII characters of our own texts. The progress bar's spinner is in Braille.
_SPELLED = {
    "ε": "epsilon",
    "ρ": "rho",
    "δ": "delta",
    "μ": "mu",
    "±": "+-",
    "²": "^2",
    "≥": ">=",
    "≤": "<=",
    "▸": ">",
    "─": "-",
    "━": "-",
    "│": "|",
    "├": "|",
    "└": "`",
    "…": "...",
    "\ufffd": "?",
    **{chr(dots): "*" for dots in range(0x2800, 0x2900)},
}


def _spell(character: str) -> str:
    """A spelling in ASCII; letters of labels become escapes, so that different labels stay different."""
    return _SPELLED.get(character) or character.encode("ascii", "backslashreplace").decode("ascii")


def _escape(character: str) -> str:
    return json.dumps(character)[1:-1]


def _handler(replace: Callable[[str], str]) -> Callable[[UnicodeError], tuple[str, int]]:
    def handle(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeEncodeError):
            raise error
        return "".join(map(replace, error.object[error.start : error.end])), error.end

    return handle


codecs.register_error(_FOR_PEOPLE, _handler(_spell))
codecs.register_error(_IN_JSON, _handler(_escape))


def prepare_streams() -> None:
    """Let stdout and stderr accept any text whatever their encoding, as the last resort."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_FOR_PEOPLE)


def without_codes() -> bool:
    """Whether plain text is requested: no colours or other terminal codes (https://no-color.org)."""
    return bool(os.environ.get("NO_COLOR"))


def spelled(text: str, encoding: str) -> str:
    r"""The text with the characters that an encoding lacks spelled out. Call it before aligning: spellings are longer.

    >>> spelled("ε = 0.1, 12 ± 3 in Zürich", "ascii"), spelled("ε = 0.1, 12 ± 3 in Zürich", "cp1252")
    ('epsilon = 0.1, 12 +- 3 in Z\\xfcrich', 'epsilon = 0.1, 12 ± 3 in Zürich')
    """
    return text.encode(encoding, _FOR_PEOPLE).decode(encoding)


def _stdout_encoding() -> str:
    return getattr(sys.stdout, "encoding", None) or "utf-8"


def write_json_text(text: str) -> None:
    """Write JSON to stdout; a character that the encoding lacks can only be inside a string, and is escaped there."""
    encoding = _stdout_encoding()
    sys.stdout.write(text.encode(encoding, _IN_JSON).decode(encoding))


def write_exactly(text: str) -> None:
    """Write text for programs to stdout, or refuse: CSV has no escapes, and a changed label is a different label."""
    encoding = _stdout_encoding()
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        raise CrosstallyError(
            f"the encoding of stdout, {encoding}, cannot hold these labels; write to a file with -o, which is UTF-8, "
            "or set PYTHONUTF8=1"
        ) from None
    sys.stdout.write(text)


def deliver(parts: Iterable[bytes], output: Path | None, *, is_json: bool = False) -> None:
    """Write an answer to a file, or to stdout by default."""
    if output is None:
        text = b"".join(parts).decode()
        (write_json_text if is_json else write_exactly)(text)
    else:
        with writing(output), whole_file(output) as file:
            file.writelines(parts)
