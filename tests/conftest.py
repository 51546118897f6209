"""Settings for the whole test run."""

from hypothesis import settings

from tests.no_skips import pytest_sessionfinish

__all__ = ["pytest_sessionfinish"]

settings.register_profile("forerun", derandomize=True, deadline=None, database=None)
settings.load_profile("forerun")
