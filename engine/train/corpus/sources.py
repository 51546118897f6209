"""Where items come from: the user's text, prompts and chats, the target's own questions, and the
built-in prompts."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain, zip_longest
from pathlib import Path

from engine.data.errors import BadOptionError, RunError
from engine.data.request import Message, Role
from engine.files.disk import user_path
from engine.train.corpus.prompt_files import prompt_file_items
from engine.train.corpus.prompt_list import built_in_prompts, own_questions
from engine.train.corpus.settings import CollectSettings
from engine.train.corpus.work import Item, blocks

TEXT_SUFFIXES = frozenset(
    {".txt", ".md", ".rst", ".tex", ".py", ".js", ".ts", ".c", ".h", ".cpp", ".hpp", ".rs", ".go"}
    | {".java", ".kt", ".rb", ".sh", ".sql", ".html", ".css", ".json", ".toml", ".yaml", ".csv"}
)
LARGEST_FILE = 20_000_000
CHUNK_CHARACTERS = 1600
"""About 400 tokens, so that a chunk is read in one pass."""

_CONTINUED = 600
_CHARACTERS_PER_TOKEN = 4
_ANSWER_TOKENS = 130


def all_blocks(settings: CollectSettings) -> list[Sequence[Item]]:
    """In a fixed order: the sources take turns, block by block, each as long as it lasts.

    A source's blocks are the same ones whatever other sources there are.
    """
    sources = [*own_sources(settings)]
    sources.append(list(own_questions(settings.seed)))
    sources.append(list(built_in_prompts(settings.seed)))
    turns = zip_longest(*map(blocks, sources))
    return [block for turn in turns for block in turn if block is not None]


def own_sources(settings: CollectSettings) -> Iterator[list[Item]]:
    """What is the user's own: texts, prompts, chats."""
    yield list(text_items(settings.text))
    for path in settings.prompts:
        yield list(prompt_file_items(path))
    if settings.chats:
        yield list(chat_items(Path(settings.chats)))


def new_tokens(settings: CollectSettings, known: Collection[str]) -> int:
    """About how many tokens to learn the user's own sources have beyond the documents `known`."""
    items = chain.from_iterable(own_sources(settings))
    return sum(_tokens(item, settings.prompt) for item in items if item.id not in known)


def _tokens(item: Item, longest_prompt: int) -> int:
    if item.text:
        return len(item.text) // _CHARACTERS_PER_TOKEN
    asked = sum(len(message.content) for message in item.messages)
    return _ANSWER_TOKENS if asked <= longest_prompt * _CHARACTERS_PER_TOKEN else 0


def text_files(paths: Iterable[str]) -> list[Path]:
    """BadOptionError when a path does not exist or holds no text."""
    found: list[Path] = []
    for name in paths:
        path = user_path(name)
        if not path.exists():
            raise BadOptionError(f"there is no {name}; --text takes files and folders of text")
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        files = [one for one in inside if one.is_file() and (one == path or _is_text(one))]
        if not files:
            kinds = ", ".join(sorted(TEXT_SUFFIXES))
            raise BadOptionError(f"{name} holds no text files ({kinds})")
        found.extend(files)
    return found


def _is_text(path: Path) -> bool:
    hidden = any(part.startswith(".") for part in path.parts)
    return not hidden and path.suffix in TEXT_SUFFIXES and path.stat().st_size <= LARGEST_FILE


def text_items(paths: Iterable[str]) -> Iterator[Item]:
    """Chunks to read, and every third one's beginning to go on from in the target's own words."""
    seen: set[str] = set()
    for path in text_files(paths):
        try:
            text = path.read_text(encoding="utf-8-sig", errors="replace")
        except OSError as error:
            raise BadOptionError(f"{path} cannot be read: {error.strerror or error}") from error
        for number, chunk in enumerate(chunks(text)):
            name = f"text:{zlib.crc32(chunk.encode()):08x}:{len(chunk)}"
            if name in seen:  # licences, say, that many files begin with
                continue
            seen.add(name)
            yield Item(name, "text", text=chunk)
            if number % 3 == 0:
                ask = f"Continue this text:\n\n{chunk[:_CONTINUED]}"
                yield Item(f"{name}:continued", "text", (Message("user", ask),))


def chunks(text: str) -> Iterator[str]:
    """Pieces of whole lines, about CHUNK_CHARACTERS long; a longer line is cut."""
    piece = ""
    for line in text.splitlines(keepends=True):
        for start in range(0, len(line), CHUNK_CHARACTERS):
            part = line[start : start + CHUNK_CHARACTERS]
            if piece and len(piece) + len(part) > CHUNK_CHARACTERS:
                if piece.strip():
                    yield piece
                piece = ""
            piece += part
    if piece.strip():
        yield piece


def chat_items(database: Path) -> Iterator[Item]:
    """The user's own chats: every user message, with what came before it, to be answered again.

    BadOptionError when there are none.
    """
    chats: dict[int, list[Message]] = {}
    asked = 0
    for conversation, role, content in _messages(database):
        chat = chats.setdefault(conversation, [])
        chat.append(Message(role, content))
        if role == "user" and content.strip():
            asked += 1
            yield Item(f"chat:{conversation}:{len(chat)}", "chat", tuple(chat))
    if not asked:
        raise BadOptionError("there are no chats here yet; leave out --chats")


def _messages(database: Path) -> list[tuple[int, Role, str]]:
    """Conversation, role and content, in order. Opened for reading only, so nothing is copied."""
    if not database.is_file():
        return []
    try:
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as store:
            return store.execute(
                "select m.conversation, m.role, m.content from messages m join conversations c"
                " on c.id = m.conversation where not c.deleted and not m.streaming order by m.id"
            ).fetchall()
    except sqlite3.Error as error:
        raise RunError(f"the chats in {database} cannot be read: {error}") from error
