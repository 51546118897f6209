"""What the model dropdowns offer. Nothing is hidden: what cannot be chosen says why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from engine.drafters.expression import drafter_text
from engine.drafters.kind import DrafterKind
from engine.drafters.registry import KINDS, kind_named
from engine.files import disk as files

Obstacle = Callable[[str, str], str | None]
Note = Callable[[str, str], str]

ACROSS = "Across tokenizers"
TRAINED = "Trained for this target"


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A known model. bytes: size on disk or of the download, 0 if not known.

    drafters: suggested ids. problem: why it cannot be used although it is here, else "".
    heads: kind of drafter it is for another model, "" for a model of its own. mtp_problem: why it
    cannot draft for itself with an MTP layer, "" if it can.
    """

    id: str
    name: str
    bytes: int
    downloaded: bool
    detail: str = ""
    downloadable: bool = True
    drafters: tuple[str, ...] = ()
    problem: str = ""
    heads: str = ""
    mtp_problem: str = "the model has no MTP layer"


@dataclass(frozen=True, slots=True)
class TrainedChoice:
    """A drafter that was trained for a model. value: its expression. reason: as in Option."""

    value: str
    label: str
    detail: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Option:
    """One row of a dropdown. reason: why it cannot be chosen, None if it can.

    action: what would help (`download:<id>`). tuning: what can be set of it: "tree" (nodes),
    "layers" (left out), "siblings" (next-best tokens beside its draft).
    """

    value: str
    label: str
    detail: str
    group: str
    reason: str | None = None
    action: str | None = None
    suggested: bool = False
    tuning: tuple[str, ...] = ()


def target_options(models: Sequence[ModelChoice]) -> list[Option]:
    """What is here comes first, else in the order of the models."""
    here_first = sorted(models, key=lambda model: not model.downloaded)
    return [_model_option(model, model.id, _group(model), _not_here(model)) for model in here_first]


def drafter_options(
    models: Sequence[ModelChoice],
    target: str | None,
    obstacle: Obstacle,
    trained: Sequence[TrainedChoice] = (),
    note: Note = lambda _target, _drafter: "",
) -> list[Option]:
    """obstacle(target, drafter) is the reason why a model cannot draft for the target.

    note(target, drafter) is what to know of one that can.
    """
    chosen = next((model for model in models if model.id == target), None)
    suggested = chosen.drafters if chosen is not None else ()
    options = _own_options(chosen) + [_trained_option(one) for one in trained]
    for model in models:
        reason = _drafter_reason(model, target, obstacle)
        group = "Models that can draft" if reason is None else "Not for this target"
        if reason and not model.downloaded and model.id in suggested:
            group = "Suggested, not downloaded"
        kind = model.heads or "model"
        value = drafter_text(kind, model.id)
        option = _model_option(model, value, group, reason, model.id in suggested)
        known = note(target, model.id) if target is not None and reason is None else ""
        detail = " · ".join(part for part in (option.detail, known) if part)
        options.append(replace(option, detail=detail, tuning=kind_named(kind).tuning))
        if reason is not None and _may_draft_across(model, target):
            options.append(_across_option(model))
    order = [
        "Without a second model",
        TRAINED,
        "Models that can draft",
        ACROSS,
        "Suggested, not downloaded",
        "Not for this target",
    ]
    return sorted(options, key=lambda option: (order.index(option.group), not option.suggested))


def _own_options(target: ModelChoice | None) -> list[Option]:
    """Drafters that need no other file."""
    return [_own_option(kind, target) for kind in KINDS if kind.needs_no_file]


def _own_option(kind: DrafterKind, target: ModelChoice | None) -> Option:
    reason = ""
    if kind.reads_mtp_layer:
        reason = target.mtp_problem if target is not None else "choose a target first"
    size = size_text(target.bytes) if kind.copies_target and target is not None else ""
    return Option(
        value=kind.name,
        label=kind.label,
        detail=f"{kind.description}, at most {size}." if size else f"{kind.description}.",
        group="Not for this target" if reason else "Without a second model",
        reason=reason or None,
        tuning=kind.tuning,
    )


def _trained_option(trained: TrainedChoice) -> Option:
    kind = trained.value.partition(":")[0]
    return Option(
        value=trained.value,
        label=trained.label,
        detail=trained.detail,
        group=TRAINED if trained.reason is None else "Not for this target",
        reason=trained.reason,
        tuning=("siblings",) if kind == "early-exit" else kind_named(kind).tuning,
    )


def _may_draft_across(model: ModelChoice, target: str | None) -> bool:
    """Whether only its tokenizer can stand between the model and the target."""
    is_other = target is not None and model.id != target
    return is_other and model.downloaded and not model.problem and not model.heads


def _across_option(model: ModelChoice) -> Option:
    across = kind_named("tli")
    return Option(
        value=drafter_text("tli", model.id),
        label=model.name,
        detail=f"{across.description}.",
        group=ACROSS,
        tuning=across.tuning,
    )


def _drafter_reason(model: ModelChoice, target: str | None, obstacle: Obstacle) -> str | None:
    if target is None:
        return "choose a target first"
    if model.id == target:
        return "this is the target"
    problem = "" if model.heads else model.problem
    return problem or obstacle(target, model.id) or (None if model.downloaded else "not downloaded")


def _not_here(model: ModelChoice) -> str | None:
    if not model.downloaded:
        return "not downloaded"
    return model.problem or None


def _group(model: ModelChoice) -> str:
    return "On this computer" if model.downloaded else "To download"


def _model_option(
    model: ModelChoice, value: str, group: str, reason: str | None, suggested: bool = False
) -> Option:
    can_fetch = not model.downloaded and model.downloadable
    return Option(
        value=value,
        label=model.name,
        detail=" · ".join(part for part in (size_text(model.bytes), model.detail) if part),
        group=group,
        reason=reason,
        action=f"download:{model.id}" if can_fetch else None,
        suggested=suggested,
    )


def size_text(number: int) -> str:
    """Decimal units; "" for an unknown size."""
    return files.size_text(number) if number > 0 else ""
