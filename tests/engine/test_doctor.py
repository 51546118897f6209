"""Each check of the doctor: what it finds well, and what it finds wrong."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from engine.cli import diagnosis
from engine.cli.diagnosis import GIB, Check
from engine.data.errors import ConfigError, EngineDiedError
from engine.data.machine import Processor, parse_cpuinfo, parse_sysctl, processor
from engine.models.library import KnownModel
from engine.process.messages import Ready

CPUINFO_X86 = """processor\t: 0
model name\t: Example CPU 9000
flags\t\t: fpu sse2 avx avx2 fma f16c avx512f avx512_vnni

processor\t: 1
model name\t: Another
"""
CPUINFO_ARM = "processor\t: 0\nFeatures\t: fp asimd asimddp i8mm\n"


def installed(**versions: str) -> Callable[[str], str]:
    def version(name: str) -> str:
        if name not in versions:
            raise PackageNotFoundError(name)
        return versions[name]

    return version


def test_python_version() -> None:
    assert diagnosis.check_python((3, 11, 0)).level == "ok"
    assert diagnosis.check_python((3, 10, 9)).level == "fail"


def test_processor_of_this_machine_is_described() -> None:
    found = processor()
    assert found.model
    assert found.usable_cores >= 1


def test_cpuinfo() -> None:
    assert parse_cpuinfo(CPUINFO_X86) == (
        "Example CPU 9000",
        ("avx", "avx2", "fma", "f16c", "avx512f", "avx512_vnni"),
    )
    assert parse_cpuinfo(CPUINFO_ARM) == ("", ("asimddp", "i8mm"))
    assert parse_cpuinfo("") == ("", ())


def test_sysctl() -> None:
    apple = {"machdep.cpu.brand_string": "Apple M2", "hw.optional.arm.FEAT_DotProd": "1"}
    assert parse_sysctl(apple) == ("Apple M2", ("dotprod",))
    intel = {"machdep.cpu.features": "FPU FMA F16C", "machdep.cpu.leaf7_features": "AVX2"}
    assert parse_sysctl(intel) == ("", ("avx2", "fma", "f16c"))


def test_few_cores_are_a_warning() -> None:
    assert diagnosis.check_processor(Processor("x", 4, 4, ("avx2",))).level == "ok"
    assert diagnosis.check_processor(Processor("x", 4, 1, ())).level == "warn"


def test_memory() -> None:
    assert diagnosis.check_memory(8 * GIB, 16 * GIB).level == "ok"
    assert diagnosis.check_memory(GIB // 2, 16 * GIB).level == "warn"


def test_data_folder_is_not_created_by_looking(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert diagnosis.check_data_folder(folder).level == "ok"
    assert diagnosis.check_disk(folder).level in ("ok", "warn")
    assert not (tmp_path / "a").exists()


def test_data_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert diagnosis.check_data_folder(tmp_path / "file").level == "fail"


@pytest.mark.parametrize(
    ("have", "level", "said"),
    [
        ({"a": "1.5", "b": "2.0"}, "ok", "2 packages"),
        ({"a": "2.1", "b": "2.0"}, "fail", "a is 2.1"),
        ({"b": "2.0"}, "fail", "a is missing"),
    ],
)
def test_packages(have: dict[str, str], level: str, said: str) -> None:
    required = ["a>=1,<2", "b==2.0", "c>=1; extra == 'test'", "d; python_version < '3'"]
    check = diagnosis.check_packages(installed(**have), lambda name: required)
    assert check.level == level
    assert said in check.detail


def test_packages_when_the_project_is_not_installed() -> None:
    def required(name: str) -> list[str] | None:
        raise PackageNotFoundError(name)

    assert diagnosis.check_packages(installed(), required).level == "fail"


def test_engine() -> None:
    good = diagnosis.check_engine(lambda: Ready(1, "0.3.36", {"a": True}))
    assert (good.level, good.advice) == ("ok", "")
    some = diagnosis.check_engine(lambda: Ready(1, "0.3.36", {"a": True, "b": False}))
    assert some.level == "warn"
    assert "without b" in some.detail

    def dies() -> Ready:
        raise EngineDiedError("the engine stopped")

    assert diagnosis.check_engine(dies).level == "fail"


def test_models() -> None:
    here = KnownModel("starter", "Starter", "catalogue", Path("starter.gguf"))
    absent = KnownModel("other", "Other", "catalogue", None)
    broken = KnownModel("bad", "Bad", "folder", Path("bad.gguf"), problem="truncated")
    assert diagnosis.check_models(lambda: [here, absent]).level == "ok"
    assert diagnosis.check_models(lambda: [absent]).level == "warn"
    assert "truncated" in diagnosis.check_models(lambda: [here, broken]).detail

    def unreadable() -> list[KnownModel]:
        raise ConfigError("models.toml: unknown key")

    assert diagnosis.check_models(unreadable).level == "fail"


def test_online() -> None:
    def refuses() -> str:
        raise ConnectionRefusedError("refused")

    assert diagnosis.check_online(lambda: "the Hub answers (200)").level == "ok"
    assert diagnosis.check_online(refuses).level == "warn"


def test_failed() -> None:
    ok, fail = Check("a", "ok", ""), Check("b", "fail", "")
    assert diagnosis.failed([ok, fail])
    assert not diagnosis.failed([ok])
