"""A context's KV cache: the text in sequence 0, and a tree's branches beside it for one pass.

The cache knows which tokens it holds, and every native answer is checked.
"""

from __future__ import annotations

from collections.abc import Sequence

from llama_cpp import llama_cpp as native

from engine.data.errors import NativeError
from engine.llama.kept_state import KeptState

_TEXT = 0


class KvCache:
    """window: of sliding-window attention, 0 for none. can_truncate: False if it cannot go back.
    kept: a state to go back to where it cannot be cut."""

    def __init__(self, memory: object, window: int) -> None:
        self._memory = memory
        self._window = window
        self.can_truncate = True
        self.kept: KeptState | None = None
        self.tokens: list[int] = []

    def common(self, tokens: Sequence[int]) -> int:
        """Length of the longest prefix that it shares with `tokens`."""
        common = 0
        for held, wanted in zip(self.tokens, tokens, strict=False):
            if held != wanted:
                break
            common += 1
        return common

    def may_cut_to(self, length: int) -> bool:
        """Sliding windows forget: the cells that the next token needs must still be there."""
        if not self.can_truncate:
            return False
        if self._window == 0:
            return True
        oldest = int(native.llama_memory_seq_pos_min(self._memory, _TEXT))
        return oldest <= max(0, length - self._window)

    def truncate(self, length: int) -> None:
        """Drops every token from `length` on; NativeError when the cache refuses."""
        if not self.cut(length):
            raise NativeError(f"the KV cache could not be cut back to {length} tokens")

    def cut(self, length: int) -> bool:
        """False when the cache refuses: a recurrent state goes back max_rollback tokens at most."""
        if length >= len(self.tokens):
            return True
        if not self.remove(_TEXT, length):
            return False
        self._went_back(length)
        return True

    def go_back(self, most: int) -> bool:
        """To the kept state, if that is of no more than `most` tokens. The cache must be cleared
        where this fails."""
        kept = self.kept
        if kept is None or not 0 < kept.length <= most:
            return False
        if not kept.restore() or not self.remove(_TEXT, kept.length):
            return False
        self._went_back(kept.length)
        return True

    def _went_back(self, length: int) -> None:
        del self.tokens[length:]
        if self.kept is not None:
            self.kept.cut(length)

    def clear(self) -> None:
        native.llama_memory_clear(self._memory, True)
        self.tokens.clear()
        if self.kept is not None:
            self.kept.clear()

    def remove(self, sequence: int, start: int) -> bool:
        """Cells of a sequence from position `start` on, whatever `tokens` says."""
        return bool(native.llama_memory_seq_rm(self._memory, sequence, start, -1))

    def branch(self, count: int) -> None:
        """Sequences 1 to count begin with the text."""
        for sequence in range(1, count + 1):
            native.llama_memory_seq_cp(self._memory, _TEXT, sequence, -1, -1)

    def keep_branch(self, sequence: int, tokens: Sequence[int]) -> None:
        """The branch's first tokens become the text's next ones; all branches go."""
        length = len(self.tokens) + len(tokens)
        if not self.remove(sequence, length):
            raise NativeError(f"the KV cache could not be cut back to {length} tokens")
        native.llama_memory_seq_keep(self._memory, sequence)
        native.llama_memory_seq_cp(self._memory, sequence, _TEXT, -1, -1)
        self.drop_branches()
        self.tokens.extend(tokens)

    def drop_branches(self) -> None:
        native.llama_memory_seq_keep(self._memory, _TEXT)

    def drop_pass(self) -> bool:
        """Back to the tokens it knows of, from a tree or an aborted pass; False if it refuses."""
        self.drop_branches()
        return self.remove(_TEXT, len(self.tokens))
