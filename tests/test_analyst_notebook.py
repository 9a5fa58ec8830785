"""The analyst's notebook runs on a release, shows nothing that is too long, and is the page of the site."""

from __future__ import annotations

import runpy
from pathlib import Path

import nbformat
import numpy as np
import pytest

import crosstally as ct
from crosstally.generate.people import people

TOOL = runpy.run_path(str(Path(__file__).parent.parent / "docs/notebook_page.py"))
SHOWN = 12  # lines at the prompt; see tests/test_shown.py


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small release of people like those of the demo."""
    folder = tmp_path_factory.mktemp("analyst")
    rows, schema = people(5_000, np.random.default_rng(1))
    wanted = ct.Workload.all_ways(schema, 2)
    ct.release(rows, schema, epsilon=10.0, strategy="direct", workload=wanted).save(folder / "people.release.parquet")
    return folder


def test_every_cell_runs(folder: Path) -> None:
    notebook = TOOL["executed"](folder)  # raises where a cell does
    cells = {cell.id: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}
    assert len(cells) > 15
    for name, outputs in cells.items():
        assert len(outputs) == 1, name
        (output,) = outputs
        assert output.get("name") != "stderr", output  # no warning either
        text = output.text if output.output_type == "stream" else output.data.get("text/plain", "")
        assert "Traceback" not in text
        assert output.output_type == "stream" or len(text.splitlines()) <= SHOWN, name
    assert "to" in cells["odds"][0].data["text/plain"]
    assert cells["unmeasured"][0].data["text/plain"] == "False"
    assert "Owner" in cells["modelled"][0].data["text/html"]
    assert cells["sql"][0].data["text/html"].startswith("<table>")
    assert "none is a real person" in cells["rows"][0].data["text/html"]
    assert cells["chart"][0].data["image/svg+xml"].startswith("<svg")
    assert (folder / "education-by-sex.xlsx").read_bytes()[:2] == b"PK"
    assert (folder / "education-by-sex.csv").read_text(encoding="utf-8").startswith("education,sex,count,std_error")


def test_the_page_is_the_notebook() -> None:
    kept = nbformat.read(TOOL["NOTEBOOK"], as_version=4)
    nbformat.validate(kept)
    assert TOOL["PAGE"].read_text(encoding="utf-8") == TOOL["page"](kept)
    assert TOOL["CHART"].read_text(encoding="utf-8").startswith("<svg")
