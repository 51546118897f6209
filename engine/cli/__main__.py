"""`python -m engine.cli COMMAND`: the commands without the page."""

from __future__ import annotations

import sys

from engine.cli import main

if __name__ == "__main__":
    sys.exit(main())
