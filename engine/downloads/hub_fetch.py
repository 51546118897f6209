"""Downloading from the Hub, inside a download's child process.

The file is first written to a stage folder inside the Hub's cache (same volume), checked there, and
only then moved to its place among the cache's blobs: an unchecked file is never visible, neither
to Forerun nor to other tools, and cancelling means deleting the stage.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import huggingface_hub
from huggingface_hub import constants
from tqdm import tqdm

from engine.data.errors import DownloadError
from engine.downloads.channel import Channel, check_file
from engine.downloads.hub_errors import hub_errors
from engine.downloads.transfer import DownloadSpec, RepoFile, part_names, quant_of_name
from engine.models.entry import HubSource
from engine.models.hub_cache import hub_cache, repository_folder

_CONNECT_SECONDS = 5.0
_CHUNK = 1 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}")


def fetch_from_hub(source: HubSource, spec: DownloadSpec, channel: Channel) -> Path:
    """Download, check and file the source; returns its path in the cache.

    Raises DownloadError or GatedModelError with one sentence.
    """
    constants.DOWNLOAD_CHUNK_SIZE = _CHUNK  # the default of 10 MiB makes a jumpy bar
    with hub_errors(source.repo, source.file):
        files = [_RemoteFile.find(source, name) for name in part_names(source.file)]
        _check_identity(files, spec)
        missing = [file for file in files if not file.is_cached]
        if missing:
            total = sum(file.bytes for file in files)
            channel.ask_space(sum(file.bytes for file in missing), hub_cache())
            _stage(missing, hub_cache() / spec.stage, _Progress(channel, total), channel)
        paths = [file.link() for file in files]
        return paths[0]


def list_hub_files(repo: str, revision: str = "main") -> tuple[RepoFile, ...]:
    """The GGUF files of a repository; the parts of a split model are one entry.

    Raises DownloadError or GatedModelError.
    """
    with hub_errors(repo, ""):
        api = huggingface_hub.HfApi()
        found = api.model_info(repo, revision=revision, files_metadata=True, timeout=10)
    sizes = {
        sibling.rfilename: sibling.size or 0
        for sibling in found.siblings or ()
        if sibling.rfilename.lower().endswith(".gguf")
    }
    listed = []
    for name in sorted(sizes):
        parts = part_names(name)
        if parts[0] == name:
            total = sum(sizes.get(part, 0) for part in parts)
            listed.append(RepoFile(name, total, quant_of_name(name), len(parts)))
    return tuple(listed)


class _RemoteFile:
    """One file of a repository as the Hub describes it. etag: sha256 of files in large storage."""

    def __init__(self, source: HubSource, etag: str, size: int) -> None:
        self.source = source
        self.etag = etag
        self.bytes = size

    @staticmethod
    def find(source: HubSource, name: str) -> _RemoteFile:
        url = huggingface_hub.hf_hub_url(source.repo, name, revision=source.revision)
        token = huggingface_hub.get_token()
        found = huggingface_hub.get_hf_file_metadata(url, token=token, timeout=_CONNECT_SECONDS)
        if not found.etag or not found.size:
            raise DownloadError(f"the Hub does not describe {name}; try again later")
        return _RemoteFile(HubSource(source.repo, name, source.revision), found.etag, found.size)

    @property
    def sha256(self) -> str | None:
        return self.etag if _SHA256.fullmatch(self.etag) else None

    @property
    def blob(self) -> Path:
        return repository_folder(self.source.repo, hub_cache()) / "blobs" / self.etag

    @property
    def is_cached(self) -> bool:
        return self.blob.exists()

    def link(self) -> Path:
        """Let the library link the blob into its snapshot; nothing is transferred."""
        path = huggingface_hub.hf_hub_download(
            self.source.repo, self.source.file, revision=self.source.revision
        )
        return Path(path)


class _Progress:
    """Bytes over all files of a download."""

    def __init__(self, channel: Channel, total: int) -> None:
        self._channel = channel
        self._total = total
        self.finished = 0

    def bar(self) -> type[tqdm[object]]:
        """A progress bar class for the library that draws nothing and reports here."""
        report: Callable[[int], None] = self._report

        class Bar(tqdm):  # type: ignore[misc]
            def update(self, n: float | None = 1) -> bool | None:
                drawn: bool | None = super().update(n)
                report(int(self.n))
                return drawn

            def display(self, msg: str | None = None, pos: int | None = None) -> bool:
                return True

        return Bar

    def _report(self, done: int) -> None:
        self._channel.progress(min(self.finished + done, self._total), self._total)


def _check_identity(files: list[_RemoteFile], spec: DownloadSpec) -> None:
    """The catalogue's checksum must be the Hub's, before gigabytes are moved."""
    known, address = files[0].sha256, files[0].source.reference
    if spec.sha256 is not None and len(files) == 1 and known not in (None, spec.sha256):
        raise DownloadError(
            f"{address} is not the file that the catalogue describes any more; "
            f"`forerun models fetch {address}` takes it as it is now"
        )


def _stage(files: list[_RemoteFile], stage: Path, progress: _Progress, channel: Channel) -> None:
    """Download into the stage, check, move the blob into the cache."""
    try:
        for file in files:
            staged = huggingface_hub.hf_hub_download(
                file.source.repo,
                file.source.file,
                revision=file.source.revision,
                cache_dir=stage,
                tqdm_class=progress.bar(),
            )
            blob = Path(staged).resolve()
            check_file(blob, file.sha256, channel)
            file.blob.parent.mkdir(parents=True, exist_ok=True)
            os.replace(blob, file.blob)
            progress.finished += file.bytes
    finally:
        shutil.rmtree(stage, ignore_errors=True)
