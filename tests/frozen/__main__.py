"""``PYTHONPATH=tests python -m frozen``: write the outcomes again, and print which entries have changed.

Each such change is a commit of its own that lists the entries.
"""

from __future__ import annotations

import json

from frozen.cases import outcomes
from frozen.compare import FILE, differences

if __name__ == "__main__":
    before = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    now = json.loads(json.dumps(outcomes()))
    lines = [f" {json.dumps(name)}: {json.dumps(found)}" for name, found in now.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    changed = [name for name in {**before, **now} if name not in before or differences(before[name], now.get(name))]
    print(f"{len(now)} outcomes, {len(changed)} changed:", *changed, sep="\n  ")
