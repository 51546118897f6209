"""What a conversation needs before a reply can be written, and the request that is made of it."""

from __future__ import annotations

from collections.abc import Sequence

from app.conversations import Conversations
from app.preferences import PreferencesFile
from app.settings import EARLIER_CHARACTERS
from app.shelf import Shelf
from app.stored_message import StoredMessage
from app.thoughts import thought_of
from app.writing import ReplyStart, Writer
from engine.data.errors import BadOptionError, RequestError
from engine.data.request import Message
from engine.process.protocols import Generator


class Asking:
    """Its owner holds its lock around every call."""

    def __init__(
        self,
        engine: Generator,
        store: Conversations,
        preferences: PreferencesFile,
        writer: Writer,
        shelf: Shelf,
    ) -> None:
        self._engine = engine
        self._store = store
        self._preferences = preferences
        self._writer = writer
        self._shelf = shelf

    def conversation_of(self, message: int) -> int:
        conversation = self._store.conversation_of(message)
        if conversation is None:
            raise BadOptionError("that message is gone; reload the page")
        return conversation

    def require_ready(self, conversation: int | None) -> None:
        if self._engine.loaded is None:
            raise RequestError("no model is loaded: choose a target above and press Load")
        self.require_free(conversation)

    def require_free(self, conversation: int | None) -> None:
        """What is asked of a conversation changes what is stored of it."""
        if conversation is None:
            return
        if self._writer.reply(conversation) is not None:
            raise RequestError("a reply is still being written here: stop it first")
        unsaved = self._writer.save_again(conversation)
        if unsaved:
            raise RequestError(f"the last reply here could not be saved yet: {unsaved}")

    def prepare(self, conversation: int, parent: int) -> ReplyStart:
        """The request, and the empty reply to the message `parent`, which the path ends with then;
        part of the change that makes room for it."""
        history = _history(self._store.path_to(parent))
        if not history:
            raise BadOptionError("there is nothing to answer: a greeting is not the model's own")
        own = self._shelf.own(conversation)
        settings = own.applied(self._preferences.current.settings)
        earlier: tuple[str, ...] = ()
        if settings.earlier_chats == "on":
            earlier = self._store.texts_of_others(conversation, EARLIER_CHARACTERS)
        loaded = self._engine.loaded
        request = settings.generate_request(
            own.spoken(history),
            earlier,
            None if loaded is None else loaded.reasoning,
        )
        return ReplyStart(conversation, self._store.start_reply(conversation, parent), request)


def _history(messages: Sequence[StoredMessage]) -> tuple[Message, ...]:
    """User and assistant in turn: a failed reply leaves two user messages to join.

    A message that was refused as too long stays out, or every later one would be refused too.
    """
    told: list[StoredMessage] = []
    for message in messages:
        if message.content:
            told.append(message)
        elif message.details.get("error", {}).get("kind") == "ContextLengthError":
            told.pop()
    history: list[Message] = []
    for message in told:
        if history and history[-1].role == message.role:
            joined = f"{history[-1].content}\n\n{message.content}"
            history[-1] = Message(message.role, joined)
        else:
            thought = message.reasoning or thought_of(message.tokens, message.details)
            history.append(Message(message.role, message.content, thought or None))
    return tuple(history)
