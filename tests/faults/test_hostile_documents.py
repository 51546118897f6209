"""Files to attach that are made to harm, and the real ones beside them."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from app.attachments.reading import LARGEST_FILE, ReadingLimits, read_file, safe_name
from engine.data.errors import BadOptionError

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def pdf(*pages: str, password: str | None = None) -> bytes:
    writer = PdfWriter()
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    for text in pages:
        page = writer.add_blank_page(400, 400)
        page[NameObject("/Resources")] = DictionaryObject(
            {NameObject("/Font"): DictionaryObject({NameObject("/F1"): font})}
        )
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 20 300 Td ({text}) Tj ET".encode() if text else b"")
        page[NameObject("/Contents")] = writer._add_object(stream)
    if password is not None:
        writer.encrypt(password, algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def docx(body: str, before: str = "") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        document = f'<w:document xmlns:w="{W}"><w:body>{body}</w:body></w:document>'
        archive.writestr("word/document.xml", f'<?xml version="1.0"?>{before}{document}')
    return out.getvalue()


def paragraph(text: str) -> str:
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


LAUGHS = (
    "<!DOCTYPE w [<!ENTITY a 'ha'>"
    + "".join(
        f"<!ENTITY {name} '{f'&{before};' * 10}'>"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    + "]>"
)
LOOP = b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Count 1/Kids[2 0 R]>>endobj\ntrailer<</Root 1 0 R>>"  # noqa: E501


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        (pdf("first page", "second"), "pdf", "first page\n\nsecond"),
        (
            docx(
                paragraph("one")
                + paragraph("two &amp; three")
                + f"<w:tbl><w:tr><w:tc>{paragraph('a')}</w:tc><w:tc>{paragraph('b')}</w:tc>"
                "</w:tr></w:tbl>"
            ),
            "docx",
            "one\ntwo & three\na \tb \t",
        ),
        (b"\xef\xbb\xbfh\xc3\xa9", "text", "hé"),
        ("hé\r\nyou".encode("utf-16"), "text", "hé\nyou"),
        (b"h\xe9 \x80", "text", "hé €"),
        (b"def f():\n    return 1\n", "text", "def f():\n    return 1\n"),
    ],
    ids=["pdf", "docx", "utf-8-sig", "utf-16", "cp1252", "code"],
)
def test_documents_are_read_whatever_they_are_called(
    tmp_path: Path, data: bytes, kind: str, text: str
) -> None:
    path = tmp_path / "sent"
    path.write_bytes(data)
    found = read_file(path, "notes.xyz")
    assert (found.kind, found.text, found.bytes) == (kind, text, len(data))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is empty"),
        (b" \n\t", "is empty"),
        (b"a\x00b", "is neither text"),
        (b"\x81\x8d", "is neither text"),
        (b"\xff\xfea", "is neither text"),
        (b"\x89PNG\r\n\x1a\n", "images cannot be read yet"),
        (b"\xd0\xcf\x11\xe0 old", "old or encrypted Office file"),
        (pdf(""), "it is scanned"),
        (pdf("secret", password="word"), "is encrypted"),
        (pdf("page")[:200], "is damaged"),
        (LOOP, "is damaged|has no text"),
        (b"PK\x03\x04 and nothing", "is damaged"),
        (docx(paragraph("&i;"), LAUGHS), "defines entities"),
        (docx("<w:p>"), "is damaged"),
        (docx(paragraph("x" * (70 << 20))), "unpacks to more than 64 MB"),
    ],
    ids=[
        "nothing",
        "blank",
        "nul",
        "no-cp1252",
        "half-utf-16",
        "png",
        "doc",
        "scan",
        "password",
        "cut",
        "loop",
        "no-zip",
        "laughs",
        "no-xml",
        "bomb",
    ],
)
def test_what_cannot_be_read_says_why(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "sent"
    path.write_bytes(data)
    with pytest.raises(BadOptionError, match=reason) as told:
        read_file(path, "../odd\u202ename.pdf")
    assert str(told.value).startswith("oddname.pdf ")


def test_limits_hold(tmp_path: Path) -> None:
    path = tmp_path / "sent"
    path.write_bytes(pdf(*["page"] * 501))
    with pytest.raises(BadOptionError, match="501 pages"):
        read_file(path, "long.pdf")
    path.write_bytes(b"x" * 2_000_001)
    with pytest.raises(BadOptionError, match="2,000,001 characters"):
        read_file(path, "long.txt")
    with path.open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    with pytest.raises(BadOptionError, match="20,000,000 can be read"):
        read_file(path, "big.txt")
    path.write_bytes(docx(paragraph("x" * (50 << 20))))
    with pytest.raises(BadOptionError, match="memory"):
        read_file(path, "fat.docx", limits=ReadingLimits(memory=120 << 20))


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("a/b\\c.txt", "c.txt"),
        ("..", "file"),
        ("", "file"),
        ("\x00\n", "file"),
        ("x\u202egpj.exe\n", "xgpj.exe"),
        ("two\t words.md", "twowords.md"),
        ("n" * 300 + ".pdf", "n" * 99 + "…" + "n" * 16 + ".pdf"),
    ],
)
def test_names_are_made_safe(name: str, safe: str) -> None:
    assert safe_name(name) in (safe, safe.replace("twowords", "two words"))
