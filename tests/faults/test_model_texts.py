"""Texts inside model files: long ones do not slow anything down, and none is obeyed."""

from __future__ import annotations

import json
import struct
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from engine.data.errors import ERROR_KINDS, ModelFileError
from engine.data.folders import DataFolder
from engine.data.request import LoadRequest
from engine.data.shown import LINE, NAME
from engine.files.checkpoint import read_config
from engine.files.gguf import inspect
from engine.files.safetensors_file import read_safetensors, write_safetensors
from engine.heads.folder import heads_folder
from engine.heads.medusa_file import read_medusa
from engine.models.catalogue import Catalogue
from engine.models.library import known_models
from engine.process.client import EngineClient
from tests.tiny_gguf import write_tiny_gguf

ESCAPES = "\x1b]0;title\x07\x1b[2J\x9b31m\r\n\u202eabc"


def test_a_name_of_a_megabyte_is_cut_and_cleaned(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path).ensure()
    write_tiny_gguf(folder.models / "long.gguf", name=ESCAPES + "x" * 1_000_000)
    model = next(one for one in known_models(Catalogue.load(folder), folder) if one.path)
    assert model.info is not None and model.info.name.isprintable()
    assert len(model.info.name) <= NAME and len(model.name) <= NAME + 20


def test_what_is_loaded_says_nothing_to_obey(tmp_path: Path) -> None:
    """llama.cpp writes the names of a file into its log, the commands and the page show that."""
    path = write_tiny_gguf(tmp_path / "red\x1b[31m.gguf", name=ESCAPES * 3, chat_template=ESCAPES)
    client = EngineClient(DataFolder(tmp_path / "data"))
    labels: list[str] = []
    try:
        loaded = client.load(LoadRequest(str(path), threads=1), lambda at: labels.append(at.label))
        assert loaded.target.description.isprintable() and loaded.target.id.isprintable()
        assert labels and all(label.isprintable() for label in labels)
        deadline = time.monotonic() + 20.0
        while not any("general.name" in line.text for line in client.log_lines()):
            assert time.monotonic() < deadline  # the log comes after, a few times a second
            threading.Event().wait(0.05)
        lines = client.log_lines()
        assert all(line.text.isprintable() and len(line.text) <= LINE for line in lines)
    finally:
        client.close()


@pytest.mark.parametrize(
    "key", ["general.architecture", "tokenizer.ggml.model", "tokenizer.ggml.pre"]
)
@pytest.mark.parametrize("value", ["\x1b[2J", "x" * 1_000, "ll\0ama", "a\nb"])
def test_words_of_llama_cpp_are_words(tmp_path: Path, key: str, value: str) -> None:
    path = tmp_path / "file.gguf"
    texts = {"general.architecture": "llama", key: value}
    keys = b"".join(
        _text(name) + struct.pack("<I", 8) + _text(text) for name, text in texts.items()
    )
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(texts)) + keys)
    with pytest.raises(ModelFileError, match=f"{key} has an impossible value") as raised:
        inspect(path)
    assert str(raised.value).isprintable()


def _text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


@pytest.mark.parametrize("kind", ERROR_KINDS.values(), ids=lambda kind: kind.__name__)
def test_every_error_is_one_safe_line(kind: type[Exception]) -> None:
    message = str(kind(f"{ESCAPES} caf\udce9 {'x' * 100_000} do this"))
    assert message.isprintable() and len(message) <= LINE and message.endswith("do this")
    message.encode()


def test_a_vocabulary_with_a_token_twice_is_refused(tmp_path: Path) -> None:
    """llama.cpp ends its process on it; here the engine goes on."""
    write_tiny_gguf(tmp_path / "twice.gguf", tokens=["a", "b", "b", *map(str, range(280))])
    path = write_tiny_gguf(tmp_path / "good.gguf")
    client = EngineClient(DataFolder(tmp_path / "data"))
    try:
        client.load(LoadRequest(str(path), threads=1))
        pid = client.pid
        with pytest.raises(ModelFileError, match="holds 'b' twice"):
            client.load(LoadRequest(str(tmp_path / "twice.gguf"), threads=1))
        assert client.pid == pid and client.loaded is not None
    finally:
        client.close()


HEADERS = [
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"a": {"dtype": "F32", "shape": [99999999999999999999999], "data_offsets": [0, 4]}}',
    b'{"a": {"dtype": "F32", "shape": [1e999], "data_offsets": [0, 4]}}',
    b'{"a": {"dtype": "F32", "shape": [true], "data_offsets": [0, 4]}}',
    b'{"a": {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 8]}}',
    b'{"\\ud83d": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}',
    b'{"a": 5}',
    b"5",
    b'"\xff"',
    "{}".encode("utf-16"),
]


@pytest.mark.parametrize("number", range(len(HEADERS)))
def test_headers_of_safetensors(tmp_path: Path, number: int) -> None:
    file = tmp_path / "medusa_lm_head.safetensors"
    header = HEADERS[number]
    file.write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 4)
    with pytest.raises(ModelFileError) as raised:
        read_safetensors(file)
    assert str(raised.value).isprintable()
    folder = heads_folder(tmp_path)
    assert folder is not None and folder.problem.isprintable() and folder.problem


CONFIGS = [b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5_000, b'{"a": 1e999}', b"\xff\xfe", b"[1]"]


@pytest.mark.parametrize("number", range(len(CONFIGS)))
def test_configs_of_heads(tmp_path: Path, number: int) -> None:
    (tmp_path / "config.json").write_bytes(CONFIGS[number])
    with pytest.raises(ModelFileError) as raised:
        read_config(tmp_path / "config.json")
    assert str(raised.value).isprintable()
    write_safetensors(tmp_path / "model.safetensors", {"fc.weight": np.zeros((2, 2), np.float32)})
    assert heads_folder(tmp_path) is None  # not known to be heads: not offered


def test_a_config_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b"\xef\xbb\xbf" + json.dumps({"a": 1}).encode())
    assert read_config(tmp_path / "config.json") == {"a": 1}


def test_a_base_model_s_name_beside_heads_may_be_anything(tmp_path: Path) -> None:
    weights = {
        "0.0.linear.weight": np.zeros((2, 2), np.float32),
        "0.0.linear.bias": np.zeros(2, np.float32),
        "0.1.weight": np.zeros((4, 2), np.float32),
    }
    write_safetensors(tmp_path / "medusa_lm_head.safetensors", weights)
    (tmp_path / "config.json").write_bytes(b'{"base_model_name_or_path": ["x"]}')
    assert read_medusa(tmp_path).base_model == ""
    (tmp_path / "config.json").write_bytes(b"[" * 100_000)
    with pytest.raises(ModelFileError, match="nested"):
        read_medusa(tmp_path)
