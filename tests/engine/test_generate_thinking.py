"""`forerun generate` with a target that thinks: what goes to stdout, to stderr, and into JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engine.test_thinking import LETTERS
from tests.thinking_template import THINKING, THINKING_MARKERS
from tests.tiny_gguf import CONTROL_TOKENS, write_tiny_gguf


@pytest.fixture(scope="module")
def thinker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(
        tmp_path_factory.mktemp("thinker") / "thinker.gguf",
        tokens=LETTERS,
        control_tokens=(*CONTROL_TOKENS, *THINKING_MARKERS),
        chat_template=THINKING,
    )


def generate(thinker: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "app", "generate", "--target", str(thinker)]
    settings = ["--prompt", "abc", "--temperature", "4", "--seed", "1", "--max-tokens", "100"]
    folder = ["--data-dir", str(thinker.parent / "data"), "--threads", "1"]
    return subprocess.run(
        [*command, *settings, *folder, *options],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def told(thinker: Path) -> dict[str, Any]:
    """The JSON object, with the trace beside it."""
    trace = thinker.parent / "trace.jsonl"
    done = generate(thinker, "--json", "--trace", str(trace))
    assert done.returncode == 0, done.stderr
    rounds = [json.loads(line) for line in trace.read_text(encoding="utf-8").splitlines()]
    found: dict[str, Any] = json.loads(done.stdout) | {"rounds": rounds}
    assert found["text"], "this seed has an answer"
    assert found["reasoning"]["text"], "and a thought"
    return found


def test_json_and_trace_only_gain_keys(told: dict[str, Any]) -> None:
    assert set(told["reasoning"]) == {"text", "from", "to"}
    tokens = [one for round_ in told["rounds"] for one in round_["emitted"]]
    end = told["reasoning"]["to"]
    assert [one.get("part") for one in tokens[:end]] == ["thought"] * end
    assert not any("part" in one for one in tokens[end:])
    assert [one["token"] for one in tokens] == told["tokens"]


def test_stdout_is_the_answer(thinker: Path, told: dict[str, Any]) -> None:
    quiet = generate(thinker)
    assert quiet.stdout == told["text"] + "\n"
    assert told["reasoning"]["text"] not in quiet.stderr
    shown = generate(thinker, "--show-thoughts")
    assert shown.stdout == quiet.stdout
    assert told["reasoning"]["text"] in shown.stderr


def test_options_that_the_model_does_not_have(thinker: Path) -> None:
    done = generate(thinker, "--effort", "high")
    assert done.returncode == 2
    assert "no levels of effort" in done.stderr
    raw = generate(thinker, "--raw", "--thinking", "off")
    assert raw.returncode == 2
    assert "--raw takes no --thinking" in raw.stderr
