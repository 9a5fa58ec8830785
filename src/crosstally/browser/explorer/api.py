"""The API, with the paths of the PxWeb API version 2: a release is one table, and any attribute may be omitted.

``/tables/people/data?valueCodes[sex]=*&valueCodes[age]=C1,C2`` is the table of sex by two values of age. Values are
grouped as in the URLs of pages (``analysis.regrouping``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from threading import Semaphore
from typing import Any, get_args
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.concurrency import iterate_in_threadpool
from starlette.responses import JSONResponse, Response, StreamingResponse

from crosstally.analysis.regrouping import AS_IT_IS, Regrouping, is_regrouping, read_regrouping
from crosstally.answers.marginal import Of
from crosstally.browser.common.site import texts_of
from crosstally.browser.explorer.answering import MOST, USUAL_ERRORS, ErrorsWanted, sql_bytes
from crosstally.browser.explorer.problems import HttpProblem
from crosstally.browser.explorer.served import AT_ONCE, FORMATS, STREAMED, Served
from crosstally.browser.explorer.view import condition_of, read_level
from crosstally.errors import QueryError, did_you_mean, must_be_one_of
from crosstally.exports.formats import Format, Written, written
from crosstally.exports.json_tables import codes_of, json_stat_metadata, measure_name
from crosstally.schema import Attribute, Schema

text = texts_of("explorer")

PREFIX = "/api/v2"
_LONGEST_STATEMENT = 8_000  # a limit: characters of an SQL statement, about the longest address that servers accept
_WRITTEN_HERE = 5_000  # cells of a file that is written at once in this process: a tenth of a second at most
_DATA = "A table of any attributes, with errors and intervals as further measures"
_SQL = "The answer to one SELECT, with both ends of an interval beside each number"
_CODES = "valueCodes["
_ERRORS = ("of", "designEffect", "fraction", "draws")
_SQL_TYPES = {"json": "application/json", "csv": "text/csv; charset=utf-8"}


def router(served: Served) -> APIRouter:
    """The routes of the API."""
    routes, answers, schema = APIRouter(prefix=PREFIX), _Answers(served), served.release.schema
    of_data, of_sql = {"parameters": _data_parameters(schema)}, {"parameters": _sql_parameters()}
    for path, endpoint, summary, more in (
        ("/config", answers.config, "Limits and formats of this API", None),
        ("/tables", answers.tables, "The tables there are: one, the release", None),
        ("/tables/{table}", answers.table, "What a table is", None),
        ("/tables/{table}/metadata", answers.table_metadata, "Attributes and their codes, as JSON-stat", None),
        ("/tables/{table}/data", answers.data, _DATA, of_data),
        ("/sql", answers.sql, _SQL, of_sql),
    ):
        routes.add_api_route(path, endpoint, summary=summary, response_model=None, openapi_extra=more)
    return routes


class _Answers:
    """The handlers of the API."""

    def __init__(self, served: Served) -> None:
        self.served = served

    def config(self) -> Response:
        return JSONResponse(
            {
                "apiVersion": "2.0.0",
                "defaultLanguage": text("language"),
                "languages": [{"id": text("language"), "label": "English"}],
                "maxDataCells": AT_ONCE,
                "maxDataCellsStreamed": STREAMED,
                "maxCost": MOST,
                "defaultDataFormat": "json-stat2",
                "dataFormats": list(FORMATS),
                "sourceReferences": [{"language": text("language"), "text": _source(self.served)}],
            }
        )

    def tables(self) -> Response:
        return JSONResponse({"language": text("language"), "tables": [_table(self.served)]})

    def table(self, table: str) -> Response:
        _check_table(self.served, table)
        return JSONResponse(_table(self.served))

    def table_metadata(self, request: Request, table: str) -> Response:
        served = self.served
        _check_table(served, table)
        tag = served.tag("metadata")
        if _known(request, tag):
            return _unchanged(tag)
        found = json_stat_metadata(served.release.schema, label=served.title, source=_source(served))
        return JSONResponse(found, headers=_kept(tag))

    def data(self, request: Request, table: str) -> Response:
        _check_table(self.served, table)
        pairs = request.query_params.multi_items()
        names, condition, regrouping, options = read_selection(pairs, self.served.release.schema)
        name, level = options.get("outputFormat", "json-stat2"), read_level(options.get("level"))
        return file_response(
            self.served,
            request,
            names,
            condition,
            name=name,
            level=level,
            regrouping=regrouping,
            errors=_errors_wanted(options),
        )

    def sql(self, request: Request) -> Response:
        given = dict(request.query_params)
        _check_parameters(given, ("statement", "outputFormat", "level"))
        statement, name = given.get("statement", ""), given.get("outputFormat", "json")
        level = read_level(given.get("level"))
        if not 1 <= len(statement) <= _LONGEST_STATEMENT:
            raise HttpProblem(422, text("error.statement", most=f"{_LONGEST_STATEMENT:,}"))
        if name not in _SQL_TYPES:
            raise HttpProblem(422, text("error.format", given=repr(name[:40]), known=", ".join(_SQL_TYPES)))
        tag = self.served.tag("sql", statement, name, str(level))
        if _known(request, tag):
            return _unchanged(tag)

        work = partial(sql_bytes, self.served.source, statement, name, level)
        body = self.served.run(("sql", statement, name, level), work, len, "sql")
        return Response(body, media_type=_SQL_TYPES[name], headers=_kept(tag))


def file_response(
    served: Served,
    request: Request,
    names: tuple[str, ...],
    condition: str,
    *,
    name: str,
    level: float,
    regrouping: Regrouping = AS_IT_IS,
    errors: ErrorsWanted = USUAL_ERRORS,
) -> Response:
    """A table as a file, or "not modified" if the client has it."""
    kind = _format(name)
    served.release.schema.check(names)
    more = () if errors == USUAL_ERRORS else (str(errors),)
    pairs = (f"{k}={v}" for k, v in regrouping.pairs())
    tag = served.tag("data", *names, "", condition, name, str(level), *pairs, *more)
    if _known(request, tag):
        return _unchanged(tag)
    marginal, _ = served.tables(names, condition, level, kind, regrouping, errors=errors)
    cells = marginal.values.size
    asked = Written(marginal, level, draws=errors.draws, whole=served.release.schema)
    file = f"{'-'.join([served.name, *names])[:80]}.{kind.ending}"
    headers = {**_kept(tag), "Content-Disposition": disposition(file)}
    if cells > AT_ONCE:
        stream = Stream(written(name, asked), served.streams)
        if not stream.begins:
            raise served.busy()
        return StreamingResponse(iterate_in_threadpool(stream), media_type=kind.media_type, headers=headers)
    whole = partial(_file_bytes, name, asked)
    key = "file", names, condition, name, level, regrouping, errors
    body = whole() if cells <= _WRITTEN_HERE else served.run(key, whole, len, "files")
    return Response(body, media_type=kind.media_type, headers=headers)


def _file_bytes(name: str, asked: Written) -> bytes:
    return b"".join(written(name, asked))


class Stream(Iterator[bytes]):
    """The chunks of a large file. Only a few such files are sent at once: each holds a whole table in memory.

    The slot is released when the object is freed, whether the file was sent completely, in part or not at all.
    """

    def __init__(self, pieces: Iterator[bytes], places: Semaphore) -> None:
        self._pieces, self._places = pieces, places
        self.begins = places.acquire(blocking=False)

    def __next__(self) -> bytes:
        return next(self._pieces)

    def __del__(self) -> None:
        if self.begins:
            self._places.release()


def disposition(file: str) -> str:
    """The header with the file's name: ASCII for old clients, Unicode for others."""
    plain = "".join(each if each.isascii() and (each.isalnum() or each in "-_.") else "_" for each in file)
    return f'attachment; filename="{plain}"; {urlencode({"filename*": file}).replace("%2A=", "*=UTF-8" + chr(39) * 2)}'


def read_selection(
    pairs: Iterable[tuple[str, str]], schema: Schema
) -> tuple[tuple[str, ...], str, Regrouping, dict[str, str]]:
    """The attributes of a table in the order named, the condition, the regrouping, and other parameters."""
    names: list[str] = []
    chosen: list[tuple[Attribute, list[bool]]] = []
    regrouped: list[tuple[str, str]] = []
    options: dict[str, str] = {}
    measure = measure_name(schema.names)
    for key, value in pairs:
        if is_regrouping(key):
            regrouped.append((key, value))
            continue
        if not (key.startswith(_CODES) and key.endswith("]")):
            _check_parameters([key], ("where", "outputFormat", "level", "lang", *_ERRORS))
            options[key] = value
            continue
        name = key[len(_CODES) : -1]
        if name == measure:
            if value != "*":
                raise QueryError(f"all measures are always sent: {measure} must be *, got {value[:40]!r}")
            continue
        schema.check([*names, name])
        names.append(name)
        chosen.append((schema[name], _chosen(schema[name], value)))
    regrouping = read_regrouping(regrouped, schema)
    regrouping.check(names)
    return tuple(names), condition_of(chosen, options.get("where", "").strip()), regrouping, options


def _errors_wanted(options: Mapping[str, str]) -> ErrorsWanted:
    """What parameters say about errors."""
    of, effect, draws = options.get("of", "table"), options.get("designEffect"), options.get("draws", "false")
    for name, given, known in (("of", of, get_args(Of)), ("draws", draws, ("true", "false"))):
        if given not in known:
            raise QueryError(must_be_one_of(name, known, given[:40]))
    try:
        sample = None if effect is None else float(effect), float(options.get("fraction", "0"))
    except ValueError:
        raise QueryError("designEffect and fraction must be numbers") from None
    return ErrorsWanted(of, *sample, draws=draws == "true")


def _chosen(attribute: Attribute, given: str) -> list[bool]:
    """The values named by a list of codes. A label is its own code if it is alone or has no comma."""
    known = {code: number for number, code in enumerate(codes_of(attribute))}
    if given == "*":
        return [True] * attribute.size
    if given in attribute.labels:
        numbers = {attribute.labels.index(given)}
    else:
        codes = given.split(",")
        unknown = [code for code in codes if code not in known]
        if unknown:
            hint = did_you_mean(unknown[0][:80], known)
            raise QueryError(f"{attribute.name!r} has no code {unknown[0][:80]!r}{hint}")
        numbers = {known[code] for code in codes}
    return [number in numbers for number in range(attribute.size)]


def _check_parameters(given: Iterable[str], known: Iterable[str]) -> None:
    for key in given:
        if key not in known:
            raise HttpProblem(422, text("error.parameter", given=repr(key[:80])))


def _format(name: str) -> Format:
    if name not in FORMATS:
        raise HttpProblem(422, text("error.format", given=repr(name[:40]), known=", ".join(FORMATS)))
    return FORMATS[name]


def _check_table(served: Served, table: str) -> None:
    if table != served.name:
        raise HttpProblem(404, text("error.table", given=repr(table[:80]), known=served.name))


# Metadata of the table


def _source(served: Served) -> str:
    return str(served.release.statement)


def _table(served: Served) -> dict[str, Any]:
    path = f"{served.root_path}{PREFIX}/tables/{served.name}"
    return {
        "type": "Table",
        "id": served.name,
        "label": served.title,
        "description": " ".join(served.release.statement.plain(served.release.schema)),
        "source": _source(served),
        "variableNames": list(served.release.schema.names),
        "links": [{"rel": rel, "href": f"{path}/{rel}"} for rel in ("metadata", "data")],
    }


# Entity tags


def _kept(tag: str) -> dict[str, str]:
    """Clients may cache it but must revalidate before each use."""
    return {"ETag": tag, "Cache-Control": "private, no-cache"}


def _known(request: Request, tag: str) -> bool:
    given = request.headers.get("if-none-match", "")
    return given.strip() == "*" or tag in (each.strip().removeprefix("W/") for each in given.split(","))


def _unchanged(tag: str) -> Response:
    return Response(status_code=304, headers=_kept(tag))


# OpenAPI


def _parameter(name: str, words: str, **schema: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "description": words, "schema": schema}


def _data_parameters(schema: Schema) -> list[dict[str, Any]]:
    codes = _parameter("valueCodes", "Attributes of the table, in order: * or codes with commas between them.")
    codes |= {"style": "deepObject", "explode": True}
    properties = {
        each.name: {
            "type": "string",
            "examples": ["*", codes_of(each)[0]],
            "description": each.description or each.name,
        }
        for each in schema.attributes
    }
    codes["schema"] = {"type": "object", "properties": properties, "additionalProperties": False}
    return [
        codes,
        _parameter("where", "Count only such rows.", type="string"),
        *(parameter for each in schema.attributes for parameter in _regrouping_parameters(each)),
        _parameter("outputFormat", "How it is written.", type="string", enum=list(FORMATS), default="json-stat2"),
        _parameter("level", "How sure intervals are.", type="string", enum=["0.9", "0.95", "0.99"], default="0.95"),
        _parameter("of", "What errors are about.", type="string", enum=list(get_args(Of)), default="table"),
        _parameter("designEffect", "Of the sample, for a population.", type="number"),
        _parameter("fraction", "How much of the population was sampled.", type="number", default=0),
        _parameter("draws", "A column for each draw, in csv and parquet.", type="boolean", default=False),
    ]


def _regrouping_parameters(attribute: Attribute) -> list[dict[str, Any]]:
    """How values of an attribute are grouped; the first group is shown as the example."""
    name, levels = attribute.name, [each.name for each in attribute.hierarchy]
    by = _parameter(
        f"by.1.{name}",
        f"Values of {name} that are put together, again for each; by.2.{name} are those of the next group.",
        type="array",
        items={"type": "string", "enum": list(attribute.labels)},
    )
    called = _parameter(f"as.1.{name}", "What this group is called; after its values if left out.", type="string")
    at = _parameter(f"at.{name}", f"The level of {name}, instead of groups.", type="string", enum=levels)
    return [by | {"style": "form", "explode": True}, called, *([at] if levels else [])]


def _sql_parameters() -> list[dict[str, Any]]:
    statement = _parameter("statement", "One SELECT.", type="string", maxLength=_LONGEST_STATEMENT)
    return [
        {**statement, "required": True},
        _parameter("outputFormat", "How it is written.", type="string", enum=list(_SQL_TYPES), default="json"),
        _parameter("level", "How sure intervals are.", type="string", enum=["0.9", "0.95", "0.99"], default="0.95"),
    ]


def document(served: Served, openapi: dict[str, Any]) -> str:
    """The OpenAPI document, with the title of this release and the name of its table."""
    openapi["info"]["title"] = f"crosstally: {served.title}"
    for path in openapi["paths"].values():
        for parameter in path["get"].get("parameters", []):
            if parameter["in"] == "path":
                parameter["schema"] = {"type": "string", "enum": [served.name]}
    return json.dumps(openapi, ensure_ascii=False)
