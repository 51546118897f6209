"""JSON, TOML and text that are not: refused with one line, never a crash, never a wrong value."""

from __future__ import annotations

import json
import random
import string
from pathlib import Path

import pytest

from engine.data.documents import (
    MAX_DEPTH,
    DocumentError,
    compact_json,
    decoded,
    fit_to_send,
    json_text,
    numbered_lines,
    parse_json,
    parse_toml,
    sound,
)
from engine.data.prompts import read_prompts
from engine.data.shown import NAME, shown, shown_lines, shown_name
from engine.train.corpus.prompt_files import prompt_file_items

HALF = "\ud83d"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"[" * 100_000, "nested"),
        (b'{"a":' * 100_000, "nested"),
        (b"[" * 900 + b"]" * 900, "nested"),
        (b"1" * 30, "64 bits"),
        (b"-" + b"9" * 25, "64 bits"),
        (b"1" * 5_000, "not JSON"),
        (b"1e999", "finite"),
        (b"NaN", "NaN"),
        (b"[-Infinity]", "Infinity"),
        (b'"\\ud83d"', "half a character"),
        (b'{"\\udc00": 1}', "half a character"),
        (b'"\\u0000"', "NUL"),
        ("{}".encode("utf-16"), "UTF-16"),
        ("{}".encode("utf-32"), "UTF-32"),
        (b'"\xe9"', "not UTF-8"),
        (b"", "not JSON"),
        (b"{'a': 1}", "not JSON"),
    ],
)
def test_json_that_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(DocumentError, match=reason):
        parse_json(content)


def test_json_that_is_read() -> None:
    deepest = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    parse_json(deepest)
    with pytest.raises(DocumentError):
        parse_json(f"[{deepest}]")
    assert parse_json(b"\xef\xbb\xbf[1]") == [1]
    assert parse_json(str(2**64 - 1)) == 2**64 - 1
    assert parse_json('"\\ud83d\\ude00"') == "😀"
    assert parse_json('{"a": ["\\ud83d", "b\\u0000"]}', repair=True) == {"a": ["�", "b�"]}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"a = " + b"[" * 100_000, "nested"),
        (b"a." * 100_000 + b"b = 1", "nested"),
        (b"[" + b"a." * 100_000 + b"b]", "nested"),
        (b"a = " + b"{b = " * 100_000, "nested"),
        (b"a = " + b"9" * 40, "64 bits"),
        (b"a = inf", "finite"),
        (b"a = '\xe9'", "not UTF-8"),
        (b"a = ", "not valid TOML"),
    ],
)
def test_toml_that_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(DocumentError, match=reason):
        parse_toml(content)


def test_toml_with_a_byte_order_mark_is_read() -> None:
    assert parse_toml(b"\xef\xbb\xbf[a]\nb = 1") == {"a": {"b": 1}}


def test_only_line_ends_end_a_line() -> None:
    """JSON may hold Unicode's own separators inside a string."""
    assert list(numbered_lines("a\u2028b\x0bc\r\n\n d\x85")) == [
        (1, "a\u2028b\x0bc"),
        (3, " d\x85"),
    ]
    assert decoded(b"\xef\xbb\xbfx") == "x"


def test_prompt_files_with_a_mark_and_separators_are_read(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    file.write_bytes('\ufeff{"prompt": "one\u2028two"}\r\n'.encode())
    assert [prompt.text for prompt in read_prompts(file)] == ["one\u2028two"]
    (item,) = prompt_file_items(str(file))
    assert item.messages[0].content == "one\u2028two"


def test_what_cannot_be_sent_is_made_fit() -> None:
    whole = {"a": [1, "x\0", None]}
    assert fit_to_send(whole) is whole
    broken = {
        HALF: [float("nan"), float("inf"), (HALF, "caf\udce9")],
        "n": 2**70,
        "f": float("nan"),
    }
    assert fit_to_send(broken) == {"�": [None, None, ["�", "caf�"]], "n": None, "f": None}
    json.loads(compact_json(broken).encode())


def test_json_for_a_terminal_has_nothing_to_obey() -> None:
    text = json_text({"a": "\x1b[2J\x9b2J\u202egpj\u2028é\udce9\0"})
    assert text.isprintable() and "é" in text
    assert json.loads(text)["a"] == "\x1b[2J\x9b2J\u202egpj\u2028é�\0"


def test_shown_text_is_one_safe_line() -> None:
    assert shown("a\x1b[31mb\r\nc\tcaf\udce9\u202e\x00") == "a�[31mb c caf���"
    assert shown_name("  Qwen 2.5 中文 é ") == "Qwen 2.5 中文 é"
    assert shown_lines("a\n\tb\x1b[2J\x07") == "a\n\tb�[2J�"
    name = shown_name("x" * 1_000_000 + "end")
    assert len(name) == NAME and name.startswith("xxx") and name.endswith("end")


def test_random_text_is_shown_and_sent_whole() -> None:
    random_ = random.Random(5)
    alphabet = [
        *string.printable,
        *map(chr, (0, 0x1B, 0x7F, 0x9B, 0x202E, 0xD800, 0xDFFF, 0x1F600)),
    ]
    for _ in range(2_000):
        text = "".join(random_.choices(alphabet, k=random_.randrange(40)))
        line = shown(text)
        line.encode()
        assert not set(line) & {"\x1b", "\n", "\r", "\x9b", "\u202e", "\0"}
        sound(text).encode()
        assert shown(line) == line and sound(sound(text)) == sound(text)
