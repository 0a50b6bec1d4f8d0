"""Writes src/gristmill/kernels/text/unicode.json: `python tests/kernels/text/unicode_table.py`, under Python 3.11.

Categories, lower case and white space are those of `unicodedata`, which has Unicode 14.0 there. What `unicodedata` does
not have (scripts without spaces, ends of sentences, what pre-tokenizers take from Unicode 16) stays as the file has it.
"""

import json
import sys
import unicodedata
from pathlib import Path

FILE = Path(__file__).parents[3] / "src/gristmill/kernels/text/unicode.json"


def hex_ranges(points):
    """`41-5A C0`: runs of code points."""
    runs = []
    for point in points:
        if runs and point == runs[-1][1] + 1:
            runs[-1][1] = point
        else:
            runs.append([point, point])
    return " ".join(f"{low:X}" if low == high else f"{low:X}-{high:X}" for low, high in runs)


def of_this_python():
    """The part of the file that the running Python knows."""
    categories, lower, space = {}, {}, []
    for point in range(0x110000):
        sign = chr(point)
        categories.setdefault(unicodedata.category(sign), []).append(point)
        small = sign.lower()
        if len(small) == 1 and small != sign:
            lower.setdefault(ord(small) - point, []).append(point)
        if sign.isspace():
            space.append(point)
    del categories["Cn"]
    return {
        "version": unicodedata.unidata_version,
        "categories": {name: hex_ranges(points) for name, points in sorted(categories.items())},
        "lower": {str(shift): hex_ranges(points) for shift, points in sorted(lower.items())},
        "space": hex_ranges(space),
    }


if __name__ == "__main__":
    written = json.loads(FILE.read_text())
    found = of_this_python()
    if found["version"] != written["version"]:
        sys.exit(f"This Python has Unicode {found['version']}; the file is of {written['version']}.")
    FILE.write_text(json.dumps(written | found, indent=0) + "\n")
