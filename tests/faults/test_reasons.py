"""Failed native calls say what llama.cpp said, not that something failed."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llama_cpp import llama_cpp as native

from engine.data.errors import EngineError, ModelFileError, NativeError, RunError
from engine.data.folders import DataFolder
from engine.data.request import LoadRequest
from engine.files.gguf import inspect
from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.draft_layer import Eagle3Context
from engine.llama.ggml import Arena, CpuBackend
from engine.llama.library import Library
from engine.llama.log import LONGEST_REASON, NativeLog, cleaned_reason
from engine.llama.model import Model, ModelOptions
from engine.llama.quantize import requantize
from engine.process.client import EngineClient
from tests.engine.head_bench import Eagle3Bench
from tests.rewritten_gguf import Weights, rewrite_gguf
from tests.tiny_gguf import write_tiny_gguf

ERROR, CONTINUED = 4, 5


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


def with_nan(weights: Weights) -> Weights:
    values = weights.astype(np.float32)
    values.flat[3] = np.nan
    return values


def narrower(weights: Weights) -> Weights:
    return weights[:, :32].copy()


def unknown(_tiny: Path, folder: Path) -> Path:
    return write_tiny_gguf(folder / "unknown.gguf", architecture="nonsense")


def lacking(tiny: Path, folder: Path) -> Path:
    return rewrite_gguf(tiny, folder / "lacking.gguf", without=("blk.1.ffn_up.weight",))


def keyless(tiny: Path, folder: Path) -> Path:
    return rewrite_gguf(tiny, folder / "keyless.gguf", without=("llama.context_length",))


def invalid(tiny: Path, folder: Path) -> Path:
    changed = {"blk.1.ffn_up.weight": with_nan, "blk.0.attn_q.weight": with_nan}
    return rewrite_gguf(tiny, folder / "invalid.gguf", changed=changed)


def misshapen(tiny: Path, folder: Path) -> Path:
    changed = {"blk.0.attn_k.weight": narrower}
    return rewrite_gguf(tiny, folder / "misshapen.gguf", changed=changed)


def alone(tiny: Path, folder: Path) -> Path:
    numbers = {"split.count": 2, "split.no": 0}
    return rewrite_gguf(tiny, folder / "alone.gguf", numbers=numbers)


REFUSED: list[tuple[Callable[[Path, Path], Path], str]] = [
    (unknown, "unknown model architecture: 'nonsense'"),
    (lacking, "tensor 'blk.1.ffn_up.weight' not found"),
    (keyless, "key not found in model: llama.context_length"),
    (invalid, "tensor 'blk.0.attn_q.weight' has invalid data"),
    (misshapen, "tensor 'blk.0.attn_k.weight' has wrong shape"),
    (alone, "invalid split file name"),
]


@pytest.mark.parametrize(("make", "reason"), REFUSED, ids=[make.__name__ for make, _ in REFUSED])
def test_a_refused_model_says_why(
    tiny: Path,
    tmp_path: Path,
    library: Library,
    make: Callable[[Path, Path], Path],
    reason: str,
) -> None:
    path = make(tiny, tmp_path)
    with pytest.raises(ModelFileError) as told:
        Model(path, ModelOptions(), library.log)
    assert str(told.value).startswith(f"{path.name} could not be loaded: {reason}")
    assert "\n" not in str(told.value)


def test_the_reason_is_that_of_this_load(tiny: Path, tmp_path: Path, library: Library) -> None:
    for make, reason in (REFUSED[0], REFUSED[1], REFUSED[0]):
        with pytest.raises(ModelFileError, match=reason):
            Model(make(tiny, tmp_path), ModelOptions(), library.log)
    mark = library.log.mark()
    Model(tiny, ModelOptions(), library.log).close()
    assert library.log.reason(mark) == ""


def test_a_refused_copy_says_why(tiny: Path, tmp_path: Path, library: Library) -> None:
    source = unknown(tiny, tmp_path)
    with pytest.raises(RunError) as told:
        requantize(source, tmp_path / "copy.gguf", "Q8_0", library.log)
    assert str(told.value) == (
        "unknown.gguf could not be converted: unknown model architecture: 'nonsense'"
    )
    assert not (tmp_path / "copy.gguf").exists()


class FlashAttentionRefused(Context):
    """Asks for what llama.cpp cannot do: 4-bit values without its fused kernel."""

    def _params(self, params: native.llama_context_params, recurrent: bool) -> object:
        made = super()._params(params, recurrent)
        params.type_v = 2  # GGML_TYPE_Q4_0
        params.flash_attn_type = 0
        return made


def test_a_refused_context_says_why(tiny: Path, library: Library) -> None:
    with Model(tiny, ModelOptions(), library.log) as model:
        with pytest.raises(NativeError) as told:
            FlashAttentionRefused(model, ContextOptions(256, 16, 1), AbortFlag())
    message = str(told.value)
    assert message.startswith("a context of 256 tokens could not be made: ")
    assert "no memory" not in message
    assert "flash" in message.lower()
    assert message.endswith("; choose a smaller one")


class DraftLayerRefused(Eagle3Context):
    def _params(self, target: Context, threads: int, abort: AbortFlag) -> Any:
        made = super()._params(target, threads, abort)
        made.type_v, made.flash_attn_type = 2, 0
        return made


def test_a_refused_draft_layer_says_why(tmp_path: Path, library: Library) -> None:
    with Eagle3Bench(library, tmp_path, "llama") as bench:
        heads, _ = bench.heads()
        context = bench.context()
        with Model(heads, ModelOptions(), library.log) as model:
            with pytest.raises(NativeError) as told:
                DraftLayerRefused(model, context, 1, AbortFlag())
            decoder = Eagle3Context(model, context, 1, AbortFlag())
            with pytest.raises(NativeError, match="it does not know the token"):
                decoder.draft(999_999, np.zeros(decoder.hidden_size, np.float32))
            decoder.close()
    message = str(told.value)
    assert message.startswith("the drafter's context could not be made: ")
    assert "flash" in message.lower()


def test_refused_weights_of_heads_say_why(library: Library) -> None:
    assert NativeLog.connected is library.log
    backend = CpuBackend(1)
    arena = Arena(backend)
    arena.tensor("F32", (1 << 24, 1 << 20))
    with pytest.raises(NativeError) as told:
        arena.allocate()
    arena.close()
    backend.close()
    assert str(told.value).startswith("no memory for the weights of a drafter (llama.cpp: ")
    assert "allocate" in str(told.value)


def test_a_refused_pass_says_why(tiny: Path, library: Library) -> None:
    with Model(tiny, ModelOptions(), library.log) as model:
        with Context(model, ContextOptions(256, 16, 1), AbortFlag()) as context:
            with pytest.raises(NativeError, match=r"invalid token\[0\] = 999999"):
                context.extend([999_999])


def test_the_reason_crosses_the_process(tiny: Path, tmp_path: Path) -> None:
    client = EngineClient(DataFolder(tmp_path / "data"))
    try:
        with pytest.raises(EngineError, match=REFUSED[1][1]):
            client.load(LoadRequest(str(lacking(tiny, tmp_path)), context_length=256, threads=1))
        drafter = f"model:{lacking(tiny, tmp_path)}"
        request = LoadRequest(str(tiny), drafter, context_length=256, threads=1)
        with pytest.raises(EngineError, match=REFUSED[1][1]):
            client.load(request)
    finally:
        client.close()


# Lines of the log


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("llama_model_load: error loading model: unknown model architecture: 'x'",) * 1
        + ("unknown model architecture: 'x'",),
        ("f: error loading model vocabulary: cannot find tokenizer", "cannot find tokenizer"),
        ("check_tensor_dims: tensor 'a' not found", "tensor 'a' not found"),
        ("llama_model_quantize: failed to quantize: invalid output type", "invalid output type"),
        ("llama_model_load_from_file_impl: failed to load model", ""),
        ("error loading model: ", ""),
        ("", ""),
        ("a\x1b[31mred\x07\ttext\u202e here", "a [31mred text here"),
        ("key not found in model: llama.block_count",) * 2,
        ("Ns::Class::method(): went wrong", "went wrong"),
    ],
)
def test_lines_are_cleaned(line: str, reason: str) -> None:
    assert cleaned_reason(line) == reason


def test_a_reason_is_bounded() -> None:
    reason = cleaned_reason("load: " + "x" * 10_000)
    assert len(reason) == LONGEST_REASON
    assert reason.endswith("…")


def test_only_the_first_error_with_a_reason_counts() -> None:
    log = NativeLog()
    log.receive(ERROR, b"load: old trouble\n")
    mark = log.mark()
    assert log.reason(mark) == ""
    log.receive(3, b"load: only a warning\n")
    log.receive(ERROR, b"load: failed to load model\n")
    assert log.reason(mark) == ""
    log.receive(ERROR, b"load: tensor 'a' ")
    log.receive(CONTINUED, b"not found\nload: second\n")
    log.receive(ERROR, b"load: third\n")
    assert log.reason(mark) == "tensor 'a' not found"
    mark = log.mark()
    log.receive(ERROR, b"load: without an end \xff")
    assert log.reason(mark) == "without an end \N{REPLACEMENT CHARACTER}"
    assert log.take()[-1].level == logging.ERROR


# Parts of split models


def parts(tiny: Path, folder: Path, count: int = 3) -> list[Path]:
    made = []
    for number in range(count):
        made.append(
            rewrite_gguf(
                tiny,
                folder / f"big-{number + 1:05d}-of-{count:05d}.gguf",
                numbers={"split.count": count, "split.no": number},
                only_numbers=number > 0,
            )
        )
    return made


def test_a_later_part_names_the_first(tiny: Path, tmp_path: Path) -> None:
    first, second, third = parts(tiny, tmp_path)
    assert inspect(first).is_split
    for number, part in ((2, second), (3, third)):
        with pytest.raises(ModelFileError) as told:
            inspect(part)
        assert str(told.value) == (
            f"{part.name} is part {number} of 3 of a split model; load its part 1 instead: "
            "big-00001-of-00003.gguf"
        )
    first.unlink()
    with pytest.raises(ModelFileError, match=r"part 1, big-00001-of-00003\.gguf, is missing"):
        inspect(second)
    renamed = shutil.copy(second, tmp_path / "renamed.gguf")
    with pytest.raises(
        ModelFileError, match=r"renamed\.gguf is part 2 of 3 of a split model; load"
    ):
        inspect(Path(renamed))


def test_missing_parts_are_named(tiny: Path, tmp_path: Path) -> None:
    made = parts(tiny, tmp_path, 8)
    made[3].unlink()
    with pytest.raises(ModelFileError) as told:
        inspect(made[0])
    assert str(told.value) == (
        "big-00001-of-00008.gguf is split, and big-00004-of-00008.gguf is missing beside it; "
        "put all parts into one folder"
    )
    for part in made[4:]:
        part.unlink()
    with pytest.raises(ModelFileError) as told:
        inspect(made[0])
    assert (
        "big-00004-of-00008.gguf, big-00005-of-00008.gguf, big-00006-of-00008.gguf and 2 more are "
        "missing beside it" in str(told.value)
    )


def test_a_first_part_under_another_name_says_how_it_must_be_called(
    tiny: Path, tmp_path: Path
) -> None:
    with pytest.raises(ModelFileError, match=r"rename it to \S+-00001-of-00002\.gguf"):
        inspect(alone(tiny, tmp_path))
