"""GGUF headers: what they say, and that nothing in a damaged one does harm."""

from __future__ import annotations

import random
import struct
import tracemalloc
from pathlib import Path

import gguf
import pytest

from engine.data.errors import ModelFileError
from engine.files.gguf import GgufInfo, inspect
from engine.files.gguf_header import read_header
from engine.models.vocabulary import read_vocabulary
from tests.tiny_gguf import CHATML, CONTROL_TOKENS, TinyModel, write_tiny_gguf

U32, U64, I32, STRING, ARRAY = 4, 10, 5, 8, 9


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def key(name: str | bytes, kind: int, value: bytes) -> bytes:
    return text(name) + struct.pack("<I", kind) + value


def header(
    keys: list[bytes], tensors: list[bytes] | None = None, *, version: int = 3, tail: int = 0
) -> bytes:
    tensors = tensors or []
    counts = struct.pack("<IQQ", version, len(tensors), len(keys))
    return b"GGUF" + counts + b"".join(keys) + b"".join(tensors) + b"\0" * tail


ARCHITECTURE = key("general.architecture", STRING, text("llama"))


def tensor(name: str, shape: tuple[int, ...], kind: int = 0, offset: int = 0) -> bytes:
    dimensions = struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", n) for n in shape)
    return text(name) + dimensions + struct.pack("<IQ", kind, offset)


def written(folder: Path, content: bytes) -> Path:
    path = folder / "file.gguf"
    path.write_bytes(content)
    return path


def test_a_model_is_described_from_its_header(tiny: Path) -> None:
    info = inspect(tiny)
    model = TinyModel()
    tensors = gguf.GGUFReader(tiny).tensors
    assert info.parameters == sum(int(one.n_elements) for one in tensors)
    assert (info.architecture, info.name, info.quant) == ("llama", "Tiny", "F32")
    assert (info.context_length, info.block_count) == (model.context, model.layers)
    assert info.head_count == (model.heads,) * model.layers
    assert info.head_count_kv == (model.kv_heads,) * model.layers
    assert (info.key_length, info.value_length) == (16, 16)
    assert info.vocabulary_size == len(model.vocabulary()[0])
    assert info.chat_template == CHATML
    assert info.bytes == tiny.stat().st_size
    assert info.is_model and not info.is_split
    assert info.to_json()["is_model"] is True


def test_the_vocabulary_is_read_as_bytes(tiny: Path) -> None:
    vocabulary = read_vocabulary(tiny)
    texts, types = TinyModel().vocabulary()
    assert vocabulary.tokens == tuple(one.encode() for one in texts)
    assert vocabulary.types == tuple(types)
    assert vocabulary.eos == texts.index(CONTROL_TOKENS[0])
    assert vocabulary.eot == texts.index(CONTROL_TOKENS[2])
    assert vocabulary.add_bos is False


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "m.gguf", name="One")
    assert inspect(path).name == "One"
    write_tiny_gguf(path, name="Another")
    assert inspect(path).name == "Another"


def test_per_layer_heads_and_a_window(tmp_path: Path) -> None:
    keys = [
        key("general.architecture", STRING, text("gemma3")),
        key("gemma3.block_count", U32, struct.pack("<I", 12)),
        key("gemma3.embedding_length", U32, struct.pack("<I", 64)),
        key("gemma3.attention.head_count", U32, struct.pack("<I", 4)),
        key("gemma3.attention.sliding_window", U32, struct.pack("<I", 512)),
        key(
            "gemma3.attention.head_count_kv",
            ARRAY,
            struct.pack("<IQ", I32, 12) + struct.pack("<12i", *range(1, 13)),
        ),
    ]
    info = inspect(written(tmp_path, header(keys)))
    assert info.head_count_kv == tuple(range(1, 13))
    assert (info.sliding_window, info.full_layers) == (512, 2)


@pytest.mark.parametrize(
    ("architecture", "extra", "needs"),
    [
        ("llama", [], None),
        ("eagle3", [], "EAGLE-3"),
        ("clip", [], "an image projector"),
        ("nomic-bert", [], "an embedding model"),
        ("gemma-embedding", [], "an embedding model"),
        ("gemma4-assistant", [], "gemma4 assistant drafting"),
        ("qwen3", [key("qwen3.pooling_type", U32, struct.pack("<I", 3))], "an embedding model"),
        ("llama", [key("general.type", STRING, text("adapter"))], "an adapter (LoRA)"),
    ],
)
def test_files_that_are_not_plain_models_say_what_they_are(
    tmp_path: Path, architecture: str, extra: list[bytes], needs: str | None
) -> None:
    keys = [key("general.architecture", STRING, text(architecture)), *extra]
    assert inspect(written(tmp_path, header(keys))).needs == needs


def test_a_missing_file_type_gives_the_dominant_type(tmp_path: Path) -> None:
    tensors = [tensor("a", (32, 8), kind=8), tensor("b", (4,), offset=288)]
    assert inspect(written(tmp_path, header([ARCHITECTURE], tensors, tail=400))).quant == "Q8_0"


def test_split_models_are_summed(tmp_path: Path) -> None:
    split = key("split.count", 2, struct.pack("<H", 2))
    parts = [header([ARCHITECTURE, split], [tensor("a", (8,))], tail=n) for n in (64, 96)]
    for number, part in enumerate(parts, 1):
        (tmp_path / f"m-0000{number}-of-00002.gguf").write_bytes(part)
    first = tmp_path / "m-00001-of-00002.gguf"
    info = inspect(first)
    assert (info.is_split, info.parameters) == (True, 16)
    assert info.bytes == sum(len(part) for part in parts)
    (tmp_path / "m-00002-of-00002.gguf").unlink()
    inspect_again = tmp_path / "n-00001-of-00002.gguf"
    first.rename(inspect_again)
    with pytest.raises(ModelFileError, match=r"n-00002-of-00002\.gguf is missing"):
        inspect(inspect_again)


HUGE = 2**63
HOSTILE = {
    "empty": (b"", "is empty"),
    "not gguf": (b"PK\x03\x04 some zip file", "not a GGUF file"),
    "three bytes": (b"GGU", "not a GGUF file"),
    "old version": (header([], version=1), "version 1"),
    "big-endian": (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
    "tensor count": (b"GGUF" + struct.pack("<IQQ", 3, HUGE, 0), "do not fit"),
    "key count": (b"GGUF" + struct.pack("<IQQ", 3, 0, HUGE), "do not fit"),
    "key length": (header([struct.pack("<Q", HUGE)], tail=64), "does not fit"),
    "key not UTF-8": (header([key(b"\xff\xfe", U32, b"\0\0\0\0")]), "not UTF-8"),
    "value not UTF-8": (header([key("general.name", STRING, text(b"\xff"))]), "not UTF-8"),
    "duplicate key": (header([ARCHITECTURE, ARCHITECTURE]), "twice"),
    "unknown type": (header([key("a", 99, b"\0" * 8)]), "unknown type 99"),
    "unknown array type": (
        header([key("a", ARRAY, struct.pack("<IQ", 77, 1) + b"\0" * 8)]),
        "unknown type 77",
    ),
    "nested arrays": (header([key("a", ARRAY, struct.pack("<IQ", ARRAY, 1))], tail=64), "nested"),
    "array count": (
        header([key("a", ARRAY, struct.pack("<IQ", U64, HUGE // 8 + 1))], tail=64),
        "do not fit",
    ),
    "string array count": (
        header([key("a", ARRAY, struct.pack("<IQ", STRING, HUGE // 8 + 1))], tail=64),
        "do not fit",
    ),
    "string in array": (
        header([key("a", ARRAY, struct.pack("<IQQ", STRING, 2, HUGE))], tail=64),
        "does not fit",
    ),
    "no architecture": (header([]), "does not name its architecture"),
    "architecture is a number": (
        header([key("general.architecture", U32, b"\x01\0\0\0")]),
        "impossible value",
    ),
    "layers": (
        header([ARCHITECTURE, key("llama.block_count", U32, b"\xff\xff\xff\xff")]),
        "impossible value",
    ),
    "negative heads": (
        header(
            [
                ARCHITECTURE,
                key("llama.block_count", U32, b"\x01\0\0\0"),
                key("llama.attention.head_count", I32, struct.pack("<i", -4)),
            ]
        ),
        "impossible value",
    ),
    "alignment": (
        header([ARCHITECTURE, key("general.alignment", U32, struct.pack("<I", 3))]),
        "power of two",
    ),
    "tensor outside": (header([ARCHITECTURE], [tensor("a", (8,))]), "truncated"),
    "tensor offset": (header([ARCHITECTURE], [tensor("a", (8,), offset=HUGE)]), "truncated"),
    "tensor size": (
        header([ARCHITECTURE], [tensor("a", (HUGE, HUGE, HUGE, HUGE))]),
        "truncated",
    ),
    "tensor dimensions": (header([ARCHITECTURE], [tensor("a", (1,) * 9)]), "9 dimensions"),
    "tensor type": (header([ARCHITECTURE], [tensor("a", (8,), kind=4)]), "unknown type 4"),
    "tensor rows": (header([ARCHITECTURE], [tensor("a", (8,), kind=8)]), "not whole blocks"),
    "tensor twice": (
        header([ARCHITECTURE], [tensor("a", (1,)), tensor("a", (1,))], tail=64),
        "twice",
    ),
    "tensor name": (header([ARCHITECTURE], [tensor("a" * 5000, (1,))], tail=64), "bytes long"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_headers_are_one_plain_error(tmp_path: Path, name: str) -> None:
    content, words = HOSTILE[name]
    path = written(tmp_path, content)
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match=words) as caught:
            inspect(path)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    assert "\n" not in str(caught.value)


def test_what_is_not_a_file_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="cannot be read"):
        inspect(tmp_path / "none.gguf")
    with pytest.raises(ModelFileError, match="not a file"):
        inspect(tmp_path)
    with pytest.raises(ModelFileError, match="no vocabulary"):
        read_vocabulary(written(tmp_path, header([ARCHITECTURE])))


@pytest.mark.parametrize("seed", range(100))
def test_truncations_are_never_a_model(tiny: Path, tmp_path: Path, seed: int) -> None:
    content = tiny.read_bytes()
    length = random.Random(seed).randrange(len(content))
    with pytest.raises(ModelFileError):
        inspect(written(tmp_path, content[:length]))


@pytest.mark.parametrize("seed", range(100))
def test_bit_flips_are_a_model_or_one_error(tiny: Path, tmp_path: Path, seed: int) -> None:
    content = bytearray(tiny.read_bytes())
    header_bytes = 9000  # flips among the weights change nothing that is read here
    places = random.Random(seed)
    for _ in range(places.randrange(1, 9)):
        content[places.randrange(header_bytes)] ^= 1 << places.randrange(8)
    path = written(tmp_path, bytes(content))
    for read in (inspect, read_vocabulary):
        try:
            read(path)
        except ModelFileError as error:
            assert path.name in str(error)


def test_long_headers_cross_the_window(tmp_path: Path) -> None:
    """More header than one read brings in, with a string over each boundary."""
    words = [f"word {number} {'x' * 50}" for number in range(100_000)]
    writer = gguf.GGUFWriter(tmp_path / "long.gguf", "llama")
    writer.add_token_list(words)
    writer.add_token_scores([0.0] * len(words))
    writer.add_name("Long")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    assert inspect(tmp_path / "long.gguf").name == "Long"
    kept = read_header(tmp_path / "long.gguf", keep=("tokenizer.ggml.tokens",))
    assert kept.metadata["tokenizer.ggml.tokens"] == tuple(word.encode() for word in words)
    assert "tokenizer.ggml.scores" not in kept.metadata
    assert kept.lengths["tokenizer.ggml.scores"] == len(words)


def test_info_is_plain_data(tiny: Path) -> None:
    info = inspect(tiny)
    rebuilt = {name: value for name, value in info.to_json().items() if name != "is_model"}
    assert GgufInfo(**rebuilt) == info
