"""XML as a tree, and members of zip files, in bounded memory.

A document that declares entities is refused, since they can expand without bound and name files. Nothing is fetched.
"""

import html
import io
import zipfile
import zlib
from collections.abc import Iterator
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from gristmill.stages.reading.archive import CUT_ZIP, is_cut_zip
from gristmill.stages.reading.decompress import ReadFault

_PDF = b"%PDF-"
MAX_DEPTH = 150
MAX_ELEMENTS = 1_000_000
MAX_ATTRIBUTES = 1000
"""Attributes that a document may declare. Documents declare some for links and none else."""


def parse_xml(data: bytes) -> Element:
    """The root. Names are without prefixes and namespaces. Raises ReadFault: `invalid_xml`, `xml_entities`,
    `too_many_elements`, `too_many_attributes`, `nested_too_deeply`."""
    builder = TreeBuilder()
    depth = count = attributes_declared = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth, count
        depth, count = depth + 1, count + 1
        if depth > MAX_DEPTH:
            raise ReadFault("nested_too_deeply", f"more than {MAX_DEPTH} elements inside each other")
        if count > MAX_ELEMENTS:
            raise ReadFault("too_many_elements", f"more than {MAX_ELEMENTS:,} elements")
        builder.start(_local(name), {_local(key): value for key, value in attributes.items()})

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(_local(name))

    def entity(*declared: object) -> None:
        raise ReadFault("xml_entities", f"the document declares the entity {str(declared[0])[:40]}")

    def attribute(*declared: object) -> None:
        nonlocal attributes_declared
        attributes_declared += 1
        if attributes_declared > MAX_ATTRIBUTES:
            raise ReadFault("too_many_attributes", f"the document declares more than {MAX_ATTRIBUTES:,} attributes")

    def skipped(name: str, is_parameter: bool) -> None:
        if not is_parameter and depth:
            builder.data(html.unescape(f"&{name};"))

    parser = expat.ParserCreate()
    parser.UseForeignDTD(True)  # names such as &nbsp; are then known from elsewhere, and passed to `skipped`
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = builder.data
    parser.specified_attributes = True  # a declared default would be repeated for each element
    parser.EntityDeclHandler, parser.AttlistDeclHandler = entity, attribute
    parser.SkippedEntityHandler = skipped
    try:
        parser.Parse(data, True)
        return builder.close()
    except (expat.ExpatError, ValueError, LookupError) as error:  # the last two: a charset that is not known
        raise ReadFault("invalid_xml", str(error)) from error


def _local(name: str) -> str:
    return name.rpartition(":")[2]


class Members:
    """The files inside a zip file, which may unpack to `limit_bytes` in all. None is ever written to disk."""

    def __init__(self, data: bytes, limit_bytes: int) -> None:
        self._left = self._limit = limit_bytes
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
            if is_cut_zip(io.BytesIO(data)):
                raise ReadFault("truncated_zip", CUT_ZIP) from error
            fact = "the file is a PDF, which `format: pdf` reads" if data.startswith(_PDF) else str(error)
            raise ReadFault("not_a_zip", fact) from error
        self.names = frozenset(self._zip.namelist())

    def read(self, name: str) -> bytes:
        """Raises ReadFault: `missing_member`, `encrypted`, `corrupt_zip`, `record_too_large`."""
        if name not in self.names:
            raise ReadFault("missing_member", f"the file has no {name[:200]}")
        try:
            with self._zip.open(name) as member:
                data = member.read(self._left + 1)
        except RuntimeError as error:
            raise ReadFault("encrypted", f"{name[:200]} has a password") from error
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, OSError, ValueError) as error:
            raise ReadFault("corrupt_zip", f"{name[:200]}: {error}") from error
        self._left -= len(data)
        if self._left < 0:
            raise ReadFault("record_too_large", f"unpacks to more than max_record_bytes = {self._limit}")
        return data


def descendants(root: Element, *names: str) -> Iterator[Element]:
    """The elements with one of the names, in order."""
    return (one for one in root.iter() if one.tag in names)


def words(element: Element | None) -> str:
    """All text of an element, with single spaces."""
    return " ".join("".join(element.itertext()).split()) if element is not None else ""
