"""What the model is told of the files that go with a message."""

from __future__ import annotations

from collections.abc import Sequence

from app.attachments.stored import Attachment


def with_files(text: str, files: Sequence[Attachment]) -> str:
    """The files before the question, in their order: what comes first stays the same when the
    question is another one, and the engine need not read it again."""
    parts = [f"--- File: {file.name} ---\n{file.text.strip(chr(10))}" for file in files]
    return "\n\n".join([*parts, text])
