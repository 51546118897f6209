"""The starter model and llama.cpp, shared by the tests that need them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.data.folders import DataFolder, default_data_folder
from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.library import Library
from engine.llama.model import Model, ModelOptions
from engine.models.catalogue import Catalogue
from engine.models.locate import locate
from engine.process.client import EngineClient

THREADS = 1
"""llama.cpp's threads spin, so more of them are slower wherever something else runs."""


@pytest.fixture(scope="session")
def starter_path() -> Path:
    """The starter's file. A test that needs it fails where it was not fetched."""
    folder = default_data_folder()
    return locate("starter", Catalogue.load(folder), folder).path


@pytest.fixture(scope="module")
def starter(starter_path: Path, library: Library) -> Iterator[Model]:
    with Model(starter_path, ModelOptions(), library.log) as model:
        yield model


@pytest.fixture(scope="module")
def starter_context(starter: Model) -> Iterator[Context]:
    """Room for trees; every test clears it or states what it starts from."""
    options = ContextOptions(512, 65, THREADS, max_leaves=8, flash_attention=True)
    with Context(starter, options, AbortFlag()) as context:
        yield context


@pytest.fixture
def client(tmp_path: Path) -> Iterator[EngineClient]:
    """An engine process of its own, in an empty data folder."""
    client = EngineClient(DataFolder(tmp_path / "data"))
    yield client
    client.close()
