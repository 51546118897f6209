"""llama-server as a mode of the bench: its own drafting, on the same token ids.

Its API: POST /tokenize and /completion, GET /health (tools/server/README.md of llama.cpp).
"""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.bench.modes import BenchSettings
from engine.bench.peer_settings import PeerSetting
from engine.bench.samples import BenchMode, BenchReply
from engine.data.documents import DocumentError, parse_json
from engine.data.errors import RunError
from engine.data.events import Finished, FinishReason
from engine.data.machine import resident_bytes
from engine.data.prompts import TrialPrompt
from engine.data.stats import Stats

_START_SECONDS = 600.0
_REPLY_SECONDS = 3600.0
_STOP_SECONDS = 10.0
_FATE_SECONDS = 2.0
_ASK_AGAIN_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class PeerPlan:
    """What a server is started with. render: the prompt's text as our own engine writes
    it, and whether the tokenizer may add its first token."""

    binary: Path
    target: Path
    drafter: Path | None
    context_length: int
    threads: int
    gpu_layers: int
    log_folder: Path
    render: Callable[[TrialPrompt], tuple[str, bool]]

    def command(self, setting: PeerSetting, port: int) -> list[str]:
        command = [str(self.binary), "-m", str(self.target), "--host", "127.0.0.1"]
        command += ["--port", str(port), "-c", str(self.context_length), "-np", "1"]
        command += ["-t", str(self.threads), "-tb", str(self.threads), "--no-webui"]
        if self.gpu_layers >= 0:
            command += ["-ngl", str(self.gpu_layers)]
        if setting.needs_drafter and self.drafter is not None:
            command += ["-md", str(self.drafter), "-td", str(self.threads)]
        return [*command, *setting.arguments]


class PeerServer:
    """A running server with one setting. Between requests it waits without computing."""

    def __init__(self, plan: PeerPlan, setting: PeerSetting) -> None:
        """Blocks until it answers. RunError when it ends first, or never does."""
        self.name = f"llama-server {setting.name}"
        self._plan = plan
        self._port = _free_port()
        plan.log_folder.mkdir(parents=True, exist_ok=True)
        self._log = plan.log_folder / f"peer-{setting.file_name}.txt"
        with self._log.open("wb") as log:
            try:
                self._process = subprocess.Popen(
                    plan.command(setting, self._port), stdout=log, stderr=subprocess.STDOUT
                )
            except OSError as error:
                raise RunError(f"{plan.binary} cannot be started: {error.strerror}") from error
        try:
            self._await_health()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends the process; closing twice is safe."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def mode(self, settings: BenchSettings) -> BenchMode:
        def reply(prompt: TrialPrompt) -> BenchReply:
            finished = self._complete(prompt, settings)
            return BenchReply(finished, memory_bytes=resident_bytes(self._process.pid))

        return BenchMode(self.name, reply, is_peer=True)

    def _await_health(self) -> None:
        limit = time.monotonic() + _START_SECONDS
        while time.monotonic() < limit:
            if self._process.poll() is not None:
                raise RunError(f"{self.name} ended at once: {self._last_words()}")
            if self._is_healthy():
                return
            time.sleep(_ASK_AGAIN_SECONDS)
        raise RunError(f"{self.name} did not start in {_START_SECONDS:.0f} s; see {self._log}")

    def _is_healthy(self) -> bool:
        try:
            status, _ = self._ask("GET", "/health", None, timeout=5.0)
        except (OSError, http.client.HTTPException):
            return False  # not listening yet
        return status == http.client.OK

    def _complete(self, prompt: TrialPrompt, settings: BenchSettings) -> Finished:
        text, add_special = self._plan.render(prompt)
        asked = {"content": text, "add_special": add_special, "parse_special": True}
        tokens = self._post("/tokenize", asked)["tokens"]
        answer = self._post("/completion", _completion_request(tokens, settings))
        return _finished(answer, len(tokens), self.name)

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        try:
            status, answer = self._ask("POST", path, body, _REPLY_SECONDS)
        except (OSError, http.client.HTTPException) as error:
            raise RunError(f"{self.name} {self._fate()}: {self._last_words()}") from error
        if status != http.client.OK:
            raise RunError(f"{self.name} refused {path}: {json.dumps(answer)[:300]}")
        return answer

    def _fate(self) -> str:
        """Why there is no answer; a process that has just died may take a moment to be gone."""
        try:
            return f"ended with exit code {self._process.wait(_FATE_SECONDS)}"
        except subprocess.TimeoutExpired:
            return "does not answer"

    def _ask(
        self, method: str, path: str, body: dict[str, Any] | None, timeout: float
    ) -> tuple[int, dict[str, Any]]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=timeout)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": "application/json"})
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        try:
            answer = parse_json(content, repair=True)
        except DocumentError as error:
            raise RunError(f"{self.name} answered {path} with something else than JSON") from error
        if not isinstance(answer, dict):
            raise RunError(f"{self.name} answered {path} with something else than an object")
        return response.status, answer

    def _last_words(self) -> str:
        text = self._log.read_text(encoding="utf-8", errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        errors = [line for line in lines if "error" in line.lower()]
        return f"{(errors or lines or ['no output'])[-1][:300]} (see {self._log})"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _completion_request(tokens: list[int], settings: BenchSettings) -> dict[str, Any]:
    """The same steps in the same order as `engine.maths.sampling`, and no cache between prompts."""
    sampling = settings.sampling
    return {
        "prompt": tokens,
        "n_predict": settings.max_tokens,
        "cache_prompt": False,
        "return_tokens": True,
        "stream": False,
        "seed": 0 if sampling.seed is None else sampling.seed,
        "samplers": ["penalties", "top_k", "top_p", "min_p", "temperature"],
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "repeat_penalty": sampling.repeat_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "presence_penalty": sampling.presence_penalty,
        "repeat_last_n": sampling.penalty_last_n,
    }


def _finished(answer: dict[str, Any], prompt_tokens: int, name: str) -> Finished:
    """Its own timings: prefill until the first token, decode for all tokens.

    It counts the pass that gives the first token as prefill, which flatters it by one pass.
    """
    try:
        timings = answer["timings"]
        emitted = int(timings["predicted_n"])
        accepted = int(timings.get("draft_n_accepted", 0))
        stats = Stats(
            emitted=emitted,
            rounds=max(1, emitted - accepted),  # each round adds one token of the target's own
            proposed=int(timings.get("draft_n", 0)),
            accepted=accepted,
            prefill_seconds=float(timings["prompt_ms"]) / 1e3,
            decode_seconds=float(timings["predicted_ms"]) / 1e3,
        )
        tokens = tuple(int(token) for token in answer["tokens"])
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{name} answered without timings or tokens: {error!r}") from error
    finish: FinishReason = "eos" if answer.get("stop_type") == "eos" else "length"
    return Finished(str(answer.get("content", "")), tokens, finish, prompt_tokens, 0, 0, stats)
