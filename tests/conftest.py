"""Settings for the whole test run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.no_skips import pytest_sessionfinish

if TYPE_CHECKING:
    from engine.llama.library import Library

__all__ = ["pytest_sessionfinish"]

settings.register_profile("forerun", derandomize=True, deadline=None, database=None)
settings.load_profile("forerun")


@pytest.fixture(scope="session")
def library() -> Library:
    """Loaded by the tests that need it alone. One a process: llama.cpp has one log."""
    from engine.llama.library import start_library

    return start_library()
