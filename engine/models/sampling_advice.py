"""Sampling that the makers of known models recommend: offered, never applied unasked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SamplingAdvice:
    """values: of the settings that the maker names."""

    family: str
    values: Mapping[str, float]


_FAMILIES: tuple[tuple[str, SamplingAdvice], ...] = (
    # Coder and Instruct models of Qwen3 have advice of their own, which is not known here.
    (
        r"qwen[-_ ]?3(?![.\d])(?!.*(?:coder|instruct|embed|rerank|vl))",
        SamplingAdvice("Qwen3", {"temperature": 0.6, "top_p": 0.95, "top_k": 20}),
    ),
    (
        r"qwen[-_ ]?3\.[5-9]",
        SamplingAdvice(
            "Qwen3.5 and later without thinking",
            {"temperature": 0.7, "top_p": 0.8, "top_k": 20, "presence_penalty": 1.5},
        ),
    ),
    (
        r"gemma[-_ ]?4",
        SamplingAdvice("Gemma 4", {"temperature": 1.0, "top_p": 0.95, "top_k": 64}),
    ),
    (r"gpt[-_ ]?oss", SamplingAdvice("gpt-oss", {"temperature": 1.0, "top_p": 1.0, "top_k": 0})),
    (r"glm[-_ ]?4\.[5-9]", SamplingAdvice("GLM", {"temperature": 1.0, "top_p": 0.95})),
    (r"magistral", SamplingAdvice("Magistral", {"temperature": 0.7, "top_p": 0.95})),
    (r"granite[-_ ]?4", SamplingAdvice("Granite 4", {"temperature": 0.0})),
)


def sampling_advice(*names: str) -> SamplingAdvice | None:
    """For a model that goes by these names: its id, its file, what its file says of it."""
    for name in names:
        for pattern, advice in _FAMILIES:
            if re.search(pattern, name, re.IGNORECASE):
                return advice
    return None
