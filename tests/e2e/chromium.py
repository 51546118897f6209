"""Which browser the tests drive: a Chromium or Chrome that is installed anyway."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "msedge",
)
PLACES = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
)


def find_chromium() -> str | None:
    """FORERUN_TEST_BROWSER, else one on the PATH, else one where installers put it."""
    if chosen := os.environ.get("FORERUN_TEST_BROWSER"):
        return chosen
    found = (shutil.which(name) for name in NAMES)
    return next((path for path in (*found, *PLACES) if path and Path(path).exists()), None)
