"""Labels that try to be formulas, markup or another direction of reading."""

from __future__ import annotations

STARTS = ["", " ", "\t", "\u200f", "\u00a0", "\u202e", "\ufeff", "'"]
PAYLOADS = [
    *(f"{sign}{rest}" for sign in "=+-@|＝＋－＠" for rest in ("1+1", "cmd|' /C calc'!A0")),
    "<script>alert(1)</script>",
    "<svg onload=alert(1)>",
    "javascript:alert(1)",
    "{{7*7}}",
    "${7*7}",
    '"><img src=x>',
    '=HYPERLINK("https://example.org","x")',
]
MANY = [start + payload for start in STARTS for payload in PAYLOADS]
