"""Replies that go on: one that ended early, and a version from a rejected draft on."""

from __future__ import annotations

import threading
from dataclasses import replace

from app.asking import Asking
from app.beginning import of_a_draft, of_itself
from app.conversations import Conversations
from app.exchange.wire_check import sound_details, sound_tokens
from app.session import Session
from app.stored_message import StoredMessage
from app.token_ids import TokenIds, parsed_ids
from app.writing import ReplyStart, Writer
from engine.data.errors import BadOptionError
from engine.data.request import GenerateRequest

ENDED_EARLY = frozenset({"length", "context", "cancelled", "interrupted", "failed"})


class Continuing:
    """lock: held around every change and what pages are told of it, in that order."""

    def __init__(
        self, store: Conversations, asking: Asking, writer: Writer, lock: threading.RLock
    ) -> None:
        self._store = store
        self._asking = asking
        self._writer = writer
        self._lock = lock

    def go_on(self, session: Session, message: int) -> None:
        """The reply grows from where it ended, in its own message and with its own seed."""
        with self._lock:
            conversation = self._asking.conversation_of(message)
            self._asking.require_ready(conversation)
            reply, parent = self._reply(message)
            if self._store.current(conversation) != message:
                raise BadOptionError("only the last message that is shown can go on")
            ids = self._ids(reply)
            if reply.details.get("finish") not in ENDED_EARLY:
                raise BadOptionError("that reply came to its own end: there is nothing to add")
            request = self._request(conversation, parent, ids)
            seed = reply.details.get("seed")
            if type(seed) is int:
                request = replace(request, sampling=replace(request.sampling, seed=seed))
            begun = of_itself(reply, ids)
            self._writer.start(session, ReplyStart(conversation, message, request, begun, "resume"))

    def branch(self, session: Session, message: int, token: int, ghost: int) -> None:
        """Another version of a reply: it begins with its tokens before number `token`, then with
        the rejected draft number `ghost` in that place."""
        with self._lock:
            conversation = self._asking.conversation_of(message)
            self._asking.require_ready(conversation)
            reply, parent = self._reply(message)
            begun = of_a_draft(reply, self._ids(reply), token, ghost)
            request = self._request(conversation, parent, begun.ids)
            with self._store.atomic():
                new = self._store.start_reply(conversation, parent)
            self._writer.start(session, ReplyStart(conversation, new, request, begun, "changed"))

    def _reply(self, message: int) -> tuple[StoredMessage, int]:
        """And the number of the message that it answers."""
        reply = self._store.message(message)
        if reply is None:
            raise BadOptionError("that message is gone; reload the page")
        if reply.role != "assistant" or reply.parent is None:
            raise BadOptionError("only a reply to a message can go on")
        return replace(reply, details=sound_details(reply.details)), reply.parent

    def _ids(self, reply: StoredMessage) -> TokenIds:
        """Of this vocabulary."""
        ids = parsed_ids(self._store.ids_of(reply.id), len(reply.tokens))
        if ids is None or not sound_tokens(reply.tokens, reply.content, reply.details):
            raise BadOptionError(
                "the tokens of that reply were not kept, because it is older, imported, edited or "
                "damaged: write it again instead"
            )
        target = self._asking.require_loaded()
        if target.vocabulary != ids.vocabulary:
            raise BadOptionError(
                f"that reply was written in another vocabulary than the one of {target.id}: load "
                f"{reply.details.get('model') or 'its model'} to go on, or write it again"
            )
        return ids

    def _request(self, conversation: int, parent: int, ids: TokenIds) -> GenerateRequest:
        """It thinks as it did when the reply began."""
        return replace(
            self._asking.request_to(conversation, parent),
            continuation=tuple(ids.tokens),
            vocabulary=ids.vocabulary,
            thinking=ids.thinking,
            effort=ids.effort,
        )
