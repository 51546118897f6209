"""Medusa checkpoints and containers: what is read, and what is refused."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.data.errors import IncompatiblePairError, ModelFileError
from engine.files.gguf import inspect
from engine.files.gguf_data import read_tensors
from engine.files.safetensors_file import read_safetensors
from engine.files.torch_file import read_torch
from engine.heads.medusa_file import (
    MedusaHeads,
    read_medusa,
    target_hash,
    trimmed,
    write_medusa,
)
from engine.heads.pairing import medusa_obstacle, require_medusa
from tests.engine.head_files import (
    Arrays,
    bfloat16,
    medusa_arrays,
    medusa_heads,
    write_safetensors,
    write_torch,
)
from tests.tiny_gguf import write_tiny_gguf

HIDDEN, ROWS = 32, 50
Write = Callable[[Path, Arrays], Path]
WRITERS: dict[str, Write] = {
    "medusa_lm_head.safetensors": write_safetensors,
    "medusa_lm_head.pt": write_torch,
}


def ones(*shape: int) -> NDArray[np.float32]:
    return np.ones(shape, np.float32)


def assert_same(heads: MedusaHeads, arrays: Arrays, blocks: int = 1) -> None:
    for number, head in enumerate(heads.heads):
        assert len(head.blocks) == blocks
        for layer, (weight, bias) in enumerate(head.blocks):
            assert (weight.floats() == arrays[f"{number}.{layer}.linear.weight"]).all()
            assert (bias.floats()[0] == arrays[f"{number}.{layer}.linear.bias"]).all()
        assert head.output is not None
        assert (head.output.floats() == arrays[f"{number}.{blocks}.weight"]).all()


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("prefix", ["", "medusa_head."])
def test_published_checkpoints(tmp_path: Path, name: str, blocks: int, prefix: str) -> None:
    arrays = medusa_arrays(HIDDEN, ROWS, heads=4, blocks=blocks)
    stored = {prefix + key: value for key, value in arrays.items()}
    if prefix:  # a whole model lies in the same file
        stored["model.embed_tokens.weight"] = np.ones((4, 4), np.float32)
    WRITERS[name](tmp_path / name, stored)
    config = {"medusa_num_heads": 2, "base_model_name_or_path": "someone/model"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    heads = read_medusa(tmp_path)
    assert len(heads.heads) == 4, "counted, not read from the config"
    assert (heads.hidden_size, heads.rows, heads.base_model) == (HIDDEN, ROWS, "someone/model")
    assert_same(heads, arrays, blocks)


@pytest.mark.parametrize("write", WRITERS.values(), ids=["safetensors", "torch"])
def test_half_precision(tmp_path: Path, write: Write) -> None:
    arrays = medusa_arrays(HIDDEN, ROWS)
    halves = {key: value.astype(np.float16) for key, value in arrays.items()}
    path = tmp_path / ("a.safetensors" if write is write_safetensors else "a.pt")
    assert_same(read_medusa(write(path, halves)), {k: v for k, v in halves.items()})
    short = {key: bfloat16(value) for key, value in arrays.items()}
    heads = read_medusa(write(path, short))
    output = heads.heads[0].output
    assert output is not None
    found = output.floats()
    assert output.dtype == "BF16"
    np.testing.assert_allclose(found, arrays["0.1.weight"], rtol=2**-7)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda a: a.pop("1.0.linear.bias"), "incomplete"),
        (lambda a: a.pop("0.1.weight"), "no|not hold"),
        (
            lambda a: a.update({"0.0.linear.weight": np.ones((3, 3), np.float32)}),
            "impossible shape",
        ),
        (lambda a: a.update({"2.1.weight": np.ones((9, HIDDEN), np.float32)}), "differ in size"),
        (lambda a: a.update({"fc.weight": np.ones((2, 2), np.float32)}), "no Medusa head has"),
        (lambda a: a.clear(), "does not hold Medusa heads"),
    ],
)
def test_other_tensors_are_refused(
    tmp_path: Path, spoil: Callable[[dict[str, NDArray[np.float32]]], object], message: str
) -> None:
    arrays = dict(medusa_arrays(HIDDEN, ROWS))
    spoil(arrays)
    with pytest.raises(ModelFileError, match=message):
        read_medusa(write_safetensors(tmp_path / "a.safetensors", arrays))


def test_a_folder_without_heads_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"medusa_lm_head\.safetensors"):
        read_medusa(tmp_path)


# Nothing in a file is run


def test_a_pickle_that_names_a_function_is_refused_and_not_run(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    text = f"touch {trace}"
    code = b"cos\nsystem\n(X" + len(text).to_bytes(4, "little") + text.encode() + b"tR0"
    path = write_torch(tmp_path / "a.pt", medusa_arrays(HIDDEN, ROWS), start=code)
    with pytest.raises(ModelFileError, match=r"os\.system, which is not allowed"):
        read_torch(path)
    assert not trace.exists()


@pytest.mark.parametrize(
    "code",
    [
        b"cbuiltins\neval\n0",
        b"ctorch\nload\n0",
        b"ccollections\nOrderedDict.fromkeys\n0",
        b"\x8c\x02os\x8c\x06system\x930",
        b"ctorch._utils\n_rebuild_tensor_v2\n(tR0",
        b"(X\x04\x00\x00\x00evilQ0",
    ],
)
def test_other_names_and_wrong_arguments_are_refused(tmp_path: Path, code: bytes) -> None:
    with pytest.raises(ModelFileError):
        read_torch(write_torch(tmp_path / "a.pt", medusa_arrays(HIDDEN, ROWS), start=code))


def test_compressed_and_foreign_archives_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    path.write_bytes(b"\x80\x02}q\x00.")
    with pytest.raises(ModelFileError, match="safetensors"):
        read_torch(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme", "nothing here")
    with pytest.raises(ModelFileError, match="not a torch checkpoint"):
        read_torch(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", b"\x80\x02}." * 100)
    with pytest.raises(ModelFileError, match="plain"):
        read_torch(path)


@given(place=st.integers(0, 10**6), value=st.integers(0, 255), cut=st.integers(0, 400))
@pytest.mark.parametrize("name", WRITERS)
def test_damage_costs_one_error_at_most(
    tmp_path_factory: pytest.TempPathFactory, name: str, place: int, value: int, cut: int
) -> None:
    path = tmp_path_factory.mktemp("damaged") / name
    WRITERS[name](path, medusa_arrays(4, 6, heads=1))
    data = bytearray(path.read_bytes())
    data[place % len(data)] = value
    path.write_bytes(data[: len(data) - cut % len(data)])
    try:
        read_safetensors(path) if path.suffix == ".safetensors" else read_torch(path)
    except ModelFileError as error:
        assert name in str(error)


# The container


def test_the_container_keeps_everything(tmp_path: Path) -> None:
    arrays = medusa_arrays(HIDDEN, ROWS)
    whole = medusa_heads(arrays)
    heads = trimmed(MedusaHeads(whole.heads, None, "abc", "someone/model"), np.arange(3, 40, 4))
    path = tmp_path / "heads.gguf"
    write_medusa(path, heads)
    again = read_medusa(path)
    assert (again.target_hash, again.base_model) == ("abc", "someone/model")
    assert again.token_ids is not None and again.token_ids.tolist() == list(range(3, 40, 4))
    kept = {k: v[3:40:4] if k.endswith(".1.weight") else v for k, v in arrays.items()}
    assert_same(again, kept)
    info = inspect(path)
    assert (info.needs, info.embedding_length) == ("Medusa", HIDDEN)
    assert list(tmp_path.iterdir()) == [path]
    assert set(read_tensors(path)) == {*arrays, "token_ids"}


def test_which_targets_heads_fit(tmp_path: Path) -> None:
    target = write_tiny_gguf(tmp_path / "target.gguf")
    info = inspect(target)
    fitting = medusa_heads(medusa_arrays(info.embedding_length, info.vocabulary_size))
    assert medusa_obstacle(info, fitting) == ""
    named = MedusaHeads(fitting.heads, target_hash=target_hash(info))
    assert medusa_obstacle(info, named) == ""
    other = MedusaHeads(fitting.heads, target_hash="0" * 32)
    assert medusa_obstacle(info, other) == "made for another model"
    wide = medusa_heads(medusa_arrays(2 * info.embedding_length, info.vocabulary_size))
    assert "hidden size" in medusa_obstacle(info, wide)
    short = medusa_heads(medusa_arrays(info.embedding_length, 20))
    assert "vocabulary" in medusa_obstacle(info, short)
    outside = MedusaHeads(trimmed(fitting, np.arange(2)).heads, np.array([1, 10_000]))
    assert "outside" in medusa_obstacle(info, outside)
    path = tmp_path / "wide.gguf"
    write_medusa(path, wide)
    with pytest.raises(IncompatiblePairError, match=r"wide\.gguf cannot draft for target\.gguf"):
        require_medusa(target, path)
