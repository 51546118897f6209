"""The whole interface with the scripted engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.services import Application
from engine.data.folders import DataFolder
from tests.app.page_side import WAIT, Page
from tests.fakes_engine import FakeEngine
from tests.fakes_models import FakeDownloads, FakeModels


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def application(engine: FakeEngine, tmp_path: Path) -> Iterator[Application]:
    built = Application(engine, FakeModels(), FakeDownloads(), DataFolder(tmp_path))
    built.load_last()
    built.services.loading.wait(WAIT)
    yield built
    built.close()


@pytest.fixture
def page(application: Application) -> Page:
    return Page(application)
