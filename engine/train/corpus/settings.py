"""What is collected and how: crosses to the collector's process, and is kept beside the corpus."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from engine.data.documents import parse_json
from engine.data.errors import RunError
from engine.files.stored import MISREAD, write_stored

CORPUS_VERSION = 1


@dataclass(frozen=True, slots=True)
class CollectSettings:
    """folder: the corpus. target: the model file. answer_tokens: wanted in the whole corpus.

    seconds: of this run, None for no limit. prompt, answer: limits of a document, in tokens.
    text: files and folders of the user's own text to read. prompts: files of prompts. chats: the
    database of the user's chats, "" unless asked for. threads: of a collector. collectors: that run
    at the same time. fast_copy: a faster copy of the weights, ""
    for the target's own file. derived: where such copies are made.
    """

    folder: str
    target: str
    answer_tokens: int
    seconds: float | None = None
    threads: int = 1
    collectors: int = 1
    gpu_layers: int = -1
    sequences: int = 64
    prompt: int = 384
    answer: int = 256
    seed: int = 0
    text: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    chats: str = ""
    fast_copy: str = ""
    derived: str = ""

    @property
    def sequence_length(self) -> int:
        return self.prompt + self.answer


@dataclass(frozen=True, slots=True)
class CorpusCard:
    """corpus.json: what the corpus was made from.

    layers: whose inputs are kept, from 1. generated_with: "the target's file" or a copy in another
    format; tokens_per_second: how fast each was when it was tried. text: what was read besides
    prompts. prompt_files: those that were used.
    """

    target_name: str
    target_sha256: str
    architecture: str
    hidden_size: int
    layers: tuple[int, ...]
    generated_with: str
    tokens_per_second: dict[str, float]
    seed: int
    prompt: int
    answer: int
    sampling: str
    heldout: str
    text: tuple[str, ...]
    chats: bool
    prompt_files: tuple[str, ...] = ()
    version: int = CORPUS_VERSION


def write_card(folder: Path, card: CorpusCard) -> None:
    write_stored(folder / "corpus.json", asdict(card), indent=2)


def read_card(folder: Path) -> CorpusCard | None:
    """None when there is no corpus yet. RunError when it is damaged or of another version."""
    path = folder / "corpus.json"
    try:
        content = parse_json(path.read_bytes(), repair=True)
        for name in ("layers", "text", "prompt_files"):
            content[name] = tuple(content.get(name, ()))
        card = CorpusCard(**content)
    except FileNotFoundError:
        return None
    except (OSError, *MISREAD) as error:
        raise RunError(f"{path} cannot be read ({error}); `forerun train delete` it") from error
    if card.version != CORPUS_VERSION:
        raise RunError(f"{folder} was made by another version; `forerun train delete` it")
    return card


def read_layers(count: int) -> tuple[int, int, int]:
    """Whose inputs EAGLE-3 reads (arXiv 2503.01840, and llama.cpp's choice): 2, L/2, L - 3."""
    wanted = (2, count // 2, count - 3)
    low, middle, high = (min(max(layer, 1), count - 1) for layer in wanted)
    return low, middle, high
