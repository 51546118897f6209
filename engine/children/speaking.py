"""A child's side of JSON lines: its stdout is for messages alone."""

from __future__ import annotations

import os
import sys
from typing import TextIO


def claim_stdout() -> TextIO:
    """Where messages go. Whatever else writes to stdout, native code too, goes to stderr then."""
    sys.stdout.flush()
    private = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return os.fdopen(private, "w", encoding="utf-8")
