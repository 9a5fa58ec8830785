"""Writes tests/local/vectors.json: what every client of the wire format must agree on. Run it by hand."""

from __future__ import annotations

import base64
import json
from fractions import Fraction
from pathlib import Path

from crosstally.local import client
from crosstally.local.oracles import ORACLES
from crosstally.local.protocol import design
from crosstally.schema import Attribute, Outside, Schema

SCHEMA = Schema(
    (
        Attribute("plan", ("free", "paid"), outside=Outside.OTHER),
        Attribute("age", edges=(0, 18, 65, 120), missing=True),
        Attribute("feature", ("off", "on")),
    )
)
KINDS = (  # in the order of the file
    "randomised-response",
    "hadamard-response",
    "subset-selection",
    "unary-encoding",
    "local-hashing",
    "residual-bit",
    "each-attribute",
)
ROWS = [
    {"plan": "free", "age": 17, "feature": "on"},
    {"plan": "Enterprise", "age": 65.0, "feature": "off"},
    {"plan": "paid", "age": None, "feature": "on"},
    {"plan": "paid", "age": 200, "feature": "off"},
]


class Script:
    """A source whose draws are given: each one as a whole number below what is asked for, recorded with it."""

    def __init__(self, seed: int) -> None:
        self.state = seed
        self.draws: list[list[int]] = []

    def below(self, number: int) -> int:
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        drawn = (self.state >> 16) % number
        self.draws.append([number, drawn])
        return drawn

    def chance(self, probability: Fraction) -> bool:
        return self.below(probability.denominator) < probability.numerator

    def identity(self) -> bytes:
        return bytes(range(16))


def vectors() -> dict[str, object]:
    protocol = design(SCHEMA, epsilon=1, people=100_000, ways=2, method="residuals").document
    whole = []
    for number, row in enumerate(ROWS):
        source = Script(number)
        report = client.report(protocol, row, store={}, cap="1", source=source)
        whole.append(
            {"row": row, "draws": source.draws, "report": base64.b64encode(report).decode(), "hex": report.hex()}
        )
    answers = []
    for oracle in (ORACLES[kind].of((3, 4), Fraction(1)) for kind in KINDS):
        for number, codes in enumerate([(0, 0), (2, 3), (1, 2)]):
            source = Script(number + 7)
            answer = client.draw(oracle.to_dict(), codes, source)
            answers.append(
                {"oracle": oracle.to_dict(), "codes": list(codes), "draws": source.draws, "answer": str(answer)}
            )
    return {
        "protocol": protocol,
        "protocol_id": client.protocol_id(protocol).hex(),
        "reports": whole,
        "answers": answers,
    }


if __name__ == "__main__":
    Path(__file__).with_name("vectors.json").write_text(json.dumps(vectors(), indent=1, ensure_ascii=False) + "\n")
