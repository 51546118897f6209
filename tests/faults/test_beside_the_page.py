"""Two engines on one data folder, as a command beside the page: each keeps its own output."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engine.data.errors import EngineDiedError
from engine.data.folders import DataFolder
from engine.process.client import EngineClient
from engine.process.spawn import exit_reason, output_file
from tests.e2e.sites import ROOT

OTHER = """
import sys
from pathlib import Path
from engine.data.folders import DataFolder
from engine.process.client import EngineClient
if __name__ == "__main__":
    client = EngineClient(DataFolder(Path(sys.argv[1])))
    client.start()
    client.close()
"""


def test_another_engine_does_not_empty_the_output_of_this_one(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "data").ensure()
    ended = folder.logs / f"engine-output-{2**22 + 7}.txt"
    ended.write_text("of a process that is gone")
    client = EngineClient(folder)
    try:
        client.start()
        assert not ended.exists()
        with output_file(folder).open("a") as output:
            output.write("GGML_ASSERT(of this engine) failed\n")
        script = tmp_path / "other.py"
        script.write_text(OTHER)
        command = [sys.executable, str(script), str(folder.root)]
        environment = {"PYTHONPATH": str(ROOT)}
        subprocess.run(command, cwd=ROOT, env=environment, timeout=120, check=True)
        assert exit_reason(None, folder) == "GGML_ASSERT(of this engine) failed"
        assert len(list(folder.logs.iterdir())) == 2
    finally:
        client.close()


def test_an_engine_that_cannot_write_says_where(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "data").ensure()
    output_file(folder).mkdir()
    with pytest.raises(EngineDiedError, match="cannot write to"):
        EngineClient(folder).start()
