"""What a corpus takes on disk, before it is collected."""

from __future__ import annotations

from pathlib import Path

from engine.data.errors import RunError
from engine.files.disk import disk_room
from engine.files.gguf import inspect
from engine.train.corpus.settings import CollectSettings

LIKELIEST = 16
"""The target's likeliest next tokens that are kept for each token."""

LAYERS_READ = 3
CONTEXT_SHARE = 2.0
"""Tokens kept for each answer token, at most: prompts are kept too."""


def bytes_per_token(hidden_size: int) -> int:
    """What a token takes on disk."""
    return (1 + LAYERS_READ) * 2 * hidden_size + LIKELIEST * 6 + 5


def estimated_bytes(settings: CollectSettings, present: int, tokens_per_second: float) -> float:
    """What the answer tokens that are still missing will take, at most.

    present: answer tokens that are there. tokens_per_second: of all collectors, of short texts and
    without prompts: they will do less.
    """
    missing: float = max(0, settings.answer_tokens - present)
    if settings.seconds is not None:
        missing = min(missing, settings.seconds * tokens_per_second)
    hidden = inspect(Path(settings.target)).embedding_length
    return missing * CONTEXT_SHARE * bytes_per_token(hidden)


def require_disk(folder: Path, needed: float) -> None:
    """RunError when the volume has no room for that many bytes and a reserve."""
    free = disk_room(folder)
    if free < needed:
        raise RunError(
            f"the corpus needs {needed / 1e9:.1f} GB and {folder} has room for {free / 1e9:.1f} "
            "GB; ask for fewer tokens, free some space, or choose another --data-dir"
        )
