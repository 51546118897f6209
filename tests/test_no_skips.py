"""The rule that CI runs have no skipped tests, tried on small runs of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SKIPPING = "import pytest\n\n@pytest.mark.skip\ndef test_a(): ...\n\ndef test_b(): ...\n"


@pytest.mark.parametrize(
    ("source", "ci", "code"),
    [(SKIPPING, "true", 1), (SKIPPING, "", 0), ("def test_b(): ...", "true", 0)],
)
def test_skips_fail_where_ci_is_set(tmp_path: Path, source: str, ci: str, code: int) -> None:
    (tmp_path / "test_small.py").write_text(source)
    (tmp_path / "conftest.py").write_text("from tests.no_skips import pytest_sessionfinish\n")
    env = {**os.environ, "CI": ci, "PYTHONPATH": str(ROOT)}
    env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # they take seconds to import
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stdout
