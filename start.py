"""The way in: `python3 start.py` sets Forerun up and opens it, `--test` runs its tests.

This file must parse on any Python, so that an old one gets a message instead of a syntax error.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - people do start it with older ones
    sys.exit(
        "Forerun needs Python 3.11 or newer; this is Python "
        + sys.version.split()[0]
        + ". Install a newer one and start this file with it, for instance: python3.12 start.py"
    )

from setup.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
