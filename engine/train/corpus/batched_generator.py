"""Many documents at once from one model: prompts go in, answers are drawn, features are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.data.errors import TemplateError
from engine.data.request import Message
from engine.llama.many import ManyContext, Rows
from engine.text.chat import ChatTemplate
from engine.text.prompt import prompt_tokens
from engine.text.prompt_text import PromptText
from engine.train.corpus.disk import LIKELIEST
from engine.train.corpus.likely import draw_nucleus, largest, log_sum_exp
from engine.train.corpus.shards import Document
from engine.train.corpus.work import SAMPLED_TOP_P, Item

CANDIDATES = 32
"""A sampled token is one of so many likeliest ones."""

SHORTEST_ANSWER = 8
_LARGEST_HALF = 65504.0


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """In tokens. answer: after which an answer is cut."""

    prompt: int
    answer: int


@dataclass(slots=True)
class _Slot:
    """A document in the making. tokens: with the drawn one whose row is not there yet."""

    item: Item
    tokens: list[int]
    prompt_length: int
    random: np.random.Generator
    ended: bool = False


@dataclass(slots=True)
class _Buffers:
    """[sequences, length, width] of every kept feature; written row by row as passes come."""

    hidden: NDArray[np.float16]
    layers: NDArray[np.float16]
    top_ids: NDArray[np.int32]
    top_logprobs: NDArray[np.float16]
    clipped: int = 0


@dataclass(slots=True)
class Finished:
    """A document and its answer's text, from which a next turn can be made."""

    document: Document
    item: Item
    answer: str = field(default="")


class BatchedGenerator:
    """Holds a ManyContext that the caller closes."""

    def __init__(self, context: ManyContext, template: ChatTemplate, limits: BatchLimits) -> None:
        self._context = context
        self._template = template
        self._limits = limits
        options = context.options
        self._slots: list[_Slot | None] = [None] * options.sequences
        hidden = context.model.hidden_size
        shape = (options.sequences, options.sequence_length)
        self._buffers = _Buffers(
            np.zeros((*shape, hidden), np.float16),
            np.zeros((*shape, hidden * len(options.layer_inputs)), np.float16),
            np.zeros((*shape, LIKELIEST), np.int32),
            np.zeros((*shape, LIKELIEST), np.float16),
        )

    @property
    def clipped(self) -> int:
        """Features that were beyond what half precision holds."""
        return self._buffers.clipped

    @property
    def size(self) -> int:
        return len(self._slots)

    @property
    def free(self) -> int:
        return self._slots.count(None)

    @property
    def answer_tokens(self) -> int:
        """Of the documents in the making that `cut` would keep."""
        slots = [slot for slot in self._slots if slot and not slot.item.opening]
        lengths = (len(slot.tokens) - 1 - slot.prompt_length for slot in slots)
        return sum(length for length in lengths if length >= SHORTEST_ANSWER)

    def admit(self, item: Item) -> Finished | None:
        """Starts an item in a free place; a text to read is finished at once.

        Too long a prompt is not started: None, and the place stays free.
        """
        place = self._slots.index(None)
        tokens = self._tokens(item)
        if not 1 < len(tokens) <= self._longest(item):
            return None
        rows = self._context.start(place, tokens)
        ids, values = self._keep(rows, np.full(len(tokens), place), np.arange(len(tokens)))
        slot = _Slot(item, tokens, len(tokens), np.random.default_rng(item.seed))
        self._slots[place] = slot
        if item.text:
            slot.prompt_length = 0
            return self._finish(place)
        self._draw([slot], ids[-1:], values[-1:])
        return None

    def _longest(self, item: Item) -> int:
        longest = self._context.longest_start
        return longest if item.text else min(longest, self._limits.prompt)

    def _tokens(self, item: Item) -> list[int]:
        """Of what is read or asked. A text of unusually many tokens is cut."""
        vocab = self._context.model.vocab
        if item.text:
            tokens = vocab.tokenize(item.text, add_special=True, parse_special=False)
            return tokens[: self._longest(item)]
        if item.opening:
            return prompt_tokens(vocab, self._begun(item.opening), ())
        return prompt_tokens(vocab, self._template.prompt(item.messages), ())

    def _begun(self, opening: str) -> PromptText:
        """A chat up to the first words of the user's message."""
        shown = self._template.prompt([Message("user", opening)])
        start = shown.text.rfind(opening)
        if start < 0:
            raise TemplateError("the model's chat template does not show the user's words")
        return shown.until(start + len(opening))

    def step(self) -> list[Finished]:
        """One token more in every document; returns those that are finished."""
        places = [place for place, slot in enumerate(self._slots) if slot is not None]
        slots = [slot for slot in self._slots if slot is not None]
        if not places:
            return []
        positions = np.array([self._context.lengths[place] for place in places])
        rows = self._context.step(places, [slot.tokens[-1] for slot in slots])
        ids, values = self._keep(rows, np.array(places), positions)
        finished = [place for place, slot in zip(places, slots, strict=True) if self._is_over(slot)]
        going = [index for index, place in enumerate(places) if place not in finished]
        if going:
            self._draw([slots[index] for index in going], ids[going], values[going])
        return [self._finish(place) for place in finished]

    def _is_over(self, slot: _Slot) -> bool:
        """Asked when the last token's row is there, so that the end of the text has one too."""
        return slot.ended or len(slot.tokens) - slot.prompt_length >= self._limits.answer

    def cut(self) -> list[Finished]:
        """Ends every document where it is; those that have hardly begun are dropped."""
        finished = []
        for place, slot in enumerate(self._slots):
            if slot is None:
                continue
            del slot.tokens[self._context.lengths[place] :]
            if len(slot.tokens) - slot.prompt_length >= SHORTEST_ANSWER:
                finished.append(self._finish(place))
            self._slots[place] = None
        return finished

    def _draw(
        self, slots: Sequence[_Slot], ids: NDArray[np.int32], values: NDArray[np.float32]
    ) -> None:
        column = np.zeros(len(slots), np.int64)
        sampled = [index for index, slot in enumerate(slots) if slot.item.temperature > 0]
        if sampled:
            uniform = np.array([slots[index].random.random() for index in sampled])
            temperature = np.array([slots[index].item.temperature for index in sampled])
            column[sampled] = draw_nucleus(values[sampled], temperature, SAMPLED_TOP_P, uniform)
        vocab = self._context.model.vocab
        for slot, token in zip(slots, ids[np.arange(len(slots)), column].tolist(), strict=True):
            slot.tokens.append(token)
            slot.ended = vocab.ends_generation(token)

    def _keep(
        self, rows: Rows, places: NDArray[np.int64], positions: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Stores the rows' features; returns ids and logits of the candidates [n, CANDIDATES]."""
        ids, values = largest(rows.logits, CANDIDATES)
        total = log_sum_exp(rows.logits, values[:, 0])
        buffers = self._buffers
        buffers.hidden[places, positions] = self._halved(rows.hidden)
        buffers.layers[places, positions] = self._halved(rows.layers)
        buffers.top_ids[places, positions] = ids[:, :LIKELIEST]
        buffers.top_logprobs[places, positions] = values[:, :LIKELIEST] - total[:, None]
        return ids, values

    def _halved(self, values: NDArray[np.float32]) -> NDArray[np.float16]:
        """Some layers have a few enormous values (heads read them through a norm)."""
        if max(values.max(), -values.min()) > _LARGEST_HALF:
            self._buffers.clipped += int((np.abs(values) > _LARGEST_HALF).sum())
            values = np.clip(values, -_LARGEST_HALF, _LARGEST_HALF)
        return values.astype(np.float16)

    def _finish(self, place: int) -> Finished:
        slot = self._slots[place]
        if slot is None:
            raise ValueError(f"place {place} is empty")
        self._slots[place] = None
        count = len(slot.tokens)
        buffers = self._buffers
        document = Document(
            slot.item.id,
            slot.item.category,
            slot.item.heldout,
            np.array(slot.tokens, np.int32),
            np.arange(count) >= slot.prompt_length,
            buffers.hidden[place, :count].copy(),
            buffers.layers[place, :count].copy(),
            buffers.top_ids[place, :count].copy(),
            buffers.top_logprobs[place, :count].copy(),
        )
        answer = slot.tokens[slot.prompt_length :]
        text = self._context.model.vocab.text_bytes(answer, special=False)
        return Finished(document, slot.item, text.decode(errors="replace"))
