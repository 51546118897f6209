"""What to do where drafting did not pay in a conversation: one sentence, one step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from app.choices import ACROSS, Option, drafter_options
from app.conversations import Conversations
from app.loading import Loading
from app.model_service import ModelService
from app.names import Names
from app.preferences import PreferencesFile
from engine.control.speed_record import robust_mean
from engine.control.speedup import PAYS

WORTH_A_WORD = 40
"""Tokens: of a shorter reply nothing is said."""
MOST_REPLIES = 200
"""The last ones, in all chats, that tell what a drafter brings."""

Step = Literal["drafter", "download", "off"]


@dataclass(frozen=True, slots=True)
class Advice:
    """why: "" where nothing drafts yet. value: of the drafter to load, or the model to download.

    expected: its speed-up in replies that were written here, None where there are none.
    """

    why: str
    step: Step
    value: str = ""
    label: str = ""
    target: str = ""
    expected: float | None = None


class Advisor:
    """Asked once a conversation by the page; goes by what is loaded now."""

    def __init__(
        self,
        store: Conversations,
        models: ModelService,
        loading: Loading,
        preferences: PreferencesFile,
        names: Names,
    ) -> None:
        self._store = store
        self._models = models
        self._loading = loading
        self._preferences = preferences
        self._names = names

    def of(self, conversation: int) -> dict[str, Any] | None:
        """For the page. None where there is nothing to say."""
        pair = self._loading.state()["loaded_pair"]
        if pair is None or self._preferences.current.settings.speculate == "off":
            return None
        why = ""
        if pair["drafters"]:
            replies = [one.details for one in self._store.messages(conversation)]
            why = why_not(replies)
            if not why:
                return None
        target = pair["target"]
        options = drafter_options(
            self._models.models(), target, self._models.obstacle, self._models.trained(target)
        )
        self._names.learn(options)
        known = speed_ups(self._store.recent_details(MOST_REPLIES), target)
        return asdict(next_step(why, target, pair["drafters"], options, known))


def why_not(replies: Sequence[dict[str, Any]]) -> str:
    """Of a conversation: the reason of its last long reply, if drafting lost time in all of them
    together and surely in this one."""
    long = [one for one in replies if _tokens(one) >= WORTH_A_WORD and _payoff(one)]
    if not long or sum(_payoff(one)["saved"] for one in long) >= 0.0:
        return ""
    last = _payoff(long[-1])
    return str(last["why"]) if last["high"] < 1.0 else ""


def speed_ups(replies: Sequence[dict[str, Any]], target: str) -> dict[str, float]:
    """By drafter, of replies of this target that one drafter alone drafted."""
    found: dict[str, list[float]] = {}
    for one in replies:
        drafters = one.get("drafters") or []
        is_known = one.get("model") == target and len(drafters) == 1
        if is_known and _payoff(one) and _tokens(one) >= WORTH_A_WORD:
            found.setdefault(drafters[0], []).append(_payoff(one)["speed_up"])
    return {drafter: robust_mean(ratios) for drafter, ratios in found.items()}


def next_step(
    why: str, target: str, loaded: Sequence[str], options: Sequence[Option], known: dict[str, float]
) -> Advice:
    """The drafter that is known to bring most, else one that was not tried, else one to download,
    else none at all."""
    others = [one for one in options if one.value not in loaded and one.group != ACROSS]
    usable = [one for one in others if one.reason is None]
    paying = [one for one in usable if known.get(one.value, 0.0) >= PAYS]
    best = max(paying, key=lambda one: known[one.value], default=None)
    untried = next((one for one in usable if one.value not in known and _is_likely(one)), None)
    choice = best or untried
    if choice is not None:
        expected = known.get(choice.value)
        return Advice(why, "drafter", choice.value, choice.label, target, expected)
    fetched = next((one for one in others if one.suggested and one.action), None)
    if fetched is not None and fetched.action:
        model = fetched.action.removeprefix("download:")
        return Advice(why, "download", model, fetched.label, target)
    return Advice(why, "off", target=target)


def _is_likely(option: Option) -> bool:
    """One that costs nothing to try, or was chosen or trained for this target."""
    return option.value == "ngram" or option.suggested or option.group.startswith("Trained")


def _payoff(details: dict[str, Any]) -> dict[str, Any]:
    """Empty where it is not known."""
    payoff = details.get("payoff")
    known = isinstance(payoff, dict) and payoff.get("speed_up") is not None
    return payoff if known and isinstance(payoff, dict) else {}


def _tokens(details: dict[str, Any]) -> int:
    return int((details.get("stats") or {}).get("emitted") or 0)
