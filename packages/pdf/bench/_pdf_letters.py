"""Counts the pairs of letters that words have: `python -m bench._pdf_letters TEXTS > letter_pairs.txt`.

TEXTS are files of JSON lines (also `.zst`) with `text` and `lang`. Each language has the same weight, however much text
of it there is, unless it is less than LEAST_LETTERS.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from backports import zstd

from gristmill_pdf.layout.letters import ALPHABETS, COST_BITS, SYMBOLS, char_tables

LEAST_LETTERS = 5_000
MOST_CHARS = 400_000
"""Characters of one language in one file."""
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def main(paths: list[str]) -> None:
    counts: dict[tuple[str, str], np.ndarray] = defaultdict(lambda: np.zeros((len(SYMBOLS), len(SYMBOLS))))
    read: dict[tuple[str, str], int] = defaultdict(int)
    symbol = char_tables()[0]
    for path in paths:
        data = Path(path).read_bytes()
        data = zstd.decompress(data) if path.endswith(".zst") else data
        for line in data.split(b"\n"):
            row = json.loads(line) if line else {"lang": "", "text": ""}
            key, text = (path, row["lang"]), row["text"]
            if read[key] >= MOST_CHARS:
                continue
            read[key] += len(text)
            codes = np.frombuffer(f" {text} ".encode("utf-32-le", "replace"), "<u4")
            symbols = symbol[np.where(codes < len(symbol), codes, 32)]
            np.add.at(counts[key], (symbols[:-1], symbols[1:]), 1)
    pooled = np.zeros((len(SYMBOLS), len(SYMBOLS)))
    for count in counts.values():
        count[0, 0] = 0
        pooled += count / max(count.sum(), LEAST_LETTERS)
    pooled += pooled.sum() * 1e-6
    chance = pooled / pooled.sum(1, keepdims=True)
    at = 1
    for alphabet in ALPHABETS:  # the first letter of a word, given its script: Greek is not worse than Latin
        script = slice(at, at + len(alphabet) + 1)
        chance[0, script] = pooled[0, script] / pooled[0, script].sum()
        at += len(alphabet) + 1
    costs = np.minimum(np.rint(-np.log2(chance) * COST_BITS), len(DIGITS) - 1).astype(int)
    costs[0, 0] = 0
    print("# What the next letter costs, in half bits (0 to z is 0 to 35). Written by bench/_pdf_letters.py.")
    print(f"# {SYMBOLS}")
    for name, row in zip(SYMBOLS, costs, strict=True):
        print(f"{name}|{''.join(DIGITS[cost] for cost in row)}")


if __name__ == "__main__":
    main(sys.argv[1:])
