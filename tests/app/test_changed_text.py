"""Typical acceptance on the page: chosen by name, refused beside what keeps the text, and told."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.conversations import Conversations
from app.replies import LiveReply
from app.settings import Settings, settings_from_json
from engine.data.errors import BadOptionError
from engine.data.events import Finished
from engine.data.request import Message
from engine.data.stats import Stats


def test_the_setting_reaches_the_request() -> None:
    settings = settings_from_json({"acceptance": "typical"})
    request = settings.generate_request((Message("user", "hello"),))
    assert request.drafting.acceptance == "typical"
    assert Settings().generate_request(request.messages).drafting.acceptance == "exact"


@pytest.mark.parametrize("other", [{"coupling": "seed"}, {"numerics": "strict"}])
def test_what_keeps_the_text_is_no_company_for_it(other: dict[str, str]) -> None:
    settings_from_json(dict(other))
    with pytest.raises(BadOptionError, match="changes the text"):
        settings_from_json({"acceptance": "typical", **other})


@pytest.mark.parametrize("exact", [True, False])
def test_a_changed_reply_is_kept_as_one(tmp_path: Path, exact: bool) -> None:
    store = Conversations(tmp_path / "chats.sqlite")
    conversation = store.create("hello").id
    reply = LiveReply(store.start_reply(conversation), conversation, store, "Tiny")
    event = reply.finish(Finished("", (), "eos", 1, 0, 0, Stats(), exact))
    assert event["details"].get("exact", True) is exact
    stored = store.messages(conversation)[-1].details
    assert stored is not None and stored.get("exact", True) is exact
    store.close()
