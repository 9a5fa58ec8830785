"""``python -m crosstally``: the same as the command ``crosstally``."""

import sys

from crosstally.cli import main

if __name__ == "__main__":
    sys.exit(main())
