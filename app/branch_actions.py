"""What the page may ask of the versions of messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from app.branches import Branches
from app.continuing import Continuing
from app.requests import file_list
from app.session import Session

Arguments = dict[str, Any]


def branch_actions(
    branches: Branches, continuing: Continuing
) -> dict[str, Callable[[Session, Arguments], Any]]:
    """By their names; each takes the number of a message."""

    def of_a_message(ask: Callable[[int], Any]) -> Callable[[Session, Arguments], Any]:
        return lambda _session, arguments: ask(arguments["message"])

    def edit(session: Session, told: Arguments) -> None:
        files = None if told["files"] is None else file_list(told)
        branches.edit(session, told["message"], told["text"], files)

    return {
        "regenerate": lambda session, told: branches.regenerate(session, told["message"]),
        "edit": edit,
        "edit_reply": lambda _session, told: branches.edit_reply(told["message"], told["text"]),
        "select": of_a_message(branches.select),
        "versions": of_a_message(branches.versions),
        "subtree": of_a_message(branches.subtree),
        "delete_message": of_a_message(branches.delete),
        "restore_message": of_a_message(branches.restore),
        "continue": lambda session, told: continuing.go_on(session, told["message"]),
        "branch": lambda session, told: continuing.branch(
            session, told["message"], told["token"], told["ghost"]
        ),
        "fork": lambda _session, told: branches.fork(told["message"]),
    }
