"""The virtual environment of a checkout: created, installed, repaired after an interruption."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from setup.errors import SetupError
from setup.progress import run_logged
from setup.state import (
    Action,
    State,
    decide,
    pinned,
    read_state,
    remembered_cmake_args,
    wanted_state,
    with_extras_of,
    write_state,
)
from setup.toolchain import compiler_advice, gpu_advice, has_compiler

ENGINE_PACKAGE = "llama-cpp-python"


@dataclass(frozen=True, slots=True)
class Environment:
    """root: the checkout."""

    root: Path

    @property
    def folder(self) -> Path:
        return self.root / ".venv"

    @property
    def python(self) -> Path:
        if sys.platform == "win32":
            return self.folder / "Scripts" / "python.exe"
        return self.folder / "bin" / "python"

    @property
    def forerun(self) -> Path:
        """The console script. (`python -m` would look into the current folder first.)"""
        name = "forerun.exe" if sys.platform == "win32" else "forerun"
        return self.python.with_name(name)

    @property
    def state_file(self) -> Path:
        return self.folder / "forerun-setup.json"

    @property
    def log(self) -> Path:
        return self.folder / "forerun-setup.log"

    def ensure(self, extras: tuple[str, ...]) -> Action:
        """Install what is missing; returns what had to be done. Raises SetupError."""
        found = read_state(self.state_file)
        cmake_args = remembered_cmake_args(found, os.environ.get("CMAKE_ARGS"))
        wanted = with_extras_of(wanted_state(self.root, extras, cmake_args), found)
        action = decide(found, wanted, self.python.exists())
        if action == "ready":
            return action
        if advice := gpu_advice(cmake_args):
            print(advice)
        if action == "create":
            self._create(wanted)
        self._install(wanted, fall_back=found if action == "update" else None)
        return action

    def _create(self, wanted: State) -> None:
        if importlib.util.find_spec("ensurepip") is None:
            raise SetupError(
                "This Python cannot create virtual environments. "
                "On Debian and Ubuntu: sudo apt install python3-venv"
            )
        if Path(sys.prefix) == self.folder:
            raise SetupError(
                "The environment must be created anew, and this Python is part of it: "
                "start with your system's Python."
            )
        try:
            if self.folder.exists():
                shutil.rmtree(self.folder)
            self.folder.mkdir()
        except OSError as error:
            raise SetupError(
                f"{self.folder} cannot be replaced ({error}). Close Forerun and try again."
            ) from error
        write_state(self.state_file, replace(wanted, complete=False))
        command = [sys.executable, "-m", "venv", str(self.folder)]
        run_logged(command, "Creating the environment", self.log, dict(os.environ))

    def _install(self, wanted: State, fall_back: State | None) -> None:
        """fall_back: the state to return to if pip fails, which then has changed nothing.

        Without one, the next start begins anew, and not with CMAKE_ARGS that have failed.
        """
        write_state(self.state_file, replace(wanted, complete=False))
        try:
            self._install_engine(wanted.cmake_args, built_here=fall_back is not None)
            extras = f"[{','.join(wanted.extras)}]" if wanted.extras else ""
            self._pip("Installing Forerun", ["--editable", f"{self.root}{extras}"])
        except SetupError:
            begin_anew = replace(wanted, cmake_args="", complete=False)
            write_state(self.state_file, fall_back or begin_anew)
            raise
        write_state(self.state_file, wanted)

    def _install_engine(self, cmake_args: str, built_here: bool) -> None:
        """llama.cpp's bindings: a ready wheel if there is one, else built here from source.

        built_here: what is installed was built by an earlier set-up with the same CMAKE_ARGS.
        """
        requirement = pinned(self.root, ENGINE_PACKAGE)
        title = "Installing llama.cpp"
        if self._has_engine(requirement) and (built_here or not cmake_args):
            return
        if cmake_args:
            # pip's cache does not tell builds with different CMAKE_ARGS apart.
            self._require_compiler()
            options = ["--no-cache-dir", "--force-reinstall", "--no-deps"]
            options += ["--no-binary", ENGINE_PACKAGE, requirement]
            self._pip(f"Building llama.cpp ({cmake_args})", options, cmake_args)
            return
        if not self._has_wheel(requirement):
            self._require_compiler()
            title = "Building llama.cpp (once, some minutes)"
        self._pip(title, ["--prefer-binary", requirement])

    def _has_engine(self, requirement: str) -> bool:
        """Already installed in this very version."""
        name, _, version = requirement.partition("==")
        code = f"import importlib.metadata as m; assert m.version({name!r}) == {version!r}"
        return self._succeeds(["-c", code])

    def _has_wheel(self, requirement: str) -> bool:
        """A ready one where pip looks for packages, or one that pip has built here before."""
        version = requirement.partition("==")[2]
        built = self._output(["-m", "pip", "cache", "list", ENGINE_PACKAGE.replace("-", "_")])
        if f"-{version}-" in built:
            return True
        options = ["--dry-run", "--no-deps", "--only-binary", ENGINE_PACKAGE]
        return self._succeeds(["-m", "pip", "install", *options, requirement])

    def _require_compiler(self) -> None:
        if not has_compiler():
            raise SetupError(
                "llama.cpp is built on your machine, and no C++ compiler was found. "
                f"Install one, then start again:\n    {compiler_advice()}"
            )

    def _pip(self, title: str, arguments: list[str], cmake_args: str = "") -> None:
        options = ["--verbose", "--progress-bar", "off", "--disable-pip-version-check"]
        env = dict(os.environ)
        if cmake_args:
            env["CMAKE_ARGS"] = cmake_args
        command = [str(self.python), "-m", "pip", "install", *options, *arguments]
        run_logged(command, title, self.log, env)

    def _succeeds(self, arguments: list[str]) -> bool:
        command = [str(self.python), *arguments]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def _output(self, arguments: list[str]) -> str:
        command = [str(self.python), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
