"""A served release: the release, its name, and the answers to questions about it."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from pathlib import Path
from threading import Semaphore
from typing import Any

from starlette.exceptions import HTTPException

from crosstally.analysis.regrouping import AS_IT_IS, Regrouping
from crosstally.answers.marginal import Marginal
from crosstally.browser.common.site import texts_of
from crosstally.browser.explorer.answering import (
    LARGE,
    MOST,
    USUAL_ERRORS,
    ErrorsWanted,
    ReleaseFile,
    TooDearError,
    price,
    solved,
    table_bytes,
    workers,
)
from crosstally.browser.explorer.problems import HttpProblem
from crosstally.browser.explorer.solver import DEADLINE, MEMORY, BusyError, Solver, TooMuchError
from crosstally.errors import PlanError, QueryError, ReleaseError, TooManyCellsError, WorkloadError
from crosstally.exports import formats
from crosstally.query.question import Where
from crosstally.releases import Release, open_release
from crosstally.releases.statement import installed_versions

text = texts_of("explorer")

AT_ONCE = 500_000  # limits memory; see below
STREAMED = 5_000_000
"""The most cells of one answer: sent at once, and streamed, which CSV and Parquet allow. More are refused."""

FORMATS = {name: each for name, each in formats.FORMATS.items() if each.web}
"""The formats of files that are served."""

_RETRY_SECONDS = 5  # the retry time of a busy server: half of the limit for one computation
_STREAMS = 4  # a limit of memory: files of more than 500,000 cells that are being sent, each from its whole table


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """A release that is served under a name. ``digest`` identifies it in caches of clients."""

    release: Release
    _: KW_ONLY
    name: str
    file: str
    digest: str
    path: Path | None = None
    root_path: str = ""
    solver: Solver = field(default_factory=Solver)
    streams: Semaphore = field(default_factory=lambda: Semaphore(_STREAMS))

    @property
    def source(self) -> ReleaseFile | Release:
        """The source for work: the file, which each process opens itself, or the release in this process."""
        return self.release if self.path is None else ReleaseFile(self.path, self.digest)

    @property
    def title(self) -> str:
        """The title of the release."""
        about = self.release.schema.about
        return about.title if about is not None and about.title else self.name

    def cells(self, names: Sequence[str], where: Where | None) -> tuple[int, int]:
        """The number of cells of a table, and of the table that it is computed from."""
        schema = self.release.schema
        schema.check(names)
        if where is None:
            shown = math.prod(schema.sizes(names))
            return shown, shown
        shown = math.prod(len(where.possible(name)) for name in names)
        return shown, math.prod(schema.sizes(tuple(dict.fromkeys((*names, *where.attributes)))))

    def tables(
        self,
        names: tuple[str, ...],
        condition: str,
        level: float,
        kind: formats.Format | None = None,
        regrouping: Regrouping = AS_IT_IS,
        *,
        within: tuple[str, ...] | None = None,
        errors: ErrorsWanted = USUAL_ERRORS,
    ) -> tuple[Marginal, Marginal]:
        """A table and its displayed form: shares within some attributes, or the table itself."""
        where = Where.of(condition, self.release.schema) if condition else None
        shown, needed = self.cells(names, where)
        if needed > STREAMED:
            raise HttpProblem(413, text("error.far_too_large", cells=f"{needed:,}", most=f"{STREAMED:,}"), cells=needed)
        if kind is not None and shown > (STREAMED if kind.streamed else AT_ONCE):
            sizes = {"cells": f"{shown:,}", "most": f"{AT_ONCE:,}", "streamed": f"{STREAMED:,}"}
            raise HttpProblem(413, text("error.too_large", format=kind.label, **sizes), cells=shown)
        key = "table", names, condition, level, regrouping, within, errors
        cost = 0 if self.solver.kept(key) is not None else price(self.release, [names], where)
        cost *= 1 if within is None else 2  # shares are solved separately
        if cost > MOST:
            raise TooDearError.of(cost)
        work = partial(
            solved, self.source, names, condition, level, regrouping=regrouping, within=within, errors=errors
        )
        found: tuple[Marginal, Marginal] = self.run(key, work, table_bytes, "large" if cost > LARGE else "tables")
        return found

    def run(self, key: Hashable, work: Callable[[], Any], size: Callable[[Any], int], place: str) -> Any:
        """The result of work by the solver; raises a problem if it takes too long."""
        try:
            return self.solver.run(key, work, size, place)
        except BusyError:
            raise self.busy() from None
        except TooMuchError:
            limits = {"seconds": round(DEADLINE), "memory": f"{MEMORY / 2**30:g} GB"}
            raise HttpProblem(413, text("error.too_much", **limits)) from None

    def busy(self) -> HttpProblem:
        """The problem for work that takes too long."""
        return HttpProblem(503, text("error.busy", seconds=round(self.solver.seconds)), retry_after=_RETRY_SECONDS)

    def tag(self, *parts: str) -> str:
        """The entity tag of an answer: of this release, this program and what was asked."""
        program = installed_versions()["crosstally"]
        own = hashlib.sha256("\0".join([self.digest, program, *parts]).encode()).hexdigest()[:32]
        return f'"{own}"'


def served(path: Path, *, root_path: str = "") -> Served:
    """A release file, opened; processes that answer tables open it too, beside everything else."""
    release = open_release(path)
    stem = path.name.removesuffix(".parquet").removesuffix(".release")
    source = ReleaseFile(path.resolve(), hashlib.sha256(path.read_bytes()).hexdigest())
    solver = Solver(workers(source, release.schema.names))
    solver.start("tables")
    return Served(
        release,
        name=re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-") or "release",
        file=path.name,
        digest=source.digest,
        path=source.path,
        root_path=root_path.rstrip("/"),
        solver=solver,
    )


def problem_of(error: Exception) -> HttpProblem:
    """The description of an error that the client caused."""
    if isinstance(error, HttpProblem):
        return error
    if isinstance(error, HTTPException):
        words = text("error.method" if error.status_code == 405 else "error.nothing")
        return HttpProblem(error.status_code, words)
    if isinstance(error, TooDearError):
        return HttpProblem(413, str(error), cost=error.cost)
    if isinstance(error, ReleaseError):
        return HttpProblem(503, text("error.changed"))
    if isinstance(error, TooManyCellsError | QueryError | PlanError | WorkloadError):  # they name the request alone
        return HttpProblem(413 if isinstance(error, TooManyCellsError) else 422, str(error))
    return HttpProblem(500, text("error.unforeseen"))
