"""Text that knows which of its characters were typed, whatever a template does with it.

A chat template writes control tokens such as "<|im_start|>" as text, and puts what people typed
between them. Afterwards nobody could tell a control token of the template from the same characters
in a message, so every character carries a mark. It fails safe: what cannot be followed counts as
typed altogether, and typed text never becomes a control token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import index
from typing import Any, SupportsIndex, cast

OWN = "."
TYPED = "x"

FIRST_STAND_IN = 0x100000
"""The first of the characters that stand for a value: for private use, so rare in texts."""


class Marked(str):
    """A string with one mark a character, OWN (the template's) or TYPED.

    Methods that are not here give plain strings, which `followed` turns into typed text.
    """

    marks: str

    def __new__(cls, text: str, marks: str | None = None) -> Marked:
        """Without marks all of it was typed."""
        made = super().__new__(cls, text)
        made.marks = TYPED * len(made) if marks is None else marks
        return made

    @property
    def is_own(self) -> bool:
        return TYPED not in self.marks

    def _part(self, start: int, end: int) -> Marked:
        return Marked(plain(self)[start:end], self.marks[start:end])

    def _changed(self, text: str) -> Marked:
        """The same characters in another case; where their number differs it is not followed."""
        if len(text) == len(self):
            return Marked(text, self.marks)
        return followed(text, self.is_own)

    def __str__(self) -> str:
        return self

    def __add__(self, other: str) -> Marked:
        if not isinstance(other, str):
            return NotImplemented
        return Marked(plain(self) + plain(other), self.marks + marks_of(other))

    def __radd__(self, other: str) -> Marked:
        return Marked(plain(other) + plain(self), marks_of(other) + self.marks)

    def __mul__(self, count: SupportsIndex) -> Marked:
        return Marked(plain(self) * count, self.marks * count)

    __rmul__ = __mul__

    def __mod__(self, values: Any) -> Marked:
        """ "%s" and its kin."""
        if isinstance(values, Mapping):
            return filled(self, lambda _, named: plain(self) % named, (), values)
        several = isinstance(values, tuple)

        def fill(args: Sequence[Any], _named: Mapping[str, Any]) -> str:
            return plain(self) % (tuple(args) if several else args[0])

        return filled(self, fill, values if several else (values,), {})

    def __getitem__(self, key: SupportsIndex | slice) -> Marked:
        return Marked(plain(self)[key], self.marks[key])

    def __iter__(self) -> Iterator[str]:
        return map(Marked, plain(self), self.marks)

    def upper(self) -> Marked:
        return self._changed(plain(self).upper())

    def lower(self) -> Marked:
        return self._changed(plain(self).lower())

    def casefold(self) -> Marked:
        return self._changed(plain(self).casefold())

    def capitalize(self) -> Marked:
        return self._changed(plain(self).capitalize())

    def title(self) -> Marked:
        return self._changed(plain(self).title())

    def swapcase(self) -> Marked:
        return self._changed(plain(self).swapcase())

    def lstrip(self, chars: str | None = None) -> Marked:
        return self._part(len(self) - len(plain(self).lstrip(chars)), len(self))

    def rstrip(self, chars: str | None = None) -> Marked:
        return self._part(0, len(plain(self).rstrip(chars)))

    def strip(self, chars: str | None = None) -> Marked:
        return self.lstrip(chars).rstrip(chars)

    def removeprefix(self, prefix: str) -> Marked:
        return self._part(len(self) - len(plain(self).removeprefix(prefix)), len(self))

    def removesuffix(self, suffix: str) -> Marked:
        return self._part(0, len(plain(self).removesuffix(suffix)))

    def ljust(self, width: SupportsIndex, fill: str = " ") -> Marked:
        return self + self._padding(width, fill)

    def rjust(self, width: SupportsIndex, fill: str = " ") -> Marked:
        return self._padding(width, fill) + self

    def center(self, width: SupportsIndex, fill: str = " ") -> Marked:
        padding = self._padding(width, fill)
        # Python gives an odd character to the left where the width is odd, too.
        left = len(padding) // 2 + (len(padding) & index(width) & 1)
        return padding[:left] + self + padding[left:]

    def _padding(self, width: SupportsIndex, fill: str) -> Marked:
        if len(fill) != 1:
            raise TypeError("the fill character must be exactly one character long")
        return marked(fill) * (index(width) - len(self))

    def join(self, pieces: Iterable[str]) -> Marked:
        found: list[str] = []
        for piece in pieces:
            found += [self, piece] if found else [piece]
        return marked(joined(found))

    def _located(self, pieces: Sequence[str]) -> list[str]:
        """Pieces that stand in this text in this order."""
        parts, position = [], 0
        for piece in pieces:
            position = plain(self).index(piece, position)
            parts.append(self._part(position, position + len(piece)))
            position += len(piece)
        return cast(list[str], parts)

    def _apart(self, pieces: Sequence[str], gap: int) -> list[str]:
        """Pieces that fill this text but for gaps of one length."""
        parts, position = [], 0
        for piece in pieces:
            parts.append(self._part(position, position + len(piece)))
            position += len(piece) + gap
        return cast(list[str], parts)

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        pieces = plain(self).split(sep, maxsplit)
        return self._located(pieces) if sep is None else self._apart(pieces, len(sep))

    def rsplit(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        pieces = plain(self).rsplit(sep, maxsplit)
        return self._located(pieces) if sep is None else self._apart(pieces, len(sep))

    def splitlines(self, keepends: bool = False) -> list[str]:
        lines = self._apart(plain(self).splitlines(keepends=True), 0)
        if keepends:
            return lines
        lengths = map(len, plain(self).splitlines())
        return [line[:length] for line, length in zip(lines, lengths, strict=True)]

    def partition(self, sep: str) -> tuple[str, str, str]:
        before, middle, after = self._apart(plain(self).partition(sep), 0)
        return before, middle, after

    def rpartition(self, sep: str) -> tuple[str, str, str]:
        before, middle, after = self._apart(plain(self).rpartition(sep), 0)
        return before, middle, after

    def replace(self, old: str, new: str, count: SupportsIndex = -1) -> Marked:
        if not old:
            own = self.is_own and marked(new).is_own
            return followed(plain(self).replace(old, plain(new), count), own)
        return marked(new).join(self.split(old, count))


def plain(text: str) -> str:
    """Exactly a str, so that its methods are Python's own."""
    return "".join((text,)) if type(text) is not str else text


def marks_of(text: str) -> str:
    return text.marks if isinstance(text, Marked) else OWN * len(text)


def marked(text: str) -> Marked:
    """A plain string is the template's own."""
    return text if isinstance(text, Marked) else Marked(text, OWN * len(text))


def followed(text: str, own: bool) -> Marked:
    """A string whose characters could not be followed one by one."""
    return Marked(plain(text), (OWN if own else TYPED) * len(text))


def joined(pieces: Iterable[str]) -> str:
    """ "".join, plain as long as nothing marked is in it."""
    found = list(pieces)
    text = "".join(found)
    if not any(isinstance(piece, Marked) for piece in found):
        return text
    return Marked(text, "".join(map(marks_of, found)))


def as_text(value: Any) -> str:
    """What a template shows of a value. Only strings and numbers are followed into it."""
    if isinstance(value, Marked) or type(value) is str:
        return value
    return followed(str(value), own=value is None or isinstance(value, (int, float)))


def filled(
    pattern: Marked,
    fill: Callable[[Sequence[Any], Mapping[str, Any]], str],
    values: Sequence[Any],
    named: Mapping[str, Any],
) -> Marked:
    """A pattern with values put in by `fill`.

    Each value is put in as one character that stands for it; what then comes out must be the same
    text, or all of it counts as typed.
    """
    text = plain(fill(values, named))
    everything = [*values, *named.values()]
    known = all(value is None or isinstance(value, (str, int, float)) for value in everything)
    if not pattern.is_own or not known:
        return followed(text, own=False)
    stand_ins: dict[str, str] = {}

    def stand_in(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        character = chr(FIRST_STAND_IN + len(stand_ins))
        stand_ins[character] = value
        return character

    args = [stand_in(value) for value in values]
    names = {name: stand_in(value) for name, value in named.items()}
    shape = plain(fill(args, names))
    result = joined(stand_ins.get(character, character) for character in shape)
    own = all(marked(value).is_own for value in everything if isinstance(value, str))
    return marked(result) if plain(result) == text else followed(text, own)
