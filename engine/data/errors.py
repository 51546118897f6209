"""Everything that can go wrong, as one tree. A message says what happened and what to do next.

EngineError
├── RequestError            the request is wrong: nothing was tried (exit code 2)
│   ├── UnknownModelError       no such id, file or Hub address, or not downloaded yet
│   ├── IncompatiblePairError   this drafter cannot draft for this target
│   ├── BadOptionError          an option has an impossible value
│   ├── ConfigError             models.toml: unknown key or bad value
│   ├── ContextLengthError      the history does not fit the context
│   └── MemoryLimitError        the load would not fit into memory
└── RunError                the request was right, the run failed (exit code 1)
    ├── ModelFileError          not a readable GGUF file
    ├── NativeError             a llama.cpp call returned an error code
    ├── TemplateError           the model's chat template failed
    ├── DownloadError           fetching failed (GatedModelError: needs a login)
    ├── DrafterError            a drafter failed in mid-reply
    ├── SuspendedError          a training was ended in the middle and can be gone on with
    ├── StoppedError            the user stopped it
    └── EngineDiedError         the engine process ended unexpectedly
"""

from __future__ import annotations

from engine.data.shown import shown


class EngineError(Exception):
    """Base of all errors that are shown to the user as one line.

    Messages quote files, names and other programs, so what they say is made safe to show.
    """

    exit_code = 1

    def __str__(self) -> str:
        return shown(super().__str__())


class RequestError(EngineError):
    exit_code = 2


class UnknownModelError(RequestError):
    pass


class IncompatiblePairError(RequestError):
    pass


class BadOptionError(RequestError):
    pass


class ConfigError(RequestError):
    pass


class ContextLengthError(RequestError):
    pass


class MemoryLimitError(RequestError):
    pass


class RunError(EngineError):
    pass


class ModelFileError(RunError):
    pass


class NativeError(RunError):
    pass


class TemplateError(RunError):
    pass


class DownloadError(RunError):
    pass


class GatedModelError(DownloadError):
    pass


class DrafterError(RunError):
    pass


class SuspendedError(RunError):
    pass


class StoppedError(RunError):
    pass


class EngineDiedError(RunError):
    pass


class StopRequested(Exception):  # noqa: N818 - not an error: someone asked to stop
    """Unwinds a long step of the engine process. Never shown: whoever waits gets StoppedError."""


def _leaves(kind: type[EngineError]) -> dict[str, type[EngineError]]:
    found = {kind.__name__: kind}
    for child in kind.__subclasses__():
        found.update(_leaves(child))
    return found


ERROR_KINDS: dict[str, type[EngineError]] = _leaves(EngineError)
"""Class name to class: how an error crosses the process boundary (name and message)."""
