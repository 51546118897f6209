"""The text of a Word file (.docx): its paragraphs in order, tables a row a line."""

from __future__ import annotations

import zipfile
import zlib
from typing import IO
from xml.parsers import expat

from app.attachments.refusal import UnreadableError

LARGEST_XML = 64 << 20
"""Bytes of the document unpacked: a small zip may hold anything."""
_PART = "word/document.xml"
_DAMAGED = "is damaged: it cannot be opened as a Word file"
_NAMESPACES = ("wordprocessingml/2006/main", "ooxml/wordprocessingml/main")
_FALLBACK = "http://schemas.openxmlformats.org/markup-compatibility/2006 Fallback"
_WHITE = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}


def read_word(file: IO[bytes]) -> str:
    try:
        with zipfile.ZipFile(file) as archive:
            if _PART not in archive.namelist():
                raise UnreadableError("is a zip file, not a Word file: unpack it first")
            with archive.open(_PART) as part:
                data = part.read(LARGEST_XML + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise UnreadableError(_DAMAGED) from error
    if len(data) > LARGEST_XML:
        raise UnreadableError(f"unpacks to more than {LARGEST_XML >> 20} MB: it is not read")
    return _Text().read(data)


class _Text:
    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._in_text = False
        self._skipped = 0
        self._rows = 0

    def read(self, data: bytes) -> str:
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.StartDoctypeDeclHandler = _refuse_definitions
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        try:
            parser.Parse(data, True)
        except expat.ExpatError as error:
            raise UnreadableError(_DAMAGED) from error
        return "".join(self._pieces).strip("\n")

    def _start(self, name: str, _attributes: dict[str, str]) -> None:
        self._skipped += name == _FALLBACK
        local = _local(name)
        self._rows += local == "tr"
        self._in_text = local == "t"
        if not self._skipped:
            self._pieces.append(_WHITE.get(local, ""))

    def _end(self, name: str) -> None:
        self._skipped -= name == _FALLBACK
        local = _local(name)
        self._rows -= local == "tr"
        self._in_text = False
        if self._skipped:
            return
        if local == "tc":
            self._pieces.append("\t")
        elif local == "tr" or (local == "p" and not self._rows):
            self._pieces.append("\n")
        elif local == "p":
            self._pieces.append(" ")

    def _characters(self, text: str) -> None:
        if self._in_text and not self._skipped:
            self._pieces.append(text)


def _local(name: str) -> str:
    """The name of an element of a Word document, "" of any other."""
    namespace, _, local = name.rpartition(" ")
    return local if namespace.endswith(_NAMESPACES) else ""


def _refuse_definitions(*_definition: object) -> None:
    """Entities that are defined in a file may expand to anything; Word writes none."""
    raise UnreadableError("defines entities of its own, as no Word file does: it is not read")
