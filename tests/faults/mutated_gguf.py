"""Changes GGUF files at random, and tries each through header, load and a few tokens.

`python -m tests.faults.mutated_gguf SOURCE FOLDER SEED FIRST COUNT` prints a line "begin N" before
and a line "end N OUTCOME" after each one. It may die of one: that is why it is a process.
"""

from __future__ import annotations

import random
import resource
import struct
import sys
from collections.abc import Callable
from pathlib import Path

from engine.data.errors import EngineError
from engine.data.folders import DataFolder
from engine.files.gguf_header import read_header

MEMORY = 6_000_000_000
_EXTREMES = (0, 1, 2**8 - 1, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1)

Change = Callable[[bytearray, int, random.Random], None]


def mutated(content: bytes, header: int, seed: int, number: int) -> bytes:
    """The same one for the same seed and number. header: bytes before the tensors' data."""
    random_ = random.Random(f"{seed} {number}")
    changed = bytearray(content)
    for _ in range(random_.choice([1, 1, 1, 2, 5])):
        random_.choice(_CHANGES)(changed, min(header, len(changed)), random_)
        if len(changed) < 32:
            break
    return bytes(changed)


def _flip(content: bytearray, header: int, random_: random.Random) -> None:
    content[random_.randrange(header)] ^= 1 << random_.randrange(8)


def _flip_early(content: bytearray, header: int, random_: random.Random) -> None:
    content[random_.randrange(min(header, 1_500))] = random_.randrange(256)


def _extreme(content: bytearray, header: int, random_: random.Random) -> None:
    layout = random_.choice(["<Q", "<I", "<H"])
    width = struct.calcsize(layout)
    value = random_.choice(_EXTREMES) & (256**width - 1)
    struct.pack_into(layout, content, random_.randrange(min(header, 1_500) - width), value)


def _cut(content: bytearray, header: int, random_: random.Random) -> None:
    del content[random_.choice([random_.randrange(header), random_.randrange(len(content))]) :]


def _remove(content: bytearray, header: int, random_: random.Random) -> None:
    start = random_.randrange(header)
    del content[start : start + random_.randrange(1, 40)]


def _insert(content: bytearray, header: int, random_: random.Random) -> None:
    start = random_.randrange(header)
    content[start:start] = random_.randbytes(random_.randrange(1, 40))


def _copy(content: bytearray, header: int, random_: random.Random) -> None:
    source, target = random_.randrange(header), random_.randrange(header)
    piece = content[source : source + random_.randrange(1, 200)]
    content[target : target + len(piece)] = piece


def _weights(content: bytearray, header: int, random_: random.Random) -> None:
    if header < len(content) - 8:
        start = random_.randrange(header, len(content) - 8)
        content[start : start + 8] = struct.pack(
            "<ff", *random_.choices([0.0, 1e38, float("nan")], k=2)
        )


_CHANGES: tuple[Change, ...] = (
    _flip, _flip, _flip_early, _flip_early, _extreme, _extreme, _cut, _remove, _insert, _copy,
    _weights,
)  # fmt: skip


def header_bytes(source: Path) -> int:
    return min(tensor.start for tensor in read_header(source).tensors)


def main(source: Path, folder: Path, seed: int, first: int, count: int) -> None:
    from engine.llama.abort import AbortFlag
    from engine.llama.library import start_library
    from engine.serving.session import Session

    library = start_library()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    session = Session(library, DataFolder(folder).ensure(), AbortFlag())
    content, header = source.read_bytes(), header_bytes(source)
    for number in range(first, first + count):
        path = folder / f"mutant-{number}.gguf"
        path.write_bytes(mutated(content, header, seed, number))
        print("begin", number, flush=True)
        print("end", number, _tried(session, path), flush=True)
        path.unlink()


def _tried(session: object, path: Path) -> str:
    """The error's class, or how far it came."""
    from engine.data.request import GenerateRequest, LoadRequest
    from engine.files.gguf import inspect
    from engine.serving.session import Session

    assert isinstance(session, Session)
    stage = "header"
    try:
        info = inspect(path)
        assert info.name.isprintable() and len(info.name) <= 200
        stage = "load"
        session.load(LoadRequest(str(path), threads=1, context_length=64), lambda *_: None)
        stage = "reply"
        request = GenerateRequest(raw_prompt="the hello", max_tokens=3)
        for _ in session.generate(request, lambda: False):
            pass
    except EngineError as error:
        assert str(error).isprintable() and str(error)
        return f"{stage}: {type(error).__name__}"
    finally:
        session.unload()
    return "wrote"


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:6]))
