"""GGUF files made of others, with something missing, damaged or added: llama.cpp refuses them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.generic]


def rewrite_gguf(
    source: Path,
    destination: Path,
    *,
    without: Collection[str] = (),
    changed: Mapping[str, Callable[[Weights], Weights]] | None = None,
    numbers: Mapping[str, int] | None = None,
    only_numbers: bool = False,
) -> Path:
    """A copy without some tensors or keys, with some tensors changed, with more 16-bit keys.

    only_numbers: no other metadata, as in the later parts of a split model.
    """
    reader = gguf.GGUFReader(source)
    architecture = str(reader.fields["general.architecture"].contents())
    writer = gguf.GGUFWriter(destination, architecture)
    if only_numbers:
        writer.kv_data[0].clear()
    else:
        _copy_keys(reader, writer, without)
    for name, number in (numbers or {}).items():
        writer.add_uint16(name, number)
    for tensor in reader.tensors:
        if tensor.name not in without:
            change = (changed or {}).get(tensor.name, _unchanged)
            writer.add_tensor(tensor.name, change(np.array(tensor.data)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return destination


def _unchanged(weights: Weights) -> Weights:
    return weights


def _copy_keys(reader: gguf.GGUFReader, writer: gguf.GGUFWriter, without: Collection[str]) -> None:
    for field in reader.fields.values():
        skipped = field.name.startswith("GGUF.") or field.name == "general.architecture"
        if skipped or field.name in without:
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=inner)
