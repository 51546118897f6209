"""A prompt's text to tokens: control tokens only where the template wrote them.

Between two control tokens text is cut into tokens alone: what stands on the other side of one never
changes the cut, so a part that was cut once is remembered, and a message of a long chat costs its
time only once. Typed text that looks like a control token is cut as the text that it is. (Tokens
that a model's author defined as words, such as "<think>" in some models, are words wherever they
stand: tokenizers offer no way to write them otherwise.)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from engine.data.errors import StopRequested
from engine.llama.vocab import Vocab
from engine.text.prompt_text import PromptText
from engine.text.render_process import never

_KEPT_CHARACTERS = 8_000_000
_WHITE_SPACE = " \t\n\v\f\r"


@dataclass(frozen=True, slots=True)
class Part:
    """Text between control tokens, or one control token. start, end: in bytes of the prompt."""

    start: int
    end: int
    text: str
    token: int | None


class PromptTokenizer:
    """Of one vocabulary; remembers the parts of the last prompts.

    adds_space: text gets a space in front behind a control token, as in most sentencepiece models.
    """

    def __init__(self, vocab: Vocab) -> None:
        self.vocab = vocab
        self._texts = vocab.special_texts()
        self._ids: dict[str, int] = {}
        firsts = "".join(sorted({text[0] for text in self._texts}))
        self._start = re.compile(f"[{re.escape(firsts)}]") if firsts else None
        self._lengths = {
            first: sorted({len(text) for text in self._texts if text[0] == first}, reverse=True)
            for first in firsts
        }
        letter = vocab.tokenize("a", add_special=False, parse_special=False) if firsts else []
        self.adds_space = vocab.text_bytes(letter) == b" a"
        self._known: dict[str, tuple[int, ...]] = {}
        self._known_characters = 0

    def is_special(self, token: int) -> bool:
        """One that only a template may write."""
        return self.vocab.special_text(token) in self._texts

    def parts(self, prompt: PromptText) -> Iterator[Part]:
        """The whole prompt in order."""
        text = prompt.text.encode(errors="replace").decode()  # half a surrogate has no bytes
        position = done = 0
        for start, end in self._special_places(PromptText(text, prompt.typed)):
            if start > done:
                yield (part := _plain(text[done:start], position))
                position = part.end
            name = text[start:end]
            size = len(name.encode())
            yield Part(position, position + size, name, self._id(name))
            position += size
            done = end
        if done < len(text):
            yield _plain(text[done:], position)

    def _special_places(self, prompt: PromptText) -> Iterator[tuple[int, int]]:
        """Where the template wrote control tokens: the longest at each place."""
        if self._start is None:
            return
        text, end = prompt.text, 0
        for match in self._start.finditer(text):
            start = match.start()
            if start < end:
                continue
            for length in self._lengths[match.group()]:
                is_one = text[start : start + length] in self._texts
                if is_one and not prompt.is_typed(start, start + length):
                    end = start + length
                    yield start, end
                    break

    def _id(self, name: str) -> int:
        """As the tokenizer itself reads it: two tokens may have one text."""
        if name not in self._ids:
            read = self.vocab.tokenize(name, add_special=False, parse_special=True)
            self._ids[name] = read[0] if len(read) == 1 else self._texts[name]
        return self._ids[name]

    def tokens(
        self, parts: Sequence[Part], first: int = 0, cancelled: Callable[[], bool] = never
    ) -> list[int]:
        """Of all parts from the first on. StopRequested when cancelled."""
        found: list[int] = []
        for index in range(first, len(parts)):
            part = parts[index]
            if part.token is not None:
                found.append(part.token)
                continue
            text = part.text
            before = parts[index - 1].token if index else None
            after = parts[index + 1].token if index + 1 < len(parts) else None
            if before is not None and self.vocab.takes_space(before)[1]:
                text = text.lstrip(_WHITE_SPACE)
            if after is not None and self.vocab.takes_space(after)[0]:
                text = text.rstrip(_WHITE_SPACE)
            found += self.cut(text, cancelled)
        return found

    def cut(self, text: str, cancelled: Callable[[], bool] = never) -> tuple[int, ...]:
        """Tokens of a text that stands alone. StopRequested when cancelled."""
        known = self._known.get(text)
        if known is not None:
            return known
        if cancelled():
            raise StopRequested
        if self._known_characters + len(text) > _KEPT_CHARACTERS:
            self._known.clear()
            self._known_characters = 0
        tokens = tuple(self.vocab.tokenize(text, add_special=False, parse_special=False))
        self._known[text] = tokens
        self._known_characters += len(text)
        return tokens


def _plain(text: str, start: int) -> Part:
    return Part(start, start + len(text.encode()), text, None)
