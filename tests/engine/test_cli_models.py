"""`forerun models ...` as a user types it: output, exit codes, one line for every mistake."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.cli import main
from engine.cli.progress import ProgressView, describe
from engine.downloads.job import DownloadSnapshot
from tests.hub_server import HubFile, HubServer
from tests.tiny_gguf import write_tiny_gguf

REFERENCE = "hub:owner/tiny-GGUF/tiny-Q8_0.gguf"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    content = write_tiny_gguf(tmp_path / "served.gguf").read_bytes()
    with HubServer({("owner/tiny-GGUF", "tiny-Q8_0.gguf"): HubFile(content)}) as server:
        for name, value in server.environment(tmp_path / "hub").items():
            monkeypatch.setenv(name, value)
        yield server


def run(data: Path, *words: str) -> int:
    return main(["models", *words, "--data-dir", str(data)])


def test_fetch_list_and_remove(
    hub: HubServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "fetch", REFERENCE) == 0
    printed = capsys.readouterr()
    assert Path(printed.out.strip()).is_file()
    assert printed.err.splitlines()[-1].endswith("done")
    assert run(tmp_path, "list", "--downloaded", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["id"], row["downloaded"]) for row in rows] == [(REFERENCE, True)]
    assert run(tmp_path, "remove", REFERENCE) == 0
    assert "freed" in capsys.readouterr().out
    assert run(tmp_path, "list", "--downloaded") == 0
    assert "no models here yet" in capsys.readouterr().out


def test_fetch_of_a_path_is_done_already(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_tiny_gguf(tmp_path / "m.gguf")
    assert run(tmp_path, "fetch", str(path)) == 0
    assert capsys.readouterr().out.strip() == str(path)


def test_the_list_shows_the_catalogue(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:4] == ["starter", "-", "98", "MB"]


def test_inspect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_tiny_gguf(tmp_path / "m.gguf", name="Tiny One")
    assert run(tmp_path, "inspect", str(path)) == 0
    assert "Tiny One" in capsys.readouterr().out
    assert run(tmp_path, "inspect", str(path), "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["name"], shown["architecture"], shown["is_model"]) == ("Tiny One", "llama", True)


def test_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = str(write_tiny_gguf(tmp_path / "target.gguf", vocabulary_size=300))
    drafter = str(write_tiny_gguf(tmp_path / "drafter.gguf"))
    other = str(write_tiny_gguf(tmp_path / "other.gguf", tokens=[f"t{n}" for n in range(280)]))
    assert run(tmp_path, "check", target, drafter) == 0
    assert "note: padded vocabulary: 283 against 300" in capsys.readouterr().out
    assert run(tmp_path, "check", target, other) == 2
    assert "other cannot draft for target" in capsys.readouterr().err
    assert run(tmp_path, "check", target, other, "--json") == 2
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is False and report["reason"]


def test_files(hub: HubServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "files", "owner/tiny-GGUF") == 0
    assert capsys.readouterr().out.split()[0] == "tiny-Q8_0.gguf"
    assert run(tmp_path, "files", "owner/tiny-GGUF", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["quant"] == "Q8_0"


def test_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = tmp_path / "own"
    own.mkdir()
    path = write_tiny_gguf(own / "m.gguf")
    assert run(tmp_path, "folders", "--add", str(own)) == 0
    assert capsys.readouterr().out.strip() == str(own)
    assert run(tmp_path, "list", "--downloaded") == 0
    assert capsys.readouterr().out.startswith(str(path))
    assert run(tmp_path, "remove", str(path)) == 2
    assert "your own folder" in capsys.readouterr().err
    assert run(tmp_path, "folders", "--remove", str(own)) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["fetch", "startr"], 2, "did you mean starter?"),
        (["fetch", "hub:owner/tiny-GGUF"], 2, "`forerun models files owner/tiny-GGUF`"),
        (["fetch", "hub:owner/none/x.gguf"], 1, "there is no repository owner/none"),
        (["files", "owner/none"], 1, "there is no repository owner/none"),
        (["files", "nonsense"], 2, "write owner/name"),
        (["inspect", "starter"], 2, "run `forerun models fetch starter`"),
        (["check", "starter"], 2, "--help"),
        (["folders", "--add", "/none"], 2, "is not a folder"),
        ([], 2, "--help"),
    ],
)
def test_mistakes_are_one_line(
    hub: HubServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: int,
    message: str,
) -> None:
    assert run(tmp_path, *words) == code
    printed = capsys.readouterr()
    assert message in printed.err.splitlines()[-1]
    assert "Traceback" not in printed.err
    assert printed.out == ""


def test_a_damaged_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"GGUF")
    assert run(tmp_path, "inspect", str(tmp_path / "bad.gguf")) == 1
    assert "bad.gguf is damaged" in capsys.readouterr().err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


RUNNING = DownloadSnapshot("m", "M", "running", 250, 1000, 1e6, 65.0, "downloading")


def test_a_terminal_gets_one_moving_line() -> None:
    stream = Terminal()
    view = ProgressView(stream)
    view.show(RUNNING)
    view.show(RUNNING)
    view.end(DownloadSnapshot("m", "M", "done", 1000, 1000))
    assert stream.getvalue().count("\r") == 2
    assert stream.getvalue().rstrip(" \n").endswith("done")
    assert stream.getvalue().endswith("\n")


def test_a_pipe_gets_a_line_for_every_tenth() -> None:
    stream = io.StringIO()
    view = ProgressView(stream)
    for done in range(0, 1001, 10):
        view.show(DownloadSnapshot("m", "M", "running", done, 1000, message="downloading"))
    assert len(stream.getvalue().splitlines()) == 11


def test_the_line_says_everything() -> None:
    assert describe(RUNNING) == (
        "M  [######------------------]  25%  0 of 0 MB  1.0 MB/s  1:05 left"
    )
    assert describe(DownloadSnapshot("m", "M", "running", message="connecting")) == "M  connecting"
