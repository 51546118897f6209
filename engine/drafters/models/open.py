"""Opens a model as a drafter: with the target's tokenizer, or through the tokens both have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine.drafters.build_context import BuildContext
from engine.drafters.models.drafter import ModelDrafter, SameTokens, Translation
from engine.drafters.models.translation import TranslatedTokens
from engine.files.gguf import inspect
from engine.llama.context import Context, ContextOptions
from engine.llama.model import Model, ModelOptions
from engine.llama.vocab import Vocab
from engine.models.memory import ModelPlan, estimate
from engine.models.pair import require_pair
from engine.models.token_map import require_shared


def open_model(name: str, path: Path, build: BuildContext) -> ModelDrafter:
    """With the target's tokenizer, or nearly so. name: as in traces."""
    pair = require_pair(build.target.path, path)
    if pair.common:
        return open_translated(name, path, build)
    return _open(name, path, build, lambda vocab: SameTokens(pair.draft_limit, vocab.size))


def open_translated(name: str, path: Path, build: BuildContext) -> ModelDrafter:
    """With another tokenizer."""
    tokens = require_shared(build.target.path, path)
    target = build.target.vocab
    return _open(name, path, build, lambda vocab: TranslatedTokens(tokens, target, vocab))


def _open(
    name: str, path: Path, build: BuildContext, translation: Callable[[Vocab], Translation]
) -> ModelDrafter:
    plan = ModelPlan(inspect(path), build.gpu_layers, output_rows=1, swa_full=False)
    model = Model(
        path,
        ModelOptions(gpu_layers=build.gpu_layers),
        build.log,
        lambda fraction: build.report(f"reading {path.stem}", fraction),
    )
    try:
        context = Context(
            model,
            ContextOptions(
                build.context_length,
                1,
                build.threads,
                flash_attention=False if build.plain_attention else None,
            ),
            build.abort,
        )
    except BaseException:
        model.close()
        raise
    memory = estimate(plan, build.context_length)
    return ModelDrafter(name, context, translation(model.vocab), memory.kept, model.close)
