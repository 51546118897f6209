"""Runs the web server until it is asked to stop."""

from __future__ import annotations

from collections.abc import Callable

import uvicorn

from app.server import create_app
from app.services import Application

GRACE_SECONDS = 2


class Server(uvicorn.Server):
    """uvicorn's server, which tells when it listens."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        await super().startup(sockets)  # type: ignore[arg-type]
        if self._on_ready is not None and self.started:
            self._on_ready()


def serve(
    application: Application,
    host: str,
    port: int,
    on_ready: Callable[[], None] | None = None,
    verbose: bool = False,
) -> None:
    """Blocks. On the way out every reply is saved and the engine ends."""
    app = create_app(application.services, host)
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level="info" if verbose else "warning",
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    try:
        Server(config, on_ready).run()
    finally:
        application.close()
