"""The files that go with messages, in the conversation file: each content once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.attachments.reading import ReadFile, safe_name
from app.chat_store import ChatStore
from engine.data.documents import sendable
from engine.data.errors import BadOptionError

FileList = Sequence[tuple[str, str]]
"""sha256 and name of each, in their order."""
MOST_FILES = 10
"""With one message."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """bytes: of the file itself, of which only the text is kept."""

    sha256: str
    name: str
    kind: str
    bytes: int
    text: str


class StoredFiles(ChatStore):
    def keep_file(self, file: ReadFile) -> None:
        """Until it goes with a message it is kept to the next start only."""
        self._run(
            "insert or ignore into files (sha256, kind, bytes, text) values (?, ?, ?, ?)",
            *(file.sha256, file.kind, file.bytes, sendable(file.text)),
        )

    def attach(self, message: int, files: FileList) -> None:
        """BadOptionError when one is not here."""
        if len(files) > MOST_FILES:
            raise BadOptionError(f"at most {MOST_FILES} files can go with a message")
        with self.atomic():
            for place, (sha256, name) in enumerate(files):
                if not self._all("select 1 from files where sha256 = ?", sha256):
                    raise BadOptionError(f"{safe_name(name)} is not here any more: attach it again")
                self._run(
                    "insert into attachments (message, place, name, sha256) values (?, ?, ?, ?)",
                    *(message, place, safe_name(name), sha256),
                )

    def attachments(self, message: int) -> tuple[Attachment, ...]:
        rows = self._all(
            "select a.sha256, a.name, f.kind, f.bytes, f.text from attachments a"
            " join files f on f.sha256 = a.sha256 where a.message = ? order by a.place, a.id",
            message,
        )
        return tuple(Attachment(*row) for row in rows)

    def files_named(self, files: FileList) -> tuple[Attachment, ...]:
        """Those that are here, to count what a message with them would take."""
        found = []
        for sha256, name in files:
            rows = self._all("select kind, bytes, text from files where sha256 = ?", sha256)
            found += [Attachment(sha256, safe_name(name), *row) for row in rows]
        return tuple(found)
