"""An answer as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from crosstally.exports.cells import common, known, labelled_cells, margins, without_dust
from crosstally.tables import USUAL_LEVEL

if TYPE_CHECKING:
    from crosstally.tables import Marginal

__all__ = ["json_text"]


def json_text(marginal: Marginal, *, level: float | None = None) -> str:
    """An object with the cells and what is known about their errors.

    ``std_error`` and ``margin`` of the table are null where its cells do not share one; each cell has its own.
    ``low`` and ``high`` are the ends of intervals at ``interval_level``, which is 95% where no level is asked.
    """
    value = {
        "attributes": list(marginal.attributes),
        "where": marginal.where or None,
        "method": marginal.method,
        "error_kind": marginal.error_kind.value,
        "assumption": marginal.error_kind.assumption or None,
        "corrected": marginal.corrected,
        "relaxed": marginal.relaxed,
        "std_error": common(marginal.std_error),
        "level": level,
        "interval_level": level or USUAL_LEVEL,
        "margin": common(margins(marginal, level)),
        "source": marginal.caption,
        "cells": [
            {
                "labels": list(cell.labels),
                "count": without_dust(cell.count),
                "std_error": known(cell.std_error),
                "margin": known(cell.margin),
                "low": known(cell.low),
                "high": known(cell.high),
            }
            for cell in labelled_cells(marginal, level=level)
        ],
    }
    return json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
