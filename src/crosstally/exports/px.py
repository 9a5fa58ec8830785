"""An answer as a PX file (PC-Axis, AXIS-VERSION 2013), which statistical offices read.

Attributes stand in the stub; the heading has one variable more, ``measure``: count, std_error, count_low, count_high.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from crosstally.answers.marginal import USUAL_LEVEL
from crosstally.errors import QueryError
from crosstally.exports.formats import MEASURES, free_name, measures

if TYPE_CHECKING:
    from crosstally.answers.marginal import Marginal


_DIGITS = 9  # after the point: as many as without_dust keeps
_UNKNOWN = '".."'  # two dots: missing
_LONGEST_LINE = 200  # the format ends lines at 256; texts are not cut, so that one long label may pass it
_MAX_NAME = 256  # characters of a name or a label. Chosen: the format ends lines at as many


def px_text(marginal: Marginal, *, level: float | None = None) -> str:
    """The whole file, to be written in UTF-8. Quotation marks, which the format has no way to write, become ”."""
    names = [_plain(name) for name in marginal.attributes]
    measure, counted = free_name("measure", names), _texts([_plain(marginal.schema.counted)])
    lines = [*_head(marginal, level), f"CONTENTS={_texts(['count'])};", f"UNITS={counted};"]
    if names:
        lines.append(f"STUB={_texts(names)};")
    lines += [f"HEADING={_texts([measure])};", f"CONTVARIABLE={_texts([measure])};"]
    for name, attribute in zip(names, marginal.schema.attributes, strict=True):
        lines.append(f'VALUES("{name}")={_texts(_distinct(name, [_plain(label) for label in attribute.labels]))};')
    lines.append(f'VALUES("{measure}")={_texts(MEASURES)};')
    lines += [f'UNITS("{field}")={counted};' for field in MEASURES]
    lines += [f"SOURCE={_texts([_plain(f'crosstally release, {marginal.caption}')])};", "DATA="]
    rows = zip(*measures(marginal, level=level), strict=True)
    data = " \n".join(" ".join(map(_number, row)) for row in rows)
    _distinct("the table", [*names, measure])
    return "\n".join(lines) + f"\n{data};\n"


def _head(marginal: Marginal, level: float | None) -> Iterator[str]:
    """The first keywords, in the order that the format recommends."""
    title = " by ".join(marginal.attributes) or marginal.schema.total_title
    condition = f", where {marginal.where}" if marginal.where else ""
    yield 'CHARSET="ANSI";'
    yield 'AXIS-VERSION="2013";'
    yield 'CODEPAGE="utf-8";'
    yield 'LANGUAGE="en";'
    yield f"DECIMALS={_DIGITS};"
    yield "SHOWDECIMALS=0;"
    yield 'MATRIX="table";'
    yield 'SUBJECT-CODE="CT";'
    yield 'SUBJECT-AREA="crosstally";'
    yield f"TITLE={_texts([_plain(f'count of {title}{condition}')])};"
    sure = USUAL_LEVEL if level is None else level
    note = f"count_low and count_high hold the {marginal.schema.estimand} with confidence {sure:.4g}"
    how = f"method {marginal.method}, error {marginal.error_kind.value}"
    yield f"NOTE={_texts([_plain(f'{note}; {how}')])};"


def _number(number: float | None) -> str:
    if number is None:
        return _UNKNOWN
    return f"{number:.{_DIGITS}f}".rstrip("0").rstrip(".")


def _plain(text: str) -> str:
    """The text on one line, without what ends a text in the format."""
    return " ".join(text.replace('"', "”").split())


def _texts(texts: Sequence[str]) -> str:
    """Texts in quotes, with commas between them; a new line begins where one would be too long."""
    lines, last = [], ""
    for i, text in enumerate(texts):
        part = f'"{text}"' + "," * (i + 1 < len(texts))
        if last and len(last) + len(part) > _LONGEST_LINE:
            lines.append(last)
            last = ""
        last += part
    return "\n".join([*lines, last])


def _distinct(where: str, texts: Sequence[str]) -> Sequence[str]:
    if len(set(texts)) < len(texts) or not all(texts) or any(len(text) > _MAX_NAME for text in texts):
        raise QueryError(
            f"a PX file cannot hold the names of {where!r}: without quotation marks and repeated blanks they must "
            f"differ and have 1 to {_MAX_NAME} characters; write another format"
        )
    return texts
