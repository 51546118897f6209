"""Files that others wrote, damaged on purpose: a reader takes them or says that it cannot."""

from __future__ import annotations

import json
import pickle
import random
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.data.errors import EngineError, ModelFileError
from engine.files.checkpoint import read_checkpoint
from engine.files.foreign_file import foreign_file
from engine.files.gguf import inspect
from engine.files.gguf_data import read_tensors
from engine.files.gguf_types import TOKEN_BYTE
from engine.files.safetensors_file import read_safetensors
from engine.files.torch_file import read_torch
from engine.heads.eagle_file import read_eagle
from engine.heads.folder import heads_folder
from engine.heads.medusa_file import read_medusa, write_medusa
from engine.models.token_map import token_map
from engine.models.vocabulary import read_vocabulary
from tests.engine.head_files import medusa_arrays, medusa_heads, write_safetensors, write_torch
from tests.tiny_gguf import write_tiny_gguf

Read = Callable[[Path], Any]
HIDDEN, ROWS = 8, 16


def outcome(read: Read, path: Path) -> str:
    """Anything but these two fails the test by itself."""
    try:
        read(path)
    except ModelFileError:
        return "refused"
    return "read"


def torch_file(path: Path, start: bytes = b"") -> Path:
    return write_torch(path, medusa_arrays(HIDDEN, ROWS, heads=1), start)


# Archives


def test_every_byte_of_an_archives_directory_may_be_odd(tmp_path: Path) -> None:
    """Among them the flags for encryption, unknown methods and versions."""
    data = torch_file(tmp_path / "good.pt").read_bytes()
    directory = data.index(b"PK\x01\x02")
    path = tmp_path / "medusa_lm_head.pt"
    seen: Counter[str] = Counter()
    for place in range(directory, len(data)):
        for value in (0x00, 0x01, 0x41, 0xFF):
            path.write_bytes(data[:place] + bytes([value]) + data[place + 1 :])
            seen[outcome(read_torch, path)] += 1
    assert seen["read"] > 50 and seen["refused"] > 200


@pytest.mark.parametrize(
    ("offset", "value", "what"),
    [(8, 0x01, "encrypted"), (8, 0x20, "patched data"), (8, 0x40, "strong encryption")],
)
def test_odd_flags_are_refused(tmp_path: Path, offset: int, value: int, what: str) -> None:
    data = bytearray(torch_file(tmp_path / "medusa_lm_head.pt").read_bytes())
    entry = data.index(b"PK\x01\x02")
    data[entry + offset] |= value
    (tmp_path / "medusa_lm_head.pt").write_bytes(data)
    with pytest.raises(ModelFileError):
        read_medusa(tmp_path)


def nested(depth: int) -> bytes:
    """A tuple of a tuple of ... twice each: 2 to the power of `depth` parts in a few bytes."""
    return b")" + b"".join(b"2\x86" for _ in range(depth))


@pytest.mark.parametrize(
    "code",
    [
        b"}" + nested(60) + b"K\x01s0",
        b"}(" + nested(60) + b"K\x01u0",
        b"(" + nested(60) + b"K\x01d0",
        b"\x8f(" + nested(60) + b"\x900",
        b"(" + nested(60) + b"\x910",
        b"ccollections\nOrderedDict\n(](" + nested(60) + b"K\x01\x86etR0",
        b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\n"
        + nested(60)
        + b"X\x00\x00\x00\x00K\x01tQ0",
    ],
)
def test_a_pickle_that_would_never_end_is_refused_at_once(tmp_path: Path, code: bytes) -> None:
    path = torch_file(tmp_path / "x.pt", code)
    begun = time.monotonic()
    assert outcome(read_torch, path) == "refused"
    assert time.monotonic() - begun < 30.0, "it would take days"


def test_a_pickle_larger_than_any_table_of_tensors_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", b"N0" * (1 << 22) + b"}.")
    assert outcome(read_torch, path) == "refused"


# Headers and configs

ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1 << 64, 1 << 5000, 1e308, float("nan"), float("inf"), "", "x", "\ud800", [],
    [[]], {}, {"a": 1}, [1 << 70], [-1, -1], ["x"], [None] * 3,
)  # fmt: skip


def dumped(value: Any) -> bytes:
    """JSON, also of numbers with more digits than Python prints."""
    text = json.dumps(value if value != 1 << 5000 else "BIG")
    return text.replace('"BIG"', "1" + "0" * 6000).encode()


@pytest.mark.parametrize("odd", ODD, ids=lambda value: type(value).__name__)
def test_odd_entries_of_a_safetensors_header(tmp_path: Path, odd: Any) -> None:
    path = write_safetensors(tmp_path / "x.safetensors", medusa_arrays(HIDDEN, ROWS, heads=1))
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    name = "0.1.weight"
    for key in ("dtype", "shape", "data_offsets"):
        text = json.dumps(header | {name: header[name] | {key: "ODD"}}).encode()
        text = text.replace(b'"ODD"', dumped(odd))
        path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])
        outcome(read_safetensors, path)
    text = dumped(odd)
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    assert outcome(read_safetensors, path) == "refused" or odd in ({}, []) or odd == {"a": 1}


@pytest.mark.parametrize("odd", ODD, ids=lambda value: type(value).__name__)
def test_odd_values_of_a_config(tmp_path: Path, odd: Any) -> None:
    write_safetensors(tmp_path / "model.safetensors", medusa_arrays(HIDDEN, ROWS, heads=1))
    good = {
        "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": 16,
        "rope_parameters": {"rope_theta": 1e4, "factor": 2.0, "rope_type": "linear"},
    }  # fmt: skip
    for key in (*good, "head_dim", "rms_norm_eps", "num_hidden_layers", "rope_scaling"):
        text = json.dumps(good | {key: "ODD"}).encode().replace(b'"ODD"', dumped(odd))
        (tmp_path / "config.json").write_bytes(text)
        assert outcome(read_eagle, tmp_path) == "refused"
        heads_folder(tmp_path)
    for text in (dumped(odd), b"[" * 200_000, b"\xff\xfe", b""):
        (tmp_path / "config.json").write_bytes(text)
        assert outcome(read_checkpoint, tmp_path) in ("read", "refused")


def test_byte_tokens_that_are_no_bytes_are_in_no_map(tmp_path: Path) -> None:
    good = write_tiny_gguf(tmp_path / "good.gguf")
    data = bytearray(good.read_bytes())
    key = b"tokenizer.ggml.token_type"
    first = data.index(key) + len(key) + 16  # behind two types and a count
    data[first : first + 4] = TOKEN_BYTE.to_bytes(4, "little")
    odd = tmp_path / "odd.gguf"
    odd.write_bytes(data)
    pairs = token_map(good, odd)
    assert pairs.to_drafter[0] == -1 and 0 not in pairs.drafter_ids
    assert pairs.shared == token_map(good, good).shared - 1


# Anything


def seeds(folder: Path) -> dict[str, tuple[Path, list[Read]]]:
    """A good file of every kind, and what reads it."""
    arrays = medusa_arrays(HIDDEN, ROWS, heads=1)
    container = folder / "heads.gguf"
    write_medusa(container, medusa_heads(arrays, heads=1))
    return {
        "torch": (torch_file(folder / "a.pt"), [read_torch, read_medusa]),
        "safetensors": (
            write_safetensors(folder / "a.safetensors", arrays),
            [read_safetensors, read_medusa],
        ),
        "container": (container, [read_medusa, read_tensors, inspect]),
        "model": (
            write_tiny_gguf(folder / "m.gguf", hidden=32, feed_forward=64, layers=1),
            [inspect, read_vocabulary, read_tensors],
        ),
    }


def mutated(data: bytes, chance: random.Random) -> bytes:
    content = bytearray(data)
    reach = min(len(content), chance.choice([200, 4000, len(content)]))
    from_end = chance.random() < 0.3
    for _ in range(chance.randint(1, 6)):
        place = chance.randrange(reach)
        content[len(content) - 1 - place if from_end else place] = chance.choice(
            [0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)]
        )
    if chance.random() < 0.2:
        del content[chance.randrange(len(content)) :]
    return bytes(content)


def campaign(folder: Path, count: int) -> Counter[str]:
    seen: Counter[str] = Counter()
    chance = random.Random(5)
    for kind, (good, reads) in seeds(folder).items():
        data = good.read_bytes()
        path = folder / f"mutated{good.suffix}"
        for _ in range(count):
            path.write_bytes(mutated(data, chance))
            for read in reads:
                seen[f"{kind}: {outcome(read, path)}"] += 1
    return seen


def test_mutated_files(tmp_path: Path) -> None:
    seen = campaign(tmp_path, 150)
    assert all(seen[f"{kind}: refused"] > 20 for kind in ("torch", "safetensors", "container"))


@pytest.mark.slow
def test_many_mutated_files(tmp_path: Path) -> None:
    seen = campaign(tmp_path, 5_000)
    print(f"\n{seen.total():,} readings of mutated files")
    for what, count in sorted(seen.items()):
        print(f"{what:24} {count:6,}")


@pytest.mark.parametrize(
    "error",
    [
        NotImplementedError("method"), RuntimeError("encrypted"), RecursionError(), MemoryError(),
        OverflowError("size"), ZeroDivisionError(), KeyError("x"),
        UnicodeDecodeError("x", b"", 0, 0, ""),
        pickle.PicklingError(), zipfile.BadZipFile(), OSError(5, "broken"),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_the_border_names_the_file(error: Exception) -> None:
    with pytest.raises(ModelFileError, match=r"x\.gguf"), foreign_file(Path("x.gguf")):
        raise error


def test_the_border_leaves_own_errors_alone() -> None:
    with pytest.raises(EngineError, match=r"^mine$"), foreign_file(Path("x.gguf")):
        raise ModelFileError("mine")
