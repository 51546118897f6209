"""A scripted engine: the interface of `engine.process.client.EngineClient`, replies from a script.

The last user message chooses the reply; `REPLIES` lists the words it looks for.
"""

from __future__ import annotations

import queue
import random
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from engine.data.errors import (
    ContextLengthError,
    EngineDiedError,
    EngineError,
    MemoryLimitError,
    ModelFileError,
    StoppedError,
)
from engine.data.events import (
    Finished,
    FinishReason,
    Notice,
    PromptProgress,
    Queued,
    Retold,
    RunEvent,
)
from engine.data.loaded import DrafterSummary, LoadedSummary, ModelSummary, SpeedSummary
from engine.data.log_line import LogLine
from engine.data.prompt_size import PromptSize
from engine.data.reasoning import EffortLevels, Reasoning, ThinkingSwitch, ThoughtMarkers
from engine.data.request import GenerateRequest, LoadRequest
from engine.data.rounds import EmittedToken, ProposedToken, RoundSeconds, RoundTrace, TokenKind
from engine.data.stats import StatsCounter
from engine.process.messages import LoadProgress
from engine.process.protocols import ChangeListener
from tests.fakes_continued import part_of
from tests.rendering_replies import HOSTILE_RENDERING, RENDERING
from tests.tree_script import tree_script

MARKDOWN = """## Speculative decoding

A *small* drafter proposes **several tokens**; the target checks them in `one pass`. See [the idea](https://example.invalid/idea).

```python
def verify(p, q, token):
    # keep it with probability min(1, p / q)
    if random() < min(1, p[token] / q[token]):
        return True
    return sample(residual(p, q))
```

1. The drafter proposes four tokens & the target scores them.
2. The first rejection is *corrected* from the residual, the rest are dropped.
   - nothing is lost
   - nothing is approximated

| drafter | accepted | tokens/s |
|---|---:|---:|
| n-gram | 0.41 | 88 |
| model | 0.73 | 141 |

> The text has the distribution of the target alone.

"""

HOSTILE = """<img src=x onerror="window.pwned=1"> <script>window.pwned=2</script>

[click](javascript:window.pwned=3) ![secret](http://example.invalid/leak.png?q=1) {{value}} ${window.pwned=4}
[data](data:text/html,boo) &lt;b&gt; é😀

<iframe src="http://example.invalid/"></iframe>

```html
<b onclick="window.pwned=5">bold</b>
```

| a | b |
|---|---|
| <svg onload="window.pwned=6"> | `</td>` |
"""  # noqa: E501

PLAIN = "Hello! This is a short reply from a script, with a few words to look at.\n"

CONTEXT = 8192

PLAIN_SECONDS = 0.012
"""Of a pass over a single token; rounds with drafts pay by it."""

DEAR = RoundSeconds(0.2, 0.03, 0.001)
"""Of a round of a reply to a message with the word "dear"."""

SLOW_PACE = 40
"""Tokens a second of a reply to a message with the word "slowly"."""

PROGRAM = "Here it is:\n\n```python\n" + "".join(
    f"def step_{number}(value):\n    return value * {number} + offset[{number}]\n\n"
    for number in range(300)
)
"""A block of code that is never closed, of some 7,000 tokens."""

THOUGHT = "They want a reply.\nI had better **write** one, and say little"
REASONING = Reasoning(
    ThoughtMarkers(("<think>",), ("</think>",)),
    ThinkingSwitch("enable_thinking", True, False, "on"),
    EffortLevels("reasoning_effort", ("low", "high")),
)
REPLIES = {
    "rendering": RENDERING,
    "odd formulas": HOSTILE_RENDERING,
    "hostile": HOSTILE,
    "hello": PLAIN,
    "program": PROGRAM,
}


def tokens_of(text: str) -> list[str]:
    return re.findall(r" ?\w+|\n+|[^\w\s]+|\s+", text)


def script(
    text: str, count: int | None = None, seed: int = 1, drafts: bool = True
) -> list[RoundTrace]:
    """Rounds that emit the text's tokens (repeated until `count`), with plausible drafts."""
    words = tokens_of(text)
    while count is not None and len(words) < count:
        words += tokens_of(text)
    words = words[:count]
    chance = random.Random(seed)
    rounds: list[RoundTrace] = []
    at = 0
    while at < len(words):
        trace = _round(words, at, len(rounds), chance, drafts)
        rounds.append(trace)
        at += len(trace.emitted)
    return rounds


def thinking_script(
    answer: str,
    drafts: bool = True,
    is_over: Callable[[int], bool] = lambda tokens: False,
    count: int | None = None,
) -> Iterator[RoundTrace]:
    """Rounds of a thought between two markers, and then of the answer. is_over: whether so many
    tokens of the thought are enough: its end is given then. count: of the thought."""
    written = 0
    for trace in script(f"<think>{THOUGHT}</think>", count, drafts=drafts):
        if written and is_over(written):
            yield from map(_given, tokens_of("</think>"))
            break
        written += len(trace.emitted)
        emitted = tuple(
            replace(one, part="thought", said="" if one.text in ("<", "</", "think", ">") else None)
            for one in trace.emitted
        )
        yield replace(trace, emitted=emitted)
    yield from script(answer, drafts=drafts)


def _given(text: str) -> RoundTrace:
    token = EmittedToken(98, text, "plain", None, 0.0, None, None, "thought", "", forced=True)
    return RoundTrace(1, 0, (), (token,), RoundSeconds(0.0, 0.012, 0.001), False)


def _round(
    words: list[str], at: int, number: int, chance: random.Random, drafts: bool
) -> RoundTrace:
    depth = 0 if number % 9 == 4 or not drafts else chance.choice([3, 4, 5])
    kept = min(depth, chance.choice([0, 1, 2, 2, 3, 3, 4, 5]), max(0, len(words) - at - 1))
    drafter = chance.choice(["ngram", "model:tiny-draft"])
    proposed, emitted = [], []
    for index in range(depth):
        accepted = index < kept
        text = words[at + index] if accepted else chance.choice(words)
        p = round(chance.uniform(0.3, 1) if accepted else chance.uniform(0, 0.3), 3)
        q = None if drafter == "ngram" else round(chance.uniform(0.3, 1), 3)
        node = ProposedToken(index, text, index - 1, index + 1, drafter, p, q, accepted)
        proposed.append(node)
        if accepted:
            emitted.append(EmittedToken(index, text, "accepted", drafter, p, q, index + 1))
    last: TokenKind = "plain" if depth == 0 else "bonus" if kept == depth else "correction"
    p = round(chance.uniform(0.1, 1), 3)
    emitted.append(EmittedToken(99, words[at + kept], last, None, p, None, None))
    seconds = RoundSeconds(0.004 * depth, 0.012, 0.001)
    trace = RoundTrace(number, at, tuple(proposed), tuple(emitted), seconds, depth == 0)
    return replace(trace, plain=PLAIN_SECONDS)


class FakeRun:
    """As `engine.process.run.Run`."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self.answers_now = threading.Event()
        self._events: queue.Queue[RunEvent | EngineError] = queue.Queue()

    def put(self, event: RunEvent | EngineError) -> None:
        self._events.put(event)

    def next_event(self, timeout: float | None = None) -> RunEvent | None:
        try:
            event = self._events.get(timeout=timeout)
        except queue.Empty:
            return None
        if isinstance(event, EngineError):
            raise event
        return event

    def events(self) -> Iterator[RunEvent]:
        while True:
            event = self.next_event()
            if event is not None:
                yield event
            if isinstance(event, Finished):
                return

    def cancel(self) -> None:
        self.cancelled.set()

    def answer_now(self) -> None:
        self.answers_now.set()


class FakeEngine:
    """pace: tokens per second, None as fast as possible. requests: all it was asked, in order."""

    def __init__(self, pace: float | None = None) -> None:
        self.pace = pace
        self.requests: list[GenerateRequest] = []
        self.loads: list[LoadRequest] = []
        self._loaded: LoadedSummary | None = None
        self._one_at_a_time = threading.Lock()
        self._stop_loading = threading.Event()
        self._listeners: list[ChangeListener] = []
        self._log = [LogLine(1, 20, "llama_model_loader: loaded meta data"), LogLine(2, 30, "warm")]

    @property
    def loaded(self) -> LoadedSummary | None:
        return self._loaded

    def load(
        self, request: LoadRequest, on_progress: Callable[[LoadProgress], None] | None = None
    ) -> LoadedSummary:
        self.loads.append(request)
        self._stop_loading.clear()
        for step in range(5):
            if on_progress:
                on_progress(LoadProgress(1, f"reading {request.target}", step / 4))
            if self.pace and self._stop_loading.wait(0.05):
                raise StoppedError("it was stopped")
        if "endless" in (request.drafter or ""):
            self._stop_loading.wait(60.0)
            raise StoppedError("it was stopped")
        if request.context_length > 100_000:
            raise MemoryLimitError("needs 61.2 GB, 12.0 GB are free: a context of 16,384 would fit")
        if request.target == "broken":
            raise ModelFileError("broken.gguf ends in the middle of a tensor: download it again")
        target = ModelSummary(
            request.target,
            "/models/x.gguf",
            "llama",
            "135M Q4_1",
            98_362_432,
            47_185_920,
            CONTEXT,
            49152,
            f"of {request.target}",
        )
        names = re.findall(r"[a-z]+(?:-[a-z]+)?(?::[\w.=+-]+)?", request.drafter or "")
        drafters = tuple(
            DrafterSummary(name, name, 0 if name == "ngram" else 50_000_000)
            for name in names
            if name not in ("first", "tree")
        )
        predicted = {"greedy": 1.25, "sampled": 1.5}
        speed = SpeedSummary({1: 0.02, 2: 0.03}, 80.0, 2, True, predicted=predicted)
        summary = LoadedSummary(
            request, target, drafters, True, None, speed=speed, reasoning=REASONING
        )
        self.now_has(summary)
        return summary

    def stop_loading(self) -> None:
        self._stop_loading.set()

    def on_change(self, listener: ChangeListener) -> None:
        self._listeners.append(listener)

    def now_has(self, loaded: LoadedSummary | None) -> None:
        """What is loaded changes without a load of the page: a death, a return, a new figure."""
        self._loaded = loaded
        for listener in self._listeners:
            listener()

    def on_lost(self, listener: Callable[[EngineError], None]) -> None:
        """It never dies."""

    def generate(self, request: GenerateRequest) -> FakeRun:
        self.requests.append(request)
        run = FakeRun()
        threading.Thread(target=self._play, args=(run, request), daemon=True).start()
        return run

    def count(self, request: GenerateRequest, texts: tuple[str, ...] = ()) -> PromptSize:
        """A token for each of `tokens_of`; the oldest messages are dropped in pairs."""
        sizes = [len(tokens_of(message.content)) for message in request.messages]
        total, dropped, refused = sum(sizes), 0, ""
        if total >= CONTEXT and request.overflow == "refuse":
            refused = f"the prompt has {total:,} tokens, the context {CONTEXT:,}: start a new chat"
        elif total >= CONTEXT:
            while sum(sizes[dropped:]) >= CONTEXT and dropped + 2 < len(sizes):
                dropped += 2
        counts = tuple(len(tokens_of(text)) for text in texts)
        return PromptSize(total, CONTEXT, dropped, refused, counts)

    def log_lines(self, after: int = 0) -> tuple[LogLine, ...]:
        return tuple(line for line in self._log if line.number > after)

    def close(self) -> None:
        pass

    def _play(self, run: FakeRun, request: GenerateRequest) -> None:
        asked = request.messages[-1].content
        if "too long" in asked and request.overflow == "refuse":
            run.put(
                ContextLengthError("the conversation needs 9,000 tokens, the context has 8,192")
            )
            return
        if self._one_at_a_time.locked():
            run.put(Queued(1))
        with self._one_at_a_time:
            loaded = self._loaded
            vocabulary = loaded.target.vocabulary if loaded else ""
            run.put(PromptProgress(0, 40, 12, vocabulary))
            run.put(PromptProgress(40, 40, 12))
            if "notice" in asked:
                run.put(Notice("early-exit was dropped: its copy could not be made"))
            self._stream(run, request, asked)

    def _stream(self, run: FakeRun, request: GenerateRequest, asked: str) -> None:
        text = next((reply for word, reply in REPLIES.items() if word in asked), MARKDOWN)
        numbers = re.findall(r"\b(\d+) tokens", asked)
        count = int(numbers[0]) if numbers else None
        drafts = request.drafting.speculate != "off"
        rounds: Iterable[RoundTrace] = script(text, count, seed=len(asked), drafts=drafts)
        if "ponder" in asked:
            rounds = thinking_script(text, drafts, _is_over(run, request), count)
        if "branches" in asked:
            rounds = tree_script()
        if "dear" in asked:
            rounds = [replace(one, seconds=DEAR) for one in rounds]
        played, usual = part_of(rounds, request.continuation, asked)
        pace = SLOW_PACE if "slowly" in asked else self.pace
        counter, started, emitted = StatsCounter(0.04), time.perf_counter(), 0
        tokens: list[EmittedToken] = []
        for trace in played:
            if isinstance(trace, Retold):
                run.put(trace)
                continue
            emitted += len(trace.emitted)
            if pace and run.cancelled.wait(
                max(0.0, started + emitted / pace - time.perf_counter())
            ):
                break
            if run.cancelled.is_set():
                break
            counter.add(trace)
            tokens += trace.emitted
            run.put(trace)
            if "die" in asked and len(tokens) > 30:
                run.put(EngineDiedError("the engine process ended unexpectedly (signal 9)"))
                return
        finish: FinishReason = "cancelled" if run.cancelled.is_set() else usual
        seed = request.sampling.seed if request.sampling.seed is not None else 4711
        written = "".join(token.shown for token in tokens if token.part == "answer")
        ids = tuple(token.token for token in tokens)
        run.put(Finished(written, ids, finish, 52, 12, seed, counter.snapshot()))


def _is_over(run: FakeRun, request: GenerateRequest) -> Callable[[int], bool]:
    budget = request.thinking_budget
    return lambda tokens: run.answers_now.is_set() or (budget is not None and 0 <= budget <= tokens)
