"""Characters that are newer than the table change nothing: output does not depend on the Unicode version of Python."""

import json
import re
import sys
import unicodedata
from pathlib import Path

import pytest

from gristmill.kernels.text import unicode_data
from gristmill.kernels.text.unicode_data import DATA, UNICODE_VERSION, known, nfc, per_known, ranges
from gristmill.stages.contract import version_of
from gristmill.stages.shared import normalise

sys.path.insert(0, str(Path(__file__).parent))
from unicode_table import FILE, of_this_python


def test_the_file_is_what_its_script_writes():
    """Under the Python whose tables it has; and keys hold its version, not that of Python."""
    assert json.loads(FILE.read_text()) == DATA
    assert version_of("unicode") == UNICODE_VERSION == "14.0.0"
    if unicodedata.unidata_version == UNICODE_VERSION:
        found = of_this_python()
        assert found == {name: DATA[name] for name in found}


@pytest.fixture
def older(monkeypatch):
    """A table without the Greek letters and the acute accent, which Python knows: they are newer characters here."""

    def without(text, points):
        kept = [point for low, high in ranges(text) for point in range(low, high + 1) if point not in points]
        return " ".join(f"{point:X}" for point in kept)

    points = {*range(0x370, 0x400), 0x301}
    categories = {name: without(text, points) if name[0] in "LM" else text for name, text in DATA["categories"].items()}
    caches = (unicode_data._newer, normalise._kinds, normalise._long_run)
    with monkeypatch.context() as patch:
        patch.setitem(DATA, "categories", categories)
        patch.setattr(unicode_data, "UNICODE_VERSION", "0")
        for one in caches:
            one.cache_clear()
        yield
    for one in caches:
        one.cache_clear()


def test_newer_characters_are_no_letters_and_no_marks(older):
    """To `re` and `str` they are unassigned, at the same places in UTF-8; to normal forms they are apart."""
    text = "abc\u03a9\u03c9d e\u0301 \u0416"
    shown = known(text)
    assert [one.span() for one in re.finditer(r"\w+", shown)] == [(0, 3), (5, 6), (7, 8), (10, 11)]
    assert [len(sign.encode()) for sign in shown] == [len(sign.encode()) for sign in text]
    assert per_known(str.lower, text) == "abc\u03a9\u03c9d e\u0301 \u0436"
    assert nfc(text) == text != unicodedata.normalize("NFC", text)
    assert nfc("e\u0300\u0301") == "\u00e8\u0301"
    assert normalise.normalise(text) == text


def test_known_characters_are_left_to_python():
    """Without newer ones nothing is replaced."""
    text = "abc\u03a9 e\u0301"
    if unicodedata.unidata_version == UNICODE_VERSION:
        assert known(text) is text
    assert nfc(text) == unicodedata.normalize("NFC", text)
