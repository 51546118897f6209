"""Commands with files and words that are not plain UTF-8."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.data.folders import DataFolder
from engine.models.catalogue import Catalogue, add_folder
from tests.tiny_gguf import write_tiny_gguf

ROOT = Path(__file__).resolve().parents[2]
MARK = b"\xef\xbb\xbf"
MESSAGES = b'[{"role": "user", "content": "hello"}]'


def run(*arguments: str | bytes) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "engine.cli", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, env=environment, timeout=120, check=False)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    write_tiny_gguf(folder / "tiny.gguf")
    return folder


def generate(place: Path, *arguments: str | bytes) -> subprocess.CompletedProcess[bytes]:
    model = str(place / "tiny.gguf")
    common = ["--target", model, "--data-dir", str(place / "data"), "--max-tokens", "3"]
    return run("generate", *common, "--threads", "1", "--json", *arguments)


@pytest.mark.parametrize("option", ["--prompt-file", "--messages"])
def test_a_byte_order_mark_is_not_part_of_the_text(place: Path, option: str) -> None:
    content = b"hello" if option == "--prompt-file" else MESSAGES
    replies = []
    for name, written in (("with", MARK + content), ("without", content)):
        file = place / name
        file.write_bytes(written)
        done = generate(place, option, str(file))
        assert done.returncode == 0, done.stderr
        replies.append(json.loads(done.stdout))
    assert replies[0]["tokens"] == replies[1]["tokens"]
    assert replies[0]["prompt_tokens"] == replies[1]["prompt_tokens"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"[" * 100_000, b"nested"),
        ("[]".encode("utf-16"), b"is UTF-16 text; save it as UTF-8"),
        (b"\xe9", b"is not UTF-8"),
        (b'[{"role": "user", "content": "\\ud83d"}]', b"half a character"),
        (b"9" * 10_000, b"is not JSON"),
        (b"{}", b"must hold a list"),
        (b"", b"is not JSON"),
    ],
)
def test_messages_that_are_none(place: Path, content: bytes, reason: bytes) -> None:
    file = place / "messages.json"
    file.write_bytes(content)
    refused(generate(place, "--messages", str(file)), reason)


@pytest.mark.parametrize("option", ["--prompt", "--system"])
def test_bytes_on_the_command_line(place: Path, option: str) -> None:
    more = [] if option == "--prompt" else ["--prompt", "x"]
    refused(generate(place, option, b"caf\xe9", *more), b"not UTF-8 text")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--ctx", "99999999999"),
        ("--threads", "4294967297"),
        ("--seed", "9" * 5_000),
        ("--temperature", "nan"),
        ("--max-tokens", "99999999999"),
        ("--drafter", "first(" * 9_000),
    ],
)
def test_numbers_that_no_machine_has(place: Path, option: str, value: str) -> None:
    refused(generate(place, "--prompt", "x", option, value), b"")


def test_a_target_of_any_bytes_is_named_safely(place: Path) -> None:
    refused(generate(place, "--prompt", "x", "--target", b"/no/caf\xe9\x1b[2J.gguf"), b"no file")


def test_prompts_with_a_mark_are_read(place: Path) -> None:
    file = place / "prompts.jsonl"
    file.write_bytes(MARK + b"[" * 100_000)
    refused(run("verify", "--target", "x", "--drafter", "ngram", "--prompts", str(file)), b"nested")


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"a = " + b"[" * 100_000, b"nested"), (b"\xff\xfe", b"UTF-16"), (b"a = 1", b"unknown table")],
)
def test_a_catalogue_that_is_wrong_is_named(place: Path, content: bytes, reason: bytes) -> None:
    folder = DataFolder(place / "wrong").ensure()
    folder.user_catalogue_file.write_bytes(content)
    done = run("models", "list", "--data-dir", str(folder.root))
    refused(done, reason)
    assert b"models.toml" in done.stderr


def test_a_catalogue_with_a_mark_is_read_and_kept(place: Path, tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "data").ensure()
    folder.user_catalogue_file.write_bytes(MARK + f'[folders]\npaths = ["{place}"]\n'.encode())
    assert Catalogue.load(folder).folders == (place,)
    add_folder(folder, tmp_path)
    assert Catalogue.load(folder).folders == (place, tmp_path)


def refused(done: subprocess.CompletedProcess[bytes], reason: bytes) -> None:
    """Exit code 2, one safe line."""
    assert done.returncode == 2, done.stderr[-500:]
    assert done.stdout == b"" and len(done.stderr.splitlines()) == 1
    assert reason in done.stderr and done.stderr.decode().strip().isprintable()
