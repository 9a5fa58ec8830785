"""What an experiment is, what it gives back, and the files it leaves."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from crosstally.errors import CrosstallyError, MissingExtraError
from crosstally.platform_files import write_bytes, write_text

Value = str | int | float | bool | None
Progress = Callable[[int, int], None]
"""Called with the steps done and the steps in all."""
Author = Literal["paper", "crosstally"]


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence, whose it is, whether this run bears it out, and the number that decides.

    ``of`` the paper means that the paper says it. ``holds`` is None where the run leaves it open: see
    ``metrics.decided``.
    """

    claim: str
    _: KW_ONLY
    of: Author
    holds: bool | None
    figure: str

    def __post_init__(self) -> None:
        if self.of not in get_args(Author):
            raise CrosstallyError(f"a claim must be of {' or '.join(get_args(Author))}, got {self.of!r}")
        object.__setattr__(self, "holds", None if self.holds is None else bool(self.holds))

    @property
    def verdict(self) -> str:
        """In words."""
        return "open" if self.holds is None else "holds" if self.holds else "does not hold"

    def to_dict(self) -> dict[str, Any]:
        """The claim as JSON."""
        return {"claim": self.claim, "of": self.of, "holds": self.holds, "figure": self.figure}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The rows of an experiment, its verdicts and its chart, a Vega-Lite specification."""

    name: str
    rows: tuple[Mapping[str, Value], ...]
    _: KW_ONLY
    claims: tuple[Claim, ...]
    chart: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(map(_flat, self.rows)))
        object.__setattr__(self, "claims", tuple(self.claims))

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns of the rows, in the order in which they first appear."""
        return tuple(dict.fromkeys(name for row in self.rows for name in row))

    def to_dict(self) -> dict[str, Any]:
        """The outcome as JSON; numbers that JSON does not have (NaN, infinity) become null."""
        rows = [{name: _json_value(value) for name, value in row.items()} for row in self.rows]
        return {"name": self.name, "rows": rows, "claims": [claim.to_dict() for claim in self.claims]}

    def save(self, directory: str | Path) -> tuple[Path, ...]:
        """Write ``rows.csv``, ``outcome.json`` and, if there is a chart, ``chart.svg`` and ``chart.png``."""
        folder = Path(directory)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            written = [_write_rows(self, folder), _write_json(self, folder)]
            if self.chart is not None:
                written += _write_chart(self.chart, folder)
        except OSError as error:
            raise CrosstallyError(f"cannot write to the folder {str(folder)!r}: {error.strerror}") from None
        return tuple(written)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How an experiment is run: quickly or with full counts, on which file, and whom it tells how far it is."""

    quick: bool
    data: Path | None
    progress: Progress


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment of a paper that can be run again."""

    name: str
    title: str
    run: Callable[[Settings], Outcome]


def _flat(row: Mapping[str, Value]) -> dict[str, Value]:
    for name, value in row.items():
        if not isinstance(value, Value):
            raise CrosstallyError(
                f"a row must hold texts and plain numbers only, got {type(value).__name__} in {name!r}"
            )
    return dict(row)


def _json_value(value: Value) -> Value:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _write_rows(outcome: Outcome, folder: Path) -> Path:
    path = folder / "rows.csv"
    text = io.StringIO()
    writer = csv.DictWriter(text, outcome.columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(outcome.rows)
    write_text(path, text.getvalue())
    return path


def _write_json(outcome: Outcome, folder: Path) -> Path:
    path = folder / "outcome.json"
    write_text(path, json.dumps(outcome.to_dict(), ensure_ascii=False, indent=1, allow_nan=False) + "\n")
    return path


def _write_chart(chart: Mapping[str, Any], folder: Path) -> Sequence[Path]:
    vector, picture = folder / "chart.svg", folder / "chart.png"
    write_text(vector, drawn(chart))
    write_bytes(picture, _renderer().vegalite_to_png(dict(chart), scale=2))
    return vector, picture


def drawn(chart: Mapping[str, Any]) -> str:
    """The chart as SVG."""
    return str(_renderer().vegalite_to_svg(dict(chart)))


def _renderer() -> Any:
    """The renderer inside vl-convert: nothing is fetched."""
    try:
        import vl_convert
    except ImportError:
        raise MissingExtraError("vl-convert-python", "charts") from None
    return vl_convert
