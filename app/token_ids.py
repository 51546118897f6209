"""The ids of a reply's tokens, from which it goes on without being tokenised again.

Kept as messages.ids: {"vocabulary", "tokens": one id for each wire token, "rejected": {"12": the
ids of the ghosts of token 12}, "thinking", "effort"}; the last two are how its prompt began it.
Pages are never sent any of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, cast, get_args

from app.wire import rejected_nodes
from engine.data.documents import DocumentError, compact_json, parse_json
from engine.data.reasoning import Thinking
from engine.data.request import GenerateRequest
from engine.data.rounds import RoundTrace

_LARGEST = 2**31


@dataclass(slots=True)
class TokenIds:
    """vocabulary: the identity of the one that the ids are of, "" until it is known."""

    vocabulary: str = ""
    tokens: list[int] = field(default_factory=list)
    rejected: dict[int, list[int]] = field(default_factory=dict)
    thinking: Thinking | None = None
    effort: str | None = None

    @classmethod
    def of_new(cls, request: GenerateRequest) -> TokenIds:
        return cls(thinking=request.thinking, effort=request.effort)

    @property
    def are_known(self) -> bool:
        return bool(self.vocabulary and self.tokens)

    def add(self, trace: RoundTrace) -> None:
        first = len(self.tokens)
        for node, at, _ in rejected_nodes(trace):
            self.rejected.setdefault(first + at, []).append(trace.proposed[node].token)
        self.tokens += [one.token for one in trace.emitted]

    def before(self, token: int) -> TokenIds:
        """Of the tokens before this one."""
        rejected = {at: ids for at, ids in self.rejected.items() if at < token}
        return TokenIds(self.vocabulary, self.tokens[:token], rejected, self.thinking, self.effort)

    def to_json(self) -> str:
        if not self.are_known:
            return "{}"
        return str(
            compact_json(
                {
                    "vocabulary": self.vocabulary,
                    "tokens": self.tokens,
                    "rejected": {str(at): ids for at, ids in self.rejected.items()},
                    "thinking": self.thinking,
                    "effort": self.effort,
                }
            )
        )


def parsed_ids(stored: str, count: int) -> TokenIds | None:
    """Of a reply of so many wire tokens; None where they were not kept, or are damaged."""
    try:
        kept = parse_json(stored.encode())
    except DocumentError:
        return None
    if not isinstance(kept, dict) or not isinstance(kept.get("vocabulary"), str):
        return None
    tokens, rejected = kept.get("tokens"), kept.get("rejected")
    if not _are_ids(tokens) or len(cast(list[int], tokens)) != count:
        return None
    if not isinstance(rejected, dict) or not all(map(_are_ids, rejected.values())):
        return None
    thinking, effort = kept.get("thinking"), kept.get("effort")
    return TokenIds(
        kept["vocabulary"],
        cast(list[int], tokens),
        {int(at): ids for at, ids in _numbered(rejected)},
        thinking if thinking in get_args(Thinking) else None,
        effort if isinstance(effort, str) else None,
    )


def _numbered(rejected: dict[str, list[int]]) -> Iterable[tuple[str, list[int]]]:
    return ((at, ids) for at, ids in rejected.items() if at.isdecimal())


def _are_ids(value: Any) -> bool:
    return isinstance(value, list) and all(
        type(one) is int and 0 <= one < _LARGEST for one in value
    )
