"""What a server serves: one release, its name, and the answers to questions about it."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

from crosstally.analysis.regrouping import AS_IT_IS, Regrouping
from crosstally.errors import CrosstallyError, PlanError, QueryError, TooManyCellsError, WorkloadError
from crosstally.questions.where import Where
from crosstally.releases import Release, open_release
from crosstally.releases.statement import installed_versions
from crosstally.tables import Marginal
from crosstally.web.downloads import AT_ONCE, STREAMED, Format
from crosstally.web.problems import Problem
from crosstally.web.solving import BusyError, Solver, solved, table_bytes, with_ends
from crosstally.web.texts import text

__all__ = ["Served", "problem_of", "served"]

_RETRY_SECONDS = 5  # the waiting time that a busy server tells programs: half of the limit for one computation
_TELLABLE = (QueryError, PlanError, WorkloadError)
"""Errors whose text has only the request and public names: clients see it. For all others they see an id."""


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """A release that is served under a name. ``digest`` tells this release from others, for caches of clients."""

    release: Release
    _: KW_ONLY
    name: str
    file: str
    digest: str
    root_path: str = ""
    solver: Solver = field(default_factory=Solver)

    def cells(self, names: Sequence[str], where: Where | None) -> tuple[int, int]:
        """How many cells a table has, and how many the table has that it is computed from."""
        schema = self.release.schema
        schema.check(names)
        if where is None:
            shown = math.prod(schema.sizes(names))
            return shown, shown
        shown = math.prod(len(where.possible(name)) for name in names)
        return shown, math.prod(schema.sizes(tuple(dict.fromkeys((*names, *where.attributes)))))

    def table(
        self,
        names: tuple[str, ...],
        condition: str,
        level: float,
        kind: Format | None = None,
        regrouping: Regrouping = AS_IT_IS,
    ) -> Marginal:
        """A table with its intervals, from the cache where it is there; refused when it is too large for a format."""
        where = Where.of(condition, self.release.schema) if condition else None
        shown, needed = self.cells(names, where)
        if needed > STREAMED:
            raise Problem(413, text("error.far_too_large", cells=f"{needed:,}", most=f"{STREAMED:,}"), cells=needed)
        if kind is not None and shown > kind.most:
            sizes = {"cells": f"{shown:,}", "most": f"{AT_ONCE:,}", "streamed": f"{STREAMED:,}"}
            raise Problem(413, text("error.too_large", format=kind.label, **sizes), cells=shown)
        key = "table", names, condition, level
        found: Marginal = self.run(key, lambda: solved(self.release, names, condition, level), table_bytes)
        if regrouping:
            found = self.run((*key, regrouping), lambda: with_ends(regrouping(found), level), table_bytes)
        return found

    def run(self, key: Hashable, work: Callable[[], Any], size: Callable[[Any], int]) -> Any:
        """Work done by the solver; a problem instead where there is no time."""
        try:
            return self.solver.run(key, work, size)
        except BusyError:
            raise self.busy() from None

    def busy(self) -> Problem:
        """What is told where there is no time."""
        return Problem(503, text("error.busy", seconds=round(self.solver.seconds)), retry_after=_RETRY_SECONDS)

    def tag(self, *parts: str) -> str:
        """The entity tag of an answer: of this release, this program and what was asked."""
        program = installed_versions()["crosstally"]
        own = hashlib.sha256("\0".join([self.digest, program, *parts]).encode()).hexdigest()[:32]
        return f'"{own}"'


def served(path: Path, *, root_path: str = "") -> Served:
    """A release file, opened; what every interval needs is computed now, not when somebody waits for it."""
    release = open_release(path)
    stem = path.name.removesuffix(".parquet").removesuffix(".release")
    found = Served(
        release,
        name=re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-") or "release",
        file=path.name,
        digest=hashlib.sha256(path.read_bytes()).hexdigest(),
        root_path=root_path.rstrip("/"),
    )
    solved(release, release.schema.names[:1], "", 0.95)
    return found


def problem_of(error: CrosstallyError) -> Problem:
    """The description of an error that the client caused."""
    if isinstance(error, TooManyCellsError):
        return Problem(413, str(error))
    if isinstance(error, _TELLABLE):
        return Problem(422, str(error))
    return Problem(500, text("error.unforeseen"))
