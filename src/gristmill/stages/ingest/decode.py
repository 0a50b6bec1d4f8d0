"""Decodes a text file: byte order marks, UTF-8, a declared charset, and at last a guess.

Pages have headers and `<meta>`; a file in a tree has only its bytes. A file that is UTF-8 except for some damaged bytes
is a fault, not Latin-1: guessing would turn each of its accents into two wrong letters.
"""

import codecs
import re

from resiliparse.parse.encoding import detect_encoding

from gristmill.stages.reading.decompress import ReadFault

# The longest marks first, since the UTF-32 mark starts with the UTF-16 mark.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

# Emacs and Python write `coding: x`, Vim `fileencoding=x`, LaTeX `\usepackage[x]{inputenc}`; only in the first lines.
_DECLARED = re.compile(rb"coding[:=][ \t]*([-\w.]+)|\\usepackage\[(\w+)\]\{inputenc\}")
_DECLARED_BYTES = 1024
_ALIASES = {"latin1": "iso-8859-1", "latin2": "iso-8859-2", "latin9": "iso-8859-15", "ansinew": "cp1252"}
# Charsets that a file may declare: text codecs of the standard library that never produce a lone surrogate.
_TRUSTED = re.compile(
    r"iso8859-\d+|cp(125\d|437|850|866|932|949)|koi8-[ru]|mac-\w+|shift_jis\w*|euc_\w+|gbk|gb2312|gb18030|big5"
)

# Text does not contain these. Tab, newlines, form feed, backspace and escape (terminal colours) do occur.
_CONTROLS = bytes([*range(0x08), 0x0B, *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x7F])
_MAX_CONTROL_SHARE = 0.01
_ASCII = bytes(range(0x80))


def decode(data: bytes) -> tuple[str, str]:
    """The text and the name of its charset. Raises `ReadFault`: `binary_file`, `invalid_utf8`."""
    for mark, charset in _MARKS:
        if data.startswith(mark):
            try:
                return data[len(mark) :].decode(charset), charset
            except UnicodeDecodeError as error:
                if b"\0" in data:
                    raise ReadFault("binary_file", f"begins as {charset}, but {error.reason}") from error
                raise _damaged(error) from error
    if (zero := data.find(0)) >= 0:
        raise ReadFault("binary_file", f"byte {zero} is zero")
    controls = len(data) - len(data.translate(None, _CONTROLS))
    if controls > len(data) * _MAX_CONTROL_SHARE:
        raise ReadFault("binary_file", f"{controls} control characters in {len(data)} bytes")
    try:
        return data.decode(), "utf-8"
    except UnicodeDecodeError as error:
        lenient = data.decode(errors="replace")
        bad = lenient.count("\ufffd") - data.count(b"\xef\xbf\xbd")
        good = len(lenient) - bad - (len(data) - len(data.translate(None, _ASCII)))
        if good >= bad:
            raise _damaged(error) from error
        guess = _guessed(data)
        if guess is None:
            raise _damaged(error) from error
        return guess


def _damaged(error: UnicodeDecodeError) -> ReadFault:
    return ReadFault("invalid_utf8", f"byte {error.start}: {error.reason}")


def _guessed(data: bytes) -> tuple[str, str] | None:
    """Decodes strictly with the charset that the file declares, else with the detected one. None if neither fits."""
    names = []
    if declared := _DECLARED.search(data[:_DECLARED_BYTES]):
        names.append((declared[1] or declared[2]).decode("ascii", "replace").lower())
    names.append(detect_encoding(data) or "")
    for name in names:
        try:
            known = codecs.lookup(_ALIASES.get(name, name)).name
            if _TRUSTED.fullmatch(known):
                return data.decode(known), known
        except (LookupError, UnicodeDecodeError):
            continue
    return None
