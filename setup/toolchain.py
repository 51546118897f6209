"""The compiler that llama.cpp's build needs, and which graphics card could be used.

CMake and Ninja are not asked for: where they are missing, pip fetches them for the build itself.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

Which = Callable[[str], str | None]

_LINUX_PACKAGES = {
    "debian": "sudo apt install g++",
    "fedora": "sudo dnf install gcc-c++",
    "rhel": "sudo dnf install gcc-c++",
    "arch": "sudo pacman -S base-devel",
    "suse": "sudo zypper install gcc-c++",
    "alpine": "sudo apk add build-base linux-headers",
}
_WINDOWS_PACKAGE = (
    "winget install Microsoft.VisualStudio.2022.BuildTools --override "
    '"--passive --add Microsoft.VisualStudio.Workload.VCTools --includeRecommended"'
)


def has_compiler(platform: str = sys.platform, which: Which = shutil.which) -> bool:
    """Whether a C and a C++ compiler are installed."""
    if platform == "win32":
        return bool(which("cl") or which("clang-cl")) or _visual_studio()
    if platform == "darwin" and not _succeeds(["xcode-select", "-p"]):
        return False  # /usr/bin/c++ exists there, but only asks for an installation
    c = which(os.environ.get("CC", "cc").split()[0]) or which("gcc") or which("clang")
    cxx = which(os.environ.get("CXX", "c++").split()[0]) or which("g++") or which("clang++")
    return bool(c and cxx)


def compiler_advice(platform: str = sys.platform, os_release: str | None = None) -> str:
    """The command that installs one here. os_release: the text of Linux' /etc/os-release."""
    if platform == "win32":
        return _WINDOWS_PACKAGE
    if platform == "darwin":
        return "xcode-select --install"
    if os_release is None:
        path = Path("/etc/os-release")
        os_release = path.read_text(encoding="utf-8") if path.exists() else ""
    names = _distribution_names(os_release)
    for name, command in _LINUX_PACKAGES.items():
        if any(name in found for found in names):
            return command
    return "install the packages for gcc and g++ with your system's package manager"


def gpu_advice(cmake_args: str, platform: str = sys.platform, which: Which = shutil.which) -> str:
    """How to use a graphics card that this build would leave idle; empty if there is none."""
    if "GGML_CUDA" in cmake_args or "GGML_VULKAN" in cmake_args or platform == "darwin":
        return ""  # on macOS llama.cpp builds for Metal by default
    if which("nvidia-smi"):
        command = with_cmake_args("-DGGML_CUDA=on", platform)
        if not which("nvcc"):
            return (
                "An NVIDIA card was found. To use it, install NVIDIA's CUDA toolkit "
                f"(there is no nvcc), then start with: {command}"
            )
        return f"An NVIDIA card was found. To use it, stop and start with: {command}"
    if which("vulkaninfo") and which("glslc"):
        command = with_cmake_args("-DGGML_VULKAN=on", platform)
        return f"Vulkan was found. To use your graphics card, stop and start with: {command}"
    return ""


def with_cmake_args(value: str, platform: str = sys.platform) -> str:
    """The start command with CMAKE_ARGS set, as typed into this platform's usual shell."""
    if platform == "win32":
        return f'$env:CMAKE_ARGS="{value}"; py start.py'
    return f'CMAKE_ARGS="{value}" python3 start.py'


def _distribution_names(os_release: str) -> list[str]:
    """ID and ID_LIKE, for instance ["ubuntu", "debian"]."""
    names: list[str] = []
    for line in os_release.splitlines():
        key, _, value = line.partition("=")
        if key in ("ID", "ID_LIKE"):
            names += value.strip().strip("\"'").lower().split()
    return names


def _visual_studio() -> bool:
    programs = Path(os.environ.get("ProgramFiles(x86)", r"C:\Program Files (x86)"))
    vswhere = programs / "Microsoft Visual Studio" / "Installer" / "vswhere.exe"
    if not vswhere.exists():
        return False
    tools = "Microsoft.VisualStudio.Component.VC.Tools.x86.x64"
    command = [str(vswhere), "-latest", "-products", "*", "-requires", tools]
    done = subprocess.run(
        [*command, "-property", "installationPath"], capture_output=True, text=True, check=False
    )
    return bool(done.stdout.strip())


def _succeeds(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False
