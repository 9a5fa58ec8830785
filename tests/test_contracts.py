"""The import contracts refuse what they forbid: each forbidden import is planted in a copy of the package."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

PLANTED = {  # file of the package: what it must not import
    "local/planning/methods.py": "crosstally.sources",
    "releases/release.py": "crosstally.sources.counts",
    "exports/__init__.py": "crosstally.sources",
    "local/collector.py": "crosstally.privacy.noise",
    "pipeline.py": "crosstally_lab.papers.data",
    "cli/table.py": "crosstally.privacy.measure",
    "strategies/direct.py": "crosstally.privacy.measure",
    "answers/answer.py": "crosstally.privacy.ledger",
    "local/bulk.py": "crosstally.privacy.ledger_file",
    "notebook/history/prior.py": "opendp",
    "privacy/measure.py": "opendp.measurements",
    "browser/explorer/explorer_pages.py": "crosstally.privacy.accounting",
    "browser/explorer/served.py": "crosstally.pipeline",
    "browser/explorer/app.py": "crosstally.browser.steward.review",
    "browser/steward/review_pages.py": "crosstally.privacy.accounting",
    "browser/steward/plan_page.py": "crosstally.sources.inspection",
    "browser/steward/review.py": "crosstally.pipeline",
    "local/client/draws.py": "numpy",
    "plans/plan.py": "crosstally.strategies",
    "schema/schema.py": "crosstally.workload",
}

PLANTED_IN_LABORATORY = {
    "papers/baselines/cuboids.py": "crosstally.privacy.noise",
    "papers/metrics.py": "crosstally_lab.audit.findings",
    "papers/data.py": "crosstally.cli.options",
    "generate/binary.py": "crosstally_lab.papers.outcomes",
    "audit/findings.py": "opendp",
}
ALL = {f"src/crosstally/{name}": module for name, module in PLANTED.items()}
ALL |= {f"lab/src/crosstally_lab/{name}": module for name, module in PLANTED_IN_LABORATORY.items()}


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}:{root / 'lab/src'}", "COLUMNS": "400", "NO_COLOR": "1"}
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)


def test_every_forbidden_import_is_refused(tmp_path: Path) -> None:
    for folder in ("src", "lab/src"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".importlinter", tmp_path)
    for name, module in ALL.items():
        file = tmp_path / name
        file.write_text(file.read_text(encoding="utf-8") + f"\nimport {module}\n", encoding="utf-8")
    ran = lint(tmp_path)
    assert ran.returncode == 1
    for name, module in ALL.items():
        importer = name.rpartition("src/")[2].removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        imported = module.split(".")[0] if module.startswith(("opendp", "numpy")) else module
        assert f"{importer} -> {imported} " in ran.stdout, f"{importer} may import {module}"


def test_what_is_there_keeps_all_contracts() -> None:
    assert lint(ROOT).returncode == 0
