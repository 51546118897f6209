"""Measurements are kept by what they depend on; a damaged file only means to measure again."""

from __future__ import annotations

import os
from pathlib import Path

from engine.files.measurements import Measurements, measurement_key


def test_values_survive_and_keys_are_apart(tmp_path: Path) -> None:
    file = tmp_path / "measurements.json"
    Measurements(file).put("a", {"width": 4})
    Measurements(file).put("b", {"width": 2})
    assert Measurements(file).get("a") == {"width": 4}
    assert Measurements(file).get("b") == {"width": 2}
    assert Measurements(file).get("c") is None


def test_a_damaged_file_is_measured_again(tmp_path: Path) -> None:
    file = tmp_path / "measurements.json"
    file.write_text("{", encoding="utf-8")
    assert Measurements(file).get("a") is None
    Measurements(file).put("a", {"width": 4})
    assert Measurements(file).get("a") == {"width": 4}


def test_a_replaced_model_file_has_another_key(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    model.write_bytes(b"one")
    os.utime(model, ns=(1, 1))
    first = measurement_key("strict", model, "threads=2")
    assert measurement_key("strict", model, "threads=4") != first
    model.write_bytes(b"two")
    os.utime(model, ns=(2, 2))
    assert measurement_key("strict", model, "threads=2") != first
