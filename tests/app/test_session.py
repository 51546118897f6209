"""The event log of a page."""

from __future__ import annotations

import asyncio
import json
import threading

import app.session as session_module
from app.session import Session, Sessions


def test_numbers_go_on_and_old_events_are_told_to_be_lost() -> None:
    session = Session()
    total = session_module.LOG_LENGTH + 10
    for number in range(total):
        session.add({"n": number})
    assert session.head == total
    recent = session.since(total - 2)
    assert (recent["seq"], [event["n"] for event in recent["events"]]) == (
        total - 2,
        [total - 2, total - 1],
    )
    assert not recent["lost"]
    early = session.since(3)
    assert early["lost"] and early["seq"] == 10 and early["events"][0]["n"] == 10


def test_events_from_threads_reach_the_stream_once_and_in_order() -> None:
    session = Session()
    threads = [threading.Thread(target=_add_many, args=(session, start)) for start in (0, 1000)]

    async def read() -> list[int]:
        seen: list[int] = []
        async for envelope in session.envelopes(0):
            batch = json.loads(envelope)
            assert batch["seq"] == len(seen)
            seen += [event["n"] for event in batch["events"]]
            if len(seen) == 400:
                return seen
        return seen

    for thread in threads:
        thread.start()
    seen = asyncio.run(read())
    for thread in threads:
        thread.join()
    assert [n for n in seen if n < 1000] == list(range(200))
    assert [n for n in seen if n >= 1000] == list(range(1000, 1200))


def _add_many(session: Session, start: int) -> None:
    for number in range(start, start + 200):
        session.add({"n": number})


def test_attached_only_while_a_stream_reads() -> None:
    session = Session()
    session.add({"n": 1})

    async def read_one() -> bool:
        stream = session.envelopes(0)
        await anext(stream)
        attached = session.attached
        await stream.aclose()
        return attached

    assert asyncio.run(read_one())
    assert not session.attached
    session.add({"n": 2})


def test_conversation_events_go_to_the_pages_that_show_it() -> None:
    sessions = Sessions()
    one, two = sessions.create(), sessions.create()
    one.conversation, two.conversation = 7, 8
    sessions.to_conversation(7, {"k": "x"})
    sessions.broadcast({"k": "all"})
    assert [event["k"] for event in one.since(0)["events"]] == ["x", "all"]
    assert [event["k"] for event in two.since(0)["events"]] == ["all"]
    assert sessions.get(one.id) is one
    assert sessions.close(one.id) is one and sessions.get(one.id) is None


def test_pages_that_went_away_without_a_word_are_forgotten() -> None:
    sessions = Sessions()
    gone, alive = sessions.create(), sessions.create()
    gone.seen -= session_module.FORGET_SECONDS + 1
    alive.seen -= session_module.FORGET_SECONDS - 60
    sessions.create()
    assert sessions.get(gone.id) is None
    assert sessions.get(alive.id) is alive


def test_what_looks_like_a_script_is_not_in_the_streamed_value() -> None:
    session = Session()
    session.add({"text": "<script>alert(1)</script>"})

    async def read() -> str:
        return await anext(session.envelopes(0))

    envelope = asyncio.run(read())
    assert "<" not in envelope
    assert json.loads(envelope)["events"] == [{"text": "<script>alert(1)</script>"}]


def test_events_name_their_conversation_and_envelopes_their_session() -> None:
    sessions = Sessions()
    page = sessions.create()
    page.conversation = 7
    sessions.to_conversation(7, {"k": "x"})
    told = page.since(0)
    assert told["session"] == page.id
    assert told["events"] == [{"k": "x", "c": 7}]
