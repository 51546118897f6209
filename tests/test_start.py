"""The start script's decisions; what it does to a real checkout is tried by hand and in CI."""

from __future__ import annotations

import ast
import io
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from setup import toolchain
from setup.environment import Environment
from setup.errors import SetupError
from setup.main import parse
from setup.progress import ProgressLine, describe, elapsed, run_logged, telling_lines
from setup.state import (
    State,
    decide,
    pinned,
    read_state,
    remembered_cmake_args,
    wanted_state,
    with_extras_of,
    write_state,
)

ROOT = Path(__file__).resolve().parent.parent
INSTALLED = State("python 3.12 here", "", "hash", (), complete=True)


def test_start_parses_on_old_pythons() -> None:
    source = (ROOT / "start.py").read_text(encoding="utf-8")
    ast.parse(source, feature_version=(3, 4))
    assert 'f"' not in source  # no f-strings: feature_version does not refuse them


@pytest.mark.parametrize(
    ("found", "python_exists", "action"),
    [
        (INSTALLED, True, "ready"),
        (INSTALLED, False, "create"),
        (None, False, "create"),
        (None, True, "update"),  # somebody's own environment is kept
        (replace(INSTALLED, complete=False), True, "create"),
        (replace(INSTALLED, base="python 3.11 here"), True, "create"),
        (replace(INSTALLED, cmake_args="-DGGML_CUDA=on"), True, "create"),
        (replace(INSTALLED, pyproject="older"), True, "update"),
        (replace(INSTALLED, extras=("test",)), True, "ready"),
    ],
)
def test_what_a_start_has_to_do(found: State | None, python_exists: bool, action: str) -> None:
    assert decide(found, INSTALLED, python_exists) == action


def test_tests_need_their_extra() -> None:
    assert decide(INSTALLED, replace(INSTALLED, extras=("test",)), True) == "update"


def test_an_update_keeps_the_extras() -> None:
    found = replace(INSTALLED, extras=("test",))
    assert with_extras_of(INSTALLED, found).extras == ("test",)
    assert with_extras_of(INSTALLED, None).extras == ()


def test_a_gpu_build_is_remembered() -> None:
    gpu = replace(INSTALLED, cmake_args="-DGGML_CUDA=on")
    assert remembered_cmake_args(gpu, None) == "-DGGML_CUDA=on"
    assert remembered_cmake_args(gpu, "-DGGML_VULKAN=on ") == "-DGGML_VULKAN=on"
    assert remembered_cmake_args(gpu, "") == ""
    assert remembered_cmake_args(None, None) == ""


def test_state_survives_writing(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    assert read_state(path) is None
    state = replace(INSTALLED, extras=("test",))
    write_state(path, state)
    assert read_state(path) == state


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"base": "x"}', '{"extras": []}'])
def test_a_damaged_state_counts_as_interrupted(tmp_path: Path, text: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(text)
    assert decide(read_state(path), INSTALLED, True) == "create"


def test_the_wanted_state_follows_pyproject(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("a = 1")
    first = wanted_state(tmp_path, (), "")
    assert wanted_state(tmp_path, (), "") == first
    (tmp_path / "pyproject.toml").write_text("a = 2")
    assert wanted_state(tmp_path, (), "").pyproject != first.pyproject


def test_the_engine_package_is_pinned(tmp_path: Path) -> None:
    assert pinned(ROOT, "llama-cpp-python").startswith("llama-cpp-python==")
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["numpy"]')
    with pytest.raises(SetupError):
        pinned(tmp_path, "llama-cpp-python")


def test_arguments() -> None:
    page = parse(["--port", "7000", "--data-dir", "x y"])
    assert page.passed == ("--port", "7000", "--data-dir", "x y")
    assert page.data_dir == ("--data-dir", "x y")
    assert parse(["--data-dir=x"]).data_dir == ("--data-dir=x",)
    assert parse([]).data_dir == ()
    tests = parse(["--test", "--", "-k", "start", "--setup-only"])
    assert (tests.test, tests.setup_only) == (True, False)
    assert tests.passed == ("-k", "start", "--setup-only")


def test_pytest_options_need_the_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        parse(["--test", "-k", "start"])
    assert stop.value.code == 2
    assert "after --" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("  [ 12/193] Building CXX object x.o\n", "compiling llama.cpp, file 12 of 193"),
        ("  [ 42%] Building CXX object x.o", "compiling llama.cpp, 42 %"),
        ("  Downloading gradio-6.31.0-py3-none-any.whl (24.1 MB)", "downloading gradio (24.1 MB)"),
        ("Collecting huggingface-hub<3,>=1.0 (from forerun)", "looking up huggingface-hub"),
        ("Installing collected packages: a, b", "installing packages"),
        ("  some other noise", None),
    ],
)
def test_progress_lines(line: str, said: str | None) -> None:
    assert describe(line) == said


def test_elapsed() -> None:
    assert [elapsed(0), elapsed(59.9), elapsed(247)] == ["0:00", "0:59", "4:07"]


def test_progress_without_a_terminal_prints_whole_lines() -> None:
    stream = io.StringIO()
    line = ProgressLine(stream, "Building")
    for number in range(100):
        line.show(f"file {number}")
    line.end("done")
    assert stream.getvalue().splitlines() == ["Building  0:00  file 0", "Building  0:00  done"]


def test_the_first_errors_are_shown_with_the_last_lines() -> None:
    noise = [f"line {number}" for number in range(50)]
    shown = telling_lines(["x.cpp:3:1: error: no such type", *noise])
    assert shown[0] == "x.cpp:3:1: error: no such type"
    assert shown[-1] == "line 49"
    assert len(shown) < 15
    assert telling_lines(["only"]) == ["only"]


def test_a_failing_command_names_its_log(tmp_path: Path) -> None:
    log = tmp_path / "setup.log"
    code = "import sys; print('x.c:1: error: broken'); sys.exit(3)"
    with pytest.raises(SetupError) as failure:
        run_logged([sys.executable, "-c", code], "Building", log, {})
    assert "x.c:1: error: broken" in str(failure.value)
    assert str(log) in str(failure.value)
    assert "x.c:1: error: broken" in log.read_text()


def test_a_command_that_works_is_logged(tmp_path: Path) -> None:
    log = tmp_path / "setup.log"
    run_logged([sys.executable, "-c", "print('fine')"], "Trying", log, {})
    assert "fine" in log.read_text()


@pytest.mark.parametrize(
    ("os_release", "said"),
    [
        ("ID=debian\n", "apt install"),
        ('ID=ubuntu\nID_LIKE="debian"\n', "apt install"),
        ("ID=fedora\n", "dnf install"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "dnf install"),
        ("ID=arch\n", "pacman"),
        ('ID="opensuse-tumbleweed"\nID_LIKE="opensuse suse"\n', "zypper"),
        ("ID=alpine\n", "apk add"),
        ("ID=unheard-of\n", "package manager"),
        ("", "package manager"),
    ],
)
def test_compiler_advice_on_linux(os_release: str, said: str) -> None:
    assert said in toolchain.compiler_advice("linux", os_release)


def test_compiler_advice_elsewhere() -> None:
    assert "xcode-select" in toolchain.compiler_advice("darwin")
    assert "winget" in toolchain.compiler_advice("win32")


def having(*programs: str) -> toolchain.Which:
    return lambda name: f"/bin/{name}" if name in programs else None


@pytest.mark.parametrize(
    ("programs", "found"),
    [(("cc", "c++"), True), (("gcc", "g++"), True), (("gcc",), False), ((), False)],
)
def test_compiler_on_linux(
    programs: tuple[str, ...], found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("CXX", raising=False)
    assert toolchain.has_compiler("linux", having(*programs)) is found


@pytest.mark.parametrize(
    ("cmake_args", "platform", "programs", "said"),
    [
        ("", "linux", ("nvidia-smi", "nvcc"), 'CMAKE_ARGS="-DGGML_CUDA=on" python3 start.py'),
        ("", "linux", ("nvidia-smi",), "CUDA toolkit"),
        ("", "win32", ("nvidia-smi", "nvcc"), '$env:CMAKE_ARGS="-DGGML_CUDA=on"; py start.py'),
        ("", "linux", ("vulkaninfo", "glslc"), "-DGGML_VULKAN=on"),
    ],
)
def test_gpu_advice(cmake_args: str, platform: str, programs: tuple[str, ...], said: str) -> None:
    assert said in toolchain.gpu_advice(cmake_args, platform, having(*programs))


@pytest.mark.parametrize(
    ("cmake_args", "platform", "programs"),
    [
        ("-DGGML_CUDA=on", "linux", ("nvidia-smi", "nvcc")),
        ("", "darwin", ("vulkaninfo", "glslc")),
        ("", "linux", ()),
    ],
)
def test_no_gpu_advice(cmake_args: str, platform: str, programs: tuple[str, ...]) -> None:
    assert toolchain.gpu_advice(cmake_args, platform, having(*programs)) == ""


def test_environment_paths(tmp_path: Path) -> None:
    environment = Environment(tmp_path)
    assert environment.forerun.parent == environment.python.parent
    assert environment.state_file.parent == environment.log.parent == tmp_path / ".venv"


@pytest.mark.skipif(sys.platform == "win32", reason="signals work differently there")
def test_a_terminated_start_ends_what_it_started() -> None:
    """The inner command says that it runs; terminating the outer one must end it too."""
    inner = "import sys, time; print('up', flush=True); time.sleep(60)"
    outer = "import sys; from setup.main import run; sys.exit(run(sys.argv[1:]))"
    command = [sys.executable, "-c", outer, sys.executable, "-c", inner]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == ""  # ends when the inner one has gone
        assert process.wait() == 128 + signal.SIGTERM
