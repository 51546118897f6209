"""The real server with the scripted engine: python -m tests.e2e.fake_server PORT FOLDER [PACE]"""

from __future__ import annotations

import sys
from pathlib import Path

from app.run import serve
from app.services import Application
from engine.folders import DataFolder
from tests.fakes_engine import FakeEngine
from tests.fakes_shelf import FakeShelf


def main() -> None:
    port, folder = int(sys.argv[1]), DataFolder(Path(sys.argv[2]))
    pace = float(sys.argv[3]) if len(sys.argv) > 3 else 400.0
    trainer = (sys.executable, "-m", "tests.scripted_trainer")
    application = Application(FakeEngine(pace), FakeShelf(), folder, trainer)
    application.load_last()
    serve(application, "127.0.0.1", port)


if __name__ == "__main__":
    main()
