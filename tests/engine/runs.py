"""Runs of an engine process: asked for in a line, followed to an event."""

from __future__ import annotations

from pathlib import Path

from engine.data.events import Finished, RunEvent
from engine.data.request import DraftParams, GenerateRequest, SamplingParams
from engine.process.client import EngineClient
from engine.process.run import Run
from tests.tiny_gguf import write_tiny_gguf

WAIT = 60.0
"""Seconds until a missing event is a failure."""

USUAL_SAMPLING = SamplingParams()
USUAL_DRAFTING = DraftParams()


def finished(run: Run) -> Finished:
    return next(event for event in run.events() if isinstance(event, Finished))


def reply(client: EngineClient, request: GenerateRequest) -> Finished:
    return finished(client.generate(request))


def raw(
    text: str,
    max_tokens: int = 8,
    sampling: SamplingParams = USUAL_SAMPLING,
    drafting: DraftParams = USUAL_DRAFTING,
    reuse: bool = True,
) -> GenerateRequest:
    return GenerateRequest(
        raw_prompt=text,
        max_tokens=max_tokens,
        sampling=sampling,
        drafting=drafting,
        reuse=reuse,
    )


def until(run: Run, kind: type[RunEvent]) -> RunEvent:
    """Events are taken until one of this kind comes."""
    while True:
        event = run.next_event(timeout=WAIT)
        assert event is not None, f"the run ended without {kind.__name__}"
        if isinstance(event, kind):
            return event


def write_slow_tiny(path: Path) -> Path:
    """Passes of some milliseconds. Without a control token llama.cpp takes one of the others for
    the end of a text: with this seed greedy replies go round in circles and never come to it."""
    return write_tiny_gguf(
        path,
        seed=2,
        layers=8,
        hidden=256,
        heads=4,
        kv_heads=4,
        feed_forward=1024,
        context=4096,
        control_tokens=(),
        chat_template=None,
    )
