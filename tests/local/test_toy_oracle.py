"""Another oracle needs two files: its own module among the oracles, and the device's draw in the client."""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import crosstally

PACKAGE = Path(crosstally.__file__).parent

ORACLE = '''
"""A coin: the own value of a binary attribute, or the other one (Warner)."""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from crosstally.local.oracles.answers import AnswerSpace
from crosstally.local.oracles.oracle import ViewOracle
from crosstally.local.oracles.answers import odds_below, rounded_down
from crosstally.local.oracles.oracle import register


@register
@dataclass(frozen=True, slots=True)
class Coin(ViewOracle):
    """Answers 5 and 6 stand for the values 0 and 1."""

    honest: Fraction
    kind: ClassVar[str] = "coin"
    most_cells: ClassVar[int] = 2

    @classmethod
    def of(cls, sizes, epsilon):
        odds = odds_below(epsilon)
        return cls(tuple(sizes), rounded_down(odds / (odds + 1)))

    @property
    def true(self):
        return self.honest

    @property
    def false(self):
        return 1 - self.honest

    @property
    def answers(self):
        return AnswerSpace(least=5, limit=7)

    @property
    def support_variance(self):
        return 0.0

    def supports(self, slots):
        return slots[5:]
'''

DRAW = """
KINDS["coin"] = _Kind(
    ("honest",),
    lambda oracle, codes, source: 5 + _kept(codes[0], 2, oracle["honest"], source),
    lambda oracle: _kept_ratio(oracle["honest"], 1, 2),
    lambda oracle, where: 7 if fraction(oracle["honest"], f"{where}.honest") < 1 else 0,
    2,
)
"""

COLLECTION = """
import json
from fractions import Fraction

import numpy as np

import crosstally
from crosstally.local import Collector, Protocol
from crosstally.local.bulk import reports
from crosstally.local.oracles import ORACLES, view_oracles

oracle = ORACLES["coin"].of((2,), Fraction(2))
attribute = {"name": "answer", "values": ["no", "yes"]}
document = {
    "version": 1, "epsilon": "2", "people": 4000, "ways": 1, "method": "full", "minimum": 1000, "tokens": None,
    "schema": {"attributes": [attribute]}, "oracles": [oracle.to_dict()],
    "groups": [{"attributes": [0], "oracle": 0, "share": 1}],
}
protocol = Protocol.from_dict(document)
rows = [{"answer": "yes" if person % 4 == 0 else "no"} for person in range(2000)]
sent = [protocol.report(row, store={}, cap="2") for row in rows]
collector = Collector(protocol)
received = collector.add_many(sent)
bulk = collector.add_many(reports(protocol, (np.arange(2000)[None] % 4 == 0).astype(int)))
forged = sent[0][:9] + bytes(16) + sent[0][25:29] + (4).to_bytes(8, "little")
release = collector.release()
print(json.dumps({
    "package": crosstally.__file__,
    "accepted": [received.accepted, bulk.accepted],
    "forged": collector.add(forged).name,
    "served": oracle in view_oracles((2,), Fraction(2)),
    "yes": release.marginal("answer").values.tolist()[1],
    "statement": release.statement.strategy,
}))
"""


def changed_files(ours: Path, theirs: Path) -> set[str]:
    """Every source file that is not the same in both."""
    names = {str(path.relative_to(root)) for root in (ours, theirs) for path in root.rglob("*.py")}
    return {
        name
        for name in names
        if not ((ours / name).exists() and filecmp.cmp(ours / name, theirs / name, shallow=False))
    }


def test_a_toy_oracle_touches_two_files(tmp_path: Path) -> None:
    """From a protocol written by hand to a release, by devices and in bulk.

    Of 4,000 people 1,000 say yes. An answer is honest with probability p = 0.88, so the estimate has a standard
    deviation of sqrt(4000 p (1 - p)) / (2 p - 1) = 27; it is within 6 of them: false alarm 2e-9.
    """
    copy = tmp_path / "crosstally"
    unfinished = shutil.ignore_patterns("*.tmp.*", "*.pyc.*")  # another process may be writing them
    shutil.copytree(PACKAGE, copy, ignore=unfinished)  # with the compiled kernels
    (copy / "local/oracles/coin.py").write_text(ORACLE.lstrip(), encoding="utf-8")
    with (copy / "local/client/draws.py").open("a", encoding="utf-8") as draws:
        draws.write(DRAW)
    assert changed_files(PACKAGE, copy) == {"local/oracles/coin.py", "local/client/draws.py"}
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", COLLECTION], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert Path(found["package"]) == copy / "__init__.py"
    assert found["accepted"] == [2000, 2000]
    assert found["forged"] == "IMPOSSIBLE_ANSWER"
    assert found["served"] is True
    assert abs(found["yes"] - 1000) < 6 * 27
    assert found["statement"] == "local full"
