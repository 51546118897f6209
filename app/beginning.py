"""What a reply begins with: nothing, what it has already, or a part of another one and a draft."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from app.round_times import are_rounds, place_in_round, rounds_before
from app.stored_message import StoredMessage
from app.token_ids import TokenIds
from app.wire import WireToken
from engine.data.errors import BadOptionError

_OF_THE_END = ("finish", "error", "unsaved", "earlier")
_NOT_THERE = "that draft is not there (any more); reload the page"


@dataclass(slots=True)
class Beginning:
    """finish: how the reply had ended before it goes on, "" for one that is new."""

    ids: TokenIds
    tokens: list[WireToken] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    finish: str = ""


def of_itself(message: StoredMessage, ids: TokenIds) -> Beginning:
    """The reply as it is, to go on."""
    details = {name: value for name, value in message.details.items() if name not in _OF_THE_END}
    tokens = copy.deepcopy(message.tokens)
    return Beginning(ids, tokens, copy.deepcopy(details), str(message.details["finish"]))


def of_a_draft(message: StoredMessage, ids: TokenIds, token: int, ghost: int) -> Beginning:
    """The tokens before number `token`, then its rejected draft number `ghost` with those that it
    follows. BadOptionError where there is none, or where it stood elsewhere."""
    rejected = _rejected(message, token)
    path = _path(rejected, ghost)
    rounds = message.details.get("rounds")
    is_known = are_rounds(rounds) and len(ids.rejected.get(token, ())) == len(rejected)
    if not is_known or rejected[path[0]][4] != place_in_round(rounds or (), token):
        raise BadOptionError("what that draft followed was not kept; choose another one")
    own = ids.before(token)
    own.tokens += [ids.rejected[token][one] for one in path]
    words = [[rejected[one][0], "p", None, None, None, None] for one in path]
    tokens = [*copy.deepcopy(message.tokens[:token]), *words]
    return Beginning(own, tokens, _details_before(message.details, token, len(path)))


def _rejected(message: StoredMessage, token: int) -> list[Any]:
    wire = message.tokens[token] if 0 <= token < len(message.tokens) else []
    if len(wire) < 7 or not isinstance(wire[6], list):
        raise BadOptionError(_NOT_THERE)
    return wire[6]


def _path(rejected: Sequence[Any], ghost: int) -> list[int]:
    """The ghost and all that it follows, the first one first."""
    path: list[int] = []
    place: int | None = ghost
    while place is not None:
        if not 0 <= place < (path[0] if path else len(rejected)):
            raise BadOptionError(_NOT_THERE)
        path.insert(0, place)
        place = rejected[place][5] if len(rejected[place]) > 5 else None
    return path


def _cut(thought: dict[str, Any], end: int) -> dict[str, Any]:
    """It goes on, so that nothing has ended it."""
    return {name: value for name, value in thought.items() if name != "ended"} | {"to": end}


def _details_before(details: dict[str, Any], token: int, more: int) -> dict[str, Any]:
    kept: dict[str, Any] = {"model": "", "drafters": [], "notices": []}
    kept["drafters"] = list(details.get("drafters", ()))
    kept["rounds"] = rounds_before(details["rounds"], token, more)
    if "prompt_tokens" in details:
        kept["prompt_tokens"] = details["prompt_tokens"]
    copied = [
        [first, min(count, token - first), text, place]
        for first, count, text, place in details.get("copied", ())
        if first < token
    ]
    if copied:
        kept["copied"] = copied
    thought = details.get("reasoning")
    if isinstance(thought, dict) and thought["from"] < token:
        is_whole = thought["to"] <= token
        kept["reasoning"] = dict(thought) if is_whole else _cut(thought, token + more)
    return kept
