"""Which files can be a target, and which a plain drafter, by their kind alone."""

from __future__ import annotations

from engine.files.gguf import GgufInfo


def check_models(target: GgufInfo, drafter: GgufInfo) -> str:
    """Why these two files cannot be target and plain drafter, "" if their kinds allow it."""
    if target.needs is not None:
        return _unfit(target.needs, "a target")
    if drafter.needs is not None:
        return _unfit(drafter.needs, "a plain drafter")
    return ""


def _unfit(needs: str, role: str) -> str:
    is_thing = needs.startswith(("a ", "an ")) or needs == "statistics"
    return f"{needs}, not {role}" if is_thing else f"needs {needs}"
