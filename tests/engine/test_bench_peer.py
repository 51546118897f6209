"""The other program as a mode: settings by its help, same tokens, its timings, its end."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import psutil
import pytest

from engine.bench.modes import BenchSettings
from engine.bench.peer import PeerPlan, PeerServer
from engine.bench.peer_settings import PeerSetting, parse_peer_setting, peer_settings
from engine.bench.run import Bench
from engine.bench.samples import BenchMode, BenchReply
from engine.data.errors import BadOptionError, RunError
from engine.data.events import Finished
from engine.data.prompts import TrialPrompt
from engine.data.request import SamplingParams
from engine.data.stats import Stats
from tests.engine.peer_stand_in import executable

SETTINGS = BenchSettings(8, SamplingParams(top_k=40, min_p=0.05))
PROMPT = TrialPrompt("hello", "prose")


def plan(folder: Path, binary: Path) -> PeerPlan:
    return PeerPlan(
        binary=binary,
        target=folder / "target.gguf",
        drafter=folder / "drafter.gguf",
        context_length=512,
        threads=2,
        gpu_layers=-1,
        log_folder=folder / "logs",
        render=lambda prompt: (f"<user>{prompt.text}", True),
    )


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    return executable(tmp_path)


def test_settings_use_the_names_that_the_help_lists(binary: Path) -> None:
    settings = {one.name: one for one in peer_settings(binary, has_drafter=True)}
    assert list(settings) == [
        "plain",
        "draft 3",
        "draft 7",
        "draft 7 p_min 0.6",
        "ngram-simple",
        "ngram-mod",
    ]
    last = settings["draft 7 p_min 0.6"]
    assert last.needs_drafter
    assert last.arguments == (
        *("--spec-type", "draft-simple", "--spec-draft-n-max", "7"),
        *("--spec-draft-p-min", "0.6"),
    )
    without = [one.name for one in peer_settings(binary, has_drafter=False)]
    assert without == ["plain", "ngram-simple", "ngram-mod"]


def test_a_program_of_an_older_kind_has_other_names(tmp_path: Path) -> None:
    program = tmp_path / "llama-server"
    program.write_text("#!/bin/sh\necho '--draft-max N --draft-p-min P'\n", encoding="utf-8")
    program.chmod(0o755)
    settings = peer_settings(program, has_drafter=True)
    assert [one.name for one in settings] == ["plain", "draft 3", "draft 7", "draft 7 p_min 0.6"]
    assert settings[3].arguments == ("--draft-max", "7", "--draft-p-min", "0.6")


def test_own_settings_are_parsed() -> None:
    setting = parse_peer_setting("eagle 3={draft} --spec-type draft-eagle3")
    assert setting == PeerSetting("eagle 3", ("--spec-type", "draft-eagle3"), needs_drafter=True)
    assert setting.file_name == "eagle-3"
    with pytest.raises(BadOptionError, match="NAME=ARGUMENTS"):
        parse_peer_setting("--spec-type")


def test_it_gets_the_same_tokens_and_its_timings_are_kept(tmp_path: Path, binary: Path) -> None:
    setting = PeerSetting("draft 3", ("--spec-type", "draft-simple"), needs_drafter=True)
    with contextlib.closing(PeerServer(plan(tmp_path, binary), setting)) as server:
        mode = server.mode(SETTINGS)
        reply = mode.reply(PROMPT)
    assert (mode.name, mode.is_peer) == ("llama-server draft 3", True)
    assert reply.memory_bytes
    told = json.loads(reply.finished.text)
    assert told["body"]["prompt"] == [1, *b"<user>hello"]
    assert told["body"]["cache_prompt"] is False
    assert (told["body"]["top_k"], told["body"]["min_p"]) == (40, 0.05)
    assert told["arguments"][-4:] == ["-td", "2", "--spec-type", "draft-simple"]
    assert reply.finished.tokens == (ord("o"),) * 8
    assert reply.finished.prompt_tokens == 1 + len("<user>hello")
    stats = reply.finished.stats
    assert (stats.emitted, stats.proposed, stats.accepted, stats.rounds) == (8, 6, 4, 4)
    assert (stats.prefill_seconds, stats.decode_seconds) == (0.05, 0.08)


def test_the_process_ends_with_the_bench(tmp_path: Path, binary: Path) -> None:
    server = PeerServer(plan(tmp_path, binary), PeerSetting("plain", ()))
    (process,) = [one for one in psutil.Process().children() if str(binary) in one.cmdline()]
    server.close()
    server.close()
    assert not process.is_running()


def test_a_server_that_ends_at_once_is_told_with_its_own_words(
    tmp_path: Path, binary: Path
) -> None:
    with pytest.raises(RunError, match=r"ended at once: error: unable to load model"):
        PeerServer(plan(tmp_path, binary), PeerSetting("plain", ("--crash",)))


def test_a_refused_prompt_is_told(tmp_path: Path, binary: Path) -> None:
    server = PeerServer(plan(tmp_path, binary), PeerSetting("plain", ("--refuse",)))
    with contextlib.closing(server), pytest.raises(RunError, match="exceeds the context"):
        server.mode(SETTINGS).reply(PROMPT)


def test_a_server_that_dies_in_a_reply_is_told(tmp_path: Path, binary: Path) -> None:
    server = PeerServer(plan(tmp_path, binary), PeerSetting("plain", ("--die",)))
    with contextlib.closing(server), pytest.raises(RunError, match="ended with exit code 3"):
        server.mode(SETTINGS).reply(PROMPT)


def test_a_file_that_is_no_program_is_told(tmp_path: Path) -> None:
    nothing = tmp_path / "nothing"
    nothing.write_text("", encoding="utf-8")
    with pytest.raises(RunError, match="cannot be asked"):
        peer_settings(nothing, has_drafter=False)
    with pytest.raises(RunError, match="cannot be started"):
        PeerServer(plan(tmp_path, nothing), PeerSetting("plain", ()))


def test_other_prompt_tokens_than_ours_end_the_bench(tmp_path: Path, binary: Path) -> None:
    ours = Finished("", (1,), "length", 7, 0, 0, Stats(emitted=1, rounds=1, decode_seconds=1.0))
    with contextlib.closing(PeerServer(plan(tmp_path, binary), PeerSetting("plain", ()))) as server:
        modes = [BenchMode("plain", lambda _: BenchReply(ours)), server.mode(SETTINGS)]
        bench = Bench(modes, greedy=True, on_progress=lambda _: None)
        with pytest.raises(RunError, match="read 12 tokens of a prompt that has 7"):
            list(bench.samples([PROMPT]))
