"""How close the text of a reader is to another text of the same file: `python -m bench._reader_text FORMAT FILES...`.

Next to `a.tex` there is the text to compare with, `a.tex.reference` (of its PDF file, or of another edition), and texts
of peers: `a.tex.pandoc`. F1 is of words of four and more letters outside of formulas, over all files together.
"""

import re
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path

from gristmill.stages import READERS
from gristmill.stages.contract import Piece

_FORMULA = re.compile(r"\$\$?[^$]{1,5000}\$\$?")
_WORD = re.compile(r"[^\W\d_]{4,}")


def words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(_FORMULA.sub(" ", text).lower()))


def main(format_name: str, paths: list[str]) -> None:
    module = import_module(READERS[format_name])
    counts: dict[str, list[int]] = {}
    for path in paths:
        wanted = words(Path(f"{path}.reference").read_text(errors="replace"))
        [row] = module.read(Piece(path, Path(path).name), module.Config())
        texts = {"gristmill": str(row.text or "")}
        for other in sorted(Path(path).parent.glob(f"{Path(path).name}.*")):
            texts |= {} if other.suffix == ".reference" else {other.suffix[1:]: other.read_text(errors="replace")}
        for name, text in texts.items():
            found = words(text)
            shared = (found & wanted).total()
            so_far = counts.setdefault(name, [0, 0, 0])
            counts[name] = [so_far[0] + shared, so_far[1] + found.total(), so_far[2] + wanted.total()]
    for name, (shared, own, others) in counts.items():
        print(f"{name}: F1 {2 * shared / (own + others):.3f} of {others:,} words in {len(paths)} files")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
