"""Golden pages: pages of the user's own with the text that extraction must give for them.

The folder has pairs of files: `NAME.html`, which is decoded like any page, and `NAME.txt`, the expected text in UTF-8.
White space at the ends of a text does not count.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from gristmill.errors import UserError
from gristmill.hints import hint
from gristmill.places import open_path
from gristmill.schema import as_str
from gristmill.stages.piece import Piece
from gristmill.warned import Warnings

MAX_BYTES = 10_000_000
"""Bytes of a page. A crawl cuts pages at 1 to 5 MB, so a larger file is something else."""
SHOWN_CHARACTERS = 60
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_WORDS = re.compile(f"[{_CJK}]|[^\\W{_CJK}]+")


class GoldenPage(NamedTuple):
    """A page with the text that is expected, and the text that extraction gives now."""

    page: Path
    text_file: Path
    expected: str | None
    """None if there is no file with the text yet."""
    now: str
    reason: str | None
    """Why extraction drops the page; its text is then empty."""

    @property
    def is_same(self) -> bool:
        return self.expected == self.now

    @property
    def f1(self) -> float:
        """F1 of the words; 1 if both texts are empty."""
        found, wanted = (Counter(words_of(side)) for side in (self.now, self.expected or ""))
        total = found.total() + wanted.total()
        return 2 * (found & wanted).total() / total if total else 1.0

    @property
    def difference(self) -> str:
        """What is different, with the first line that is."""
        dropped = f"it is dropped as {self.reason}; " if self.reason else ""
        lines = zip_longest((self.expected or "").split("\n"), self.now.split("\n"), fillvalue="")
        number, pair = next((number, pair) for number, pair in enumerate(lines, 1) if pair[0] != pair[1])
        same = next((at for at, two in enumerate(zip(*pair, strict=False)) if two[0] != two[1]), min(map(len, pair)))
        start = max(0, same - SHOWN_CHARACTERS // 3)
        expected, now = (f"{'…' * (start > 0)}{side[start : start + SHOWN_CHARACTERS]}" for side in pair)
        return f"{dropped}F1 {self.f1:.3f}, line {number:,} is {now!r} instead of {expected!r}"


def words_of(text: str) -> list[str]:
    """The counted units: words in lower case, and single characters of Chinese, Japanese and Korean."""
    return _WORDS.findall(text.lower())


def golden_pages(folder: str, extract: Callable[[pa.RecordBatch], pa.RecordBatch]) -> Iterator[GoldenPage]:
    """The pages of a folder, in the order of their names, with what extraction gives for them now."""
    root = Path(folder)
    with _readable(root):
        names = sorted(path.name for path in root.iterdir() if path.name[0] != ".") if root.is_dir() else []
    texts = {name: f"{name[:-5]}.txt" for name in names if name.endswith(".html")}
    if not texts:
        raise UserError(f"golden: {folder} is not a folder with pages NAME.html, so no page can be checked. Add some.")
    if others := [name for name in names if name not in texts and name not in texts.values()]:
        raise UserError(
            f"golden: {root / others[0]} is neither a page NAME.html nor the NAME.txt of one, so it is not checked. "
            "Rename it, or move it to another folder."
        )
    for name, text in texts.items():
        columns = [pa.array([value], pa.string()) for value in (_markup(root / name), None, None, None)]
        answer = extract(pa.RecordBatch.from_arrays(columns, names=["html", "text", "title", "language_hint"]))
        expected = _expected(root / text) if text in names else None
        now, reason = (answer.column(column)[0].as_py() for column in ("text", "drop"))
        yield GoldenPage(root / name, root / text, expected, (now or "").strip(), reason)


def golden_warnings(pages: Iterable[GoldenPage]) -> list[str]:
    """A warning for each page whose text differs. Raises UserError if a page has no expected text."""
    found = Warnings()
    for one in pages:
        if one.expected is None:
            raise UserError(
                f"golden: {one.page} has no {one.text_file.name} next to it, so there is nothing to compare with. To "
                f"write the text as it is extracted now: {hint('accept_golden')}"
            )
        if not one.is_same:
            found.add(
                "golden_page",
                f"the text of the golden page {one.page} has changed: {one.difference}. Pages like it change in the "
                f"corpus, too. Fix the extraction, or accept the new text: {hint('accept_golden')}",
            )
    return found


def _markup(page: Path) -> str:
    from gristmill.stages.ingest import html_files  # it imports readers of archives, which workers do not need

    with _readable(page):
        (record,) = html_files.read(Piece(str(page), page.name), html_files.Config(max_record_bytes=MAX_BYTES))
    if record.html is None:
        why = f"{record.drop}: {record.detail}" if record.detail else record.drop
        raise UserError(f"golden: {page} cannot be read as a page ({why}), so it is not checked. Replace or remove it.")
    return as_str(record.html)


def _expected(text: Path) -> str:
    try:
        with _readable(text), TextIOWrapper(open_path(str(text)), "utf-8-sig") as file:
            return file.read().strip()
    except UnicodeDecodeError as error:
        raise UserError(
            f"golden: {text} is not UTF-8 (byte {error.start:,}), so it is not compared. Convert it."
        ) from None


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Raise UserError for a file that cannot be read: a link to nowhere, missing rights."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"golden: {path} cannot be read ({error.strerror}), so it is not checked. Replace or remove it."
        ) from None
