"""The border around files that others wrote: whatever reading them raises is a ModelFileError.

Readers check what they can name. What is left (an odd flag of an archive, a number that fits
nowhere, nesting without end) must not end the program either, and is told the same way.
"""

from __future__ import annotations

import pickle
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.data.errors import ModelFileError

FAILURES = (
    ValueError, TypeError, LookupError, AttributeError, ArithmeticError, AssertionError, EOFError,
    BufferError, MemoryError, RuntimeError, struct.error, pickle.PickleError, zipfile.BadZipFile,
    zlib.error,
)  # fmt: skip
"""What content makes readers raise; unsupported features and recursion are RuntimeErrors."""
_LONGEST_REASON = 200


@contextmanager
def foreign_file(path: Path) -> Iterator[None]:
    """Around the reading of a file, or of a folder of files."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise ModelFileError(f"{path} cannot be read: {reason}") from error
    except FAILURES as error:
        detail = f"{error or type(error).__name__}"[:_LONGEST_REASON]
        raise ModelFileError(f"{path.name} cannot be read, it is damaged: {detail}") from error
