"""The engine's door for other programs: every name is there, and none of it loads native code."""

from __future__ import annotations

import subprocess
import sys

import engine


def test_every_name_of_the_door_is_there() -> None:
    for name in engine.__all__:
        assert getattr(engine, name) is not None
    assert sorted(engine.__all__) == sorted(engine._HOME)


def test_the_door_loads_no_native_code() -> None:
    code = "import sys, engine; engine.EngineClient; print('llama_cpp' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


def test_a_module_of_the_engine_loads_only_what_it_needs() -> None:
    code = "import sys, engine.data.errors; print('engine.process' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
