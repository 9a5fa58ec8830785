"""Answers: labelled tables with their errors, that print for people and become what other tools use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crosstally.answers.changes import Change
from crosstally.answers.operations import COUNT, LabelledTable
from crosstally.answers.sampling import design_effect_of, with_sampling
from crosstally.answers.uncertainty import Bounds, Draws, LinearLaw, Uncertainty
from crosstally.checks import check_kind, is_number, optional
from crosstally.errors import CrosstallyError, QueryError, must_be_one_of
from crosstally.html_text import MOST_ROWS, html_table
from crosstally.measurements import read_only
from crosstally.platform_files import write_bytes, write_text, writing
from crosstally.schema import Schema
from crosstally.text_table import MAX_ROWS, cell_rows, text_table
from crosstally.typing import Floats, Interval

Of = Literal["table", "population"]
"""What errors are about: the rows that were counted, or the population that they are a sample of."""

USUAL_LEVEL = 0.95
"""The level of intervals where none is asked for."""


class ErrorKind(StrEnum):
    """How well the error of an answer is known."""

    EXACT = "exact"
    """Exact for the linear estimate, before any correction of negative cells."""
    CORRECTED = "corrected"
    """Intervals are those of the corrected cells: the inference was repeated on noise drawn again."""
    MODELLED = "modelled"
    """Nobody measured the table: interactions that are missing are taken to be as large as measured ones are. There are
    intervals, wider above than below."""
    BOUNDS = "bounds"
    """Nothing is assumed of what was not measured, tables or places in bins: intervals hold all that is possible."""
    ESTIMATED = "estimated"
    """Estimated."""
    NONE = "none"
    """Not known: some of what was asked was never measured."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        """Called by ``ErrorKind(value)`` where no member has this value."""
        raise CrosstallyError(must_be_one_of("the kind of an error", cls, value))

    @property
    def assumption(self) -> str:
        """What the intervals assume besides the noise, in words; empty if they assume nothing."""
        if self is ErrorKind.MODELLED:
            return "interactions that nobody measured are assumed to be as strong as measured ones"
        if self is ErrorKind.ESTIMATED:
            return "errors are estimated from the answers themselves, and right on average over many cells"
        if self is ErrorKind.BOUNDS:
            return "nothing is assumed about what was never measured, so intervals hold all that is possible"
        return ""


_SHORT = 8
"""Rows of a table in a notebook or at the prompt, where nothing is longer than twelve lines; ``print`` shows more."""

_MOST_DRAWN = 5_000_000  # numbers of draws in a file: 100 MB of CSV

_WIDE = 250
"""Letters of a row in a notebook, which scrolls: six columns of shares with their intervals stand side by side."""

_KINDS = (
    ErrorKind.EXACT,
    ErrorKind.CORRECTED,
    ErrorKind.ESTIMATED,
    ErrorKind.MODELLED,
    ErrorKind.BOUNDS,
    ErrorKind.NONE,
)
"""From the best known to the least: what is computed from several answers is known as well as the least of them."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Marginal(LabelledTable):
    """An answer: one number for each combination of values, labelled, with its error.

    You can compute with it: ``m["Female", "25-34"]``, ``m.sum("sex")``, ``m / m.sum()``, ``m.sel(sex="Female")``. What
    comes out is again such a table, with its own error; over no attributes it is one number, with a ``value``.

    Axes are in the order asked. ``method`` says how it was computed, ``error_kind`` how well its error is known;
    ``corrected`` is True when negative cells were corrected.
    ``uncertainty`` knows the errors and intervals of cells and of anything computed from them. ``relaxed`` is
    by how much, in counts, a cell of a measured marginal may differ from the same marginal of an answer that was never
    measured: noise leaves marginals that no table has. ``caption`` says where it comes from. ``where`` is the condition
    that the counted rows satisfy, empty for all rows; the schema then has only the labels that such rows can have.
    ``quantity`` says what the numbers are, ``of`` whether errors are about the rows counted or the population behind.
    """

    schema: Schema
    values: NDArray[np.float64]
    _: KW_ONLY
    method: str
    error_kind: ErrorKind
    uncertainty: Uncertainty | None
    corrected: bool = False
    relaxed: float = 0.0
    caption: str = ""
    where: str = ""
    quantity: str = COUNT
    of: str = "table"

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", read_only(self.values, np.float64))
        object.__setattr__(self, "error_kind", ErrorKind(self.error_kind))
        if self.values.shape != self.schema.shape:
            raise CrosstallyError(f"values must have shape {self.schema.shape}, got {self.values.shape}")
        if (self.uncertainty is None) != (self.error_kind is ErrorKind.NONE):
            raise CrosstallyError("a marginal must have an error unless its kind is none")

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes asked for, one axis each."""
        return self.schema.names

    @property
    def estimand(self) -> str:
        """What intervals hold, in words."""
        if self.quantity != COUNT:
            return f"{self.quantity} without noise"
        return self.schema.estimand if self.of == "table" else "mean count of such samples of the population"

    @property
    def std_error(self) -> NDArray[np.float64]:
        """The root mean square error of each number as it is shown, bias included; NaN where it is not known.

        Intervals, reliability and exports read the same error. That of the noise alone is ``noise_std_error``.
        """
        return np.full(self.schema.shape, math.nan if self.uncertainty is None else self.uncertainty.std_error)

    @property
    def noise_std_error(self) -> NDArray[np.float64]:
        """The standard error of the unbiased estimate, before negative cells are corrected and noise is shrunk.

        NaN where there is none: for tables that were not measured, and for figures that are not sums of counts.
        """
        return np.full(self.schema.shape, math.nan if self.uncertainty is None else self.uncertainty.noise_std_error)

    def half_width(self, level: float = USUAL_LEVEL) -> NDArray[np.float64]:
        """The margin of error of each cell at this level; NaN where the error is not known."""
        check_level(level)
        return np.full(self.schema.shape, math.nan if self.uncertainty is None else self.uncertainty.half_width(level))

    def interval(
        self,
        level: float = USUAL_LEVEL,
        *,
        of: Of = "table",
        design_effect: float | None = None,
        fraction: float = 0.0,
    ) -> Interval:
        """The ends of an interval for each cell that contains the true count with this probability; NaN if unknown.

        For corrected cells they are whole numbers, not below zero, and not symmetric. For the linear
        estimate they are its values plus and minus ``half_width``.

        Args:
            level: How sure they are.
            of: ``"population"`` adds the sampling of rows, as ``of_population`` does with the other two.
            design_effect: Of the sample.
            fraction: How much of the population was sampled.
        """
        check_level(level)
        if not isinstance(of, str) or of not in get_args(Of):
            raise QueryError(must_be_one_of("of", get_args(Of), of))
        if of == "population" and self.of != of:
            return self.of_population(design_effect=design_effect, fraction=fraction).interval(level)
        if self.uncertainty is None:
            unknown = np.full(self.schema.shape, math.nan)[()]
            return Interval(unknown, unknown)
        low, high = self.uncertainty.interval(self.values, level)
        return Interval(low[()], high[()])

    def of_population(self, *, design_effect: float | None = None, fraction: float = 0.0) -> Marginal:
        """The same counts with errors about the population that the rows are a sample of: noise and sampling.

        What is computed from them afterwards has such errors too: ``m.of_population().shares()``.

        Args:
            design_effect: By what the variance of sampling exceeds that of single rows drawn at random. Must be given
                where people may have several rows; 1 otherwise.
            fraction: How much of the population was sampled, 0 to 1.
        """
        if self.quantity != COUNT or self.of != "table":
            raise QueryError("only counts become those of a population: m.of_population().shares()")
        if not is_number(fraction) or not 0 <= fraction <= 1:
            raise QueryError(f"fraction must be from 0 to 1, got {fraction!r}")
        effect = design_effect_of(self.schema, design_effect)
        if self.joint is None:
            raise QueryError("the error of this table is not known")
        where = f"{self.attributes} {self.where}"
        joint = with_sampling(self.joint, self.values, factor=effect * (1 - fraction), where=where)
        own = Draws(joint, quantity=COUNT, modelled=self.uncertainty is not None and self.uncertainty.modelled)
        found = self._computed(self.schema, self.values, own, quantity=COUNT)
        about = f"errors are of the population behind the rows, design effect {effect:g}"
        return replace(found, of="population", caption="; ".join(filter(None, [self.caption, about])))

    # What is computed from it

    def _computed(
        self,
        schema: Schema,
        values: Floats,
        uncertainty: Uncertainty | None,
        *,
        quantity: str,
        others: Sequence[Marginal] = (),
    ) -> Marginal:
        kind = max((self.error_kind, *(each.error_kind for each in others)), key=_KINDS.index)
        if uncertainty is None:
            kind = ErrorKind.NONE
        elif kind is ErrorKind.EXACT and not isinstance(uncertainty, LinearLaw):
            kind = ErrorKind.ESTIMATED
        elif kind is ErrorKind.BOUNDS and not isinstance(uncertainty, Bounds):
            kind = ErrorKind.MODELLED  # only sums of cells have bounds
        return replace(
            self,
            schema=schema,
            values=values,
            error_kind=kind,
            uncertainty=uncertainty,
            corrected=self.corrected or any(each.corrected for each in others),
            relaxed=0.0,
            where=" against ".join(dict.fromkeys(each.where for each in (self, *others) if each.where)),
            quantity=quantity,
            of="population" if "population" in {self.of, *(each.of for each in others)} else "table",
        )

    def without_error(self) -> Marginal:
        """The same numbers, whose error is not known: where no interval was shown to cover the truth, none is given."""
        return replace(self, error_kind=ErrorKind.NONE, uncertainty=None)

    def _picked(self, schema: Schema, change: Change, *, where: str) -> Marginal:
        own = None if self.uncertainty is None else self.uncertainty.summed(change, self.values)
        return replace(self, schema=schema, values=change.table(self.values), uncertainty=own, where=where)

    def __repr__(self) -> str:
        return self._text(_SHORT)

    def __str__(self) -> str:
        return self._text(MAX_ROWS)

    def _text(self, rows: int) -> str:
        lines = text_table(
            self.schema, self.values, self.std_error, quantity=self.quantity, interval=self._shown(), rows=rows
        )
        return "\n".join([self._title(), *lines, self._footnote()])

    @property
    def shows_intervals(self) -> bool:
        """Whether intervals are shown: one symmetric standard error says enough where all counts share it."""
        own = self.uncertainty
        return self._has_ends or self.quantity != COUNT or (own is not None and np.ndim(own.std_error) > 0)

    @property
    def _has_ends(self) -> bool:
        """Whether cells have intervals of their own, not only their values plus and minus an error."""
        own = self.uncertainty
        return own is not None and not (isinstance(own, LinearLaw) and not own.whole)

    def _shown(self) -> tuple[Floats, Floats] | None:
        return self.interval() if self.shows_intervals else None

    def _title(self) -> str:
        title = " x ".join(self.attributes) or ("total" if self.quantity == COUNT else self.quantity)
        title += f" where {self.where}" if self.where else ""
        return f"{title}: {self.caption}" if self.caption else title

    def _repr_html_(self) -> str:
        heads, rows, left = cell_rows(
            self.schema,
            self.values,
            self.std_error,
            quantity=self.quantity,
            interval=self._shown(),
            rows=MOST_ROWS,
            width=_WIDE,
        )
        more = self.values.size // max(len(heads) - left, 1) - MOST_ROWS
        return html_table(heads, rows, caption=self._title(), note=self._footnote(), left=left, more=more)

    def _footnote(self) -> str:
        counted = f"{self.schema.noun if self.schema.divided else 'rows'} counted"
        about = counted if self.of == "table" else "population behind the rows"
        if self.shows_intervals and self.uncertainty is not None:
            assumed = f": {self.error_kind.assumption}" if self.error_kind.assumption else ""
            after = ", after the correction of negative cells" if self.error_kind is ErrorKind.CORRECTED else ""
            return f"(... to ...) {USUAL_LEVEL:.0%} intervals for the {about}{after}{assumed} ({self.method})"
        if self.uncertainty is None:
            return f"± ?: the error is not known ({self.method})"
        known = f", {self.error_kind.value}" if self.error_kind is ErrorKind.ESTIMATED else ""
        return f"± one standard error{known}, for the {about} ({self.method})"

    # What it can become

    def number_columns(self) -> tuple[str, str]:
        """The names of the columns of counts and errors; underscores are added where attributes bear them already."""
        return self._free(self.quantity), self._free(f"{self._prefix}std_error")

    def interval_columns(self) -> tuple[str, str]:
        """The names of the columns of the ends of intervals, found as those of ``number_columns``."""
        low, high = (f"{self._prefix}{self.quantity}_{end}" for end in ("low", "high"))
        return self._free(low), self._free(high)

    @property
    def _prefix(self) -> str:
        return "" if self.of == "table" else f"{self.of}_"

    def draw_columns(self) -> list[str]:
        """The names of the columns of draws, ``draw_0`` and on, found as those of ``number_columns``."""
        number = 0 if self.joint is None else len(self.joint.draws)
        if number * self.values.size > _MOST_DRAWN:
            raise QueryError(f"draws are written of at most {_MOST_DRAWN // number:,} cells here; ask for fewer")
        return [self._free(f"draw_{i}") for i in range(number)]

    def _free(self, name: str) -> str:
        while name in self.attributes:
            name += "_"
        return name

    def to_arrow(self, *, draws: bool = False) -> pa.Table:
        """A row for each cell: a dictionary column for each attribute, then ``count`` and ``std_error``.

        ``count_low`` and ``count_high`` are the ends of its 95% interval.

        Args:
            draws: Add a column for each of ``draws()``: ``draw_0``, ``draw_1``, ...
        """
        check_kind(draws, bool, "draws")
        columns: list[pa.Array] = []
        for axis, attribute in enumerate(self.schema.attributes):
            codes = np.broadcast_to(
                _along(np.arange(attribute.size, dtype=np.int32), axis, self.values.ndim), self.schema.shape
            )
            columns.append(
                pa.DictionaryArray.from_arrays(pa.array(codes.ravel()), pa.array(attribute.labels, pa.string()))
            )
        columns += [pa.array(each.ravel()) for each in (self.values, self.std_error, *self.interval())]
        names = [*self.attributes, *self.number_columns(), *self.interval_columns()]
        if draws:
            names += self.draw_columns()
            columns += [pa.array(each.ravel()) for each in self.draws()]
        return pa.Table.from_arrays(columns, names=names)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    @overload
    def to_csv(self, path: None = None, *, draws: bool = False) -> str: ...

    @overload
    def to_csv(self, path: str | Path, *, draws: bool = False) -> None: ...

    def to_csv(self, path: str | Path | None = None, *, draws: bool = False) -> str | None:
        """The table as CSV, a line for each cell: into a file, or as a text where no path is given.

        Args:
            path: The file.
            draws: Add a column for each of ``draws()``.
        """
        from crosstally.exports.csv_table import csv_text

        text = csv_text(self, draws=draws)
        if path is None:
            return text
        with writing(path):
            write_text(path, text)
        return None

    def to_excel(self, path: str | Path) -> None:
        """Write a workbook of Excel: a sheet with a row for each cell, and one that says what they are."""
        from crosstally.exports.xlsx import xlsx_bytes

        content = xlsx_bytes(self)
        with writing(path):
            write_bytes(path, content)

    def to_pandas(self) -> Any:
        """A pandas DataFrame with a row for each cell; labels are categories in the schema's order."""
        optional("pandas", extra="frames")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """A Polars DataFrame with a row for each cell; labels are enumerations in the schema's order."""
        polars = optional("polars", extra="frames")
        labels = {attribute.name: polars.Enum(attribute.labels) for attribute in self.schema.attributes}
        return polars.from_arrow(self.to_arrow()).cast(labels)

    def to_xarray(self) -> Any:
        """An xarray Dataset of the numbers of ``to_arrow`` with one labelled dimension for each attribute."""
        xarray = optional("xarray", extra="frames")
        names = (*self.number_columns(), *self.interval_columns())
        numbers = (self.values.copy(), self.std_error, *self.interval())
        return xarray.Dataset(
            {name: (self.attributes, each) for name, each in zip(names, numbers, strict=True)},
            coords={attribute.name: list(attribute.labels) for attribute in self.schema.attributes},
            attrs={
                "method": self.method,
                "error_kind": self.error_kind.value,
                "corrected": int(self.corrected),
                "caption": self.caption,
                "where": self.where,
            },
        )

    def plot(self, *, width: int = 480) -> Any:
        """An Altair chart: bars in the schema's order with 95% intervals. ``charts.save`` writes it as a picture.

        Attributes for which the condition leaves a single value have no axis; the caption states the condition.

        Args:
            width: The width of the chart's bars together, in pixels.
        """
        from crosstally.charts import bar_chart

        axes = self.schema.subset(*(attribute.name for attribute in self.schema.attributes if attribute.size > 1))
        half = None if self.uncertainty is None or self._has_ends else self.half_width().reshape(axes.shape)
        caption = "; ".join(text for text in (self.where, self.caption) if text)
        ends = self.interval() if self._has_ends else None
        interval = None if ends is None else (ends[0].reshape(axes.shape), ends[1].reshape(axes.shape))
        values = self.values.reshape(axes.shape)
        return bar_chart(
            axes, values, half_width=half, interval=interval, caption=caption, width=width, quantity=self.quantity
        )


def check_level(level: float) -> None:
    """Raise unless this is a level of confidence."""
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        raise QueryError(f"level must be between 0 and 1, got {level!r}")


def _along(values: NDArray[Any], axis: int, ndim: int) -> NDArray[Any]:
    return values.reshape([-1 if i == axis else 1 for i in range(ndim)])
