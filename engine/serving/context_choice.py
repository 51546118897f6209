"""How long a context is where a load asks for no length."""

from __future__ import annotations

from collections.abc import Sequence

from engine.data.device import Room
from engine.models.fit import check_fit
from engine.models.memory import ModelPlan, default_context
from engine.text.thought_styles import KNOWN_TEXTS, markers_in

THINKING_CONTEXT = 16_384
"""Thoughts take thousands of tokens: of models that think, where there is memory for it."""


def usual_context(plans: Sequence[ModelPlan], free: Room) -> int:
    """plans: the target first. free: as check_fit has it."""
    info = plans[0].info
    usual = default_context(info)
    longer = min(info.context_length or usual, THINKING_CONTEXT)
    if longer <= usual or not _may_think(info.chat_template):
        return usual
    fit = check_fit(plans, longer, free)
    return longer if fit.level == "ok" else usual


def _may_think(template: str | None) -> bool:
    """By the markers in it alone: a length is chosen before the template is read."""
    texts = frozenset(text for text in KNOWN_TEXTS if text in (template or ""))
    return markers_in(texts) is not None
