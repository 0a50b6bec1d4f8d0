"""Articles from the standard library of the running Python: real English prose that every installation has.

Docstrings and block comments are read from the source with `ast`. Nothing is imported, so nothing runs, and no memory
address or path of the machine can get in. The text of a module makes one article, the text of each class another.
"""

import ast
import gc
import inspect
import os
import re
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random

LEFT_OUT = {
    "__phello__",  # a joke, tables, generated code, other people's code, and tests: no original prose
    "antigravity.py",
    "dist-packages",
    "encodings",
    "ensurepip",
    "idlelib",
    "idle_test",
    "lib2to3",
    "pydoc_data",
    "site-packages",
    "test",
    "tests",
    "this.py",
    "turtledemo",
}
MIN_WORDS = 110
"""Twice the 50 words that Gopher requires, so that an extractor may lose some."""
PAGE_WORDS = 420
"""A longer article continues on another page."""
MAX_SEEN = 0.25
"""Largest share of an article's word 5-grams that an earlier article may have. It keeps good pages far from near
duplicates.
"""
MIN_LONGEST = 150
"""Minimum length of the longest paragraph in characters: a page of one-line remarks is a list."""
MIN_FRESH = 0.93
"""Share of a page's word 5-grams that occur for the first time: Gopher drops a page with 0.15 repeated."""
STOP_WORDS = {"the", "be", "to", "of", "and", "that", "have", "with"}

# Text that would itself make a good page a defect: addresses, template brackets (C4 drops a page for one), memory
# addresses, absolute paths.
_UNFIT = re.compile(r"[{}]|@[\w-]+\.|\b\d+\.\d+\.\d+\.\d+\b|0x[0-9a-fA-F]{6}|javascript|lorem ipsum|/lib/python", re.I)
_EMPTY_LINES = re.compile(r"\n\s*\n")
_UNDERLINE = re.compile(r"\s*([-=~*^])\1{2,}\s*")
_BULLET = re.compile(r"(?m)^\s*[-*] (?=\w)")
_PLAIN_WORD = re.compile(r"[('\"`*]*[A-Za-z][A-Za-z'-]*[)'\"`*.,:;!?]*")
_DRAWING = re.compile(r"^\s*#|[-=_#*+]{4}|\+--")


@dataclass(frozen=True, slots=True)
class Block:
    tag: str
    """`h2`, `h3`, `p`, `li` or `pre`."""
    text: str


@dataclass(frozen=True, slots=True)
class Article:
    name: str
    """Unique dotted name of the module or class."""
    title: str
    blocks: tuple[Block, ...]

    def words(self) -> list[str]:
        return " ".join(b.text for b in self.blocks).split()


def stdlib() -> Path:
    return Path(sysconfig.get_path("stdlib"))


def sources() -> list[Path]:
    """Source files of the standard library in a fixed order, without those that have no prose or differ by machine."""
    root = stdlib()
    found: dict[str, Path] = {}
    for here, folders, names in os.walk(root):
        odd = ("config-", "lib-dynload", "__pycache__")
        folders[:] = [name for name in folders if name not in LEFT_OUT and not name.startswith(odd)]
        for name in names:
            path = Path(here, name)
            wanted = path.suffix == ".py" and name not in LEFT_OUT and not name.startswith("_sysconfigdata")
            if wanted and path.stat().st_size:
                found[path.relative_to(root).as_posix()] = path
    return [found[name] for name in sorted(found)]


def articles(limit: int, rng: Random) -> list[Article]:
    """At most `limit` articles, no two alike, in an order that depends on the seed."""
    paths = sources()
    rng.shuffle(paths)
    collects = gc.isenabled()
    gc.disable()  # thousands of syntax trees without cycles: a sixth of the time went into garbage collection
    try:
        return list(islice(_fresh(paths), limit))
    finally:
        if collects:
            gc.enable()


def _fresh(paths: Iterable[Path]) -> Iterator[Article]:
    """Articles that do not repeat earlier ones."""
    known: set[str] = set()
    for path in paths:
        for article in _of_file(path):
            grams = shingles(article.words())
            if len(grams & known) <= MAX_SEEN * len(grams):
                known |= grams
                yield article


def shingles(words: list[str], n: int = 5) -> set[str]:
    return {" ".join(words[i : i + n]).lower() for i in range(len(words) - n + 1)}


def jaccard(one: list[str], other: list[str]) -> float:
    a, b = shingles(one), shingles(other)
    return len(a & b) / max(1, len(a | b))


def _of_file(path: Path) -> Iterator[Article]:
    try:
        source = path.read_text("utf-8")
        tree = ast.parse(source)
    except (UnicodeDecodeError, SyntaxError):
        return
    module = ".".join(path.relative_to(stdlib()).with_suffix("").parts).removesuffix(".__init__")
    lines = source.splitlines()
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    taken = {i for node in classes for i in range(node.lineno - 1, node.end_lineno or 0)}
    own = [line if i not in taken else "" for i, line in enumerate(lines)]
    yield from _pages(module, f"The {module} module", _blocks(tree, own))
    for node in classes:
        body = lines[node.lineno - 1 : node.end_lineno]
        yield from _pages(f"{module}.{node.name}", f"{node.name}, a class of {module}", _blocks(node, body))


def _blocks(node: ast.Module | ast.ClassDef, lines: list[str]) -> Iterator[Block]:
    yield from from_docstring(ast.get_docstring(node) or "")
    kind = "function" if isinstance(node, ast.Module) else "method"
    for child in node.body:
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            inner = list(from_docstring(ast.get_docstring(child) or ""))
            if sum(len(b.text.split()) for b in inner) >= 6:
                yield from (Block("h3", f"The {child.name} {kind}"), *inner)
    notes = list(_from_comments(lines))
    if notes:
        yield from (Block("h2", "Notes from the source"), *notes)


def _pages(name: str, title: str, blocks: Iterator[Block]) -> Iterator[Article]:
    """The blocks in pages of about the same length. A block that a page repeats (overloads do) occurs once."""
    pages: list[list[Block]] = [[]]
    words = 0
    for block in blocks:
        if block in pages[-1]:
            continue
        if words >= PAGE_WORDS:
            pages.append([])
            words = 0
        pages[-1].append(block)
        words += len(block.text.split())
    for number, page in enumerate(pages, 1):
        while page and page[-1].tag in ("h2", "h3"):
            page.pop()
        suffix, part = (f".{number}", f", part {number}") if number > 1 else ("", "")
        article = Article(name + suffix, title + part, tuple(page))
        if _is_prose(article):
            yield article


def from_docstring(doc: str) -> Iterator[Block]:
    """Paragraphs, list items, headings and examples of a docstring."""
    for part in _EMPTY_LINES.split(inspect.cleandoc(doc)):
        lines = part.splitlines()
        if len(lines) == 2 and _UNDERLINE.fullmatch(lines[1]):
            yield Block("h2", lines[0].strip())
        elif part.strip() and not _UNFIT.search(part):
            yield from _from_paragraph(part)


def _from_comments(lines: list[str]) -> Iterator[Block]:
    """Block comments of two lines or more that read as sentences."""
    text = "\n".join(line.strip()[1:].strip() if line.lstrip().startswith("#") else "\f" for line in lines)
    for run in text.split("\f"):
        for part in _EMPTY_LINES.split(run.strip()):
            if part.count("\n") and len(part.split()) >= 12 and not _UNFIT.search(part) and _reads_as_prose(part):
                yield from _from_paragraph(part)


def _from_paragraph(part: str) -> Iterator[Block]:
    items = _BULLET.split(part)
    if len(items) > 1:
        if len(items[0].split()) > 2:
            yield Block("p", _sentence(items[0]))
        yield from (Block("li", _sentence(item)) for item in items[1:] if len(item.split()) > 2)
    elif ">>>" in part or not _reads_as_prose(part):
        yield Block("pre", inspect.cleandoc(part))
    else:
        yield Block("p", _sentence(part))


def _reads_as_prose(part: str) -> bool:
    words = part.split()
    plain = sum(_PLAIN_WORD.fullmatch(word) is not None for word in words)
    return len(words) >= 4 and plain >= 0.7 * len(words) and not _DRAWING.search(part)


def _sentence(part: str) -> str:
    text = " ".join(part.split())
    return text if text[-1] in ".!?:;" else text + "."


def _is_prose(article: Article) -> bool:
    """Whether the page would pass the usual filters by a margin: words, sentences, stop words, repetition, little code.

    Only paragraphs count: resiliparse treats a long list as navigation and leaves it out.
    """
    prose = [b.text for b in article.blocks if b.tag == "p"]
    lines = [line.strip() for b in article.blocks for line in b.text.splitlines() if line.strip()]
    words = " ".join(prose).split()
    code = sum(len(b.text.split()) for b in article.blocks if b.tag == "pre")
    sentences = sum(word[-1] in ".!?" for word in words)
    stops = STOP_WORDS.intersection(word.lower() for word in words)
    if max(map(len, prose), default=0) < MIN_LONGEST:
        return False
    fresh = len(shingles(words)) >= MIN_FRESH * (len(words) - 4) and len(set(lines)) == len(lines)
    return fresh and len(words) >= MIN_WORDS and sentences >= 6 and len(stops) >= 4 and code <= 0.3 * len(words)
