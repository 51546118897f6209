"""Parts of a download: its speed, names of files, and who owns a folder of work."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.data.errors import DownloadError
from engine.downloads.job import SpeedMeter
from engine.downloads.process import ownership
from engine.downloads.transfer import part_names, quant_of_name


def test_speed_is_over_the_last_seconds() -> None:
    times = iter([0.0, 1.0, 2.0, 10.0, 11.0])
    meter = SpeedMeter(lambda: next(times))
    assert [meter.add(done) for done in (0, 100, 200)] == [0.0, 100.0, 100.0]
    assert meter.add(1000) == 100.0
    assert meter.add(1300) == 300.0


@pytest.mark.parametrize(
    ("name", "quant"),
    [
        ("qwen2.5-coder-7b-instruct-q4_k_m.gguf", "Q4_K_M"),
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "Q4_1"),
        ("Qwen3-8B-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"),
        ("dir/Model-BF16-00001-of-00002.gguf", "BF16"),
        ("gpt-oss-20b-mxfp4.gguf", "MXFP4"),
        ("model-IQ4_XS.gguf", "IQ4_XS"),
        ("mmproj-model.gguf", ""),
    ],
)
def test_quantisation_from_a_name(name: str, quant: str) -> None:
    assert quant_of_name(name) == quant


def test_parts_of_a_split_model() -> None:
    assert part_names("a-00001-of-00003.gguf") == tuple(
        f"a-0000{number}-of-00003.gguf" for number in (1, 2, 3)
    )
    assert part_names("a.gguf") == ("a.gguf",)


@pytest.mark.parametrize("is_older", [True, False])
def test_a_work_folder_is_taken_only_while_its_owner_lives(tmp_path: Path, is_older: bool) -> None:
    """A process that started after the mark was made merely has its owner's number."""
    mark = tmp_path / "owner"
    mark.write_text(str(os.getppid()), "utf-8")
    if is_older:
        os.utime(mark, (1.0, 1.0))
        with ownership(tmp_path):
            assert mark.read_text("utf-8") == str(os.getpid())
    else:
        with pytest.raises(DownloadError, match=f"process {os.getppid()}"), ownership(tmp_path):
            pass
