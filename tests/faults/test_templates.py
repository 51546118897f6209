"""Chat templates from anywhere: they cost time, memory and a process, within limits, never more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from engine.data.errors import TemplateError
from engine.data.folders import DataFolder
from engine.data.request import GenerateRequest, LoadRequest, Message
from engine.process.client import EngineClient
from engine.text.chat import ChatTemplate
from engine.text.render_process import RenderLimits, RenderProcess, RenderStopped
from tests.engine.runs import WAIT, finished, raw, reply
from tests.faults.hostile_templates import DEEP, MUST_FAIL
from tests.tiny_gguf import CHATML, write_tiny_gguf

CHAT = (Message("user", "Hi"),)
ENDLESS = MUST_FAIL["endless"][0]
SECONDS = 1.0
LONGEST_MESSAGE = 450

unix = pytest.mark.skipif(sys.platform == "win32", reason="signals")
linux = pytest.mark.skipif(sys.platform != "linux", reason="the system limits memory on Linux only")


@pytest.fixture(scope="module")
def process() -> Iterator[RenderProcess]:
    process = RenderProcess(RenderLimits(seconds=SECONDS))
    yield process
    process.close()


def refusal(source: str, process: RenderProcess) -> str:
    """What is said of a template that cannot be rendered; one line."""
    with pytest.raises(TemplateError, match="chat template") as caught:
        ChatTemplate(source, "<s>", "</s>", process).render(CHAT)
    said = str(caught.value)
    assert "\n" not in said and len(said) < LONGEST_MESSAGE
    return said


QUICK = [kind[0] for kind in MUST_FAIL.values()] + [
    "{{ 'x'|center(10**10) }}",
    "{{ '%0999999999d'|format(1) }}",
    "{{ '{:>9999999999}'.format(1) }}",
    "{{ [1]|slice(10**9)|list }}",
    "{% macro m(a, a) %}{% endmacro %}",
    "{% continue %}",
]


@pytest.mark.parametrize("source", QUICK, ids=range(len(QUICK)))
def test_a_hostile_template_is_one_clear_error(source: str, process: RenderProcess) -> None:
    refusal(source, process)
    assert ChatTemplate(CHATML, "", "", process).render(CHAT).endswith("assistant\n")


@pytest.mark.parametrize("source", DEEP[::7], ids=range(len(DEEP[::7])))
def test_a_deep_template_is_rendered_or_refused(source: str, process: RenderProcess) -> None:
    try:
        assert isinstance(ChatTemplate(source, "", "", process).render(CHAT), str)
    except TemplateError as error:
        assert "\n" not in str(error)


@pytest.mark.slow
def test_all_hostile_templates(process: RenderProcess) -> None:
    said: Counter[str] = Counter()
    longest = 0.0
    for source in (one for kind in MUST_FAIL.values() for one in kind):
        started = time.monotonic()
        said[refusal(source, process).removeprefix("the model's chat template ")[:40]] += 1
        longest = max(longest, time.monotonic() - started)
    for source in DEEP:
        try:
            ChatTemplate(source, "", "", process).render(CHAT)
            said["(rendered)"] += 1
        except TemplateError as error:
            said[str(error).removeprefix("the model's chat template ")[:40]] += 1
    print(f"\n{said.total()} templates, the longest took {longest:.2f} s")
    for text, count in said.most_common(8):
        print(f"{count:5} {text}")
    assert said.total() >= 200


def test_the_time_limit_ends_the_process_and_the_next_rendering_has_another() -> None:
    process = RenderProcess(RenderLimits(seconds=SECONDS))
    template = ChatTemplate(CHATML, "", "", process)
    expected = template.render(CHAT)
    first = process.pid
    assert "stopped after 1 s" in refusal(ENDLESS, process)
    assert process.pid is None
    assert template.render(CHAT) == expected
    assert process.pid not in (None, first)
    process.close()
    process.close()


@linux
def test_the_memory_limit_holds() -> None:
    """The process goes on after a refusal, and never has more than it may have."""
    process = RenderProcess(RenderLimits(memory=200 << 20))
    for width in (10**8, 3 * 10**8, 10**10):
        refusal(
            f"{{{{ ('x'|center({width}))|length }}}}" if width > 10**8 else "{{ 1/0 }}", process
        )
    assert process.pid is not None
    with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmPeak"))
    print(f"\npeak {peak / 1024:.0f} MB of address space at a limit of 200 MB")
    assert peak <= 200 * 1024
    process.close()


def test_memory_is_watched_where_the_system_does_not_limit_it() -> None:
    """Told of a process that has twice what it may have."""
    limits = RenderLimits(seconds=WAIT)
    watched = RenderProcess(limits, lambda _pid: 2 * limits.memory)
    assert "too much memory" in refusal(ENDLESS, watched)
    assert watched.pid is None


@unix
def test_a_process_that_was_killed_is_started_again(process: RenderProcess) -> None:
    template = ChatTemplate(CHATML, "", "", process)
    template.render(CHAT)
    for _ in range(3):
        child = psutil.Process(process.pid)
        child.kill()
        child.wait(WAIT)
        assert template.render(CHAT)


@unix
def test_a_process_killed_in_the_middle_is_a_clear_error() -> None:
    process = RenderProcess(RenderLimits(seconds=WAIT))
    ChatTemplate(CHATML, "", "", process).render(CHAT)
    killer = threading.Timer(0.1, os.kill, (process.pid, signal.SIGKILL))
    killer.start()
    assert "ended the process" in refusal(ENDLESS, process)
    killer.join()
    process.close()


@unix
def test_a_process_that_stands_still_is_ended() -> None:
    """Also when it does not read what it is sent, which is more than a pipe holds."""
    process = RenderProcess(RenderLimits(seconds=3 * SECONDS))
    template = ChatTemplate(CHATML, "", "", process)
    template.render(CHAT)
    os.kill(process.pid or 0, signal.SIGSTOP)
    long = (Message("user", "word " * 50_000),)
    with pytest.raises(TemplateError, match="stopped after"):
        template.render(long)
    assert template.render(long)
    process.close()


def test_lines_that_are_no_answers_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Some Pythons greet; what else a child prints comes between its answers just so."""
    (tmp_path / "sitecustomize.py").write_text("print('hello')\nprint('[1]')\nprint('\\xff')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    template = ChatTemplate(CHATML, "", "")
    assert template.render(CHAT) == template.render(CHAT)
    template.close()
    assert "'hello" in caplog.text


def test_cancelling_ends_a_rendering_at_once() -> None:
    process = RenderProcess(RenderLimits(seconds=WAIT))
    asked = iter((False, False, True))
    with pytest.raises(RenderStopped):
        ChatTemplate(ENDLESS, "", "", process).prompt(CHAT, cancelled=lambda: next(asked))
    assert process.pid is None


def test_it_ends_with_its_owner() -> None:
    process = RenderProcess()
    template = ChatTemplate(CHATML, "", "", process)
    template.render(CHAT)
    child = psutil.Process(process.pid)
    del template, process
    gone, _alive = psutil.wait_procs([child], WAIT)
    assert gone == [child]


ORPHAN = """
import sys
from engine.data.request import Message
from engine.text.chat import ChatTemplate
from engine.text.render_process import RenderLimits, RenderProcess
process = RenderProcess(RenderLimits(seconds=600.0))
ChatTemplate("x", "", "", process).render([Message("user", "hi")])
print(process.pid, flush=True)
ChatTemplate(sys.argv[1], "", "", process).render([Message("user", "hi")])
"""


@pytest.mark.parametrize("source", [ENDLESS, "{{ 'idle' }}{{ missing.a }}"], ids=["busy", "idle"])
def test_it_ends_when_its_parent_is_killed(source: str) -> None:
    command = [sys.executable, "-c", ORPHAN, source]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    gone, _alive = psutil.wait_procs([child], WAIT)
    assert gone == [child]


# In the engine


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineClient]:
    client = EngineClient(DataFolder(tmp_path_factory.mktemp("data")))
    yield client
    client.close()


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("{% break %}", "outside loop"),
        ("{{ " + "(" * 20_000 + "1" + ")" * 20_000 + " }}", "recursion"),
        ("{% macro m(a, a) %}{% endmacro %}", "duplicate argument"),
        ("{{ 'x'|center(10**10) }}", "memory"),
        pytest.param(ENDLESS, "stopped after", marks=pytest.mark.slow),
    ],
    ids=["break", "deep", "duplicate", "memory", "endless"],
)
def test_a_model_with_a_hostile_template_loads_and_takes_raw_prompts(
    client: EngineClient, tmp_path: Path, source: str, reason: str
) -> None:
    model = write_tiny_gguf(tmp_path / "hostile.gguf", layers=1, chat_template=source)
    assert client.load(LoadRequest(str(model), threads=1)).has_chat_template
    engine = client.pid
    for _ in range(2):
        with pytest.raises(TemplateError, match=reason):
            reply(client, GenerateRequest(messages=CHAT, max_tokens=2))
        assert reply(client, raw("hello", 2)).tokens
    assert client.pid == engine


def test_stop_acts_while_a_template_renders(client: EngineClient, tmp_path: Path) -> None:
    model = write_tiny_gguf(tmp_path / "endless.gguf", layers=1, chat_template=ENDLESS)
    client.load(LoadRequest(str(model), threads=1))
    run = client.generate(GenerateRequest(messages=CHAT, max_tokens=2))
    run.cancel()
    assert finished(run).finish == "cancelled"
