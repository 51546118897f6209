"""Replies of tiny targets with drafters that are heads of them."""

from __future__ import annotations

from collections.abc import Sequence

from engine.control.controller import AlwaysDraft, NeverDraft
from engine.data.events import Notice, RunEvent
from engine.data.request import Coupling, DraftParams, GenerateRequest, SamplingParams
from engine.data.rounds import RoundTrace
from engine.decode.loop import DraftSetup
from engine.drafters.base import Drafter
from engine.llama.context import Context
from engine.serving.reply import Reply

GREEDY = SamplingParams(temperature=0.0)


class TinyReply:
    """One greedy (or seeded) reply. tokens: emitted. accepted: drafted and kept.

    depth, width: of the deepest proposal and of the widest pass. ranked: see DraftSetup. stop_at:
    tokens after which somebody presses Stop, 0 for nobody.
    """

    def __init__(
        self,
        context: Context,
        drafter: Drafter | None,
        prompt: Sequence[int],
        count: int = 40,
        sampling: SamplingParams = GREEDY,
        depth: int = 4,
        width: int = 17,
        coupling: Coupling = "seed",
        ranked: int = 0,
        stop_at: int = 0,
    ) -> None:
        drafting = DraftParams("always" if drafter else "off", depth, coupling=coupling)
        controller = AlwaysDraft(depth) if drafter else NeverDraft()
        request = GenerateRequest(
            raw_prompt="x", max_tokens=count, sampling=sampling, drafting=drafting
        )
        setup = DraftSetup(drafter, controller, width, ranked)
        reply = Reply(context, setup, request, prompt, sampling.seed or 0)
        self.events: list[RunEvent] = list(reply.prefill(lambda: False))
        self.rounds: list[RoundTrace] = []

        def stopped() -> bool:
            return 0 < stop_at <= sum(len(one.emitted) for one in self.rounds)

        for event in reply.rounds(stopped):
            self.events.append(event)
            self.rounds += [event] if isinstance(event, RoundTrace) else []
        self.notices = [event.message for event in self.events if isinstance(event, Notice)]
        self.tokens = list(reply.finished().tokens)
        self.reused = reply.finished().reused_prompt_tokens
        self.accepted = sum(node.accepted for trace in self.rounds for node in trace.proposed)
        assert context.tokens == reply.context_tokens[:-1]
