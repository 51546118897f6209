"""Published EAGLE-3 folders become drafters that llama.cpp runs as numpy computes them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.cli import main
from engine.data.errors import IncompatiblePairError, ModelFileError
from engine.files.gguf import inspect
from engine.files.gguf_data import read_tensors
from engine.files.gguf_header import read_header
from engine.files.tensor_data import as_q8_0
from engine.heads.eagle3_convert import convert_eagle3
from engine.heads.medusa_file import read_medusa, target_hash
from engine.heads.pairing import heads_obstacle, read_eagle3
from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.draft_layer import Eagle3Context
from engine.llama.library import Library
from engine.llama.model import Model, ModelOptions
from tests.eagle3_gguf import ROPE_BASE, Eagle3Shape, random_weights, reference_draft
from tests.engine.conftest import THREADS
from tests.engine.head_files import medusa_arrays, write_safetensors, write_torch
from tests.tiny_gguf import write_tiny_gguf

LAYERS = (1, 2, 4)
DRAFTED = range(3, 203, 4)
Arrays = dict[str, NDArray[np.generic]]
_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_norm_2": "hidden_norm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return write_tiny_gguf(tmp_path / "target.gguf", layers=5)


def shape_for(target: Path, drafted: range | tuple[int, ...] = DRAFTED) -> Eagle3Shape:
    info = inspect(target)
    return Eagle3Shape(info.embedding_length, info.vocabulary_size, LAYERS, tuple(drafted))


def published(shape: Eagle3Shape, prefix: str) -> Arrays:
    """The weights under published names: rotary halves apart, ids as offsets."""
    arrays: Arrays = {}
    for name, weights in random_weights(shape).items():
        if inner := re.fullmatch(r"blk\.0\.(\w+)\.weight", name):
            heads = {"attn_q": shape.heads, "attn_k": shape.kv_heads}.get(inner[1])
            if heads:
                pairs = weights.reshape(heads, -1, 2, weights.shape[1])
                weights = np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(weights.shape)
            arrays[f"{prefix}{_NAMES[inner[1]]}.weight"] = weights
        else:
            known = {"output_norm.weight": "norm.weight", "output.weight": "lm_head.weight"}
            arrays[known.get(name, name)] = weights
    arrays["d2t"] = np.array(shape.drafted, np.int64) - np.arange(len(shape.drafted))
    arrays["embed_tokens.weight"] = np.zeros((shape.vocabulary, shape.hidden), np.float32)
    return arrays


def config_of(shape: Eagle3Shape) -> dict[str, Any]:
    return {
        "hidden_size": shape.hidden,
        "intermediate_size": shape.feed_forward,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "num_hidden_layers": 1,
        "rms_norm_eps": 1e-5,
        "rope_theta": ROPE_BASE,
        "max_position_embeddings": 512,
        "draft_vocab_size": len(shape.drafted),
        "eagle_aux_hidden_state_layer_ids": list(LAYERS),
    }


def write_folder(
    folder: Path, arrays: Arrays, config: dict[str, Any], as_torch: bool = False
) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    if as_torch:
        write_torch(folder / "pytorch_model.bin", arrays)
    else:
        write_safetensors(folder / "model.safetensors", arrays)
    return folder


@pytest.mark.parametrize(
    ("prefix", "nested", "as_torch"),
    [("midlayer.", False, False), ("midlayer.", False, True), ("layers.0.", True, False)],
    ids=["authors", "authors, torch", "speculators"],
)
def test_a_converted_drafter_runs(
    library: Library, tmp_path: Path, target: Path, prefix: str, nested: bool, as_torch: bool
) -> None:
    shape = shape_for(target)
    config = config_of(shape)
    if nested:
        inner = {key: config.pop(key) for key in ("hidden_size", "intermediate_size", "rope_theta")}
        config["transformer_layer_config"] = inner
    folder = write_folder(tmp_path / "heads", published(shape, prefix), config, as_torch)
    output = tmp_path / "heads.gguf"
    convert_eagle3(folder, inspect(target), output)
    assert heads_obstacle(target, output) == ""
    assert read_eagle3(output).layers == LAYERS
    with (
        Model(target, ModelOptions(), library.log) as model,
        Model(output, ModelOptions(), library.log) as heads,
        Context(
            model, ContextOptions(256, 16, THREADS, layer_inputs=LAYERS), AbortFlag()
        ) as context,
    ):
        text = [72, 101, 108, 108, 111, 44, 32, 119]
        context.feed(text)
        features = context.layer_inputs(len(text))
        decoder = Eagle3Context(heads, context, THREADS, AbortFlag())
        states = decoder.encode(features)
        decoder.feed(text[1:], states[:-1])
        row, _ = decoder.draft(9, states[-1])
        embeddings = read_tensors(target)["token_embd.weight"].floats()[[*text[1:], 9]]
        expected, _ = reference_draft(shape, features, embeddings)
        assert np.corrcoef(row[list(DRAFTED)], expected)[0, 1] > 0.999, "Q8_0 rounds a little"
        assert np.isneginf(row).sum() == shape.vocabulary - len(DRAFTED)
        decoder.close()


def test_what_is_written(tmp_path: Path, target: Path) -> None:
    shape = shape_for(target)
    config = config_of(shape) | {"norm_before_residual": True}
    config |= {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                "high_freq_factor": 4.0,
                                "original_max_position_embeddings": 64}}  # fmt: skip
    del config["eagle_aux_hidden_state_layer_ids"]
    convert_eagle3(
        write_folder(tmp_path / "heads", published(shape, "midlayer."), config),
        inspect(target),
        tmp_path / "heads.gguf",
    )
    metadata = read_header(tmp_path / "heads.gguf").metadata
    assert metadata["eagle3.target_layers"] == (2, 2, 2), "2, half of 5, 5 - 3"
    assert metadata["eagle3.norm_before_residual"] is True
    tensors = read_tensors(tmp_path / "heads.gguf")
    assert tensors["d2t"].raw.view("<i8").tolist() == list(DRAFTED)
    assert tensors["blk.0.ffn_up.weight"].dtype == "Q8_0"
    assert "token_embd.weight" not in tensors, "the target's are the same"
    factors = tensors["rope_freqs.weight"].floats()[0]
    assert factors[0] == 1.0 and factors[-1] == 8.0 and (np.diff(factors) >= 0).all()


def test_eight_bit_blocks_are_those_of_llama_cpp() -> None:
    rows = np.random.default_rng(0).standard_normal((5, 64)).astype(np.float32)
    rows[1] = 0.0
    blocks = as_q8_0(rows).raw.reshape(-1, 34)
    scales = np.ascontiguousarray(blocks[:, :2]).view("<f2").astype(np.float32)
    values = np.ascontiguousarray(blocks[:, 2:]).view(np.int8) * scales
    np.testing.assert_allclose(values.reshape(5, 64), rows, atol=np.abs(rows).max() / 200)
    assert as_q8_0(rows[:, :20]).dtype == "F16"


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (lambda a, c: a.pop("fc.weight"), ModelFileError, "lacks fc.weight"),
        (lambda a, c: a.pop("lm_head.weight"), ModelFileError, "no output head"),
        (lambda a, c: a.pop("d2t"), ModelFileError, "does not say which"),
        (lambda a, c: a.update({"other": np.ones(3, np.float32)}), ModelFileError, "'other'"),
        (lambda a, c: a.update({"d2t": a["d2t"] + 200}), IncompatiblePairError, "does not have"),
        (
            lambda a, c: a.update({"d2t": a["d2t"] * 0 - np.arange(50)}),
            IncompatiblePairError,
            "not",
        ),
        (lambda a, c: c.update({"num_hidden_layers": 2}), ModelFileError, "one plain layer"),
        (lambda a, c: c.pop("hidden_size"), ModelFileError, "hidden_size is not"),
        (lambda a, c: c.update({"target_hidden_size": 99}), IncompatiblePairError, "hidden size"),
        (
            lambda a, c: c.update({"eagle_aux_hidden_state_layer_ids": [1, 2, 9]}),
            IncompatiblePairError,
            "reads layers",
        ),
        (lambda a, c: c.update({"num_attention_heads": 2}), ModelFileError, "attn_k"),
    ],
)
def test_other_checkpoints_are_refused(
    tmp_path: Path,
    target: Path,
    spoil: Callable[[Arrays, dict[str, Any]], object],
    error: type[Exception],
    message: str,
) -> None:
    shape = shape_for(target)
    arrays, config = published(shape, "midlayer."), config_of(shape)
    spoil(arrays, config)
    folder = write_folder(tmp_path / "heads", arrays, config)
    with pytest.raises(error, match=message):
        convert_eagle3(folder, inspect(target), tmp_path / "heads.gguf")
    assert not (tmp_path / "heads.gguf").exists()


@pytest.mark.parametrize("content", [None, "[]", "{"])
def test_folders_without_a_config(tmp_path: Path, target: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(ModelFileError, match=r"config\.json"):
        convert_eagle3(tmp_path, inspect(target), tmp_path / "heads.gguf")


# The commands


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def test_commands_convert_and_check(
    tmp_path: Path, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shape = shape_for(target)
    folder = write_folder(tmp_path / "eagle", published(shape, "midlayer."), config_of(shape))
    data = tmp_path / "data"
    assert run("models", "convert-eagle3", folder, "--target", target, "--data-dir", data) == 0
    eagle = Path(capsys.readouterr().out.strip())
    assert eagle == data / "models" / "eagle-eagle3.gguf"
    assert run("models", "check", target, eagle, "--data-dir", data) == 0
    assert "can draft for" in capsys.readouterr().out

    arrays = medusa_arrays(shape.hidden, shape.vocabulary)
    (tmp_path / "medusa").mkdir()
    write_safetensors(tmp_path / "medusa" / "medusa_lm_head.safetensors", arrays)
    output = tmp_path / "small.gguf"
    command = ("models", "convert-medusa", tmp_path / "medusa", "--target", target)
    assert run(*command, "--first-tokens", 100, "--output", output, "--data-dir", data) == 0
    heads = read_medusa(output)
    assert heads.rows == 100 and heads.target_hash == target_hash(inspect(target))
    rows = heads.heads[0].output
    assert rows is not None and rows.dtype == "Q8_0"
    capsys.readouterr()

    other = write_tiny_gguf(tmp_path / "other.gguf", layers=3)
    assert run("models", "check", other, eagle, "--data-dir", data) == 2
    assert "reads layers 1, 2, 4" in capsys.readouterr().err
    assert run("models", "check", other, output, "--json", "--data-dir", data) == 2
    assert json.loads(capsys.readouterr().out)["reason"] == "made for another model"
    assert run(*command, "--first-tokens", 0, "--output", output, "--data-dir", data) == 2
