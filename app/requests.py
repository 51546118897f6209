"""What a page's requests may hold: one table of every action's arguments, checked before it runs.

Handlers get values of the right type and size, made of whole characters, and nothing else. What a
value means (is there such a conversation? is that a good temperature?) is theirs to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from engine.data.documents import DocumentError, checked, parse_json
from engine.data.errors import RequestError
from engine.data.shown import shown

Check = Callable[[str, Any], Any]

MESSAGE_LENGTH = 2_000_000
"""Characters of a message: more than the largest context can hold."""
WORD_LENGTH = 4_096
"""Of a name, an id or a path."""
SEARCH_LENGTH = 1_000
_MOST_ITEMS = 1_000
_IDENTITIES = 2**63
"""What a database row's number is below."""
_EXACT = 2**53
"""Integers up to here are the same in the page's numbers."""


class BadRequestError(RequestError):
    """The page, or whoever asks, has sent what no page sends."""


def identity(name: str, value: Any) -> int:
    if not _is_whole(value) or not 0 <= value < _IDENTITIES:
        raise BadRequestError(f"{name} must be the number of one")
    return int(value)


def whole(name: str, value: Any) -> int:
    if not _is_whole(value) or not -_EXACT <= value <= _EXACT:
        raise BadRequestError(f"{name} must be a whole number")
    return int(value)


def flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadRequestError(f"{name} must be true or false")
    return value


def text(longest: int) -> Check:
    def check(name: str, value: Any) -> str:
        if not isinstance(value, str):
            raise BadRequestError(f"{name} must be text")
        if len(value) > longest:
            raise BadRequestError(f"{name} may have {longest:,} characters, not {len(value):,}")
        return value

    return check


word = text(WORD_LENGTH)


def one_of(*choices: str) -> Check:
    def check(name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in choices:
            raise BadRequestError(f"{name} must be one of {', '.join(choices)}")
        return value

    return check


def many(item: Check) -> Check:
    def check(name: str, value: Any) -> list[Any]:
        if not isinstance(value, list) or len(value) > _MOST_ITEMS:
            raise BadRequestError(f"{name} must be a list of at most {_MOST_ITEMS:,}")
        return [item(f"each of {name}", one) for one in value]

    return check


def table(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or len(value) > _MOST_ITEMS:
        raise BadRequestError(f"{name} must be a table")
    return dict(value)


def drafter(name: str, value: Any) -> str | dict[str, Any]:
    """Its expression, or a row of the list of drafters and what is set of it."""
    if isinstance(value, str):
        return str(word(name, value))
    if not isinstance(value, dict):
        raise BadRequestError(f"{name} must be text or a table")
    return checked_arguments(value, _CHOSEN)


def attached(name: str, value: Any) -> dict[str, Any]:
    """A file that goes with a message."""
    return checked_arguments(table(name, value), {"sha256": word, "name": word})


def file_list(arguments: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """sha256 and name of each file that is to go with a message."""
    return tuple((one["sha256"], one["name"]) for one in arguments["files"] or ())


def nullable(check: Check) -> Check:
    """None passes, where the page says so; a missing value does not."""
    return lambda name, value: None if value is None else check(name, value)


class Optional:
    """A check that None passes, and a missing value too, as None."""

    def __init__(self, check: Check) -> None:
        self._check = check

    def __call__(self, name: str, value: Any) -> Any:
        return None if value is None else self._check(name, value)


_TRAINING: dict[str, Check] = {
    "kind": word,
    "target": Optional(word),
    "name": word,
    "minutes": Optional(whole),
    "tokens": Optional(whole),
    "texts": Optional(many(word)),
    "chats": Optional(flag),
    "heads": Optional(whole),
    "draft_vocab": Optional(whole),
    "depth": Optional(whole),
}
_CHOSEN: dict[str, Check] = {
    "value": word,
    "tree": Optional(whole),
    "layers": Optional(word),
    "siblings": Optional(flag),
}
_PAIR: dict[str, Check] = {"target": nullable(word), "drafters": many(drafter)}

ARGUMENTS: dict[str, dict[str, Check]] = {
    "open": {"conversation": nullable(identity), "order": Optional(whole)},
    "send": {
        "conversation": nullable(identity),
        "text": text(MESSAGE_LENGTH),
        "files": Optional(many(attached)),
        "order": Optional(whole),
    },
    "count": {
        "conversation": nullable(identity),
        "text": text(MESSAGE_LENGTH),
        "files": Optional(many(attached)),
    },
    "stop": {"conversation": identity},
    "answer_now": {"conversation": identity},
    "advise": {"conversation": identity},
    "regenerate": {"message": identity},
    "continue": {"message": identity},
    "branch": {"message": identity, "token": whole, "ghost": whole},
    "save_again": {},
    "load_stop": {},
    "edit": {
        "message": identity,
        "text": text(MESSAGE_LENGTH),
        "files": Optional(many(attached)),
    },
    "edit_reply": {"message": identity, "text": text(MESSAGE_LENGTH)},
    "select": {"message": identity},
    "versions": {"message": identity},
    "subtree": {"message": identity},
    "delete_message": {"message": identity},
    "restore_message": {"message": identity},
    "fork": {"message": identity},
    "search": {
        "text": text(SEARCH_LENGTH),
        "limit": Optional(whole),
        "closed": Optional(many(word)),
    },
    "pin": {"conversation": identity, "pinned": flag},
    "move": {"conversation": identity, "folder": word},
    "rename_folder": {"folder": word, "to": word},
    "chat_settings": {"conversation": nullable(identity)},
    "chat_set": {"conversation": nullable(identity), "changes": table},
    "chat_preset": {"conversation": nullable(identity), "preset": nullable(word)},
    "preset_save": {"name": word, "conversation": nullable(identity), "over": flag},
    "preset_step": {
        "name": word,
        "step": one_of("rename", "delete", "default"),
        "to": Optional(word),
        "conversation": nullable(identity),
    },
    "rename": {"conversation": identity, "title": word},
    "delete": {"conversation": identity},
    "restore": {"conversation": identity},
    "options": {"target": nullable(word)},
    "memory": _PAIR,
    "load": _PAIR,
    "settings": {"changes": table},
    "view": {"changes": table},
    "repository": {"repository": word},
    "folders": {"step": one_of("list", "add", "remove"), "path": Optional(word)},
    "fetch": {"model": Optional(word), "repository": Optional(word), "name": Optional(word)},
    "download": {"id": word, "step": one_of("cancel", "retry", "dismiss")},
    "log": {"after": whole},
    "train_options": {},
    "train_forecast": _TRAINING,
    "train": _TRAINING,
    "train_step": {"step": one_of("stop", "resume", "dismiss")},
    "train_delete": {"name": word},
    "torch": {"step": one_of("install", "cancel")},
    "lab_start": {
        "target": nullable(word),
        "drafters": many(many(drafter)),
        "source": word,
        "pasted": text(MESSAGE_LENGTH),
        "count": whole,
        "max_tokens": whole,
    },
    "lab_stop": {},
}


def checked_request(payload: Any) -> tuple[str, dict[str, Any]]:
    """The action and its arguments. BadRequestError says what is wrong with them.

    Half characters and NUL become U+FFFD, as where a browser sends text by itself.
    """
    content = checked_table(payload)
    action, arguments = content.get("action"), content.get("arguments")
    known = ARGUMENTS.get(action) if isinstance(action, str) else None
    if known is None:
        raise BadRequestError(f"there is no action {shown(repr(action), 80)}")
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise BadRequestError("arguments must be a table")
    return str(action), checked_arguments(arguments, known)


def checked_arguments(arguments: Mapping[str, Any], known: Mapping[str, Check]) -> dict[str, Any]:
    """Every known argument, None for an optional one that is missing."""
    for name in arguments:
        if name not in known:
            raise BadRequestError(f"unknown argument {shown(repr(name), 80)}")
    for name, check in known.items():
        if name not in arguments and not isinstance(check, Optional):
            raise BadRequestError(f"{name} is missing")
    return {name: check(name, arguments.get(name)) for name, check in known.items()}


def checked_table(payload: Any) -> dict[str, Any]:
    """A request as a whole: not too deep, with numbers and characters that can be."""
    return _table(lambda: checked(payload, repair=True))


def parsed_table(body: bytes) -> dict[str, Any]:
    """The same from its JSON."""
    return _table(lambda: parse_json(body, repair=True))


def _table(read: Callable[[], Any]) -> dict[str, Any]:
    try:
        content = read()
    except DocumentError as error:
        raise BadRequestError(f"the request {error}") from error
    if not isinstance(content, dict):
        raise BadRequestError("the request must be a table")
    return content


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
