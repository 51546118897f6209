"""Installing torch from the page, with a scripted installer; and what is read of pip's lines."""

from __future__ import annotations

import functools
import io
import json
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from app.session import Sessions
from app.torch_install import Installer, TorchInstall
from engine.data.errors import RequestError
from engine.train.torch_install import PIP, announced_bytes, install

WAIT = 60.0


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    path = tmp_path / "missing"
    path.write_text("")
    return path


@pytest.fixture
def torch(mark: Path) -> Iterator[TorchInstall]:
    command = (sys.executable, "-m", "tests.scripted_installer", str(mark))
    problem = lambda: "torch is missing" if mark.exists() else ""  # noqa: E731
    built = TorchInstall(Sessions(), Installer(command, problem))
    yield built
    built.close()


def test_it_is_installed_and_then_nothing_is_missing(torch: TorchInstall) -> None:
    assert torch.problem() and torch.state()["state"] == "idle"
    torch.start()
    torch.wait(WAIT)
    assert torch.state()["state"] == "done" and torch.problem() == ""


def test_a_failure_says_why_and_can_be_tried_again(torch: TorchInstall, mark: Path) -> None:
    mark.write_text("fails")
    torch.start()
    torch.wait(WAIT)
    state = torch.state()
    assert (state["state"], state["message"]) == ("failed", "the package index has no torch")
    mark.write_text("")
    torch.start()
    torch.wait(WAIT)
    assert torch.state()["state"] == "done"


def test_one_at_a_time_and_cancel_leaves_nothing_running(torch: TorchInstall, mark: Path) -> None:
    mark.write_text("waits")
    torch.start()
    with pytest.raises(RequestError, match="already"):
        torch.start()
    torch.cancel()
    torch.wait(WAIT)
    assert torch.state()["state"] == "idle" and torch.problem()
    assert not [one for one in psutil.Process().children(True) if str(mark) in one.cmdline()]


class SilentFiles(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None: ...


def run_pip(script: str) -> tuple[str, list[dict[str, object]]]:
    output = io.StringIO()
    problem = install((sys.executable, "-c", script), output)
    return problem, [json.loads(line) for line in output.getvalue().splitlines()]


def test_what_pip_writes_becomes_progress() -> None:
    script = (
        "import os, pathlib\n"
        "print('Collecting torch')\n"
        "print('  Downloading torch-2-cp311.whl (888.1 MB)')\n"
        "pathlib.Path(os.environ['TMPDIR'], 'part').write_bytes(bytes(5000))\n"
        "print('  Downloading sympy-1.whl (6.2 kB)', flush=True)\n"
    )
    problem, told = run_pip(script)
    assert problem == ""
    assert told[-1]["announced"] == 888_106_200
    assert [line["text"] for line in told][:2] == [
        "Collecting torch",
        "Downloading torch-2-cp311.whl (888.1 MB)",
    ]


def wheel(folder: Path) -> None:
    """The smallest that pip installs."""
    info = "torch-2.13.0.dist-info"
    with zipfile.ZipFile(folder / "torch-2.13.0-py3-none-any.whl", "w") as archive:
        archive.writestr("torch/__init__.py", "")
        archive.writestr("torch/weights.bin", bytes(3_000_000))
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")


def test_pip_itself_installs_from_an_index(tmp_path: Path) -> None:
    """Into a folder of its own: nothing of this environment is touched."""
    index, target = tmp_path / "simple" / "torch", tmp_path / "target"
    index.mkdir(parents=True)
    wheel(index)
    handler = functools.partial(SilentFiles, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        own = ("--isolated", "--index-url", f"http://127.0.0.1:{server.server_port}/simple")
        output = io.StringIO()
        problem = install((*PIP, *own, "--target", str(target)), output)
        assert problem == "", output.getvalue()
        next(index.glob("*.whl")).unlink()
        missing = install((*PIP, *own, "--target", str(tmp_path / "other")), io.StringIO())
        assert "torch==2.13.0" in missing
        server.shutdown()
    told = [json.loads(line) for line in output.getvalue().splitlines()]
    assert (target / "torch" / "weights.bin").stat().st_size == 3_000_000
    assert told[-1]["announced"] > 2_000_000
    assert any(line["text"].startswith("Installing collected packages") for line in told)


def test_why_pip_failed_is_told() -> None:
    lost = "print('ERROR: the disk is full'); raise SystemExit(1)"
    assert run_pip(lost)[0] == "pip could not get torch==2.13.0: the disk is full"
    away = "print('WARNING: Retrying after NewConnectionError'); raise SystemExit(1)"
    assert "does not answer" in run_pip(away)[0]
    assert run_pip("raise SystemExit(3)")[0].endswith("no reason given")


@pytest.mark.parametrize(
    ("line", "size"),
    [
        ("Downloading a.whl (12 bytes)", 12),
        ("Using cached a.whl (12 MB)", 0),
        ("Downloading a.whl", 0),
    ],
)
def test_sizes_in_lines(line: str, size: int) -> None:
    assert announced_bytes(line) == size
