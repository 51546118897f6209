"""Where CI is set, a skipped test fails the run: something that the tests need is missing."""

from __future__ import annotations

import os

import pytest


def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    skipped = reporter.stats.get("skipped", [])
    if skipped and os.environ.get("CI"):
        reporter.write_line(f"\nCI: {len(skipped)} tests were skipped, so the run has failed")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
