"""What a decoder layer needs beyond plain graphs: rotary positions, a KV cache, attention."""

from __future__ import annotations

import ctypes

from engine.llama.ggml import Arena, CpuBackend, Tensor
from engine.llama.ggml_api import POINTER, bind

_HALF_ROTATION = 2  # GGML_ROPE_TYPE_NEOX: value i turns with value i + width / 2
_BETA_FAST, _BETA_SLOW = 32.0, 1.0
_HALF_BYTES = 2


class AttentionArena(Arena):
    """An arena with the operations of attention. Caches must be allocated before it is."""

    def __init__(self, backend: CpuBackend) -> None:
        super().__init__(backend)
        size, integer, real = ctypes.c_size_t, ctypes.c_int64, ctypes.c_float
        self._concat = bind("ggml_concat", [POINTER, POINTER, POINTER, ctypes.c_int], POINTER)
        self._reshape_2d = bind("ggml_reshape_2d", [POINTER, POINTER, integer, integer], POINTER)
        self._reshape_3d = bind("ggml_reshape_3d", [POINTER, POINTER, *3 * [integer]], POINTER)
        self._view_3d = bind(
            "ggml_view_3d", [POINTER, POINTER, *3 * [integer], size, size, size], POINTER
        )
        self._permute = bind("ggml_permute", [POINTER, POINTER, *4 * [ctypes.c_int]], POINTER)
        self._set_rows = bind("ggml_set_rows", 4 * [POINTER], POINTER)
        self._rope = bind(
            "ggml_rope_ext", [*4 * [POINTER], *3 * [ctypes.c_int], *6 * [real]], POINTER
        )
        self._attend = bind("ggml_flash_attn_ext", [*5 * [POINTER], real, real, real], POINTER)

    def side_by_side(self, left: Tensor, right: Tensor) -> Tensor:
        """[n, a] and [n, b] to [n, a + b]."""
        _check(left.dtype == right.dtype == "F32" and left.shape[0] == right.shape[0], left, right)
        address = self._concat(self._take(), left.address, right.address, 0)
        return self._made(address, "F32", (left.shape[0], left.shape[1] + right.shape[1]))

    def heads(self, rows: Tensor, count: int) -> Tensor:
        """[n, count x width] as [n, count, width]."""
        width = rows.shape[1] // count
        _check(rows.dtype == "F32" and width * count == rows.shape[1], rows)
        address = self._reshape_3d(self._take(), rows.address, width, count, rows.shape[0])
        return self._made(address, "F32", (rows.shape[0], count, width))

    def joined(self, heads: Tensor) -> Tensor:
        """[n, count, width] as [n, count x width]."""
        rows, count, width = heads.shape
        address = self._reshape_2d(self._take(), heads.address, count * width, rows)
        return self._made(address, "F32", (rows, count * width))

    def rotated(self, heads: Tensor, positions: Tensor, base: float, scale: float) -> Tensor:
        """Rotary positions (arXiv 2104.09864) for [n, count, width]; positions [n] I32.

        scale: factor of the positions.
        """
        _check(positions.dtype == "I32" and positions.shape[0] == heads.shape[0], heads, positions)
        address = self._rope(
            self._take(), heads.address, positions.address, None, heads.shape[2], _HALF_ROTATION,
            0, base, scale, 0.0, 1.0, _BETA_FAST, _BETA_SLOW,
        )  # fmt: skip
        return self._made(address, "F32", heads.shape)

    def stored(self, cache: Tensor, rows: Tensor, cells: Tensor) -> Tensor:
        """The cache [cells, width] F16 after writing rows [n, width] at cells [n] I32.

        What reads the result runs after the writing; what reads `cache` may not.
        """
        _check(cache.dtype == "F16" and cache.shape[1] == rows.shape[1], cache, rows)
        _check(cells.dtype == "I32" and cells.shape[0] == rows.shape[0], rows, cells)
        address = self._set_rows(self._take(), cache.address, rows.address, cells.address)
        return self._made(address, "F16", cache.shape)

    def attention(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        """[n, heads, width] of query over the first cells of caches of fewer heads of this width.

        mask: [n, cells] F16, added to the scores: 0 or -inf.
        """
        rows, count, width = query.shape
        _check(mask.dtype == "F16" and mask.shape[0] == rows, query, mask)
        _check(keys.shape == values.shape and mask.shape[1] <= keys.shape[0], keys, mask)
        turned = self._made(
            self._permute(self._take(), query.address, 0, 2, 1, 3), "F32", (count, rows, width)
        )
        address = self._attend(
            self._take(),
            turned.address,
            self._first_cells(keys, mask.shape[1], width),
            self._first_cells(values, mask.shape[1], width),
            mask.address,
            width**-0.5,
            0.0,
            0.0,
        )
        return self._made(address, "F32", (rows, count, width))

    def _first_cells(self, cache: Tensor, cells: int, width: int) -> int:
        """Address of a view [heads, cells, width] of a cache [more cells, heads x width]."""
        row = cache.shape[1]
        _check(row % width == 0, cache)
        address = self._view_3d(
            self._take(), cache.address, width, cells, row // width,
            row * _HALF_BYTES, width * _HALF_BYTES, 0,
        )  # fmt: skip
        return self._made(address, "F16", (row // width, cells, width)).address


def _check(condition: bool, *tensors: Tensor) -> None:
    if not condition:
        shapes = ", ".join(f"{tensor.dtype} {tensor.shape}" for tensor in tensors)
        raise ValueError(f"tensors do not fit: {shapes}")
