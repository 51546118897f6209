"""May this drafter draft for this target? Decided by the bytes of the tokens, never by sizes alone.

Exactness does not depend on this check (the target verifies ids), acceptance does: a drafter whose
ids mean other texts is only noise. Where ids differ but nearly all tokens are the same, the drafter
goes through those that both have.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.data.errors import IncompatiblePairError
from engine.files.file_key import FileKey, file_key
from engine.files.gguf import inspect
from engine.files.gguf_types import TOKEN_CONTROL, TOKEN_UNUSED
from engine.models.roles import check_models
from engine.models.token_map import shared_tokens, token_map
from engine.models.vocabulary import GgufVocabulary, read_vocabulary

_SPECIAL = (TOKEN_CONTROL, TOKEN_UNUSED)
NEARLY_ALL = 0.95
"""Of the target's tokens: with so many in common a drafter goes through them unasked."""

_PADDING_SHARE = 0.05  # vocabularies padded for the hardware differ by far less than this


@dataclass(frozen=True, slots=True)
class PairReport:
    """The verdict on a pair.

    reason: one phrase for a greyed entry, "" if ok. shared: ids 0..shared-1 exist on both sides.
    draft_limit: ids from here on are never drafted, and a context that contains one cannot be
    given to the drafter. different: normal tokens with other bytes. different_special: control
    and unused ids that differ, which is allowed. notes: what else the user may want to know.
    common: tokens that it drafts where ids differ and nearly all tokens are on both sides, else 0.
    """

    ok: bool
    reason: str
    target_size: int
    drafter_size: int
    shared: int
    draft_limit: int
    different: int
    different_special: int
    notes: tuple[str, ...] = ()
    common: int = 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def check_pair(target: GgufVocabulary, drafter: GgufVocabulary) -> PairReport:
    """Compare two vocabularies id by id up to the shorter one."""
    shared = min(len(target), len(drafter))
    different, special = _differences(target, drafter, shared)
    reason = _reason(len(target), len(drafter), shared, different)
    return PairReport(
        ok=not reason,
        reason=reason,
        target_size=len(target),
        drafter_size=len(drafter),
        shared=shared,
        draft_limit=shared,
        different=different,
        different_special=special,
        notes=_notes(target, drafter, special) if not reason else (),
    )


def check_files(target: Path, drafter: Path) -> PairReport:
    """Kind and vocabulary of two GGUF files; remembered until either file changes.

    Raises ModelFileError if one of them cannot be read.
    """
    return _check_files(file_key(target), file_key(drafter))


def require_pair(target: Path, drafter: Path, across: str = "tli:M") -> PairReport:
    """check_files for callers that cannot go on without. Raises IncompatiblePairError.

    across: the expression that drafts what the two have in common.
    """
    report = check_files(target, drafter)
    if not report.ok:
        way = way_across(target, drafter, across) or "choose a drafter of the target's family"
        raise IncompatiblePairError(
            f"{drafter.name} cannot draft for {target.name}: {report.reason}; {way}"
        )
    return report


def way_across(target: Path, drafter: Path, across: str) -> str:
    """What a refused drafter could do through the tokens that both have; "" if that is too few."""
    shared = shared_tokens(target, drafter)
    if not shared.ok:
        return ""
    return (
        f"as {across} it can draft the {shared.shared:,} tokens that both have, "
        f"{shared.share_of_target:.0%} of the target's"
    )


@lru_cache(maxsize=1024)
def _check_files(target: FileKey, drafter: FileKey) -> PairReport:
    target_info, drafter_info = inspect(target.path), inspect(drafter.path)
    reason = check_models(target_info, drafter_info)
    if reason:
        sizes = (target_info.vocabulary_size, drafter_info.vocabulary_size)
        return PairReport(False, reason, *sizes, 0, 0, 0, 0)
    vocabularies = read_vocabulary(target.path), read_vocabulary(drafter.path)
    report = check_pair(*vocabularies)
    if report.ok or not _may_share_nearly_all(*vocabularies):
        return report
    return _through_common_tokens(report, target.path, drafter.path)


def _may_share_nearly_all(target: GgufVocabulary, drafter: GgufVocabulary) -> bool:
    """A quick look that saves pairing all tokens of two vocabularies with little in common."""
    if target.model != drafter.model:  # the same text is spelled in another way
        return False
    special = sum(1 for kind in target.types if kind in _SPECIAL)
    known = len(set(target.tokens) & set(drafter.tokens))
    return known + special >= NEARLY_ALL * len(target)


def _through_common_tokens(report: PairReport, target: Path, drafter: Path) -> PairReport:
    tokens = token_map(target, drafter)
    if tokens.share_of_target < NEARLY_ALL:
        return report
    note = (
        f"{report.reason}: it drafts the {tokens.shared:,} tokens that both have, of the target's "
        f"{report.target_size:,}"
    )
    return replace(report, ok=True, reason="", common=tokens.shared, notes=(note,))


def _differences(target: GgufVocabulary, drafter: GgufVocabulary, shared: int) -> tuple[int, int]:
    """(normal, control or unused) tokens that differ."""
    if target.tokens[:shared] == drafter.tokens[:shared]:
        return 0, 0
    places = [
        index
        for index, (ours, theirs) in enumerate(zip(target.tokens, drafter.tokens, strict=False))
        if ours != theirs
    ]
    special = sum(
        1 for index in places if target.types[index] in _SPECIAL or drafter.types[index] in _SPECIAL
    )
    return len(places) - special, special


def _reason(ours: int, theirs: int, shared: int, different: int) -> str:
    if not shared:
        return "one of the two has no vocabulary"
    if not different:
        return ""
    larger = max(ours, theirs)
    if larger - shared > _PADDING_SHARE * larger:
        return f"vocabulary {theirs:,} against {ours:,}"
    return f"tokenizer differs at {different:,} {'token' if different == 1 else 'tokens'}"


def _notes(target: GgufVocabulary, drafter: GgufVocabulary, special: int) -> tuple[str, ...]:
    notes = []
    if len(target) != len(drafter):
        limit = min(len(target), len(drafter))
        notes.append(
            f"padded vocabulary: {len(drafter):,} against {len(target):,}; "
            f"ids from {limit:,} on are never drafted"
        )
    if special:
        notes.append(f"{special:,} control or unused tokens differ")
    for label, ours, theirs in (
        ("begin-of-text", target.bos, drafter.bos),
        ("end-of-text", target.eos, drafter.eos),
        ("end-of-turn", target.eot, drafter.eot),
    ):
        if ours != theirs:
            notes.append(
                f"{label} token is {_named(drafter, theirs)} against {_named(target, ours)}"
            )
    if target.add_bos != drafter.add_bos:
        notes.append("only one of the two adds a begin-of-text token; the target's rule is used")
    if (target.model, target.pre) != (drafter.model, drafter.pre):
        notes.append(f"tokenizer {drafter.model}/{drafter.pre} against {target.model}/{target.pre}")
    return tuple(notes)


def _named(vocabulary: GgufVocabulary, token: int | None) -> str:
    if token is None:
        return "none"
    return f"{token} {vocabulary.tokens[token].decode('utf-8', 'replace')}"
