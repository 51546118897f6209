"""`forerun models ...`: list, fetch, inspect, check and remove models."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.cli import derive, heads, scan
from engine.cli.parser import Subparsers
from engine.cli.progress import follow
from engine.data.documents import json_text
from engine.data.errors import ERROR_KINDS, IncompatiblePairError, RunError, UnknownModelError
from engine.data.folders import DataFolder
from engine.data.shown import shown
from engine.downloads.hub_list import list_files
from engine.downloads.manager import Downloads
from engine.drafters.expression import drafter_text
from engine.files.disk import size_text
from engine.files.gguf import GgufInfo, inspect
from engine.files.reference import file_of, reference_of
from engine.heads.folder import folder_obstacle
from engine.heads.pairing import HEAD_KINDS, heads_obstacle
from engine.models.catalogue import Catalogue, add_folder, remove_folder
from engine.models.entry import HUB_PREFIX, HubSource, ModelEntry, parse_hub_reference
from engine.models.library import KnownModel, known_models, remove
from engine.models.locate import locate
from engine.models.pair import check_files, way_across
from engine.models.token_map import shared_tokens

_MODEL_HELP = "catalogue id, GGUF path or hub:owner/repo/file.gguf"


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("models", description="The models on this machine.")
    nested = parser.add_subparsers(dest="models_command", metavar="COMMAND", required=True)
    _add_list(nested)
    _add_fetch(nested)
    _add_inspect(nested)
    _add_check(nested)
    _add_files(nested)
    _add_folders(nested)
    removing = nested.add_parser("remove", description="Delete a fetched or derived model.")
    removing.add_argument("model", help=_MODEL_HELP)
    removing.set_defaults(func=_remove)
    scan.add_parser(nested)
    derive.add_parsers(nested)
    heads.add_parsers(nested)


def _add_list(nested: Subparsers) -> None:
    parser = nested.add_parser("list", description="All known models.")
    parser.add_argument("--downloaded", action="store_true", help="only those that are here")
    parser.add_argument("--json", action="store_true", help="one JSON array on stdout")
    parser.set_defaults(func=_list)


def _add_fetch(nested: Subparsers) -> None:
    parser = nested.add_parser("fetch", description="Download a model.")
    parser.add_argument("model", help="catalogue id or hub:owner/repo/file.gguf")
    parser.set_defaults(func=_fetch)


def _add_inspect(nested: Subparsers) -> None:
    parser = nested.add_parser("inspect", description="What a GGUF file says about itself.")
    parser.add_argument("model", help=_MODEL_HELP)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.set_defaults(func=_inspect)


def _add_check(nested: Subparsers) -> None:
    parser = nested.add_parser("check", description="May one model draft for another?")
    parser.add_argument("target", help=_MODEL_HELP)
    parser.add_argument("drafter", help=f"{_MODEL_HELP}, or a folder with published heads")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.set_defaults(func=_check)


def _add_files(nested: Subparsers) -> None:
    parser = nested.add_parser("files", description="The GGUF files of a Hub repository.")
    parser.add_argument("repository", help="owner/name")
    parser.add_argument("--json", action="store_true", help="one JSON array on stdout")
    parser.set_defaults(func=_files)


def _add_folders(nested: Subparsers) -> None:
    parser = nested.add_parser("folders", description="Your own folders with GGUF files and heads.")
    parser.add_argument("--add", type=Path, metavar="DIR", help="list the models in DIR too")
    parser.add_argument("--remove", type=Path, metavar="DIR", help="no longer; files stay")
    parser.set_defaults(func=_folders)


def _list(arguments: argparse.Namespace) -> int:
    folder = DataFolder(arguments.data_dir)
    models = known_models(Catalogue.load(folder), folder)
    listed = [model for model in models if model.path is not None or not arguments.downloaded]
    if arguments.json:
        print(json.dumps([_short_json(model) for model in listed], indent=2))
    else:
        print("\n".join(_rows(listed)))
    return 0


def _fetch(arguments: argparse.Namespace) -> int:
    folder = DataFolder(arguments.data_dir)
    wanted = _wanted(arguments.model, Catalogue.load(folder), folder)
    if isinstance(wanted, Path):
        print(reference_of(wanted))
        return 0
    downloads = Downloads(folder)
    try:
        ended = follow(downloads, downloads.start(wanted).id)
    finally:
        downloads.close()
    if ended.path is None:
        raise ERROR_KINDS.get(ended.error, RunError)(f"{arguments.model}: {ended.message}")
    print(reference_of(ended.path))
    return 0


def _wanted(
    reference: str, catalogue: Catalogue, folder: DataFolder
) -> ModelEntry | HubSource | Path:
    """What to download; a Path if the reference is a file that is here already."""
    entry = catalogue.get(reference) or parse_hub_reference(reference)
    if entry is not None:
        return entry
    if reference.startswith(HUB_PREFIX):
        repository = "/".join(reference.removeprefix(HUB_PREFIX).split("/")[:2])
        raise UnknownModelError(
            f"{reference} names no file; `forerun models files {repository}` lists them"
        )
    return locate(reference, catalogue, folder).path


def _inspect(arguments: argparse.Namespace) -> int:
    folder = DataFolder(arguments.data_dir)
    info = inspect(locate(arguments.model, Catalogue.load(folder), folder).path)
    if arguments.json:
        print(json_text(info.to_json(), indent=2))
    else:
        print("\n".join(_described(info)))
    return 0


def _check(arguments: argparse.Namespace) -> int:
    folder = DataFolder(arguments.data_dir)
    catalogue = Catalogue.load(folder)
    target = locate(arguments.target, catalogue, folder)
    heads = file_of(arguments.drafter)
    if heads.is_dir():
        reason = folder_obstacle(target.path, heads)
        return _tell_of_heads(target.name, heads.name, reason, arguments.json)
    drafter = locate(arguments.drafter, catalogue, folder)
    if inspect(drafter.path).needs in HEAD_KINDS:
        reason = heads_obstacle(target.path, drafter.path)
        return _tell_of_heads(target.name, drafter.name, reason, arguments.json)
    report = check_files(target.path, drafter.path)
    if arguments.json:
        across = shared_tokens(target.path, drafter.path)
        direct = report.ok and not report.common
        more = {} if direct else {"across_tokenizers": across.to_json()}
        print(json.dumps({**report.to_json(), **more}, indent=2))
        return 0 if report.ok else IncompatiblePairError.exit_code
    if not report.ok:
        way = way_across(target.path, drafter.path, drafter_text("tli", arguments.drafter))
        raise IncompatiblePairError(
            f"{drafter.name} cannot draft for {target.name}: {report.reason}{way and f'; {way}'}"
        )
    common = report.common or report.shared
    print(f"{drafter.name} can draft for {target.name}: {common:,} tokens in common")
    print("".join(f"  note: {shown(note)}\n" for note in report.notes), end="")
    return 0


def _tell_of_heads(target: str, heads: str, reason: str, as_json: bool) -> int:
    if as_json:
        print(json.dumps({"ok": not reason, "reason": reason}, indent=2))
        return IncompatiblePairError.exit_code if reason else 0
    if reason:
        raise IncompatiblePairError(f"{heads} cannot draft for {target}: {reason}")
    print(shown(f"{heads} can draft for {target}"))
    return 0


def _files(arguments: argparse.Namespace) -> int:
    files = list_files(arguments.repository.removeprefix(HUB_PREFIX))
    if arguments.json:
        rows = [{"name": one.name, "bytes": one.bytes, "quant": one.quant} for one in files]
        print(json.dumps(rows, indent=2))
        return 0
    if not files:
        raise UnknownModelError(f"{arguments.repository} holds no GGUF files; try another")
    width = max(len(shown(one.name)) for one in files)
    for one in files:
        print(f"{shown(one.name):<{width}}  {size_text(one.bytes):>9}  {one.quant}")
    return 0


def _folders(arguments: argparse.Namespace) -> int:
    folder = DataFolder(arguments.data_dir)
    if arguments.add is not None:
        add_folder(folder, arguments.add)
    if arguments.remove is not None:
        remove_folder(folder, arguments.remove)
    for path in Catalogue.load(folder).folders:
        print(reference_of(path))
    return 0


def _remove(arguments: argparse.Namespace) -> int:
    folder = DataFolder(arguments.data_dir)
    freed = remove(arguments.model, Catalogue.load(folder), folder)
    print(f"removed {shown(arguments.model)}, {size_text(freed)} freed")
    return 0


def _short_json(model: KnownModel) -> dict[str, Any]:
    entry = model.entry
    return {
        "id": model.id,
        "name": model.name,
        "origin": model.origin,
        "downloaded": model.path is not None,
        "path": None if model.path is None else reference_of(model.path),
        "bytes": model.bytes,
        "quant": model.quant,
        "licence": model.licence,
        "unverified": list(entry.unverified) if entry is not None else [],
        "program": model.program,
        "drafters": list(entry.drafters) if entry is not None else [],
        "problem": model.problem,
    }


def _rows(models: list[KnownModel]) -> Iterator[str]:
    if not models:
        yield "no models here yet; `forerun models list` shows what can be fetched"
        return
    width = max(len(model.id) for model in models)
    for model in models:
        here = "here" if model.path is not None else "-"
        size = size_text(model.bytes) if model.bytes else ""
        state = model.problem or model.name
        unsure = model.entry is not None and "licence" in model.entry.unverified
        licence = f" ({model.licence}{', not verified' * unsure})" if model.licence else ""
        yield f"{model.id:<{width}}  {here:<4}  {size:>8}  {model.quant:<7}  {state}{licence}"


def _described(info: GgufInfo) -> Iterator[str]:
    heads = f"{max(info.head_count, default=0)} heads, {max(info.head_count_kv, default=0)} KV"
    rows = {
        "name": info.name,
        "architecture": info.architecture,
        "use": "text model" if info.needs is None else info.needs,
        "parameters": f"{info.parameters:,}",
        "quantisation": info.quant,
        "size": size_text(info.bytes),
        "context": f"{info.context_length:,} tokens",
        "layers": f"{info.block_count}, hidden {info.embedding_length:,}, {heads}",
        "vocabulary": f"{info.vocabulary_size:,} ({info.tokenizer_model} {info.tokenizer_pre})",
        "chat template": "yes" if info.chat_template is not None else "none",
        "licence": info.licence or "not stated in the file",
        "path": info.path,
    }
    for name, value in rows.items():
        yield shown(f"{name:<14} {value}")
