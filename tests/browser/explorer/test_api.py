"""The API: formats read again by other programs, codes, conditions, limits, entity tags, SQL."""

import io
import warnings

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
from pyjstat import pyjstat
from starlette.testclient import TestClient

import released
from crosstally.browser.explorer.served import FORMATS
from crosstally.releases import Release
from web_clients import HOSTILE, client_of, hostile, large, serving

DATA = "/api/v2/tables/people/data"


@pytest.fixture(scope="module")
def release() -> Release:
    return released.views()


@pytest.fixture(scope="module")
def client(release: Release) -> TestClient:
    return client_of(serving(release))


def rows_of(client: TestClient, name: str, query: str) -> pd.DataFrame:
    """A row for each cell, read by another program: labels, then the four measures."""
    answer = client.get(f"{DATA}?{query}&outputFormat={name}")
    assert answer.status_code == 200, answer.text
    if name == "csv":
        return pd.read_csv(io.BytesIO(answer.content), keep_default_na=False, na_values=[""])
    if name == "parquet":
        return pyarrow.parquet.read_table(io.BytesIO(answer.content)).to_pandas()
    if name == "xlsx":
        return pd.read_excel(io.BytesIO(answer.content), sheet_name="table")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own calls of what it has deprecated
        long = pyjstat.Dataset.read(answer.text).write("dataframe")
    labels = list(long.columns[:-2])
    return long.pivot_table("value", labels, "measure", sort=False, observed=True).reset_index()


@pytest.mark.parametrize("name", ["csv", "parquet", "xlsx", "json-stat2"])
def test_values_labels_and_errors_are_those_of_the_library(client: TestClient, release: Release, name: str) -> None:
    read = rows_of(client, name, "valueCodes[âge]=*&valueCodes[sex]=*")
    table = release.marginal("âge", "sex")
    low, high = table.interval()
    assert read["âge"].tolist() == [label for label in table.schema["âge"].labels for _ in range(2)]
    assert read["sex"].tolist() == ["Female", "Male"] * 4
    for column, numbers in zip(("count", "count_low", "count_high"), (table.values, low, high), strict=True):
        assert read[column].tolist() == pytest.approx(numbers.ravel().tolist(), abs=1e-6)


@pytest.mark.parametrize("name", ["px", "sdmx-csv"])
def test_what_statistical_offices_read_is_there(client: TestClient, name: str) -> None:
    answer = client.get(f"{DATA}?valueCodes[sex]=*&outputFormat={name}")
    assert answer.status_code == 200
    assert {"px": 'VALUES("sex")="Female","Male";', "sdmx-csv": "SEX: sex,OBS_VALUE,STD_ERROR"}[name] in answer.text


def test_codes_choose_values_and_keep_their_meaning(client: TestClient, release: Release) -> None:
    codes = client.get("/api/v2/tables/people/metadata").json()["dimension"]["âge"]["category"]
    assert codes["index"] == ["C0", "C1", "C2", "(missing)"]
    assert codes["label"]["C1"] == "[18, 65.5)"
    found = client.get(f"{DATA}?valueCodes[âge]=C2,(missing)").json()
    assert found["dimension"]["âge"]["category"]["label"] == {"C2": "[65.5, 120]", "(missing)": "(missing)"}
    assert found["value"][::4] == pytest.approx(release.marginal("âge").values[2:].tolist())
    assert client.get(f"{DATA}?valueCodes[âge]=[0, 18)").json()["size"] == [1, 4]


def test_conditions_and_levels(client: TestClient, release: Release) -> None:
    read = rows_of(client, "csv", "valueCodes[sex]=*&where=âge < 18&level=0.9")
    table = release.marginal("sex", where="âge < 18")
    assert read["count"].tolist() == pytest.approx(table.values.tolist())
    assert read["count_low"].tolist() == pytest.approx(table.interval(0.9)[0].tolist())


@pytest.mark.parametrize("name", ["csv", "parquet"])
def test_draws_are_columns_on_request(client: TestClient, release: Release, name: str) -> None:
    read, table = rows_of(client, name, "valueCodes[sex]=*&draws=true"), release.marginal("sex")
    draws = read[[column for column in read if column.startswith("draw_")]].to_numpy().T
    np.testing.assert_allclose(draws, table.draws())
    assert read["count"].tolist() == pytest.approx(table.values.tolist())


def test_errors_may_be_about_the_population(client: TestClient, release: Release) -> None:
    read = rows_of(client, "csv", "valueCodes[sex]=*&of=population&designEffect=2&fraction=0.5")
    table = release.marginal("sex").of_population(design_effect=2, fraction=0.5)
    assert read["population_count_low"].tolist() == pytest.approx(table.interval().low.tolist())
    found = client.get(f"{DATA}?valueCodes[sex]=*&of=population").json()
    assert "of the population behind the rows, design effect 1" in found["source"]


def test_no_attribute_is_the_number_of_rows(client: TestClient, release: Release) -> None:
    found = client.get(DATA).json()
    assert (found["id"], found["value"][0]) == (["ContentsCode"], pytest.approx(release.marginal().values.item()))


WRONG = {
    "valueCodes[sx]=*": "did you mean 'sex'?",
    "valueCodes[sex]=Femal": "did you mean 'Female'?",
    "valueCodes[sex]=*&valueCodes[sex]=*": "named twice",
    "valueCodes[ContentsCode]=count": "all measures",
    "outputFormat=doc": "json-stat2",
    "level=2": "level must be",
    "of=sample": "of must be table or population",
    "of=population&designEffect=0": "design_effect must be a positive number",
    "of=population&fraction=x": "must be numbers",
    "draws=yes": "draws must be true or false",
    "valueCodes[sex]=*&draws=true": "draws are written as csv or parquet",
    "wher=sex": "'wher'",
    "where=sex == Female or": "",
    "where=sex = Female and sex = Male": "no row can satisfy",
}


@pytest.mark.parametrize("query", WRONG)
def test_mistakes_are_said(client: TestClient, query: str) -> None:
    answer = client.get(f"{DATA}?{query}")
    assert answer.status_code == 422
    assert WRONG[query] in answer.json()["detail"]


def test_an_entity_tag_saves_sending_it_again(client: TestClient, release: Release) -> None:
    first = client.get(f"{DATA}?valueCodes[sex]=*")
    tag = first.headers["etag"]
    again = client.get(f"{DATA}?valueCodes[sex]=*", headers={"if-none-match": f'"x", {tag}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    other = client_of(serving(release, digest="1" * 64)).get(f"{DATA}?valueCodes[sex]=*")
    tags = {tag, other.headers["etag"], client.get(f"{DATA}?valueCodes[sex]=*&outputFormat=px").headers["etag"]}
    assert len(tags) == 3


def test_large_tables_are_streamed_or_refused_and_never_cut() -> None:
    client = client_of(serving(large()))
    pair, all_three = "valueCodes[a]=*&valueCodes[b]=*", "valueCodes[a]=*&valueCodes[b]=*&valueCodes[c]=*"
    for name in FORMATS:
        answer = client.get(f"{DATA}?{all_three}&outputFormat={name}")
        assert (answer.status_code, answer.json()["cells"]) == (413, 5_600_000)
    refused = client.get(f"{DATA}?{pair}&outputFormat=xlsx")
    assert (refused.status_code, refused.json()["cells"]) == (413, 560_000)
    sent = client.get(f"{DATA}?{pair}&outputFormat=parquet")
    assert pyarrow.parquet.read_table(io.BytesIO(sent.content)).num_rows == 560_000
    lines = client.get(f"{DATA}?{pair}&where=b in {{b0, b1}}&outputFormat=csv").text.splitlines()
    assert len(lines) == 1 + 1_600


def test_sql(client: TestClient, release: Release) -> None:
    found = client.get("/api/v2/sql", params={"statement": "SELECT sex, count(*) FROM people GROUP BY sex"}).json()
    assert [row["sex"] for row in found["rows"]] == ["Female", "Male"]
    assert [row["count"] for row in found["rows"]] == pytest.approx(release.marginal("sex").values.tolist())
    csv = client.get("/api/v2/sql", params={"statement": "SELECT count(*) FROM people", "outputFormat": "csv"}).text
    assert csv.splitlines()[0] == "count,count_low,count_high"
    wrong = client.get("/api/v2/sql", params={"statement": "DROP TABLE people"})
    assert wrong.status_code == 422


def test_formulas_are_inert_in_csv_and_negative_numbers_stay() -> None:
    client = client_of(serving(hostile()))
    text = client.get(f"{DATA}?valueCodes['; DROP --]=*&outputFormat=csv").text
    labels = [line.split(",")[0] for line in text.splitlines()[1:]]
    assert labels == ["'=1+1", "-5", "<i>"]
    codes = client.get("/api/v2/tables/people/metadata").json()["dimension"]["<b>x</b>"]["category"]
    assert list(codes["label"].values()) == HOSTILE


def test_the_openapi_document_names_every_path(client: TestClient) -> None:
    found = client.get("/api/v2/openapi.json").json()
    assert sorted(found["paths"]) == [
        "/api/v2/config",
        "/api/v2/sql",
        "/api/v2/tables",
        "/api/v2/tables/{table}",
        "/api/v2/tables/{table}/data",
        "/api/v2/tables/{table}/metadata",
    ]
