"""All downloads of this process, one at a time in the order they were asked for.

Jobs belong to the process, not to a page: a reload finds them again with `jobs`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from engine.data.errors import UnknownModelError
from engine.data.folders import DataFolder
from engine.downloads.job import DownloadJob, DownloadSnapshot, FreeSpace, JobHooks
from engine.downloads.process import (
    remove_stale_stages,
    stage_name,
    work_folder,
)
from engine.downloads.transfer import DownloadSpec
from engine.files.disk import disk_free
from engine.models.entry import HubSource, ModelEntry, hub_entry
from engine.models.hub_cache import record
from engine.models.locate import fetched_path, own_path

Listener = Callable[[], None]


class Downloads:
    """Thread-safe. free_space: free bytes on a folder's volume."""

    def __init__(self, data_folder: DataFolder, free_space: FreeSpace = disk_free) -> None:
        self._data_folder = data_folder.ensure()
        self._free_space = free_space
        self._condition = threading.Condition()
        self._jobs: dict[str, DownloadJob] = {}
        self._entries: dict[str, ModelEntry] = {}
        self._queue: list[DownloadJob] = []
        self._worker: threading.Thread | None = None
        self._listeners: list[Listener] = []
        remove_stale_stages()

    def start(self, wanted: ModelEntry | HubSource) -> DownloadSnapshot:
        """Queue a download; asking again while it is active, or when it is there, is harmless."""
        entry = hub_entry(wanted) if isinstance(wanted, HubSource) else wanted
        present = fetched_path(entry, self._data_folder)
        with self._condition:
            known = self._jobs.get(entry.id)
            if known is not None and known.snapshot().is_active:
                return known.snapshot()
            job = self._new_job(entry)
            if present is None:
                self._enqueue(job)
        if present is not None:
            job.is_present(present)
        self._notify()
        return job.snapshot()

    def jobs(self) -> tuple[DownloadSnapshot, ...]:
        """Every download that was asked for and not dismissed."""
        with self._condition:
            return tuple(job.snapshot() for job in self._jobs.values())

    def job(self, id_: str) -> DownloadSnapshot:
        """Raises UnknownModelError if there is no such download."""
        return self._job(id_).snapshot()

    def cancel(self, id_: str) -> None:
        """Stop it and remove its partial files; no effect on one that has ended."""
        job = self._job(id_)
        if job.snapshot().is_active:
            job.cancel()

    def retry(self, id_: str) -> DownloadSnapshot:
        """Start a failed or cancelled download again; a failed one goes on where it can."""
        self._job(id_)
        return self.start(self._entries[id_])

    def dismiss(self, id_: str) -> None:
        """Take an ended download off the list; the partial files of a failed one go too."""
        job = self._job(id_)
        with self._condition:
            if job.snapshot().is_active:
                return
            del self._jobs[id_]
        job.clean()
        self._notify()

    def wait(self, id_: str, timeout: float | None = None) -> DownloadSnapshot:
        """Block until the download has ended, or the timeout (seconds) has passed."""
        with self._condition:
            self._condition.wait_for(lambda: not self.job(id_).is_active, timeout)
        return self.job(id_)

    def subscribe(self, listener: Listener) -> None:
        """Call the listener after every change, from the thread that made it."""
        with self._condition:
            self._listeners.append(listener)

    def close(self) -> None:
        """Cancel what is active and wait until its processes are gone."""
        for snapshot in self.jobs():
            if snapshot.is_active:
                self.cancel(snapshot.id)
        with self._condition:
            self._condition.wait_for(lambda: self._worker is None)

    def _job(self, id_: str) -> DownloadJob:
        with self._condition:
            job = self._jobs.get(id_)
        if job is None:
            raise UnknownModelError(f"there is no download {id_!r}")
        return job

    def _new_job(self, entry: ModelEntry) -> DownloadJob:
        """With the condition held."""
        spec = DownloadSpec(
            id=entry.id,
            bytes=entry.bytes,
            sha256=entry.sha256,
            sources=entry.sources,
            target=str(own_path(entry.id, self._data_folder)),
            work=str(work_folder(self._data_folder, entry.id)),
            stage=stage_name(entry.id),
        )
        hooks = JobHooks(self._free_space, lambda: self._remember(entry), self._notify)
        self._entries[entry.id] = entry
        self._jobs[entry.id] = job = DownloadJob(spec, entry.name, hooks)
        return job

    def _enqueue(self, job: DownloadJob) -> None:
        """With the condition held."""
        self._queue.append(job)
        self._start_next()

    def _start_next(self) -> None:
        """With the condition held."""
        if self._worker is None and self._queue:
            self._worker = threading.Thread(target=self._work, name="downloads", daemon=True)
            self._worker.start()

    def _work(self) -> None:
        """One job; the next one goes to a thread of its own, whatever became of this one's."""
        with self._condition:
            job = self._queue.pop(0)
        try:
            job.run()
        finally:
            with self._condition:
                self._worker = None
                self._start_next()
                self._condition.notify_all()

    def _remember(self, entry: ModelEntry) -> None:
        """A file chosen by its address becomes one of the user's models."""
        if entry.origin == "hub" and entry.hub is not None:
            record(self._data_folder, entry.hub)

    def _notify(self) -> None:
        with self._condition:
            self._condition.notify_all()
            listeners = tuple(self._listeners)
        for listener in listeners:
            listener()
