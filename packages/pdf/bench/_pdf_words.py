"""Words of a text, as the PDF bench counts them."""

import re
import unicodedata

_WIDE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"
_WORD = re.compile(f"[{_WIDE}]|[^\\W_{_WIDE}]+")


def words(text: str) -> list[str]:
    """Runs of letters and digits; Han, Kana and Hangul by character."""
    return _WORD.findall(unicodedata.normalize("NFKC", text))
