"""The catalogue: models.toml of the project, and the user's own file on top of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.data.documents import DocumentError, decoded, parse_toml
from engine.data.errors import ConfigError
from engine.data.folders import DataFolder
from engine.files.disk import user_path, write_atomically
from engine.files.reference import file_of, reference_of
from engine.files.stored import put_aside
from engine.models.catalogue_table import parse_model
from engine.models.entry import ModelEntry

CATALOGUE_FILE = Path(__file__).resolve().parents[2] / "models.toml"
_ID = re.compile(r"[a-z0-9][a-z0-9._-]*")
_FOLDERS_SECTION = re.compile(r"^\[folders\][^\n]*\n(?:(?!\[)[^\n]*(?:\n|$))*", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """entries: in file order, the user's additions last. folders: the user's model folders."""

    entries: tuple[ModelEntry, ...]
    folders: tuple[Path, ...] = ()

    @staticmethod
    def load(data_folder: DataFolder, catalogue_file: Path = CATALOGUE_FILE) -> Catalogue:
        """Read both files. Raises ConfigError naming the file, the table and the key."""
        project = _tables(catalogue_file, ("models",))
        base = _section(project, "models", catalogue_file.name)
        entries = {id_: parse_model(catalogue_file.name, id_, table) for id_, table in base.items()}
        user_file = data_folder.user_catalogue_file
        if not user_file.exists():
            return Catalogue(tuple(entries.values()))
        user = _tables(user_file, ("models", "folders"))
        for id_, table in _section(user, "models", str(user_file)).items():
            merged = {**base.get(id_, {}), **table}
            entries[id_] = parse_model(str(user_file), id_, merged, origin="user")
        return Catalogue(tuple(entries.values()), _folder_paths(user, user_file))

    def get(self, id_: str) -> ModelEntry | None:
        return next((entry for entry in self.entries if entry.id == id_), None)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(entry.id for entry in self.entries)


def set_aside_catalogue(data_folder: DataFolder) -> str:
    """Puts the user's own file aside if it is wrong, so that a page can start without it.

    "" or one sentence on what was wrong with it, and where it is now.
    """
    try:
        Catalogue.load(data_folder)
    except ConfigError as error:
        if not data_folder.user_catalogue_file.exists():
            raise
        return put_aside(data_folder.user_catalogue_file, str(error))
    return ""


def add_folder(data_folder: DataFolder, folder: Path) -> None:
    """List the GGUF files of this folder from now on. Raises ConfigError if it is no folder."""
    wanted = user_path(folder).resolve()
    if not wanted.is_dir():
        raise ConfigError(f"{folder} is not a folder; give the folder that holds the GGUF files")
    current = Catalogue.load(data_folder).folders
    if wanted not in current:
        _write_folders(data_folder, (*current, wanted))


def remove_folder(data_folder: DataFolder, folder: Path) -> None:
    """Forget the folder; its files stay where they are. Raises ConfigError if it is not listed."""
    wanted = user_path(folder).resolve()
    current = Catalogue.load(data_folder).folders
    if wanted not in current:
        raise ConfigError(f"{folder} is not one of the model folders")
    _write_folders(data_folder, tuple(path for path in current if path != wanted))


def _write_folders(data_folder: DataFolder, folders: tuple[Path, ...]) -> None:
    """Replace only the [folders] table: the rest of the file is the user's own writing."""
    path = data_folder.user_catalogue_file
    text = decoded(path.read_bytes()) if path.exists() else ""
    listed = "".join(
        f"    {json.dumps(reference_of(folder), ensure_ascii=False)},\n" for folder in folders
    )
    section = f"[folders]\npaths = [\n{listed}]\n" if folders else ""
    kept = _FOLDERS_SECTION.sub("", text).rstrip()
    new_text = "\n\n".join(part for part in (kept, section.rstrip()) if part) + "\n"
    try:
        parsed = parse_toml(new_text)
    except DocumentError as error:
        raise ConfigError(f"{path}: edit [folders] by hand, it is written unusually") from error
    if _folder_paths(parsed, path) != folders:
        raise ConfigError(f"{path}: edit [folders] by hand, it is written unusually")
    write_atomically(path, new_text)


def _tables(path: Path, allowed: tuple[str, ...]) -> dict[str, Any]:
    try:
        content = parse_toml(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    except DocumentError as error:
        raise ConfigError(f"{path} {error}") from error
    for key in content:
        if key not in allowed:
            raise ConfigError(f"{path}: unknown table [{key}]; known: {', '.join(allowed)}")
    return content


def _section(content: Mapping[str, Any], name: str, file_name: str) -> dict[str, dict[str, Any]]:
    section = content.get(name, {})
    if not isinstance(section, dict):
        raise ConfigError(f"{file_name}: [{name}] must be a table")
    for id_, table in section.items():
        if not _ID.fullmatch(id_):
            raise ConfigError(
                f"{file_name}: [{name}.{id_}] is not a valid id; use a-z, 0-9, '.', '_' and '-'"
            )
        if not isinstance(table, dict):
            raise ConfigError(f"{file_name}: [{name}.{id_}] must be a table")
    return section


def _folder_paths(content: Mapping[str, Any], path: Path) -> tuple[Path, ...]:
    table = content.get("folders", {})
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: [folders] must be a table")
    for key in table:
        if key != "paths":
            raise ConfigError(f"{path}: [folders] has the unknown key {key!r}; known: paths")
    paths = table.get("paths", [])
    if not isinstance(paths, list) or not all(isinstance(item, str) and item for item in paths):
        raise ConfigError(f"{path}: [folders] paths must be a list of folder names")
    return tuple(file_of(item) for item in paths)
