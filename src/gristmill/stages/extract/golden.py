"""Golden pages: pages of the user's own with the text that extraction must give for them.

The folder has pairs of files: `NAME.html`, which is decoded like any page, and `NAME.txt`, the expected text in UTF-8.
Every run extracts the pages as the recipe says and compares the texts; white space at the ends does not count.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from gristmill.counted import size
from gristmill.errors import UserError
from gristmill.hints import hint
from gristmill.printable import one_line
from gristmill.schema import as_str
from gristmill.stages.piece import Piece

MAX_BYTES = 10_000_000
"""Bytes of a page or of a text. A crawl cuts pages at 1 to 5 MB, so a larger file is something else."""
SHOWN_CHARACTERS = 60
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_WORDS = re.compile(f"[{_CJK}]|[^\\W{_CJK}]+")

Extract = Callable[[pa.RecordBatch], pa.RecordBatch]
"""Extracts the pages of a batch with `html`, `text`, `title` and `language_hint`."""


class GoldenPage(NamedTuple):
    """A page with the text that is expected, and the text that extraction gives now."""

    page: Path
    expected: str | None
    """None if there is no file with the text yet."""
    now: str
    """Empty if the page is dropped."""
    reason: str | None
    """Why the page is dropped."""

    @property
    def text_file(self) -> Path:
        return self.page.with_suffix(".txt")

    def write(self) -> None:
        """Make the text as it is extracted now the expected one."""
        try:
            self.text_file.write_text(f"{self.now}\n", "utf-8", newline="\n")
        except OSError as error:
            raise UserError(f"{self.text_file} cannot be written ({error.strerror}), so it is unchanged.") from None

    @property
    def is_same(self) -> bool:
        return self.expected == self.now

    @property
    def f1(self) -> float:
        return word_f1(self.now, self.expected or "")

    @property
    def first_difference(self) -> tuple[int, str, str]:
        """The number of the first line that differs, and the line in both texts, shortened around the difference."""
        lines = [text.split("\n") for text in (self.expected or "", self.now)]
        longest = max(map(len, lines))
        for at in range(longest):
            one, other = (side[at] if at < len(side) else "" for side in lines)
            if one != other or any(at >= len(side) for side in lines):
                return at + 1, *_around(one, other)
        return longest, "", ""


def words_of(text: str) -> list[str]:
    """The counted units: words in lower case, and single characters of Chinese, Japanese and Korean."""
    return _WORDS.findall(text.lower())


def word_f1(text: str, gold: str) -> float:
    """F1 of the bags of words. An empty text is perfect for an empty gold text, and otherwise scores 0."""
    found, wanted = (Counter(words_of(side)) for side in (text, gold))
    total = found.total() + wanted.total()
    return 2 * (found & wanted).total() / total if total else 1.0


def golden_pages(folder: str, extract: Extract) -> Iterator[GoldenPage]:
    """The pages of a folder, in the order of their names, with what extraction gives for them now."""
    root = Path(folder)
    names = {path.name for path in root.iterdir()} if root.is_dir() else set()
    pages = sorted(name for name in names if name.endswith(".html"))
    if not pages:
        fact = "has no file NAME.html" if root.is_dir() else "is not a folder on this machine"
        raise UserError(f"golden: {folder} {fact}, so no page can be checked. Name a folder of golden pages.")
    texts = {f"{name[:-5]}.txt" for name in pages}
    if other := sorted(name for name in names.difference(pages, texts) if not name.startswith(".")):
        raise UserError(
            f"golden: {root / other[0]} is neither a page NAME.html nor the text NAME.txt of one, so it is not "
            "checked. Rename it, or move it to another folder."
        )
    for name in pages:
        page = root / name
        html = _markup(page)
        columns = [pa.array([value], pa.string()) for value in (html, None, None, None)]
        batch = pa.RecordBatch.from_arrays(columns, names=["html", "text", "title", "language_hint"])
        answer = extract(batch)
        text = page.with_suffix(".txt")
        expected = _trimmed(_expected(text)) if text.name in names else None
        yield GoldenPage(
            page, expected, _trimmed(answer.column("text")[0].as_py() or ""), answer.column("drop")[0].as_py()
        )


def golden_warnings(pages: Iterable[GoldenPage]) -> list[str]:
    """A warning for each page whose text differs. Raises UserError if a page has no expected text."""
    found, accept = [], hint("accept_golden")
    for one in pages:
        if one.expected is None:
            raise UserError(
                f"golden: {one.page} has no {one.text_file.name} next to it, so there is nothing to compare with. To "
                f"write the text as it is extracted now: {accept}"
            )
        if not one.is_same:
            line, expected, now = one.first_difference
            what = f"is dropped as {one.reason}" if one.reason else f"has F1 {one.f1:.3f} (words)"
            found.append(
                f"the golden page {one.page} {what}; line {line:,} of {one.text_file.name} is {expected!r}, now "
                f"{now!r}. Pages like it change in the corpus, too. Fix the extraction, or, if the new text is right: "
                f"{accept}"
            )
    return found


def _markup(page: Path) -> str:
    from gristmill.stages.ingest import html_files  # it imports readers of archives, which workers do not need

    _refuse_large(page)
    (record,) = html_files.read(Piece(str(page), page.name), html_files.Config())
    if record.html is None:
        raise UserError(
            f"golden: {page} cannot be read as a page ({record.drop}: {record.detail}), so it is not checked. Replace "
            "it, or remove it."
        )
    return as_str(record.html)


def _expected(text: Path) -> str:
    _refuse_large(text)
    try:
        return text.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(
            f"golden: {text} is not UTF-8 (byte {error.start:,}), so it cannot be compared. Convert it to UTF-8."
        ) from None


def _refuse_large(path: Path) -> None:
    if (found := path.stat().st_size) > MAX_BYTES:
        raise UserError(
            f"golden: {path} has {size(found)}, and the limit for a golden page is {size(MAX_BYTES)}, so it is not "
            "checked. Use a smaller page."
        )


def _trimmed(text: str) -> str:
    return text.strip()


def _around(one: str, other: str) -> tuple[str, str]:
    """Two lines from a few characters before their first difference."""
    same = next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
    start = max(0, (min(len(one), len(other)) if same is None else same) - SHOWN_CHARACTERS // 3)
    shown = [f"{'…' if start else ''}{side[start : start + SHOWN_CHARACTERS]}" for side in (one, other)]
    return one_line(shown[0]), one_line(shown[1])
