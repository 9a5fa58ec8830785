"""One page of all experiments: for each figure its chart, for each claim its verdict with the interval that decides."""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape

from crosstally.html_text import html_table
from crosstally_lab.papers.metrics import FALSE_ALARMS, VERDICT_LEVEL
from crosstally_lab.papers.outcomes import Claim, Outcome, drawn

_STYLE = (
    "body{font:15px/1.45 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;width:100%;margin:.5rem 0 1.5rem}"
    "th,td{border-bottom:1px solid #ddd;padding:.25rem .6rem;text-align:left;font-weight:normal;vertical-align:top}"
    "th:first-child{white-space:nowrap}thead th{font-weight:600}img{max-width:100%}"
)
_RULE = (
    "A claim holds where whole intervals bear it out, does not hold where a whole interval contradicts it, and is open "
    f"otherwise. Intervals have the level {VERDICT_LEVEL:.7f}, so that noise decides any claim of this page wrongly "
    f"with a probability of about {FALSE_ALARMS:g} at most. Claims of formulas and of covers involve no noise."
)


def report(outcomes: Sequence[Outcome], *, quick: bool) -> str:
    """The page as HTML that loads nothing: charts are inside."""
    claims = [claim for outcome in outcomes for claim in outcome.claims]
    runs = "quick" if quick else "full"
    head = (
        "<!doctype html><html lang=en><meta charset=utf-8><title>The papers, reproduced</title>"
        f"<style>{_STYLE}</style><h1>The papers, reproduced</h1>"
        f"<p>{len(outcomes)} experiments, {len(claims)} claims, {runs} runs. {escape(_RULE)}</p>"
    )
    return head + _counts(claims) + "".join(map(_section, outcomes)) + "</html>\n"


def _counts(claims: Iterable[Claim]) -> str:
    """How many claims there are of each verdict and author."""
    found = Counter((claim.of, claim.verdict) for claim in claims)
    verdicts = ("holds", "open", "does not hold")
    rows = [[of, *(str(found[of, verdict]) for verdict in verdicts)] for of in ("paper", "crosstally")]
    return html_table(["claims of", *verdicts], rows)


def _section(outcome: Outcome) -> str:
    rows = [(claim.verdict, claim.claim, claim.of, claim.figure) for claim in outcome.claims]
    picture = ""
    if outcome.chart is not None:
        data = b64encode(drawn(outcome.chart).encode()).decode()
        picture = f'<p><img alt="the chart of {escape(outcome.name)}" src="data:image/svg+xml;base64,{data}"></p>'
    table = html_table(["verdict", "claim", "of", "figure and interval"], rows)
    return f'<h2 id="{escape(outcome.name)}">{escape(outcome.name)}</h2>{picture}{table}'
