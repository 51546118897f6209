"""Writes replies as fast as it can: python -m tests.faults.chat_writer FILE

Prints one line for every change once it is stored: what the file must hold whenever this is killed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from app.conversations import Conversations


def main() -> None:
    store = Conversations(Path(sys.argv[1]))
    print(json.dumps({"problem": store.problem}), flush=True)
    conversation = store.create("chat").id
    number = 0
    while True:
        number += 1
        with store.atomic():
            store.add_user(conversation, f"question {number}")
            reply = store.start_reply(conversation)
        print(json.dumps({"asked": number, "reply": reply, "chat": conversation}), flush=True)
        words = [f"word{at} " for at in range(40 * (number % 7 + 1))]
        tokens = [[word, "p", None, 0.5, None, None] for word in words]
        half = len(words) // 2
        store.save_reply(reply, "".join(words[:half]), tokens[:half], {}, True)
        store.save_reply(reply, "".join(words), tokens, {"finish": "eos"}, False)
        print(json.dumps({"reply": reply, "text": "".join(words)}), flush=True)
        if number % 5 == 0:  # as "write this reply again"
            message = store.message(reply)
            assert message is not None
            store.start_reply(conversation, message.parent)
            print(json.dumps({"again": reply}), flush=True)


if __name__ == "__main__":
    main()
