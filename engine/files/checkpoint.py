"""A model folder as published: config.json beside safetensors files or a torch checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.data.documents import DocumentError, parse_json
from engine.data.errors import ModelFileError
from engine.files.foreign_file import foreign_file
from engine.files.safetensors_file import read_safetensors
from engine.files.tensor_data import TensorData
from engine.files.torch_file import read_torch

_MAX_CONFIG = 1 << 22
CONFIG_NAME, TORCH_NAME = "config.json", "pytorch_model.bin"


def read_checkpoint(folder: Path) -> tuple[dict[str, Any], dict[str, TensorData]]:
    """The config and every tensor. Raises ModelFileError: missing, damaged."""
    config = read_config(folder / CONFIG_NAME)
    files = sorted(folder.glob("*.safetensors"))
    tensors: dict[str, TensorData] = {}
    for file in files:
        tensors.update(read_safetensors(file))
    if not files:
        if not (folder / TORCH_NAME).is_file():
            raise ModelFileError(f"{folder} holds neither safetensors files nor {TORCH_NAME}")
        tensors = read_torch(folder / TORCH_NAME)
    return config, tensors


def read_config(path: Path) -> dict[str, Any]:
    """Raises ModelFileError: missing, damaged."""
    try:
        with foreign_file(path), path.open("rb") as file:
            content = parse_json(file.read(_MAX_CONFIG))
    except DocumentError as error:
        raise ModelFileError(f"{path} {error}") from error
    if not isinstance(content, dict):
        raise ModelFileError(f"{path} is not a table")
    nested = content.get("transformer_layer_config")  # the speculators layout
    return {**content, **nested} if isinstance(nested, dict) else content


class Config:
    """Typed access to a config. ModelFileError names what is missing or of the wrong type."""

    def __init__(self, values: Mapping[str, Any], source: str) -> None:
        self._values = values
        self._source = source

    def integer(self, key: str, default: int | None = None) -> int:
        value = self._values.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ModelFileError(f"{self._source}: {key} is not a positive number")
        return value

    def number(self, key: str, default: float) -> float:
        value = self._values.get(key)
        if value is None:
            return default
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise ModelFileError(f"{self._source}: {key} is not a number")
        return float(value)

    def flag(self, key: str) -> bool:
        return self._values.get(key) is True

    def integers(self, key: str) -> tuple[int, ...]:
        """Empty when the key is missing."""
        value = self._values.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, int) for item in value):
            raise ModelFileError(f"{self._source}: {key} is not a list of numbers")
        return tuple(value)

    def text(self, key: str) -> str:
        value = self._values.get(key)
        return value if isinstance(value, str) else ""

    def table(self, key: str) -> Config | None:
        value = self._values.get(key)
        return Config(value, self._source) if isinstance(value, dict) else None
