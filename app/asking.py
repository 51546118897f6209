"""What a conversation needs before a reply can be written, and the request that is made of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from app.attachments.prompt import with_files
from app.attachments.stored import FileList
from app.conversations import Conversations
from app.own_settings import NOTHING, OwnSettings
from app.preferences import PreferencesFile
from app.settings import EARLIER_CHARACTERS
from app.shelf import Shelf
from app.stored_message import StoredMessage
from app.thoughts import thought_of
from app.writing import ReplyStart, Writer
from engine.data.errors import BadOptionError, RequestError
from engine.data.loaded import ModelSummary
from engine.data.request import GenerateRequest, Message
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

    def require_loaded(self) -> ModelSummary:
        """The target that is loaded."""
        loaded = self._engine.loaded
        if loaded is None:
            raise RequestError("no model is loaded: choose a target above and press Load")
        return loaded.target

    def require_ready(self, conversation: int | None) -> None:
        self.require_loaded()
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
        request = self.request_to(conversation, parent)
        return ReplyStart(conversation, self._store.start_reply(conversation, parent), request)

    def request_to(self, conversation: int, parent: int) -> GenerateRequest:
        """What is asked of the engine to answer the message `parent`."""
        history = self._history(self._store.path_to(parent))
        if not history:
            raise BadOptionError("there is nothing to answer: a greeting is not the model's own")
        earlier: tuple[str, ...] = ()
        if self._preferences.current.settings.earlier_chats == "on":
            earlier = self._store.texts_of_others(conversation, EARLIER_CHARACTERS)
        return self._request(self._shelf.own(conversation), history, earlier)

    def request_with(
        self, conversation: int | None, text: str, files: FileList = ()
    ) -> GenerateRequest | None:
        """What would be asked of the engine if the text were sent there now, without the texts of
        other chats, which the target never reads. None where nothing is left to ask."""
        known = conversation is not None and self._store.exists(conversation)
        stored = self._store.messages(conversation) if known and conversation is not None else ()
        asked = with_files(text, self._store.files_named(files))
        typed = (Message("user", asked),) if asked.strip() else ()
        history = _joined((*self._history(stored), *typed))
        own = self._shelf.own(conversation) if known and conversation is not None else NOTHING
        return self._request(own, history) if history else None

    def _request(
        self, own: OwnSettings, history: tuple[Message, ...], earlier: tuple[str, ...] = ()
    ) -> GenerateRequest:
        """own: what the conversation sets itself."""
        loaded = self._engine.loaded
        settings = own.applied(self._preferences.current.settings)
        reasoning = None if loaded is None else loaded.reasoning
        return settings.generate_request(own.spoken(history), earlier, reasoning)

    def _history(self, messages: Sequence[StoredMessage]) -> tuple[Message, ...]:
        """User and assistant in turn: a failed reply leaves two user messages to join.

        A message that was refused as too long stays out, or every later one would be refused too.
        """
        told: list[StoredMessage] = []
        for message in messages:
            if message.content:
                told.append(message)
            elif message.details.get("error", {}).get("kind") == "ContextLengthError":
                told.pop()
        return _joined(self._told(message) for message in told)

    def _told(self, message: StoredMessage) -> Message:
        content = message.content
        if message.role == "user":
            content = with_files(content, self._store.attachments(message.id))
        thought = message.reasoning or thought_of(message.tokens, message.details)
        return Message(message.role, content, thought or None)


def _joined(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Roles in turn; of several that are joined, the first one's thoughts."""
    history: list[Message] = []
    for message in messages:
        if history and history[-1].role == message.role:
            joined = f"{history[-1].content}\n\n{message.content}"
            history[-1] = replace(history[-1], content=joined)
        else:
            history.append(message)
    return tuple(history)
