"""How much of the context prompts take: counted beside a reply, in a thread of its own."""

from __future__ import annotations

import threading

from engine.data.errors import BadOptionError
from engine.data.prompt_size import PromptSize
from engine.data.request import GenerateRequest
from engine.serving.open import Loaded
from engine.text.prompt import prompt_size
from engine.text.tokenizer import PromptTokenizer


class Counting:
    """Of what is loaded, from `begin` to `end`. It has a tokenizer of its own: what one remembers
    is for one thread. The vocabulary itself is read only, and may be used by several."""

    def __init__(self) -> None:
        self._using = threading.Lock()
        self._loaded: Loaded | None = None
        self._tokenizer: PromptTokenizer | None = None
        self._ending = threading.Event()

    def begin(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._ending.clear()

    def end(self) -> None:
        """Before what is loaded is closed: a count that runs ends first."""
        self._ending.set()
        with self._using:
            self._loaded = self._tokenizer = None

    def size(self, request: GenerateRequest, texts: tuple[str, ...]) -> PromptSize:
        """A reply being written holds tokens that are known when it ends; until then its prompt
        is counted as its text is cut. StopRequested when it must end."""
        with self._using:
            loaded = self._loaded
            if loaded is None or self._ending.is_set():
                raise BadOptionError("no model is loaded; choose a target first")
            tokenizer = self._tokenizer or PromptTokenizer(loaded.context.model.vocab)
            self._tokenizer = tokenizer
            stopped = self._ending.is_set
            held = tuple(loaded.held)
            size = prompt_size(request, loaded.template, loaded.context, held, tokenizer, stopped)
            counts = tuple(len(tokenizer.cut(text, stopped)) for text in texts)
            return PromptSize(size.tokens, size.limit, size.dropped, size.refused, counts)
