"""What this machine is: processor, cores and the instructions that llama.cpp profits from."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

if sys.platform != "win32":
    import resource

_X86_FLAGS = ("avx", "avx2", "fma", "f16c", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8")
_ARM_FLAGS = ("asimddp", "i8mm", "sve", "bf16")
_MANY_FILES = 10_240  # macOS allows no more
_MAC_FLAGS = {"hw.optional.arm.FEAT_DotProd": "dotprod", "hw.optional.arm.FEAT_I8MM": "i8mm"}


@dataclass(frozen=True, slots=True)
class Processor:
    """flags: the instruction sets that matter here, empty where the system does not report them."""

    model: str
    physical_cores: int
    usable_cores: int
    flags: tuple[str, ...]


def processor() -> Processor:
    """This machine's processor; usable_cores respects the process's CPU affinity."""
    model, flags = _describe()
    logical = os.cpu_count() or 1
    return Processor(
        model=model or platform.processor() or platform.machine(),
        physical_cores=physical_cores(),
        usable_cores=len(os.sched_getaffinity(0)) if sys.platform == "linux" else logical,
        flags=flags,
    )


def physical_cores() -> int:
    """The usual number of threads: hyper-threads slow llama.cpp's kernels down."""
    return psutil.cpu_count(logical=False) or os.cpu_count() or 1


def parse_cpuinfo(text: str) -> tuple[str, tuple[str, ...]]:
    """Model name and the flags that matter, from the text of Linux' /proc/cpuinfo."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, separator, value = line.partition(":")
        if separator:
            fields.setdefault(key.strip().lower(), value.strip())
    present = set((fields.get("flags") or fields.get("features") or "").split())
    flags = tuple(flag for flag in (*_X86_FLAGS, *_ARM_FLAGS) if flag in present)
    return fields.get("model name", ""), flags


def parse_sysctl(values: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """The same from macOS' sysctl names and values."""
    features = set(values.get("machdep.cpu.features", "").lower().split())
    features |= set(values.get("machdep.cpu.leaf7_features", "").lower().split())
    flags = [flag for flag in _X86_FLAGS if flag in features]
    flags += [flag for name, flag in _MAC_FLAGS.items() if values.get(name) == "1"]
    return values.get("machdep.cpu.brand_string", ""), tuple(flags)


def _describe() -> tuple[str, tuple[str, ...]]:
    if sys.platform == "linux":
        return parse_cpuinfo(Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace"))
    if sys.platform == "darwin":
        names = ("machdep.cpu.brand_string", "machdep.cpu.features", "machdep.cpu.leaf7_features")
        return parse_sysctl({name: _sysctl(name) for name in (*names, *_MAC_FLAGS)})
    return "", ()


def _sysctl(name: str) -> str:
    """Empty where the name does not exist: Apple and Intel machines have different ones."""
    done = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def resident_bytes(pid: int | None) -> int | None:
    """Of a running process; None where there is none to ask."""
    if pid is None:
        return None
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return None


def allow_many_files() -> None:
    """Raises this process's limit of open files as far as the system lets it."""
    if sys.platform == "win32":
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MANY_FILES if hard == resource.RLIM_INFINITY else min(hard, _MANY_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
