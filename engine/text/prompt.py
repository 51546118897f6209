"""A request's prompt as tokens, keeping those of earlier turns as they were generated."""

from __future__ import annotations

from collections.abc import Sequence

from engine.data.errors import BadOptionError, ContextLengthError
from engine.data.events import Notice
from engine.data.request import GenerateRequest, Message
from engine.llama.context import Context
from engine.llama.vocab import Vocab
from engine.text.chat import ChatTemplate

_CONTINUATION_BYTES = range(0x80, 0xC0)


def build_prompt(
    request: GenerateRequest, template: ChatTemplate, context: Context, held: Sequence[int]
) -> tuple[list[int], tuple[Notice, ...]]:
    """The prompt's tokens. held: the tokens that the KV cache stands for.

    ContextLengthError when the history does not fit, unless the request asked to trim it: then
    the oldest messages go first, the system message and the last one stay.
    """
    vocab = context.model.vocab
    if request.raw_prompt is not None:
        tokens = vocab.tokenize(request.raw_prompt, add_special=True, parse_special=True)
        tokens.extend(request.continuation)
        _require_fit(tokens, context.length_limit, can_trim=False)
        return tokens, ()
    messages = list(request.messages)
    tokens = prompt_tokens(vocab, template.render(messages), held)
    tokens.extend(request.continuation)
    if len(tokens) < context.length_limit or request.overflow == "refuse":
        _require_fit(tokens, context.length_limit, can_trim=True)
        return tokens, ()
    return _trimmed(messages, template, context, request)


def _trimmed(
    messages: list[Message], template: ChatTemplate, context: Context, request: GenerateRequest
) -> tuple[list[int], tuple[Notice, ...]]:
    """Drops the oldest messages until a reply fits: max_tokens or a quarter of the context."""
    room = context.length_limit - min(request.max_tokens, context.length_limit // 4)
    first = 1 if messages[0].role == "system" else 0
    dropped = 0
    while True:
        text = template.render(messages)
        tokens = prompt_tokens(context.model.vocab, text, ())
        tokens.extend(request.continuation)
        if len(tokens) <= room or len(messages) <= first + 1:
            break
        # A chat starts with the user, so questions go together with their answers.
        count = 2 if len(messages) > first + 2 else 1
        del messages[first : first + count]
        dropped += count
    _require_fit(tokens, context.length_limit, can_trim=False)
    if not dropped:
        return tokens, ()
    what = "oldest message was" if dropped == 1 else f"{dropped} oldest messages were"
    return tokens, (Notice(f"the {what} left out: the chat is longer than the context"),)


def _require_fit(tokens: Sequence[int], limit: int, *, can_trim: bool) -> None:
    if not tokens:
        raise BadOptionError("the prompt is empty")
    if len(tokens) >= limit:
        advice = ", start a new chat, or let the oldest messages be left out"
        raise ContextLengthError(
            f"the prompt has {len(tokens):,} tokens, the context {limit:,}: "
            f"choose a larger context{advice if can_trim else ' or start a new chat'}"
        )


def prompt_tokens(vocab: Vocab, text: str, held: Sequence[int]) -> list[int]:
    """Tokens of `text`; where it starts with the text of `held` tokens, those are kept.

    A reply's own tokens need not be the ones its text would be cut into, so cutting the whole
    text again would lose the KV cache from there on. Cuts are made only behind control tokens,
    which the tokenizer never merges with their neighbours, and at the end of `held` when a
    control token follows.
    """
    data = text.encode(errors="replace")  # as the tokenizer does: half a surrogate has no bytes
    kept, kept_bytes = _common_boundary(vocab, data, held)
    if kept == 0:
        starts_with_bos = vocab.bos >= 0 and data.startswith(vocab.piece(vocab.bos, special=True))
        return vocab.tokenize(text, add_special=not starts_with_bos, parse_special=True)
    rest = data[kept_bytes:].decode()
    return [*held[:kept], *vocab.tokenize(rest, add_special=False, parse_special=True)]


def _common_boundary(vocab: Vocab, data: bytes, held: Sequence[int]) -> tuple[int, int]:
    """How many held tokens (and bytes of data) can be kept."""
    best = (0, 0)
    position = 0
    for index, token in enumerate(held):
        piece = vocab.piece(token, special=True)
        if index == 0 and token == vocab.bos and not data.startswith(piece):
            piece = b""  # added by the tokenizer, not part of the text
        if not data.startswith(piece, position):
            if _starts_with_control(vocab, data[position : position + 64]):
                return index, position  # the text goes on with another end of turn
            return best
        position += len(piece)
        if vocab.is_control(token):
            best = (index + 1, position)
    if _starts_with_control(vocab, data[position : position + 64]):
        best = (len(held), position)
    return best


def _starts_with_control(vocab: Vocab, data: bytes) -> bool:
    if not data or data[0] in _CONTINUATION_BYTES:
        return False  # in the middle of a character
    text = data.decode(errors="ignore")
    first = vocab.tokenize(text, add_special=False, parse_special=True)[:1]
    return bool(first) and vocab.is_control(first[0])
