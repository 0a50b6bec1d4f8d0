"""Texts that break tokenizers, by difficulty. Each must decode to the same text, and two encoders must agree."""

import json
import random
from pathlib import Path

_PLAIN: dict[str, str] = json.loads(Path(__file__).with_name("hostile.json").read_text("ascii"))
_MIXED = "the Straße naïve データ 数据 مرحبا שלום привет ภาษา हिन्दी x_1 0x7F ½ — … 👍🏽 e\u0301 's 12345"
_WORDS = (*_MIXED.split(), " ", "  ", "\t", "\n", "\r\n")
_RUNS = {" ": 700, "\n": 300, "a": 3000, "=": 900, "ab": 900, "あ": 500, "9": 400, "\t": 200, "🙂": 99, "-": 400}

HOSTILE = {
    **_PLAIN,
    "binary": bytes(range(256)).decode("latin-1") + random.Random(1).randbytes(2000).decode("latin-1"),
    "controls": "".join(map(chr, range(32))) + "\x7f\x1b[31mred\x1b[0m\b\b\a",
    "long_runs": "".join(text * times for text, times in _RUNS.items()),
    "all_planes": "".join(chr(point) for point in range(1, 0x110000, 61) if not 0xD800 <= point <= 0xDFFF),
    "mixtures": "".join(random.Random(5).choices(_WORDS, k=2000)),
}
"""Name of the difficulty -> a text that has it. hostile.json has those that are not made."""
