"""The prompt's text as the engine process writes it, from the model file alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine.data.prompts import TrialPrompt
from engine.data.request import Message
from engine.files.gguf import inspect
from engine.models.vocabulary import GgufVocabulary, read_vocabulary
from engine.text.chat import ChatTemplate


def prompt_renderer(target: Path) -> Callable[[TrialPrompt], tuple[str, bool]]:
    """The chat template of the target's file over one user message; ModelFileError if unreadable.

    Gives the text, and whether the tokenizer may add its first token: as in `engine.text.prompt`.
    """
    vocabulary = read_vocabulary(target)
    bos = _text(vocabulary, vocabulary.bos)
    template = ChatTemplate(inspect(target).chat_template, bos, _text(vocabulary, vocabulary.eos))

    def render(prompt: TrialPrompt) -> tuple[str, bool]:
        text = template.render((Message("user", prompt.text),), template.variables(None, None))
        return text, not (bos and text.startswith(bos))

    return render


def _text(vocabulary: GgufVocabulary, token: int | None) -> str:
    return "" if token is None else vocabulary.tokens[token].decode(errors="replace")
