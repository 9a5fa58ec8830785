"""Printing: data to stdout, messages for people to stderr, progress to terminals only.

Labels are untrusted: they are never parsed as styles, and characters that control a terminal are replaced.
"""

from __future__ import annotations

import json
import math
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from textwrap import wrap
from typing import Any, NoReturn, TextIO

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.filesize import decimal
from rich.measure import Measurement
from rich.progress import BarColumn, Progress, SpinnerColumn, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from crosstally.budget import SIGNS, Currency, decimal_text
from crosstally.cli.output.encoding import spelled, without_codes, write_json_text

PROSE_WIDTH = 96  # columns of running text: longer lines are hard to read
UNBOUNDED = 4096  # columns if stdout is not a terminal: wide enough for any table
_PATIENCE = 1.0  # seconds before progress is shown
_BYTES = "bytes"
ACCENT = "bold cyan"
_KEPT = "\x1f"  # a non-breaking blank until it is printed; ``printable`` removes it from labels
_MOST_KEPT = 40  # characters that are kept on one line: longer texts may be split, or they would leave lines half empty


class Screen(Console):
    """A Rich console that takes text as it is and lets a closed pipe be handled by the caller."""

    def __init__(self, file: TextIO, *, width: int | None = None) -> None:
        # Rich's own NO_COLOR leaves bold and dim, and the codes of progress bars
        plain: dict[str, Any] = {"force_terminal": False, "color_system": None} if without_codes() else {}
        super().__init__(file=file, width=width, markup=False, emoji=False, highlight=False, **plain)

    def on_broken_pipe(self) -> NoReturn:
        """Let ``main`` handle it, which exits quietly."""
        raise BrokenPipeError

    def say(self, text: str, *, style: str = "", indent: int = 0, hang: int = 0) -> None:
        """Print a paragraph, wrapped at a readable width if one is set; paths are not split.

        Lines after the first are indented by ``hang`` columns more.
        """
        width = self.width if self.width == UNBOUNDED else max(min(self.width, PROSE_WIDTH), 2 * (indent + hang) + 1)
        for line in wrap(
            spelled(text, self.encoding),
            width,
            initial_indent=" " * indent,
            subsequent_indent=" " * (indent + hang),
            break_long_words=False,
            break_on_hyphens=False,
        ):
            self.put(line.replace(_KEPT, " "), style=style)

    def put_table(self, table: Table, *, indent: int = 0) -> None:
        """Print a table, its lines without blanks at their ends. Texts are folded to fit, numbers are never cut."""
        for column in table.columns:
            column.header = self._spelled(column.header)
            column._cells = [self._spelled(cell) for cell in column._cells]
            if column.no_wrap:
                column.min_width = max(cell_len(str(text)) for text in (column.header, *column.cells))
        options = self.options
        if self.width != UNBOUNDED:  # if everything fits, nothing is measured
            needed = Measurement.get(self, options.update(width=UNBOUNDED), table).minimum
            options = options.update(width=max(self.width - indent, needed, 1))
        for segments in self.render_lines(table, options, pad=False):
            line = Text(" " * indent)
            for segment in segments:
                line.append(segment.text, segment.style)
            line.rstrip()
            self.print(line, soft_wrap=True)

    def put(self, line: str, *, style: str = "") -> None:
        """Print a line as it is; a terminal that is narrower folds it itself, so that it can be copied whole."""
        self.print(self._spelled(line), style=style, soft_wrap=True)

    def _spelled(self, cell: RenderableType) -> RenderableType:
        return spelled(cell, self.encoding) if isinstance(cell, str) else cell


def data() -> Screen:
    """The console for data. When it is not a terminal nothing is cut or wrapped to a width."""
    return Screen(sys.stdout, width=None if sys.stdout.isatty() else UNBOUNDED)


def reading() -> Screen:
    """The console for people on stdout (programs use --json), limited to a readable width."""
    return Screen(sys.stdout, width=None if sys.stdout.isatty() else PROSE_WIDTH)


def people(*, quiet: bool = False) -> Screen:
    """The console for messages to people, on stderr; silent when quiet."""
    screen = Screen(sys.stderr, width=None if sys.stderr.isatty() else UNBOUNDED)
    screen.quiet = quiet
    return screen


def print_json(value: Any) -> None:
    """Print a value as JSON on stdout."""
    write_json_text(json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n")


# Progress


@contextmanager
def progress(words: str, *, unit: str = "", quiet: bool = False) -> Iterator[Callable[[int, int | None], None]]:
    """A function that takes the steps done and, if known, the total; progress is shown after one second.

    Nothing is ever shown when stderr is not a terminal.
    """
    if quiet or without_codes() or not sys.stderr.isatty():
        yield _tell_nobody
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(24), TextColumn("{task.fields[done]}"))
    bar = Progress(*columns, TimeElapsedColumn(), _TimeLeft(), console=Screen(sys.stderr), transient=True)
    task = bar.add_task(words, total=None, done="")

    def tell(done: int, steps: int | None = None) -> None:
        bar.update(task, completed=done, total=steps, done=_progress_text(done, steps, unit))

    timer = threading.Timer(_PATIENCE, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield tell
    finally:
        timer.cancel()
        timer.join()
        bar.stop()


class _TimeLeft(TimeRemainingColumn):
    """The time left, where the total number of steps is known; otherwise nothing."""

    def render(self, task: Task) -> Text:
        left = "" if task.total is None or task.time_remaining is None else f"{super().render(task)} left"
        return Text(left, style="progress.remaining")


@contextmanager
def progress_of_reading(words: str, source: Any, *, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """Progress through files of rows, in bytes: how many rows there are is confidential."""
    from crosstally.sources.kinds import source_of

    with progress(words, unit=_BYTES, quiet=quiet) as tell:
        size = source_of(source).size()
        yield lambda done: tell(done, size)


def _progress_text(done: int, steps: int | None, unit: str) -> str:
    """The progress so far.

    >>> _progress_text(1200, None, "steps"), _progress_text(1_200_000, 36_000_000, "bytes")
    ('1,200 steps', '1.2 MB of 36.0 MB')
    """
    if unit != _BYTES:
        return f"{done:,} {unit}".strip()
    return decimal(done) if steps is None else f"{decimal(done)} of {decimal(steps)}"


def _tell_nobody(done: int, steps: int | None = None) -> None:
    """Show nothing."""


# Texts


def printable(text: object) -> str:
    r"""The text with everything replaced that is not a visible character or a space.

    >>> printable("a\x1b[31mb")
    'a�[31mb'
    """
    return "".join(character if character.isprintable() else "\ufffd" for character in str(text))


def one_line(text: object) -> str:
    """The text on a single line."""
    return printable(" ".join(str(text).split()))


def kept_together(text: str) -> str:
    r"""The text for a paragraph, with blanks that ``Screen.say`` does not break; in a long text only the last one.

    >>> kept_together("[1.9, 2) 102"), kept_together("a " * 30 + "7")[-5:]
    ('[1.9,\x1f2)\x1f102', 'a a\x1f7')
    """
    if len(text) <= _MOST_KEPT:
        return text.replace(" ", _KEPT)
    return _KEPT.join(text.rsplit(" ", 1))


def number_of(number: int, one: str, several: str) -> str:
    """A number with the noun that fits it.

    >>> number_of(1, "entry", "entries"), number_of(1200, "entry", "entries")
    ('1 entry', '1,200 entries')
    """
    return f"{number:,} {one if number == 1 else several}"


def joined(names: Sequence[str], *, limit: int = 6) -> str:
    """Names with commas between them, the last of many left out.

    >>> joined(["a", "b", "c"], limit=2)
    'a, b, ... (3)'
    """
    shown = ", ".join(map(printable, names[:limit]))
    return shown if len(names) <= limit else f"{shown}, ... ({len(names)})"


# Numbers


def significant(number: float) -> str:
    """A number to three significant digits, or to the whole number if that has more.

    >>> [significant(x) for x in (12345.6, 123.4, 12.34, 1.0, 0.01234, 0.0, float("nan"))]
    ['12,346', '123', '12.3', '1', '0.0123', '0', '?']
    """
    if not math.isfinite(number):
        return "?"
    if abs(number) >= 100:
        return f"{number:,.0f}"
    return f"{number:.3g}"


def tenths(number: float) -> str:
    """A number to one digit after the point, so that a column of them lines up.

    >>> tenths(1234.56), tenths(43), tenths(float("nan"))
    ('1,234.6', '43.0', '?')
    """
    return f"{number:,.1f}" if math.isfinite(number) else "?"


def share(part: float, whole: float) -> str:
    """A percentage of the whole, to two digits.

    >>> share(1, 8), share(1, 100000), share(3, 1), share(1, 0)
    ('12%', '0.0010%', '300%', '?')
    """
    if whole <= 0 or not math.isfinite(part):
        return "?"
    percent = 100 * part / whole
    return f"{percent:,.0f}%" if percent >= 10 else f"{percent:#.2g}%"


def count(value: float) -> str:
    """A count with thousands separators.

    >>> count(1234.4), count(-0.3)
    ('1,234', '0')
    """
    return f"{round(value) or 0:,}" if math.isfinite(value) else "?"


# Tables


def grid(*headings: str, left: int = 1) -> Table:
    """A plain table: a line under its headings, the first ``left`` columns to the left, numbers to the right."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim", show_edge=False)
    for i, heading in enumerate(headings):
        justify = "left" if i < left else "right"
        table.add_column(printable(heading), justify=justify, no_wrap=i >= left, overflow="fold")  # type: ignore[arg-type]
    return table


def chosen_row(table: Table, cells: Sequence[str], *, chosen: bool) -> None:
    """Add a row, marked when it is the chosen one."""
    table.add_row(*cells, style=ACCENT if chosen else "")


def facts(lines: Sequence[tuple[str, str]]) -> Table:
    """Names and their values, in two columns."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), show_header=False, show_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in lines:
        table.add_row(printable(name), printable(text))
    return table


def amount(fraction: Fraction, currency: Currency) -> str:
    """A privacy budget as text.

    >>> amount(Fraction(1, 10), "epsilon"), amount(Fraction(1, 3), "rho")
    ('ε = 0.1', 'ρ = 0.333333')
    """
    sign = SIGNS[currency]
    text = decimal_text(fraction)
    return f"{sign} = {text if len(text) <= 12 and '/' not in text else format(float(fraction), '.6g')}"
