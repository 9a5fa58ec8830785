"""The way in: a local file that only its owner can read, whose form posts the code. The code is in no address."""

from __future__ import annotations

import base64
import hashlib
import secrets
from html import escape
from pathlib import Path

from crosstally.browser.steward.review_texts import text
from crosstally.errors import CrosstallyError
from crosstally.platform_files import write_text

__all__ = ["write_entrance"]

_SCRIPT = "document.forms[0].submit()"
_PAGE = """<!doctype html>
<html lang="{language}">
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<form method="post" action="{address}/enter">
<input type="hidden" name="code" value="{code}">
<button>{title}</button>
</form>
<script>{script}</script>
</html>
"""


def write_entrance(folder: Path, address: str, code: str) -> Path:
    """Write the file; whoever opens it in a browser on this machine is let in, once.

    Args:
        folder: Where to: the folder of the schema, since not every browser may read temporary folders.
        address: Of the server, such as http://127.0.0.1:8123.
        code: What lets in.
    """
    digest = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    page = _PAGE.format(
        language=text("language"),
        title=escape(text("enter.title")),
        policy=f"default-src 'none'; script-src 'sha256-{digest}'; form-action {escape(address)}",
        address=escape(address),
        code=escape(code),
        script=_SCRIPT,
    )
    path = folder / f"crosstally-review-{secrets.token_hex(8)}.html"
    try:
        write_text(path, page, private=True)
    except OSError as error:
        raise CrosstallyError(f"cannot write into the folder {str(folder)!r}: {error.strerror}") from None
    return path
