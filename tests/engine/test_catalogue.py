"""models.toml, the user's file, own folders, and finding a model by reference."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.data.errors import ConfigError, UnknownModelError
from engine.data.folders import DataFolder, default_data_folder
from engine.models.catalogue import CATALOGUE_FILE, Catalogue, add_folder, remove_folder
from engine.models.entry import HubSource, ModelEntry, WheelSource, parse_hub_reference
from engine.models.library import known_models, remove
from engine.models.locate import locate, own_path
from tests.hub_server import COMMIT
from tests.tiny_gguf import write_tiny_gguf

GOOD = """
[models.small]
name = "Small"
family = "F"
tokenizer = "t"
parameters = "1B"
quant = "Q8_0"
licence = "MIT"
hub = { repo = "owner/repo", file = "small.gguf" }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataFolder:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return DataFolder(tmp_path / "data").ensure()


def load(folder: DataFolder, project: str = GOOD, user: str | None = None) -> Catalogue:
    file = folder.root / "project.toml"
    file.write_text(project, "utf-8")
    if user is not None:
        folder.user_catalogue_file.write_text(user, "utf-8")
    return Catalogue.load(folder, file)


def test_the_projects_catalogue_is_valid(folder: DataFolder) -> None:
    catalogue = Catalogue.load(folder)
    assert len(catalogue.entries) >= 40
    assert len({entry.hub for entry in catalogue.entries if entry.hub}) == sum(
        entry.hub is not None for entry in catalogue.entries
    )
    by_id = {entry.id: entry for entry in catalogue.entries}
    for entry in catalogue.entries:
        assert entry.context > 0
        assert not (entry.bytes and entry.about_bytes), entry.id
        assert set(entry.drafters) <= set(by_id), entry.id
        for drafter in entry.drafters:
            assert by_id[drafter].tokenizer == entry.tokenizer, (entry.id, drafter)


def test_the_four_indexed_models_have_their_exact_facts(folder: DataFolder) -> None:
    catalogue = Catalogue.load(folder)
    facts = {
        "starter": (98_362_432, 1),
        "qwen-coder-1.5b": (1_117_320_768, 22),
        "qwen-coder-0.5b": (491_400_064, 6),
        "gemma3-270m": (253_113_024, 4),
    }
    for id_, (size, parts) in facts.items():
        entry = catalogue.get(id_)
        assert entry is not None and entry.bytes == size
        wheels = [source for source in entry.sources if isinstance(source, WheelSource)]
        assert [len(source.packages) for source in wheels] == [parts]
        assert entry.sha256 is not None


def test_wheel_parts_are_numbered_in_order(folder: DataFolder) -> None:
    wheels = 'wheels = { package = "a-part{n}", parts = 3, version = "1.0", member = "*" }'
    entry = load(folder, GOOD.replace("hub =", f"{wheels}\nhub =")).get("small")
    assert entry is not None
    assert entry.sources == (
        HubSource("owner/repo", "small.gguf"),
        WheelSource(("a-part1", "a-part2", "a-part3"), "1.0", "*"),
    )


def test_the_users_file_adds_and_overrides(folder: DataFolder) -> None:
    user = '[models.small]\nname = "Mine"\n' + GOOD.replace("models.small", 'models."own-1.5b"')
    catalogue = load(folder, user=user)
    assert catalogue.ids == ("small", "own-1.5b")
    small = catalogue.get("small")
    assert small is not None
    assert (small.name, small.family, small.origin) == ("Mine", "F", "user")


BAD = {
    "unknown key": (GOOD + "licens = 1\n", r"\[models.small\] has the unknown key 'licens'"),
    "unknown table": (GOOD + "[other]\n", r"unknown table \[other\]"),
    "missing": (GOOD.replace('quant = "Q8_0"\n', ""), r"\[models.small\] quant is missing"),
    "not a text": (GOOD.replace('"1B"', "1"), r"\[models.small\] parameters must be a text"),
    "empty text": (GOOD.replace('"MIT"', '" "'), "licence must be a text"),
    "bytes": (GOOD + "bytes = -1\n", r"bytes must be a whole number"),
    "bytes as bool": (GOOD + "bytes = true\n", r"bytes must be a whole number"),
    "context": (GOOD + 'context = "8k"\n', r"context must be a whole number"),
    "sha256": (GOOD + 'sha256 = "abc"\n', "sha256 must be 64 hexadecimal digits"),
    "about_gib": (GOOD + 'about_gib = "4"\n', "about_gib must be a number of GiB"),
    "unverified": (GOOD + 'unverified = ["name"]\n', "unverified must be some of licence, context"),
    "drafters": (GOOD + "drafters = [1]\n", "drafters must be a list of texts"),
    "no source": (GOOD.partition("hub =")[0], "needs a source"),
    "hub is no table": (re.sub("hub = .*", 'hub = "x"', GOOD), "hub must be a table"),
    "hub key": (GOOD.replace("repo =", "rep ="), r"\[models.small.hub\] has the unknown key 'rep'"),
    "hub repo": (GOOD.replace("owner/repo", "repo"), "owner/name"),
    "hub file": (GOOD.replace("small.gguf", "../x.gguf"), "path/to/file.gguf"),
    "wheels": (
        GOOD + 'wheels = { package = "a", parts = 2, version = "1", member = "*" }\n',
        "must contain {n} exactly when there are several parts",
    ),
    "parts": (
        GOOD + 'wheels = { package = "a{n}", parts = 9999, version = "1", member = "*" }\n',
        "parts must be between 1 and",
    ),
    "package": (
        GOOD + 'wheels = { package = "--evil", version = "1", member = "*" }\n',
        "must be a package name",
    ),
    "id": (GOOD.replace("models.small", 'models."a b"'), "is not a valid id"),
    "model is no table": ("[models]\nsmall = 1\n", r"\[models.small\] must be a table"),
    "models is no table": ("models = 1\n", r"\[models\] must be a table"),
    "syntax": ("[models\n", "is not valid TOML"),
    "folders key": ("[folders]\npath = []\n", "unknown key 'path'"),
    "folders value": ("[folders]\npaths = [1]\n", "must be a list of folder names"),
    "folders no table": ("folders = 1\n", r"\[folders\] must be a table"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_name_file_table_and_key(folder: DataFolder, name: str) -> None:
    content, words = BAD[name]
    with pytest.raises(ConfigError, match=words) as caught:
        load(folder, project="", user=content)
    assert str(folder.user_catalogue_file) in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_bad_project_file_is_an_error_too(folder: DataFolder) -> None:
    with pytest.raises(ConfigError, match=r"project.toml: \[models.small\] has the unknown key"):
        load(folder, GOOD + "x = 1\n")
    with pytest.raises(ConfigError, match="cannot be read"):
        Catalogue.load(folder, folder.root / "none.toml")


def test_folders_are_added_and_removed_without_touching_the_rest(
    folder: DataFolder, tmp_path: Path
) -> None:
    mine = "# my models\n" + GOOD
    folder.user_catalogue_file.write_text(mine, "utf-8")
    own, other = tmp_path / 'quo"ted', tmp_path / "other"
    own.mkdir()
    other.mkdir()
    add_folder(folder, own)
    add_folder(folder, other)
    add_folder(folder, own)
    assert Catalogue.load(folder).folders == (own, other)
    remove_folder(folder, own)
    assert Catalogue.load(folder).folders == (other,)
    remove_folder(folder, other)
    assert folder.user_catalogue_file.read_text("utf-8").strip() == mine.strip()
    with pytest.raises(ConfigError, match="not one of the model folders"):
        remove_folder(folder, other)
    with pytest.raises(ConfigError, match="is not a folder"):
        add_folder(folder, tmp_path / "none")


def test_folder_models_appear_by_their_own_metadata(folder: DataFolder, tmp_path: Path) -> None:
    own = tmp_path / "own"
    (own / "deep").mkdir(parents=True)
    path = write_tiny_gguf(own / "deep" / "a.gguf", name="My Model")
    (own / "broken.gguf").write_bytes(b"not a model")
    (own / "half.gguf.part").write_bytes(b"GGUF")
    add_folder(folder, own)
    models = known_models(load(folder), folder)
    assert [model.id for model in models] == ["small", str(own / "broken.gguf"), str(path)]
    assert models[0].path is None
    assert "not a GGUF file" in models[1].problem
    assert (models[2].name, models[2].quant, models[2].origin) == ("My Model F32", "F32", "folder")
    with pytest.raises(UnknownModelError, match="in your own folder"):
        remove(str(path), load(folder), folder)


def test_copies_made_here_are_named_after_their_source(folder: DataFolder) -> None:
    folder.derived.mkdir(parents=True, exist_ok=True)
    for stem in ("m-1.5b-0123abcd-skip-10+13", "m-1.5b-0123abcd-Q4_0"):
        write_tiny_gguf(folder.derived / f"{stem}.gguf", name="My Model")
    names = [model.name for model in known_models(load(folder), folder) if model.path is not None]
    assert names == ["m-1.5b as Q4_0", "m-1.5b without layers 10+13"]


def test_what_the_engine_makes_for_itself_is_not_offered(folder: DataFolder) -> None:
    """Heads completed with rows of their target's head, and what was left by a trial."""
    folder.derived.mkdir(parents=True, exist_ok=True)
    internal = (
        "heads-56f78aff-starter-0123abcd-head",
        "heads-56f78aff-m-89abcdef-Q4_0-0123abcd-head",
        "m-0123abcd-skip-trial",
        "anything",
    )
    for stem in internal:
        write_tiny_gguf(folder.derived / f"{stem}.gguf", architecture="eagle3")
    write_tiny_gguf(folder.derived / "m-0123abcd-Q4_0-89abcdef-skip-1.gguf")
    models = [model for model in known_models(load(folder), folder) if model.path is not None]
    assert [model.name for model in models] == ["m-0123abcd-Q4_0 without layers 1"]


def test_a_fetched_model_is_listed_once_and_removable(folder: DataFolder) -> None:
    catalogue = load(folder)
    path = write_tiny_gguf(own_path("small", folder))
    models = known_models(catalogue, folder)
    assert [(model.id, model.path) for model in models] == [("small", path)]
    assert locate("small", catalogue, folder).path == path
    assert remove("small", catalogue, folder) > 0
    assert not path.exists()


def put_into_cache(cache: Path, source: HubSource) -> Path:
    repository = cache / f"models--{source.repo.replace('/', '--')}"
    snapshot = repository / "snapshots" / COMMIT / source.file
    snapshot.parent.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    return write_tiny_gguf(snapshot)


def test_what_other_tools_fetched_is_found(folder: DataFolder, tmp_path: Path) -> None:
    source = HubSource("owner/repo", "small.gguf")
    path = put_into_cache(tmp_path / "hub", source)
    assert locate("small", load(folder), folder).path == path
    found = locate("hub:owner/repo/small.gguf", load(folder), folder)
    assert (found.path, found.name) == (path, "small")
    pinned = locate(f"hub:owner/repo@{COMMIT}/small.gguf", load(folder), folder)
    assert pinned.path == path


def test_paths_are_found_and_ids_come_first(
    folder: DataFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_tiny_gguf(tmp_path / "model.gguf")
    monkeypatch.chdir(tmp_path)
    assert locate("model.gguf", load(folder), folder).path == path
    assert locate("./model.gguf", load(folder), folder).id == str(path)
    (tmp_path / "small").write_bytes(b"")
    with pytest.raises(UnknownModelError, match="forerun models fetch small"):
        locate("small", load(folder), folder)


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("smal", "did you mean small"),
        ("zzz", "see `forerun models list`"),
        ("none.gguf", "there is no file none.gguf"),
        ("hub:owner/repo", "write hub:owner/repo/file.gguf"),
        ("hub:owner/repo/../../x.gguf", "is not a Hub file"),
        ("hub:owner/repo/x.gguf", "run `forerun models fetch hub:owner/repo/x.gguf`"),
        ("/", "is a folder"),
    ],
)
def test_unknown_references_say_what_to_do(folder: DataFolder, reference: str, words: str) -> None:
    with pytest.raises(UnknownModelError, match=re.escape(words)) as caught:
        locate(reference, load(folder), folder)
    assert caught.value.exit_code == 2


def test_hub_references_round_trip() -> None:
    for source in (HubSource("a/b", "c/d.gguf"), HubSource("a/b", "c.gguf", "v1.0")):
        assert parse_hub_reference(source.reference) == source
    assert parse_hub_reference("starter") is None


def test_the_data_folder_can_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORERUN_DATA_DIR", str(tmp_path / "chosen"))
    assert default_data_folder().root == tmp_path / "chosen"
    assert default_data_folder().models == tmp_path / "chosen" / "models"


def test_the_catalogue_file_is_in_the_checkout() -> None:
    assert CATALOGUE_FILE.is_file()
    assert isinstance(Catalogue.load(DataFolder(Path("none"))).entries[0], ModelEntry)
