"""The characters that output depends on: one version of Unicode, whichever Python runs.

`unicode.json` has it, as ranges of code points: categories, lower case and white space of Unicode 14.0 (written by
tests/kernels/text/unicode_table.py); letters that are words (`unit`), letters of scripts without spaces (`piece`) and
sentence ends (`terminal`), by Scripts.txt and PropList.txt of Unicode 15; and the code points that Unicode 16 classes
differently.

Python's `str` methods, `re` and `unicodedata` know the characters of their version. The characters of Unicode 14.0
are the same in all later ones (up to 15.1, Python 3.13): categories, case and normal forms. So code that uses them only
has to hide newer characters from them: `known` and `per_known`.
"""

import json
import re
import unicodedata
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

DATA: dict[str, Any] = json.loads(Path(__file__).with_name("unicode.json").read_bytes())
UNICODE_VERSION: str = DATA["version"]
_STAND_INS = {2: "\u0378", 3: "\ufffe", 4: "\U0010fffe"}
"""By size in UTF-8: a character that no Unicode up to 15.1 has."""


def ranges(text: str) -> list[tuple[int, int]]:
    """Returns the first and last code point of each range."""
    pairs = [part.split("-") for part in text.split()]
    return [(int(pair[0], 16), int(pair[-1], 16)) for pair in pairs]


@cache
def _newer() -> re.Pattern[str] | None:
    """Returns the characters that the running Python knows and the file does not; None if there are none."""
    if unicodedata.unidata_version == UNICODE_VERSION:
        return None
    known = {
        point for text in DATA["categories"].values() for low, high in ranges(text) for point in range(low, high + 1)
    }
    newer = [chr(point) for point in range(0x110000) if point not in known and unicodedata.category(chr(point)) != "Cn"]
    return re.compile(f"([{''.join(newer)}]+)") if newer else None


def known(text: str) -> str:
    """Returns the text with newer characters replaced by unassigned ones of the same size: for searching, not for
    output.
    """
    newer = None if text.isascii() else _newer()
    return (
        text if newer is None else newer.sub(lambda run: "".join(_STAND_INS[len(one.encode())] for one in run[0]), text)
    )


def per_known(function: Callable[[str], str], text: str) -> str:
    """Applies a function to each part of the text between newer characters; newer characters stay."""
    newer = None if text.isascii() else _newer()
    if newer is None:
        return function(text)
    return "".join(piece if at % 2 else function(piece) for at, piece in enumerate(newer.split(text)))


def nfc(text: str) -> str:
    """Returns normal form C of Unicode 14.0."""
    return per_known(lambda piece: unicodedata.normalize("NFC", piece), text)
