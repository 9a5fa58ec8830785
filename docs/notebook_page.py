"""Run docs/start/analyst.ipynb on a fresh demo, keep its outputs, and write the page of the site from it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbclient
import nbformat

NOTEBOOK = Path(__file__).parent / "start" / "analyst.ipynb"
PAGE, CHART = NOTEBOOK.with_suffix(".md"), NOTEBOOK.with_suffix(".svg")
SVG = "image/svg+xml"


def executed(folder: Path) -> Any:
    """The notebook with the outputs of a run in a folder that holds people.release.parquet."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources=resources).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times of the day, which are other ones in every run
    return notebook


def page(notebook: Any) -> str:
    """The cells of a notebook and what they show, as Markdown."""
    title, *cells = notebook.cells
    parts = [title.source, f"[This page as a notebook]({NOTEBOOK.name}). It is written by `make tour`."]
    for cell in cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
        else:
            parts += [f"```python\n{cell.source}\n```", *map(shown, outputs(cell))]
    return "\n\n".join(parts) + "\n"


def outputs(cell: Any) -> Iterator[dict[str, str]]:
    """What a cell shows, by type of content."""
    for output in cell.outputs:
        yield {"text/plain": output.text} if output.output_type == "stream" else output.data


def shown(output: dict[str, str]) -> str:
    """One output: the chart as a picture, tables of crosstally as they are, everything else as text."""
    if SVG in output:
        return f"![The table as a chart]({CHART.name})"
    if output.get("text/html", "").startswith("<table>"):
        return output["text/html"]
    text = "\n".join(line.rstrip() for line in output["text/plain"].strip("\n").splitlines())
    return f"```text\n{text}\n```"


def main() -> None:
    """Rewrite the notebook, its page and the picture on it."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "crosstally", "demo"], cwd=folder, capture_output=True, check=True)
        notebook = executed(Path(folder) / "crosstally-demo")
    nbformat.write(notebook, NOTEBOOK)
    PAGE.write_text(page(notebook), encoding="utf-8")
    code = (cell for cell in notebook.cells if cell.cell_type == "code")
    (chart,) = (output[SVG] for cell in code for output in outputs(cell) if SVG in output)
    CHART.write_text(chart, encoding="utf-8")


if __name__ == "__main__":
    main()
