"""What is known of every drafter, for each kind of text: the memory of automatic drafting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from engine.control.draft_account import DraftAccount

TextKind = Literal["greedy", "sampled"]
"""How a reply is chosen: a drafter's confidence means something else for each."""

_LOOKS_TO_JUDGE = 16
_VERSION = 1


class DraftAccounts:
    """An account is opened when it is asked for."""

    def __init__(self) -> None:
        self._accounts: dict[tuple[str, TextKind], DraftAccount] = {}

    def of(self, drafter: str, kind: TextKind) -> DraftAccount:
        return self._accounts.setdefault((drafter, kind), DraftAccount())

    def known(self, drafter: str, kind: TextKind) -> DraftAccount:
        """Where there is none, an empty one that is not kept."""
        return self._accounts.get((drafter, kind)) or DraftAccount()

    def begin_reply(self) -> None:
        for account in self._accounts.values():
            account.begin_reply()

    def fade_others(self, drafter: str, kind: TextKind, tokens: int) -> None:
        """Tokens went by without a look from the drafters that were not asked."""
        for (name, of_kind), account in self._accounts.items():
            if name != drafter and of_kind == kind:
                account.looks.fade(tokens)

    def seen(self) -> Iterator[tuple[str, TextKind]]:
        """Those that were looked at often enough to be judged."""
        for (drafter, kind), account in self._accounts.items():
            if account.looks.looks >= _LOOKS_TO_JUDGE:
                yield drafter, kind

    def to_json(self) -> dict[str, Any]:
        return {
            "version": _VERSION,
            "accounts": {
                f"{kind} {drafter}": account.to_json()
                for (drafter, kind), account in self._accounts.items()
            },
        }

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> DraftAccounts:
        """ValueError, TypeError or KeyError when the content is not what to_json writes."""
        if content["version"] != _VERSION:
            raise ValueError("written by another version")
        accounts = DraftAccounts()
        for key, value in content["accounts"].items():
            kind, _, drafter = key.partition(" ")
            known: TextKind = "sampled" if kind == "sampled" else "greedy"
            accounts._accounts[drafter, known] = DraftAccount.from_json(value)
        return accounts
