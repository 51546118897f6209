"""The shape of the code: each rule holds, and each rule catches what it is meant to catch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import architecture_rules as rules

ROOT = Path(__file__).resolve().parent.parent
MODULES = rules.read_modules(ROOT, ("engine", "app", "setup"))
ENGINE = [module for module in MODULES if module.top == "engine"]
TEXT = {".py", ".md", ".toml", ".js", ".mjs", ".css", ".html", ".json", ".jsonl", ".yaml", ".yml"}
GENERATED = {"node_modules", "build", "dist", "__pycache__"}


def text_files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        generated = path.name in GENERATED or path.name.endswith(".egg-info")
        if path.is_dir():
            if not generated and (not path.name.startswith(".") or path.name in (".ci", ".github")):
                yield from text_files(path)
        elif path.name != ".git" and (path.suffix in TEXT or not path.suffix):
            yield path


def test_the_scan_sees_the_code() -> None:
    names = {module.name for module in MODULES}
    assert {"engine", "engine.maths.acceptance", "engine.cli", "app", "setup.main"} <= names
    assert ROOT / "start.py" in set(text_files(ROOT))
    assert ROOT / "LICENSE" in set(text_files(ROOT))


@pytest.mark.parametrize(
    "rule",
    [rules.boundaries, rules.floors, rules.import_forms, rules.sizes, rules.docstrings],
)
def test_every_module_keeps(rule: rules.Rule) -> None:
    assert [violation for module in MODULES for violation in rule(module)] == []


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("engine.llama.log", "from engine.serving.session import Session"),
        ("engine.control.cost", "from engine.drafters import base"),
        ("engine.data.stats", "if TYPE_CHECKING:\n    from engine.decode.trace import texts"),
        ("engine.process.worker", "def f():\n    import engine.cli.models"),
        ("engine.loose", "import math"),
    ],
)
def test_imports_that_run_up_are_seen(name: str, source: str) -> None:
    assert rules.floors(rules.parse(name, source))


def test_imports_that_run_down_are_fine() -> None:
    source = "from engine.llama.model import Model\nfrom engine.serving.session import Session"
    assert not rules.floors(rules.parse("engine.serving.reply", source))


def test_engine_functions_name_their_parameters() -> None:
    found = [violation for module in ENGINE for violation in rules.keyword_dictionaries(module)]
    assert found == []


def test_engine_has_no_import_cycles() -> None:
    assert rules.cycles(rules.import_graph(ENGINE)) == []


@pytest.mark.parametrize("start", ["engine.process.client", "engine.cli"])
def test_the_interface_process_loads_no_native_code(start: str) -> None:
    """Nor does any command: native code may end its process, so only the engine's has it."""
    loaded = rules.reached(rules.import_graph(MODULES), start)
    assert [name for name in sorted(loaded) if name.startswith("engine.llama")] == []


def test_the_page_loads_no_native_code() -> None:
    graph = rules.import_graph(MODULES)
    loaded = set().union(*(rules.reached(graph, m.name) for m in MODULES if m.top == "app"))
    assert [name for name in sorted(loaded) if name.startswith("engine.llama")] == []


def test_text_names_no_registry_and_no_machine() -> None:
    found = [
        violation
        for path in text_files(ROOT)
        for violation in rules.foreign_text(
            str(path.relative_to(ROOT)), path.read_text(encoding="utf-8", errors="replace")
        )
    ]
    assert found == []


def test_few_files_are_long() -> None:
    """Up to the hard limit in `sizes` a file may be long, but not many may."""
    long = [m.name for m in MODULES if len(m.source.splitlines()) > rules.LONG_FILE_LINES]
    print("longer than", rules.LONG_FILE_LINES, "lines:", ", ".join(long) or "none")
    assert len(long) <= len(MODULES) // 10, "too many long files: split some"


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("engine.decode.loop", "from app import page"),
        ("engine.decode.loop", "import fastapi"),
        ("engine.decode.loop", "def f():\n    import gradio.blocks"),
        ("setup.main", "import uvicorn"),
        ("app.page", "import llama_cpp"),
        ("app.page", "from ctypes import c_int"),
        ("engine.maths.sampling", "import ctypes"),
        ("engine.files.gguf", "from llama_cpp import llama_cpp"),
        ("engine.maths.acceptance", "import os"),
        ("engine.maths.proposal", "from engine.decode.loop import rounds"),
        ("engine.maths.distribution", "from engine import session"),
        ("engine.decode.loop", "from .errors import EngineError"),
        ("setup.main", "from engine import errors"),
    ],
)
def test_boundaries_catch(name: str, source: str) -> None:
    assert rules.boundaries(rules.parse(name, source))


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("app.page", "import gradio as gr\nfrom engine.events import TokenEvent"),
        ("engine.llama.model", "import ctypes\nimport llama_cpp"),
        (
            "engine.maths.acceptance",
            "import numpy as np\nfrom engine.maths.distribution import Distribution",
        ),
        (
            "engine.maths.sampling",
            "from numpy.typing import NDArray\nfrom engine.data import errors",
        ),
    ],
)
def test_boundaries_allow(name: str, source: str) -> None:
    assert rules.boundaries(rules.parse(name, source)) == []


def test_import_forms_catch() -> None:
    assert rules.import_forms(rules.parse("app.page", "from engine.events import *"))
    inside = "def load():\n    import json\n    return json"
    assert rules.import_forms(rules.parse("engine.decode.loop", inside))
    assert not rules.import_forms(rules.parse("app.page", inside))
    lazy = "def run():\n    from engine.process.worker import run_worker\n    run_worker()"
    assert not rules.import_forms(rules.parse("engine.process.spawn", lazy))
    assert rules.import_forms(rules.parse("engine.serving.session", lazy))


def test_keyword_dictionaries_are_caught() -> None:
    source = "class A:\n    async def f(self, **options: int) -> None: ..."
    assert rules.keyword_dictionaries(rules.parse("engine.decode.loop", source))
    assert not rules.keyword_dictionaries(rules.parse("engine.decode.loop", "def f(*a): f(**{})"))


def test_cycles_are_caught_and_typing_imports_are_none() -> None:
    a = "from engine.b import x"
    b = "import engine.c"
    loop = [rules.parse("engine.a", a), rules.parse("engine.b", b)]
    closing = rules.parse("engine.c", "from engine import a")
    guarded = rules.parse(
        "engine.c", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from engine import a"
    )
    assert rules.cycles(rules.import_graph([*loop, closing])) == [
        "engine.a -> engine.b -> engine.c -> engine.a"
    ]
    assert rules.cycles(rules.import_graph([*loop, guarded])) == []


def test_reaching_native_code_is_seen_but_not_through_the_lazy_import() -> None:
    direct = rules.import_graph(
        [
            rules.parse("engine.cli", "from engine.serving.session import Session"),
            rules.parse("engine.serving.session", "from engine.llama import model"),
            rules.parse("engine.llama", ""),
        ]
    )
    lazy = rules.import_graph(
        [
            rules.parse(
                "engine.process.spawn", "def f():\n    from engine.process.worker import run_worker"
            ),
            rules.parse("engine.process.worker", "import engine.llama"),
            rules.parse("engine.llama", ""),
        ]
    )
    assert "engine.llama" in rules.reached(direct, "engine.cli")
    assert "engine.llama" not in rules.reached(lazy, "engine.process.spawn")


def test_sizes_catch() -> None:
    long_file = '"""Doc."""\n' + "x = 1\n" * rules.MAX_FILE_LINES
    long_function = "def f():\n" + "    x = 1\n" * rules.MAX_FUNCTION_LINES
    assert rules.sizes(rules.parse("engine.a", long_file))
    assert rules.sizes(rules.parse("engine.a", long_function))
    assert not rules.sizes(rules.parse("engine.a", long_function[: -len("    x = 1\n")]))


def test_missing_docstring_is_caught() -> None:
    assert rules.docstrings(rules.parse("engine.a", "x = 1"))


@pytest.mark.parametrize(
    "text",
    [
        "see https://hugging" + "face.co/models",
        "index = files.python" + "hosted.org",
        "registry.npm" + "js.org",
        "open('/" + "work/main/x')",
        "cd /" + "root",
        "C:\\" + "Users\\ada",
        "/home" + "/ada/models",
    ],
)
def test_foreign_text_is_caught(text: str) -> None:
    assert rules.foreign_text("README.md", text)


@pytest.mark.parametrize("text", ["the Hub", "network/work", "/rooted", "a/root/b", "~/models"])
def test_ordinary_text_is_not(text: str) -> None:
    assert rules.foreign_text("README.md", text) == []
