"""The pages: an overview, the privacy statement, and tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from crosstally.analysis.regrouping import Regrouping, named_after
from crosstally.answers.marginal import ErrorKind, Marginal
from crosstally.browser.common.site import STATIC, environment, static_file, texts_of
from crosstally.browser.explorer import snippets
from crosstally.browser.explorer.api import PREFIX, disposition, file_response
from crosstally.browser.explorer.grid import MAX_SHOWN, Grid, cells_markup, grid, number_text, percent_text
from crosstally.browser.explorer.pictures import DARK, LIGHT, Theme, chart_of, picture, specification, too_large
from crosstally.browser.explorer.problems import HttpProblem
from crosstally.browser.explorer.served import AT_ONCE, FORMATS, STREAMED, Served
from crosstally.browser.explorer.view import LEVELS, Chart, Order, Show, TableView, read_view
from crosstally.query.question import Where
from crosstally.reliability import THRESHOLDS
from crosstally.schema import Attribute, Schema

text = texts_of("explorer")

_FOLDER = Path(__file__).parent
_STATIC = {**STATIC, "explorer.js": (_FOLDER / "static/explorer.js", "text/javascript; charset=utf-8")}

_PICTURES = {"svg": "image/svg+xml", "png": "image/png"}
_VALUES_LISTED = 12  # values of an attribute on the overview: a line or two. The attribute's page has all
_BY_DEFAULT_ROWS = 60
"""A table of more rows shows its largest rows first by default."""


class Pages:
    """The pages of a release. Templates escape their values; an undefined name is an error."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.schema: Schema = served.release.schema
        self.environment = environment(_FOLDER / "templates", text)
        self.environment.globals.update(root=served.root_path, release_title=served.title, api=PREFIX)
        self.environment.filters.update(percent=percent_text)

    def render(self, template: str, status: int = 200, **context: Any) -> Response:
        """A page."""
        return HTMLResponse(self.environment.get_template(template).render(**context), status_code=status)

    def problem(self, problem: HttpProblem) -> Response:
        """A problem as a page."""
        page = self.render("problem.html", problem.status, problem=problem, page="")
        page.headers.update(problem.headers)
        return page

    # The overview

    def start(self, request: Request) -> Response:
        """The description of the release and its attributes, with a search."""
        wanted = request.query_params.get("q", "").strip()[:200]
        found = [each for each in self.schema.attributes if matches(each, wanted)]
        rows = self.served.release.rows
        return self.render(
            "start.html",
            page="start",
            counted=self.schema.counted,
            facts=self._facts(),
            rows=None if math.isnan(rows) else number_text(rows),
            attributes=[(each, each.labels[:_VALUES_LISTED], self._link(each)) for each in found],
            all=len(self.schema.attributes),
            wanted=wanted,
            formats=_listed([each.label for each in FORMATS.values()]),
            units=self.served.release.unit_words,
            promise=self.served.release.statement.plain(self.schema)[0],
        )

    def _facts(self) -> list[tuple[str, str]]:
        about = {} if self.schema.about is None else self.schema.about.to_dict()
        known = [
            (text(f"about.{name}"), words)
            for name, words in about.items()
            if name not in ("counts", "title", "rows", "units")
        ]
        numbers = sum(each.values.size for each in self.served.release.measurements)
        return [
            *known,
            (text("about.file"), self.served.file),
            (text("about.promise"), self.served.release.statement.caption(self.schema)),
            (text("about.measured"), text("about.numbers", n=f"{numbers:,}")),
        ]

    def _link(self, attribute: Attribute) -> str:
        large = attribute.size > _BY_DEFAULT_ROWS
        view = TableView((attribute.name,), order=Order.MOST, top=20) if large else TableView((attribute.name,))
        return view.query()

    def privacy(self) -> Response:
        """The privacy statement in full."""
        statement = self.served.release.statement
        return self.render(
            "privacy.html",
            page="privacy",
            sentences=statement.plain(self.schema),
            statement=statement.caption(self.schema),
        )

    # Tables

    def table(self, request: Request) -> Response:
        """A table with its chart, or the form for one."""
        view = read_view(request.query_params.multi_items(), self.schema)
        condition = view.condition(self.schema)
        cells, _ = self.served.cells(view.attributes, view.chosen(self.schema))
        context: dict[str, Any] = {
            "page": "table",
            "view": view,
            "schema": self.schema,
            "condition": condition,
            "groupable": [(self.schema[name], _group_forms(self.schema[name], view)) for name in view.groupable],
            "levels_of": self._levels(view),
            "inside": self._inside(view),
            "cells": cells_markup,
            "offered": [(self.schema[name], dict(view.kept).get(name, ())) for name in view.offered],
            "shows": [(each.value, text(f"table.show.{each.value}")) for each in Show],
            "orders": [(each.value, text(f"table.order.{each.value}")) for each in Order],
            "charts": [(each.value, text(f"table.chart.{each.value}")) for each in Chart],
            "levels": [(str(each), text("table.level_of", percent=percent_text(each))) for each in LEVELS],
            "swapped": view.swapped().query(),
            "query": view.query(),
            "example": self._example(),
            "caption": self._caption(view, condition),
            "interval_note": self._interval_note(view),
            "formats": [(name, each.label) for name, each in FORMATS.items()] if cells <= STREAMED else [],
            "snippets": self._snippets(request, view, condition),
            "thresholds": {"first": percent_text(THRESHOLDS[0]), "second": percent_text(THRESHOLDS[1])},
        }
        if view.applied and cells <= AT_ONCE:  # how many remain is known after grouping
            marginal, _ = self.served.tables(view.attributes, condition, view.level, None, view.applied)
            shown = cells = marginal.values.size
            if view.top is not None:
                down = math.prod(marginal.schema.shape[: len(view.rows)])
                shown = min(view.top, down) * (cells // max(down, 1))
        else:
            shown = self._shown_cells(view, cells)
        if shown > MAX_SHOWN:
            words = text("table.too_large", cells=f"{cells:,}", most=f"{MAX_SHOWN:,}")
            return self.render("table.html", grid=None, instead=words, how=[], **_picture(), **context)
        marginal, laid = self._laid(view, condition)
        return self.render(
            "table.html",
            grid=laid,
            instead="",
            how=[*how(marginal), *self._together(view), *(() if view.attributes else self.served.release.unit_words)],
            **self._picture(laid, view),
            **context,
        )

    def _laid(self, view: TableView, condition: str) -> tuple[Marginal, Grid]:
        """The table of a view, and its numbers in rows and columns."""
        counts, shown = self.served.tables(
            view.attributes, condition, view.level, None, view.applied, within=view.within
        )
        return counts, grid(counts, shown, view)

    def _shown_cells(self, view: TableView, cells: int) -> int:
        if view.top is None or not view.rows:
            return cells
        down, _ = self.served.cells(view.rows, view.chosen(self.schema))
        return cells if down <= view.top else view.top * (cells // max(down, 1))

    def _levels(self, view: TableView) -> list[tuple[str, list[tuple[str, str]], str]]:
        """The attributes of a table that have a hierarchy: name, available levels, selected level."""
        own = ("", text("table.level_own"))
        return [
            (
                name,
                [own, *((each.name, each.name) for each in self.schema[name].hierarchy)],
                view.regrouping.level(name),
            )
            for name in view.attributes
            if self.schema[name].hierarchy
        ]

    def _inside(self, view: TableView) -> Callable[[str, str], str]:
        """The query that drills down into a label of an attribute, one level finer; empty if there is none."""
        groups: dict[str, set[str]] = {}
        for name in view.attributes:
            level = view.regrouping.level(name)
            groups[name] = {
                group for each in self.schema[name].hierarchy if each.name == level for group in each.labels
            }
        return lambda name, label: view.inside(self.schema[name], label).query() if label in groups[name] else ""

    def _together(self, view: TableView) -> list[str]:
        """The grouped values, in sentences."""
        out = [text("how.level", name=name, level=level) for name, level in view.applied.levels]
        for name, groups in view.applied.groups:
            words = "; ".join(f"{group} = {', '.join(labels)}" for group, labels in groups)
            out.append(text("how.grouped", name=name, groups=words))
        return out

    def _example(self) -> str:
        attribute = self.schema.attributes[0]
        return f"{attribute.name} = {attribute.labels[0]}"

    def _interval_note(self, view: TableView) -> str:
        schema = self.schema
        estimand = "true one" if schema.unit is None else schema.estimand
        return text("table.interval_note", estimand=estimand, percent=percent_text(view.level))

    def _caption(self, view: TableView, condition: str) -> str:
        if not view.attributes:
            whole = text("table.caption_total", counted=self.schema.counted)
            return text("table.caption_total_where", total=whole, where=condition) if condition else whole
        words = {"quantity": self._quantity(view), "names": _listed(_titles(view))}
        if condition:
            return text("table.caption_where", where=condition, **words)
        return text("table.caption", **words)

    def _quantity(self, view: TableView) -> str:
        """What the numbers are; of counts under a bound, what is counted."""
        bounded = view.show is Show.COUNT and self.schema.unit is not None
        name = f"quantity.{view.show.value}"
        return text("quantity.count_of", counted=self.schema.counted) if bounded else text(name)

    def _picture(self, laid: Grid, view: TableView) -> dict[str, Any]:
        kind = chart_of(laid, view.chart)
        if kind is Chart.NONE:
            return _picture()
        most = too_large(laid, kind)
        if most is not None:
            return _picture(instead=text("chart.too_large", most=f"{most:,}", cells=f"{laid.size:,}"))
        return _picture(view.query())

    def _snippets(self, request: Request, view: TableView, condition: str) -> list[tuple[str, str]]:
        names, served = view.attributes, self.served
        pairs = [(f"valueCodes[{name}]", "*") for name in names] + ([("where", condition)] if condition else [])
        pairs += [*view.applied.pairs(), ("outputFormat", "csv")]
        path = f"{served.root_path}{PREFIX}/tables/{served.name}/data"
        base = f"{request.url.scheme}://{request.url.netloc}"
        where = view.chosen(self.schema)
        return [
            (text("copy.python"), snippets.python(served.file, names, condition, self._present(view, where))),
            (text("copy.shell"), snippets.shell(served.file, names, condition, view.applied)),
            (text("copy.sql"), snippets.sql(served.name, names, where, self.schema, view.applied)),
            (text("copy.curl"), snippets.curl(base, path, pairs, f"{served.name}.csv")),
        ]

    def _present(self, view: TableView, where: Where | None) -> Regrouping:
        """The regrouping of the values that the condition keeps: the table has no others."""
        if where is None:
            return view.applied
        of = {name: self.schema[name].labels for name in view.attributes}
        return view.applied.among({name: [own[code] for code in where.possible(name)] for name, own in of.items()})

    # Files

    def chart(self, request: Request, ending: str) -> Response:
        """The picture of a table."""
        if ending not in _PICTURES:
            raise HttpProblem(404, text("error.nothing"))
        pairs = request.query_params.multi_items()
        theme = replace(DARK if ("theme", "dark") in pairs else LIGHT, narrow=("width", "narrow") in pairs)
        view = read_view(pairs, self.schema)
        key = "chart", view.query(), ending, theme
        body = self.served.run(key, self._drawing(view, ending, theme), len, "charts")
        headers = {"Content-Disposition": disposition(f"{self.served.name}.{ending}")} if ("save", "1") in pairs else {}
        return Response(body, media_type=_PICTURES[ending], headers=headers)

    def _drawing(self, view: TableView, ending: str, theme: Theme) -> Callable[[], bytes]:
        condition = view.condition(self.schema)
        marginal, laid = self._laid(view, condition)
        kind = chart_of(laid, Chart.AUTO if view.chart is Chart.NONE else view.chart)
        most = None if kind is Chart.NONE else too_large(laid, kind)
        if kind is Chart.NONE or most is not None:
            words = text("chart.nothing") if most is None else ""
            raise HttpProblem(422, words or text("chart.too_large", most=f"{most:,}", cells=f"{laid.size:,}"))
        spec = specification(
            laid,
            kind,
            title=self._caption(view, condition),
            source=f"{self.served.title}: {marginal.caption}",
            quantity=text(f"quantity.{view.show.value}"),
            level=view.level,
            theme=theme,
        )
        return partial(picture, spec, ending)

    def download(self, request: Request, name: str) -> Response:
        """The whole table of a view as a file."""
        view = read_view(request.query_params.multi_items(), self.schema)
        condition = view.condition(self.schema)
        return file_response(
            self.served, request, view.attributes, condition, name=name, level=view.level, regrouping=view.applied
        )

    def static(self, name: str) -> Response:
        """One of the few files that pages load."""
        found = static_file(name, _STATIC)
        if found is None:
            raise HttpProblem(404, text("error.nothing"))
        return Response(found[0], media_type=found[1], headers={"Cache-Control": "private, max-age=300"})

    def router(self) -> APIRouter:
        """The routes of all pages."""
        routes = APIRouter(include_in_schema=False)
        for path, endpoint in (
            ("/", self.start),
            ("/privacy", self.privacy),
            ("/table", self.table),
            ("/chart.{ending}", self.chart),
            ("/download/{name}", self.download),
            ("/static/{name}", self.static),
            ("/favicon.ico", lambda: self.static("icon.svg")),  # browsers request it for a standalone picture
        ):
            routes.add_api_route(path, endpoint, response_model=None)
        return routes


def _picture(query: str = "", instead: str = "") -> dict[str, Any]:
    """The chart of a page: the query of its picture, when an alternative is shown, or why there is none."""
    dark, narrow = "(prefers-color-scheme: dark)", "(max-width: 40rem)"
    sources = [
        ("print", query),
        (f"{dark} and {narrow}", f"{query}&theme=dark&width=narrow"),
        (dark, f"{query}&theme=dark"),
        (narrow, f"{query}&width=narrow"),
    ]
    return {"picture": query, "pictures": sources, "no_picture": instead}


def _titles(view: TableView) -> list[str]:
    """The names of a table's attributes, with the level of those shown at one."""
    levels = dict(view.regrouping.levels)
    return [f"{name} ({levels[name]})" if name in levels else name for name in view.attributes]


def _group_forms(attribute: Attribute, view: TableView) -> list[tuple[int, str, list[tuple[str, bool]]]]:
    """The groups in the form of a page, the last one empty: number, name, and values that are in no other group."""
    groups = dict(view.regrouping.groups).get(attribute.name, ())
    taken = {label: group for group, labels in groups for label in labels}
    forms = [*((group, "" if group == named_after(labels) else group) for group, labels in groups), (None, "")]
    return [
        (
            number,
            name,
            [
                (label, label in taken and taken[label] == group)
                for label in attribute.labels
                if taken.get(label) in (None, group)
            ],
        )
        for number, (group, name) in enumerate(forms, start=1)
    ]


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {text('and')} {names[-1]}"


def matches(attribute: Attribute, wanted: str) -> bool:
    """Whether every word is in the name, the description or a value of an attribute."""
    texts = [attribute.name, attribute.description or "", *attribute.labels]
    return all(any(word in each.casefold() for each in texts) for word in wanted.casefold().split())


def how(marginal: Marginal) -> list[str]:
    """How a table was obtained, in sentences."""
    methods: Mapping[str, str] = {name: text(f"method.{name}") for name in
                                  ("least-squares", "maximum-entropy", "latent-classes", "linear-program")}  # fmt: skip
    kind: ErrorKind = marginal.error_kind
    out = [text(f"how.{kind.value}", method=methods.get(marginal.method, marginal.method))]
    if marginal.relaxed >= 0.5:
        out.append(text("how.relaxed", relaxed=number_text(math.ceil(marginal.relaxed))))
    if marginal.where:
        out.append(text("how.where", counted=marginal.schema.counted, where=marginal.where))
    return [*out, text("how.noise")]
