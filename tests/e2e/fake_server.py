"""The real server with the scripted engine: python -m tests.e2e.fake_server PORT FOLDER [PACE]

A line "reset" on its standard input puts everything back to how it was at the first start; the
answer is a line "reset" on standard output.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import asdict
from pathlib import Path

from app.handlers import Services
from app.preferences import View
from app.run import serve
from app.services import Application
from app.settings import Settings
from app.torch_install import Installer
from engine.data.folders import DataFolder
from tests.fakes_engine import FakeEngine
from tests.fakes_models import FakeDownloads, FakeModels

TARGET, DRAFTERS = "starter", ("ngram",)


def reset(services: Services) -> None:
    """Through the services that a page's requests go through, so that open pages hear of it."""
    services.chat.close()
    services.lab.close()
    end_training(services)
    for conversation in services.chat.conversations(limit=100_000)["items"]:
        services.chat.delete(conversation["id"])
    for download in services.downloads.jobs():
        services.downloads.dismiss(download.id)
    for preset in services.presets.file.current.items:
        services.presets.file.delete(preset.name)
    services.preferences.set_settings(asdict(Settings()))
    services.preferences.set_view(asdict(View()))
    load_first(services)


def end_training(services: Services) -> None:
    training = services.training
    if training.job is None:
        return
    training.stop()
    training.stop()
    training.wait()
    training.dismiss()


def load_first(services: Services) -> None:
    """What the first start loads, unless just that is loaded."""
    loading = services.loading
    loading.wait()
    state = loading.state()
    pair = {"target": TARGET, "drafters": list(DRAFTERS)}
    request = asdict(Settings().load_request(TARGET, DRAFTERS))
    is_first = state["pair"] == pair and state["loaded"]["request"] == request
    if state["error"] or not is_first:
        loading.start(TARGET, DRAFTERS)
        loading.wait()


def listen(services: Services) -> None:
    for line in sys.stdin:
        if line.strip() == "reset":
            answer = "failed"  # the test is told, and finds the reason in the log
            try:
                reset(services)
                answer = "reset"
            finally:
                print(answer, flush=True)


def installer(folder: DataFolder) -> Installer:
    """torch is missing while the data folder has a file of that name, and is then installed."""
    mark = folder.root / "torch-is-missing"
    command = (sys.executable, "-m", "tests.scripted_installer", str(mark))
    return Installer(command, lambda: "training needs `torch`." if mark.exists() else "")


def main() -> None:
    port, folder = int(sys.argv[1]), DataFolder(Path(sys.argv[2]))
    pace = float(sys.argv[3]) if len(sys.argv) > 3 else 400.0
    trainer = (sys.executable, "-m", "tests.scripted_trainer")
    engine, models, downloads = FakeEngine(pace), FakeModels(), FakeDownloads()
    application = Application(engine, models, downloads, folder, trainer, installer(folder))
    application.load_last()
    threading.Thread(target=listen, args=(application.services,), daemon=True).start()
    serve(application, "127.0.0.1", port)


if __name__ == "__main__":
    main()
