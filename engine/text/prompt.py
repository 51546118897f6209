"""A request's prompt as tokens, keeping those of earlier turns as they were generated."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Protocol

from engine.data.errors import BadOptionError, ContextLengthError, StopRequested, TemplateError
from engine.data.events import Notice
from engine.data.prompt_size import PromptSize
from engine.data.request import GenerateRequest, Message
from engine.llama.model import Model
from engine.llama.vocab import Vocab
from engine.text.chat import ChatTemplate
from engine.text.prompt_text import PromptText
from engine.text.render_process import RenderStopped, never
from engine.text.tokenizer import Part, PromptTokenizer


class PromptContext(Protocol):
    """Where a prompt is to fit: a context, of which no more is asked."""

    @property
    def model(self) -> Model: ...

    @property
    def length_limit(self) -> int: ...


def build_prompt(
    request: GenerateRequest,
    template: ChatTemplate,
    context: PromptContext,
    held: Sequence[int],
    tokenizer: PromptTokenizer | None = None,
    cancelled: Callable[[], bool] = never,
) -> tuple[list[int], tuple[Notice, ...]]:
    """The prompt's tokens. held: the tokens that the KV cache stands for.

    ContextLengthError when the history does not fit, unless the request asked to trim it: then
    the oldest messages go first, the system message and the last one stay. StopRequested when
    cancelled, which is asked before every message that is new.
    """
    if request.raw_prompt is not None:
        tokens = context.model.vocab.tokenize(
            request.raw_prompt, add_special=True, parse_special=True
        )
        tokens.extend(request.continuation)
        _require_fit(tokens, context.length_limit, can_trim=False)
        return tokens, ()
    tokenizer = tokenizer or PromptTokenizer(context.model.vocab)
    builder = _Builder(request, template, tokenizer, cancelled)
    tokens = builder.tokens(request.messages, held)
    if len(tokens) < context.length_limit or request.overflow == "refuse":
        _require_fit(tokens, context.length_limit, can_trim=True)
        return tokens, ()
    return builder.trimmed(context.length_limit)


def prompt_size(
    request: GenerateRequest,
    template: ChatTemplate,
    context: PromptContext,
    held: Sequence[int],
    tokenizer: PromptTokenizer,
    cancelled: Callable[[], bool] = never,
) -> PromptSize:
    """What `build_prompt` would make of a request with messages, without the prompt itself."""
    limit = context.length_limit
    builder = _Builder(request, template, tokenizer, cancelled)
    tokens = builder.tokens(request.messages, held)
    try:
        if len(tokens) < limit or request.overflow == "refuse":
            _require_fit(tokens, limit, can_trim=True)
            return PromptSize(len(tokens), limit)
        dropped, _left = builder.cut(limit)
    except ContextLengthError as error:
        return PromptSize(len(tokens), limit, refused=str(error))
    return PromptSize(len(tokens), limit, dropped)


class _Builder:
    """One request's prompts: of all its messages, or of as many as fit."""

    def __init__(
        self,
        request: GenerateRequest,
        template: ChatTemplate,
        tokenizer: PromptTokenizer,
        cancelled: Callable[[], bool],
    ) -> None:
        self._request = request
        self._template = template
        self._tokenizer = tokenizer
        self._cancelled = cancelled

    def tokens(self, messages: Sequence[Message], held: Sequence[int]) -> list[int]:
        if self._cancelled():
            raise StopRequested
        try:
            told = self._template.variables(self._request.thinking, self._request.effort)
            prompt = self._template.prompt(messages, told, self._cancelled)
        except RenderStopped as error:
            raise StopRequested from error
        tokens = kept_tokens(self._tokenizer, prompt, held, self._cancelled)
        return [*tokens, *self._request.continuation]

    def trimmed(self, limit: int) -> tuple[list[int], tuple[Notice, ...]]:
        """The prompt without the oldest messages, and what is said of that."""
        dropped, tokens = self.cut(limit)
        if not dropped:
            return tokens, ()
        what = "oldest message was" if dropped == 1 else f"{dropped} oldest messages were"
        return tokens, (Notice(f"the {what} left out: the chat is longer than the context"),)

    def cut(self, limit: int) -> tuple[int, list[int]]:
        """How many of the oldest messages go until a reply fits (max_tokens or a quarter of the
        context), and the tokens of the rest.

        Fewer messages are fewer tokens, so the place of the cut is found by halving.
        """
        room = limit - self._request.longest_reply(limit // 4)
        cuts = _cuts(self._request.messages)

        def fits(cut: int) -> bool:
            """A chat that the template refuses is no reason to drop more."""
            try:
                return len(self.tokens(self._left(cut), ())) <= room
            except TemplateError:
                return True

        dropped = cuts[bisect_left(cuts[:-1], True, key=fits)]
        tokens = self.tokens(self._left(dropped), ())
        _require_fit(tokens, limit, can_trim=False)
        return dropped, tokens

    def _left(self, dropped: int) -> Sequence[Message]:
        messages = self._request.messages
        first = _first(messages)
        return (*messages[:first], *messages[first + dropped :])


def _first(messages: Sequence[Message]) -> int:
    """The oldest message that may go."""
    return 1 if messages[0].role == "system" else 0


def _cuts(messages: Sequence[Message]) -> list[int]:
    """How many messages may be dropped, least first.

    A chat starts with the user, so questions go together with their answers.
    """
    cuts = [0]
    left = len(messages) - _first(messages)
    while left > 1:
        count = 2 if left > 2 else 1
        cuts.append(cuts[-1] + count)
        left -= count
    return cuts


def _require_fit(tokens: Sequence[int], limit: int, *, can_trim: bool) -> None:
    if not tokens:
        raise BadOptionError("the prompt is empty")
    if len(tokens) >= limit:
        advice = ", start a new chat, or let the oldest messages be left out"
        raise ContextLengthError(
            f"the prompt has {len(tokens):,} tokens, the context {limit:,}: "
            f"choose a larger context{advice if can_trim else ' or start a new chat'}"
        )


def prompt_tokens(vocab: Vocab, prompt: PromptText | str, held: Sequence[int]) -> list[int]:
    """Tokens of a prompt, as `kept_tokens` has it. Of a plain string nothing was typed."""
    text = prompt if isinstance(prompt, PromptText) else PromptText(prompt)
    return kept_tokens(PromptTokenizer(vocab), text, held)


def kept_tokens(
    tokenizer: PromptTokenizer,
    prompt: PromptText,
    held: Sequence[int],
    cancelled: Callable[[], bool] = never,
) -> list[int]:
    """Tokens of a prompt; where it starts with the text of `held` tokens, those are kept.

    A reply's own tokens need not be the ones its text would be cut into, so cutting the whole
    text again would lose the KV cache from there on. Cuts are made only at control tokens, which
    the tokenizer never merges with their neighbours.
    """
    vocab = tokenizer.vocab
    parts = list(tokenizer.parts(prompt))
    kept, kept_bytes = _common_boundary(tokenizer, prompt, parts, held)
    if kept:
        first = bisect_left(parts, kept_bytes, key=lambda part: part.start)
        return [*held[:kept], *tokenizer.tokens(parts, first, cancelled)]
    tokens = tokenizer.tokens(parts, 0, cancelled)
    has_bos = bool(parts) and parts[0].token == vocab.bos
    return [vocab.bos, *tokens] if vocab.adds_bos and vocab.bos >= 0 and not has_bos else tokens


def _common_boundary(
    tokenizer: PromptTokenizer, prompt: PromptText, parts: Sequence[Part], held: Sequence[int]
) -> tuple[int, int]:
    """How many held tokens (and bytes of the prompt) can be kept.

    A control token is kept only where the template wrote one, other tokens only where it did not:
    the same bytes may have been typed.
    """
    vocab, data = tokenizer.vocab, prompt.text.encode(errors="replace")
    specials = [part for part in parts if part.token is not None]
    starts = {part.start for part in specials}
    begins = tokenizer.adds_space
    waiting = 0
    best = (0, 0)
    position = 0
    for index, token in enumerate(held):
        piece = vocab.piece(token, special=True)
        if begins and piece.startswith(b" ") and not data.startswith(piece, position):
            piece = piece[1:]  # the tokenizer's own space
        begins = tokenizer.adds_space and tokenizer.is_special(token)
        end = position + len(piece)
        while waiting < len(specials) and specials[waiting].start < position:
            waiting += 1
        following = specials[waiting] if waiting < len(specials) else None
        if tokenizer.is_special(token):
            is_next = position in starts
            is_same = is_next and following is not None and following.token == token
            if index == 0 and token == vocab.bos and not is_same:
                end = position  # added by the tokenizer, not part of the text
            elif not is_same:
                return (index, position) if is_next else best
            best = (index + 1, end)
        elif not data.startswith(piece, position):
            return (index, position) if position in starts else best
        elif following is not None and following.start < end:
            return (index, position) if position in starts else best
        position = end
    return (len(held), position) if position in starts else best
