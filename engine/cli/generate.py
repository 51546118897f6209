"""`forerun generate`: one reply on the terminal, as text or JSON, with a trace if wanted."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO, get_args

from engine.cli.engine_access import load_shown, open_engine
from engine.cli.options import (
    add_draft_options,
    add_load_options,
    add_sampling_options,
    draft_params,
    existing_file,
    load_request,
    sampling_params,
    written_text,
)
from engine.cli.parser import Subparsers
from engine.cli.shown_reply import ShownReply
from engine.data.documents import DocumentError, json_text, parse_json
from engine.data.errors import BadOptionError, RunError
from engine.data.events import Finished, Notice
from engine.data.loaded import LoadedSummary
from engine.data.prompts import read_text
from engine.data.reasoning import Thinking
from engine.data.request import GenerateRequest, Message
from engine.data.rounds import RoundTrace
from engine.data.shown import shown
from engine.process.run import Run

INTERRUPTED = 130


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("generate", description="Generate one reply.")
    add_load_options(parser, drafter_required=False)
    prompt = parser.add_mutually_exclusive_group(required=True)
    prompt.add_argument("--prompt", type=written_text, metavar="T", help="the user's message")
    prompt.add_argument("--prompt-file", type=existing_file, metavar="F")
    prompt.add_argument(
        "--messages", type=existing_file, metavar="F.json", help='[{"role", "content"}, ...]'
    )
    parser.add_argument("--system", type=written_text, metavar="T", help="system message")
    parser.add_argument("--raw", action="store_true", help="no chat template")
    parser.add_argument(
        "--max-tokens", type=int, metavar="N", help="default: until the context is full"
    )
    parser.add_argument("--overflow", choices=("refuse", "trim"), default="refuse")
    parser.add_argument(
        "--copy-from",
        type=existing_file,
        action="append",
        default=[],
        metavar="F",
        help="a text that ngram may copy from too; may be given several times",
    )
    add_sampling_options(parser)
    add_draft_options(parser)
    _add_thinking_options(parser)
    parser.add_argument(
        "--acceptance",
        choices=("exact", "typical"),
        default="exact",
        help="typical keeps more drafts but CHANGES the text above temperature 0",
    )
    parser.add_argument("--trace", type=Path, metavar="F.jsonl", help="one round a line")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.set_defaults(func=run)


def _add_thinking_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("thinking, of models that do")
    group.add_argument("--thinking", choices=get_args(Thinking), help="default: the template's own")
    group.add_argument("--effort", metavar="LEVEL", help="low, medium, high: what the template has")
    group.add_argument(
        "--thinking-budget",
        type=int,
        metavar="N",
        help="tokens of a thought at most; -1: no limit; default: 4,096 and at most half of what"
        " the context has left",
    )
    group.add_argument(
        "--show-thoughts",
        action="store_true",
        help="on stderr, also where that is no terminal",
    )


def run(arguments: argparse.Namespace) -> int:
    request = _request(arguments)
    with open_engine(arguments) as client, _trace_file(arguments.trace) as trace:
        load_shown(client, load_request(arguments), verbose=arguments.verbose)
        memory = _memory(client.loaded)
        reply = client.generate(request)
        shown_reply = None if arguments.json else ShownReply(thoughts=_shows_thoughts(arguments))
        try:
            finished = _follow(reply, trace, shown_reply)
            interrupted = False
        except KeyboardInterrupt:
            reply.cancel()
            finished = _follow(reply, trace, shown_reply)
            interrupted = True
    if arguments.json:
        print(json_text(finished.to_json() | memory))
    else:
        print()
        print(_footer(finished), file=sys.stderr)
    return INTERRUPTED if interrupted else 0


def _shows_thoughts(arguments: argparse.Namespace) -> bool:
    return bool(arguments.show_thoughts or sys.stderr.isatty())


def _memory(loaded: LoadedSummary | None) -> dict[str, Any]:
    """Bytes of weights and cache: of the target, and of each drafter or member of an ensemble."""
    if loaded is None:
        return {}
    drafters = {name: size for one in loaded.drafters for name, size in one.by_member().items()}
    target = loaded.target.bytes + loaded.target.kv_bytes
    return {"memory": {"target": target, "drafters": drafters}}


def _request(arguments: argparse.Namespace) -> GenerateRequest:
    sampling = sampling_params(arguments)
    drafting = replace(draft_params(arguments), acceptance=arguments.acceptance)
    if arguments.acceptance == "typical" and arguments.numerics == "strict":
        raise BadOptionError("--acceptance typical changes the text, --numerics strict keeps it")
    copy_from = tuple(read_text(file) for file in arguments.copy_from)
    text = arguments.prompt
    if arguments.prompt_file is not None:
        text = read_text(arguments.prompt_file)
    if arguments.raw:
        if text is None or arguments.system:
            raise BadOptionError("--raw takes --prompt or --prompt-file, without --system")
        if arguments.thinking_budget is not None:
            raise BadOptionError("--raw takes no --thinking-budget: nothing in it is a thought")
        if arguments.thinking or arguments.effort:
            raise BadOptionError(
                "--raw takes no --thinking and no --effort: they are the template's"
            )
        return GenerateRequest(
            raw_prompt=text,
            max_tokens=arguments.max_tokens,
            sampling=sampling,
            drafting=drafting,
            copy_from=copy_from,
        )
    messages = [Message("user", text)] if text is not None else _messages(arguments.messages)
    if arguments.system:
        messages.insert(0, Message("system", arguments.system))
    return GenerateRequest(
        messages=tuple(messages),
        max_tokens=arguments.max_tokens,
        sampling=sampling,
        drafting=drafting,
        overflow=arguments.overflow,
        copy_from=copy_from,
        thinking=arguments.thinking,
        effort=arguments.effort,
        thinking_budget=arguments.thinking_budget,
    )


def _messages(file: Path) -> list[Message]:
    try:
        content: Any = parse_json(read_text(file))
    except DocumentError as error:
        raise BadOptionError(f"{file} {error}") from error
    expected = BadOptionError(
        f'{file} must hold a list of {{"role": "system|user|assistant", "content": "..."}}'
    )
    if not isinstance(content, list) or not content:
        raise expected
    messages = []
    for item in content:
        if not isinstance(item, dict):
            raise expected
        role, text = item.get("role"), item.get("content")
        if role not in ("system", "user", "assistant") or not isinstance(text, str):
            raise expected
        reasoning = item.get("reasoning")
        if reasoning is not None and not isinstance(reasoning, str):
            raise expected
        messages.append(Message(role, text, reasoning))
    return messages


@contextlib.contextmanager
def _trace_file(path: Path | None) -> Iterator[TextIO | None]:
    if path is None:
        yield None
        return
    with path.open("w", encoding="utf-8") as file:
        yield file


def _follow(reply: Run, trace: TextIO | None, shown_reply: ShownReply | None) -> Finished:
    for event in reply.events():
        if isinstance(event, RoundTrace):
            if trace is not None:
                print(json_text(event.to_json()), file=trace)
            if shown_reply is not None:
                shown_reply.add(event)
        elif isinstance(event, Notice):
            print(f"forerun: {shown(event.message)}", file=sys.stderr)
        elif isinstance(event, Finished):
            if shown_reply is not None:
                shown_reply.end()
            return event
    raise RunError("the reply ended without its last event")


def _footer(finished: Finished) -> str:
    stats = finished.stats
    parts = [f"{stats.emitted} tokens"]
    if finished.thought is not None:
        parts.append(f"{finished.thought.end - finished.thought.start} of them thoughts")
    if stats.tokens_per_second is not None:
        parts.append(f"{stats.tokens_per_second:.1f} tokens/s")
    if stats.acceptance_rate is not None:
        parts.append(f"acceptance rate {stats.acceptance_rate:.0%}")
    if stats.mean_accepted_length is not None and stats.proposed:
        parts.append(f"mean accepted length {stats.mean_accepted_length:.2f}")
    if not finished.exact:
        parts.append("typical acceptance: not the text of the target alone")
    if finished.identical:
        parts.append("identical with and without drafting")
    parts.append(f"finish: {finished.finish}")
    parts.append(f"seed {finished.seed}")
    return " · ".join(parts)
