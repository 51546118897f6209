"""What the page needs to know of models: which there are, and which fit together."""

from __future__ import annotations

from typing import Protocol

from app.choices import ModelChoice, TrainedChoice, size_text
from engine.data.device import Room
from engine.data.errors import UnknownModelError
from engine.data.folders import DataFolder
from engine.data.loaded import LoadedSummary
from engine.data.request import LoadRequest
from engine.downloads.hub_fetch import list_hub_files
from engine.downloads.transfer import RepoFile
from engine.drafters.expression import drafter_text
from engine.drafters.parse import parse_expression
from engine.drafters.registry import kind_named
from engine.files.gguf import inspect
from engine.heads.folder import folder_obstacle
from engine.heads.pairing import HEAD_KINDS, heads_obstacle, mtp_obstacle
from engine.models.catalogue import Catalogue
from engine.models.elsewhere.machine import Machine
from engine.models.elsewhere.recent import Elsewhere
from engine.models.entry import HUB_PREFIX, HubSource, ModelEntry, parse_hub_reference
from engine.models.fit import check_fit
from engine.models.library import KnownModel, known_models
from engine.models.locate import locate
from engine.models.memory import ModelPlan, free_ram
from engine.models.pair import check_files
from engine.models.trained import TrainedDrafter, model_sha256, trained_drafters
from engine.serving.context_choice import usual_context
from engine.train.corpus.collection import corpus_folder
from engine.train.corpus.disk import estimated_bytes
from engine.train.corpus.settings import CollectSettings
from engine.train.corpus.shards import count
from engine.train.forecast import Forecast, TrainingBudget, target_forecast
from engine.train.trainable import require_trainable
from engine.train.training import HeadKind, TrainSettings


class ModelService(Protocol):
    """All calls may block for a moment (files, network); errors are EngineErrors."""

    def models(self) -> tuple[ModelChoice, ...]: ...

    def obstacle(self, target: str, drafter: str) -> str | None:
        """Why a model cannot draft for a target, None if it can."""
        ...

    def note(self, target: str, drafter: str) -> str:
        """What to know of a model that can draft for a target, "" for nothing."""
        ...

    def trained(self, target: str) -> tuple[TrainedChoice, ...]:
        """Drafters that were trained here or ship, for the target or for others."""
        ...

    def memory_warning(
        self, request: LoadRequest, drafters: tuple[str, ...], loaded: LoadedSummary | None
    ) -> str:
        """What to know before this load, "" if there is plenty. loaded: what it will replace."""
        ...

    def hidden_size(self, model: str) -> int:
        """Of a model that is here, 0 if it is not known."""
        ...

    def training_forecast(
        self, kind: HeadKind, target: str, budget: TrainingBudget, settings: TrainSettings
    ) -> Forecast | None:
        """What a training would bring, None if the target was never measured here.

        IncompatiblePairError when there is nothing of that kind to learn from it.
        """
        ...

    def training_bytes(self, target: str, tokens: int) -> int:
        """What so many answer tokens take on disk beside those that are there."""
        ...

    def repository_files(self, repository: str) -> tuple[RepoFile, ...]: ...

    def catalogue_entry(self, model: str) -> ModelEntry:
        """Where a model of the catalogue comes from; UnknownModelError."""
        ...

    def repository_file(self, repository: str, name: str) -> HubSource:
        """The same for a file of the Hub; UnknownModelError when it cannot be one."""
        ...


class LibraryModelService:
    """Over the engine's model library; reads the catalogue afresh at every question.

    machine: where other programs' models are looked for, None if they are not.
    """

    def __init__(self, folder: DataFolder, machine: Machine | None = None) -> None:
        self._folder = folder
        self._elsewhere = Elsewhere(machine)

    def models(self) -> tuple[ModelChoice, ...]:
        return tuple(_choice(model) for model in self._known())

    def obstacle(self, target: str, drafter: str) -> str | None:
        known = {model.id: model for model in self._known()}
        ours, theirs = known.get(target), known.get(drafter)
        if ours is None or theirs is None:
            return "no longer there"
        if ours.path is not None and theirs.path is not None:
            if ours.problem or theirs.problem:
                return theirs.problem or ours.problem
            if ours.heads is not None:
                return f"the target needs {ours.heads.method}"
            if theirs.heads is not None:
                return folder_obstacle(ours.path, theirs.path) or None
            if theirs.info is not None and theirs.info.needs in HEAD_KINDS:
                return heads_obstacle(ours.path, theirs.path) or None
            return check_files(ours.path, theirs.path).reason or None
        return _catalogue_obstacle(ours, theirs)

    def note(self, target: str, drafter: str) -> str:
        known = {model.id: model for model in self._known()}
        ours, theirs = known.get(target), known.get(drafter)
        plain = all(one is not None and one.info and one.info.is_model for one in (ours, theirs))
        if not plain or ours is None or theirs is None or not ours.path or not theirs.path:
            return ""
        report = check_files(ours.path, theirs.path)
        return report.notes[0] if report.common else ""

    def trained(self, target: str) -> tuple[TrainedChoice, ...]:
        known = next((one for one in self._known() if one.id == target), None)
        found = trained_drafters(self._folder)
        if known is None or known.path is None or not found:
            return ()
        sha256 = model_sha256(known.path, self._folder)
        return tuple(_trained_choice(one, sha256) for one in found)

    def memory_warning(
        self, request: LoadRequest, drafters: tuple[str, ...], loaded: LoadedSummary | None
    ) -> str:
        """Only a warning: whether it can be loaded is the engine's to say. Graphics cards are known
        from the last load; before the first, all is counted as RAM."""
        models = [request.target, *(name for name in map(_model_of, drafters) if name)]
        catalogue = Catalogue.load(self._folder)
        infos = [inspect(locate(name, catalogue, self._folder).path) for name in models]
        cards = loaded.cards if loaded is not None else ()
        layers = request.gpu_layers if cards else 0
        plans = [ModelPlan(info, layers, swa_full=False) for info in infos]
        free = Room(free_ram(), sum(card.free_bytes for card in cards))
        free += loaded.room if loaded is not None else Room(0)
        report = check_fit(plans, request.context_length or usual_context(plans, free), free)
        return report.message if report.level == "warn" else ""

    def hidden_size(self, model: str) -> int:
        known = next((one for one in self._known() if one.id == model), None)
        return known.info.embedding_length if known is not None and known.info is not None else 0

    def training_forecast(
        self, kind: HeadKind, target: str, budget: TrainingBudget, settings: TrainSettings
    ) -> Forecast | None:
        found = locate(target, Catalogue.load(self._folder), self._folder)
        require_trainable(kind, found.path)
        sha256 = model_sha256(found.path, self._folder)
        return target_forecast(kind, found, sha256, self._folder, budget, settings)

    def training_bytes(self, target: str, tokens: int) -> int:
        found = locate(target, Catalogue.load(self._folder), self._folder)
        sha256 = model_sha256(found.path, self._folder)
        folder = corpus_folder(self._folder.training, found, sha256)
        wanted = CollectSettings(str(folder), str(found.path), answer_tokens=tokens)
        return int(estimated_bytes(wanted, count(folder).answer_tokens, 0.0))

    def repository_files(self, repository: str) -> tuple[RepoFile, ...]:
        if parse_hub_reference(f"{HUB_PREFIX}{repository}/x.gguf") is None:
            raise UnknownModelError("write the repository as owner/repo")
        return list_hub_files(repository)

    def catalogue_entry(self, model: str) -> ModelEntry:
        entry = Catalogue.load(self._folder).get(model)
        if entry is None:
            raise UnknownModelError(f"{model} is not in the catalogue")
        return entry

    def repository_file(self, repository: str, name: str) -> HubSource:
        source = parse_hub_reference(f"{HUB_PREFIX}{repository}/{name}")
        if source is None:
            raise UnknownModelError(f"{repository}/{name} is not a file of the Hub")
        return source

    def _known(self) -> tuple[KnownModel, ...]:
        catalogue = Catalogue.load(self._folder)
        return known_models(catalogue, self._folder, self._elsewhere.models())


def _choice(model: KnownModel) -> ModelChoice:
    entry = model.entry
    needs = model.info.needs if model.info is not None else None
    heads = HEAD_KINDS.get(needs or "", "")
    if model.heads is not None:
        needs, heads = model.heads.method, model.heads.kind
    quant = model.quant or (model.heads.method if model.heads is not None else "")
    parts = [quant, model.licence, _unverified(entry), _origin(model)]
    return ModelChoice(
        id=model.id,
        name=model.name,
        bytes=model.bytes,
        downloaded=model.path is not None,
        detail=" · ".join(part for part in parts if part),
        downloadable=model.path is None and entry is not None and bool(entry.sources),
        drafters=entry.drafters if entry else (),
        problem=model.problem or (f"needs {needs}" if needs else ""),
        heads=heads,
        mtp_problem=mtp_obstacle(model.info) if model.info is not None else "not downloaded",
    )


def _trained_choice(one: TrainedDrafter, sha256: str) -> TrainedChoice:
    parts = [
        size_text(one.weights.stat().st_size),
        f"{one.accepted:.2f} tokens kept a draft on text it had not seen",
        "came with Forerun" if one.shipped else "trained here",
    ]
    return TrainedChoice(
        value=drafter_text(one.kind, one.name),
        label=f"{kind_named(one.kind).label} {one.name}",
        detail=" · ".join(parts),
        reason=None if one.target_sha256 == sha256 else f"trained for {one.target_name}",
    )


def _unverified(entry: ModelEntry | None) -> str:
    facts = entry.unverified if entry is not None else ()
    return f"{' and '.join(facts)} not verified" if facts else ""


def _origin(model: KnownModel) -> str:
    if model.origin == "elsewhere":
        return f"of {model.program}"
    return {"folder": "in your folder", "derived": "made here", "hub": "from the Hub"}.get(
        model.origin, ""
    )


def _catalogue_obstacle(target: KnownModel, drafter: KnownModel) -> str | None:
    """Before both files are here, the catalogue's word on tokenizers is all there is."""
    if target.entry is None or drafter.entry is None:
        return None
    ours, theirs = target.entry.tokenizer, drafter.entry.tokenizer
    return None if ours == theirs else f"tokenizer {theirs} against {ours}"


def _model_of(drafter: str) -> str | None:
    """The GGUF model that a chosen drafter brings along, None if it brings none."""
    leaf = parse_expression(drafter).leaves()[0]
    return kind_named(leaf.kind).model_of(leaf)
