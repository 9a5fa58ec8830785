"""What the audit found: one line for each thing that was audited, and all of them as a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from typing import Any

EXACT, SAMPLED, WHOLE, REPLAY = "exact", "sampled", "end to end", "replay"
"""The parts of the audit, by their names on the command line."""

_ROUNDING = 1e-9
"""Allowed rounding error: losses of Laplace and Gaussian noise are exact fractions, those of choices are not."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was audited: what it promises, and what was found.

    ``claimed`` is the promise, ``exact`` the largest loss that was worked out, ``bound`` a loss that the mechanism has
    at least, by sampling. ``share`` is the least part of ``exact`` that ``bound`` must reach for the audit to have said
    anything. ``cases`` counts what stands behind the line: plans, draws or releases. ``broken`` says in words what does
    not hold beside the numbers.
    """

    part: str
    subject: str
    _: KW_ONLY
    unit: str = "ε"
    claimed: float | None = None
    exact: float | None = None
    bound: float | None = None
    share: float = 0.0
    cases: int = 1
    broken: str = ""

    @property
    def holds(self) -> bool:
        """Whether the promise held: nothing that was found is above it."""
        if self.broken:
            return False
        found = [each for each in (self.exact, self.bound) if each is not None]
        return self.claimed is None or all(each <= self.claimed * (1 + _ROUNDING) for each in found)

    @property
    def sharp(self) -> bool:
        """Whether the bound is near enough to what is exact: else a broken promise might have gone unseen."""
        return self.bound is None or self.exact is None or self.bound >= self.share * self.exact

    def to_dict(self) -> dict[str, Any]:
        """The finding as JSON."""
        return {**asdict(self), "holds": self.holds, "sharp": self.sharp}

    @classmethod
    def from_dict(cls, written: Mapping[str, Any]) -> Finding:
        """The finding that ``to_dict`` wrote."""
        return cls(**{name: value for name, value in written.items() if name not in ("holds", "sharp")})


def report_text(findings: Sequence[Finding]) -> str:
    """All findings as tables in Markdown, a table for each part."""
    parts = dict.fromkeys(each.part for each in findings)
    return "\n\n".join(_part_text(part, [each for each in findings if each.part == part]) for part in parts)


def _part_text(part: str, findings: Sequence[Finding]) -> str:
    heads = {
        EXACT: ("claimed", "exact", "plans or matrices"),
        REPLAY: ("claimed", "largest loss", "pairs of neighbours"),
        SAMPLED: ("claimed", "exact", "bound", "of exact"),
    }
    columns = ("what", "unit", *heads.get(part, ("claimed", "bound", "releases a side")), "verdict")
    lines = [_line(columns), _line("---" for _ in columns)]
    for each in findings:
        numbers = (_number(each.claimed), _number(each.exact))
        told: Sequence[str]
        if part in (EXACT, REPLAY):
            told = (each.unit, *numbers, f"{each.cases:,}")
        elif part == SAMPLED:
            ratio = f"{each.bound / each.exact:.3f}" if each.exact and each.bound is not None else ""
            told = (each.unit, *numbers, _number(each.bound), ratio)
        else:
            told = (each.unit, numbers[0], _number(each.bound), f"{each.cases:,}")
        lines.append(_line((each.subject, *told, verdict_of(each))))
    return f"## Part {part}\n\n" + "\n".join(lines)


def verdict_of(finding: Finding) -> str:
    """The verdict in words."""
    if not finding.holds:
        return f"BROKEN: {finding.broken or 'above the claim'}"
    return "holds" if finding.sharp else f"holds, but the bound is below {finding.share:g} of the exact loss"


def _number(number: float | None) -> str:
    return "" if number is None else f"{number:.4f}"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
