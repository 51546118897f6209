"""The Hub's and the network's many exceptions as one DownloadError that says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub.errors import (  # type: ignore[attr-defined]  # HTTPError: of its HTTP client
    DisabledRepoError,
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    HTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from engine.data.errors import DownloadError, GatedModelError

LOGIN = "log in with `hf auth login` or set HF_TOKEN, and accept the licence on the model's page"


@contextmanager
def hub_errors(repo: str, file: str) -> Iterator[None]:
    """Translate what the library raises; `file` may be "". Other errors pass.

    Raises GatedModelError where a login helps, else DownloadError.
    """
    try:
        yield
    except LocalEntryNotFoundError as error:
        raise _unreachable() from error
    except (EntryNotFoundError, RevisionNotFoundError, HFValidationError) as error:
        raise DownloadError(_not_there(repo, file, error)) from error
    except HfHubHTTPError as error:
        raise _refused(repo, error) from error
    except (HTTPError, ConnectionError) as error:
        raise _unreachable() from error
    except OSError as error:
        if "Consistency check failed" in str(error):
            raise DownloadError("the Hub sent a file of the wrong length; try again") from error
        raise


def _unreachable() -> DownloadError:
    return DownloadError("the Hub does not answer or the connection was cut; check it, try again")


def _not_there(repo: str, file: str, error: Exception) -> str:
    if isinstance(error, HFValidationError):
        return f"{repo!r} is not a repository; write owner/name"
    if isinstance(error, RevisionNotFoundError):
        return f"{repo} has no such revision; check the spelling"
    return f"{repo} has no file {file}; check the spelling"


def _refused(repo: str, error: HfHubHTTPError) -> DownloadError:
    status = error.response.status_code
    if isinstance(error, DisabledRepoError):
        return DownloadError(f"the Hub has disabled {repo}; choose another repository")
    if isinstance(error, GatedRepoError):
        return GatedModelError(f"{repo} is gated: {LOGIN}")
    if isinstance(error, RepositoryNotFoundError) and status == 404:
        return DownloadError(f"there is no repository {repo} on the Hub; check the spelling")
    if status in (401, 403):  # 401 is also the answer for a missing repository
        return GatedModelError(f"{repo} does not exist or needs a login: {LOGIN}")
    if status == 429:
        return DownloadError("the Hub asks to slow down (429); wait a few minutes and try again")
    return DownloadError(f"the Hub answered with error {status}; try again later")
