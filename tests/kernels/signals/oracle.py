"""The signals, slowly: written from their definitions with str methods, Counter and unicodedata."""

import math
import re
import unicodedata
from collections import Counter
from functools import lru_cache

from gristmill.kernels.text.unicode_classes import PIECE, TERMINAL, UNIT, unicode_tables

GOPHER_STOP_WORDS = ("the", "be", "to", "of", "and", "that", "have", "with")
POLICIES = (
    "terms of use",
    "privacy policy",
    "cookie policy",
    "uses cookies",
    "use of cookies",
    "use cookies",
)
WORD = frozenset("LUonmPH")
LETTER = frozenset("LUoPH")
TAIL = re.compile(r"(?:[sStTmMdD]|[lL][lL]|[vVrR][eE])")
MARK = re.compile(r"\.+|-+|~+|\|+|/+|.", re.DOTALL)
SYMBOLS = re.compile(r"[^LUonmPH]+")
CITATIONS = re.compile(r"(?:\[[0-9]*\]|\[edit\]|\[citation needed\]|\s)+\Z", re.IGNORECASE | re.ASCII)


@lru_cache(maxsize=100_000)
def has_bit(character: str, bit: int) -> bool:
    """Sentence ends and scripts: the two properties that unicodedata lacks, from the tables under test."""
    tables = unicode_tables()
    point = ord(character)
    return bool(int(tables.classes[int(tables.pages[point >> 8]) * 256 + point % 256]) & bit)


@lru_cache(maxsize=100_000)
def shape(character: str) -> str:
    """L lower, U upper, o other letter, n number, m mark, P Thai and kin, H Han and kin; symbols as they are."""
    category = unicodedata.category(character)
    if category[0] == "L":
        if has_bit(character, UNIT):
            return "H"
        if has_bit(character, PIECE):
            return "P"
        return {"Ll": "L", "Lu": "U"}.get(category, "o")
    if category[0] == "N":
        return "n"
    if category[0] == "M" or category == "Cf":
        return "m"
    return character


def is_contraction(chunk: str, shapes: str, at: int) -> int:
    """Where the tail of a contraction that begins at `at` ends; 0: none."""
    found = TAIL.match(chunk, at)
    if found is None or shapes[found.end() : found.end() + 1] in WORD:
        return 0
    return found.end()


def cuts(chunk: str, shapes: str, begin: int, end: int) -> bool:
    """Whether the symbols chunk[begin:end], between two word characters, cut the word."""
    symbols, before, after = chunk[begin:end], shapes[begin - 1], shapes[end]
    if symbols == "–" and before == after == "n":
        return False
    if len(symbols) > 1:
        return not symbols.isascii() or ".." in symbols or "--" in symbols or symbols[0] in ".!?"
    if symbols in "'’":
        return before in LETTER and is_contraction(chunk, shapes, end) > 0
    if symbols == ".":
        return before == "L" and after == "U"
    if symbols == ",":
        return not before == after == "n"
    if symbols in ":=<>/":
        return after in LETTER
    if symbols == "-":
        return (before in LETTER and after in LETTER) or before == after == "n"
    return symbols == '"' or not symbols.isascii()


def word_end(chunk: str, shapes: str, begin: int) -> int:
    at = begin + 1
    if shapes[begin] == "H":
        while shapes[at : at + 1] == "m":
            at += 1
        return at
    thai = shapes[begin] == "P"
    since_dot = 1
    host = False
    while at < len(chunk):
        if shapes[at] in WORD:
            if shapes[at] == "H" or (shapes[at] == "P" and thai >= 4):
                return at
            thai += shapes[at] == "P"
            since_dot += 1
            at += 1
            continue
        found = SYMBOLS.match(shapes, at)
        assert found
        end = found.end()
        symbols = chunk[at:end]
        if end == len(chunk) or shapes[end] == "H":
            abbreviated = symbols[0] == "." and symbols[1:2] != "." and since_dot == 1 and shapes[at - 1] in LETTER
            return at + abbreviated
        if not host:
            if cuts(chunk, shapes, at, end):
                return at
            host = symbols == "://" or (symbols == "." and shapes[end] == "L")
        since_dot = 1 if symbols == "." else 9
        thai += shapes[end] == "P"
        at = end + 1
    return at


def is_word(token: str) -> bool:
    return any(unicodedata.category(character)[0] in "LN" for character in token)


def chunk_tokens(chunk: str) -> list[str]:
    shapes = "".join(map(shape, chunk))
    found: list[str] = []
    at = 0
    while at < len(chunk):
        if shapes[at] in WORD:
            end = word_end(chunk, shapes, at)
        else:
            matched = MARK.match(chunk, at)
            assert matched
            end = matched.end()
            after_word = bool(found) and is_word(found[-1])
            if after_word and chunk[at] in "'’":
                end = max(end, is_contraction(chunk, shapes, end))
            elif not after_word and chunk[at] in "-/~@^+\\" and shapes[end : end + 1] in WORD - {"H"}:
                end = word_end(chunk, shapes, end)
        found.append(chunk[at:end])
        at = end
    return found


WHITE = "".join(filter(str.isspace, map(chr, range(0x10000)))) + "\u200b"


def spaced(text: str) -> str:
    """The zero-width space separates words, as other spaces do."""
    return text.replace("\u200b", " ")


def tokens(text: str) -> list[str]:
    return [token for chunk in spaced(text).split() for token in chunk_tokens(chunk)]


def lower(text: str) -> str:
    """Character by character, where the lower case is one character."""
    return "".join(small if len(small := character.lower()) == 1 else character for character in text)


def sentence_count(line: str) -> int:
    count = 1
    ended = False
    for token in tokens(line):
        kinds = [unicodedata.category(character) for character in token]
        mark = not any(kind[0] in "LNM" or kind == "Cf" for kind in kinds)
        if mark and len(token) == 1 and has_bit(token, TERMINAL):
            ended = True
        elif ended and not (mark and all(kind[0] == "P" for kind in kinds)):
            ended = False
            count += 1
    return count


def duplicates(items: list[str]) -> tuple[int, int]:
    earlier: set[str] = set()
    count = chars = 0
    for item in items:
        if item in earlier:
            count += 1
            chars += len(item)
        earlier.add(item)
    return count, chars


def top_gram_chars(found: list[str], n: int) -> int:
    grams = Counter(tuple(found[at : at + n]) for at in range(len(found) - n + 1))
    if not grams:
        return 0
    gram, count = grams.most_common(1)[0]
    return len(" ".join(gram)) * count


def dup_gram_chars(found: list[str], n: int) -> int:
    earlier = set()
    at = chars = 0
    while at + n <= len(found):
        gram = tuple(found[at : at + n])
        if gram in earlier:
            chars += sum(map(len, gram))
            at += n
        else:
            earlier.add(gram)
            at += 1
    return chars


def blocked_tokens(found: list[str], terms: tuple[str, ...]) -> int:
    wanted = {tuple(lower(token) for token in tokens(term)) for term in terms}
    small = [lower(token) for token in found]
    at = blocked = 0
    while at < len(small):
        sizes = [len(term) for term in wanted if tuple(small[at : at + len(term)]) == term]
        blocked += max(sizes, default=0)
        at += max(sizes, default=1)
    return blocked


def ascii_lower(text: str) -> str:
    return re.sub("[A-Z]", lambda found: found[0].lower(), text)


def c4_end(line: str) -> bool:
    line = CITATIONS.sub("", line).rstrip(WHITE)
    while CITATIONS.search(line):
        line = CITATIONS.sub("", line).rstrip(WHITE)
    if not line or line.endswith("..."):
        return False
    return line[-1] in "\"'”’»」』" or has_bit(line[-1], TERMINAL)


def line_signals(lines: list[str]) -> dict[str, int]:
    row: Counter[str] = Counter()
    for line in lines:
        words = spaced(line).split()
        sentences = sentence_count(line)
        small = ascii_lower(line)
        lorem, script = "lorem ipsum" in small, "javascript" in small
        policy = any(phrase in small for phrase in POLICIES)
        row["lines"] += 1
        row["line_chars"] += len(line)
        row["sentences"] += sentences
        row["chunks"] += len(words)
        row["short_lines"] += len(line) <= 30
        row["few_word_lines"] += len(words) < 3
        row["terminal_lines"] += has_bit(line[-1], TERMINAL)
        row["bullet_lines"] += line[0] in "-*·•‣⁃∙▪●◦►"
        row["ellipsis_lines"] += line.endswith(("...", "…"))
        too_long = max(map(len, words)) > 1000
        row["long_word_lines"] += too_long
        row["javascript_lines"] += script
        row["policy_lines"] += policy
        row["lorem_ipsum_lines"] += lorem
        if too_long or len(words) < 3:
            continue
        for prefix in ["c4_any_end"] + ["c4"] * c4_end(line):
            row[f"{prefix}_lorem_ipsum_lines"] += lorem
            if not script:
                row[f"{prefix}_brace_lines"] += "{" in line
            if not script and not policy:
                row[f"{prefix}_lines"] += 1
                row[f"{prefix}_sentences"] += sentences
    return row


def paragraphs_of(text: str) -> list[str]:
    found: list[list[str]] = [[]]
    for line in text.split("\n"):
        if line.strip(WHITE):
            found[-1].append(line)
        else:
            found.append([])
    return ["\n".join(lines).strip(WHITE) for lines in found if lines]


def byte_entropy(data: bytes) -> float:
    return sum(-count / len(data) * math.log2(count / len(data)) for count in Counter(data).values())


def signals(
    text: str, stop_words: tuple[str, ...] = GOPHER_STOP_WORDS, terms: tuple[str, ...] = ()
) -> dict[str, float]:
    """Every signal of one text by its column name."""
    categories = Counter(map(unicodedata.category, text))
    letters = sum(count for kind, count in categories.items() if kind[0] == "L")
    numbers = sum(count for kind, count in categories.items() if kind[0] == "N")
    found = tokens(text)
    words = [token for token in found if is_word(token)]
    lines = [line.strip(WHITE) for line in text.split("\n") if line.strip(WHITE)]
    paragraphs = paragraphs_of(text)
    dup_lines, dup_line_chars = duplicates(lines)
    dup_paragraphs, dup_paragraph_chars = duplicates(paragraphs)
    small = {lower(token) for token in found}
    row: dict[str, float] = {
        "bytes": len(text.encode()),
        "chars": len(text),
        "non_ascii_chars": sum(character > "\x7f" for character in text),
        "space_chars": sum(map(str.isspace, spaced(text))),
        "letter_chars": letters,
        "alnum_chars": letters + numbers,
        "digit_chars": categories["Nd"],
        "upper_chars": categories["Lu"],
        "open_braces": text.count("{"),
        "close_braces": text.count("}"),
        "hashes": text.count("#"),
        "ellipses": text.count("...") + text.count("…"),
        "newlines": text.count("\n"),
        "raw_lines": text.count("\n") + (text != "" and not text.endswith("\n")),
        "longest_line_chars": max(map(len, text.split("\n"))),
        "tokens": len(found),
        "words": len(words),
        "word_chars": sum(map(len, words)),
        "letter_words": sum(any(map(str.isalpha, word)) for word in words),
        "stop_words": len(small & set(stop_words)),
        "blocked_tokens": blocked_tokens(found, terms) if terms else 0,
        "longest_chunk_chars": max(map(len, spaced(text).split()), default=0),
        "dup_lines": dup_lines,
        "dup_line_chars": dup_line_chars,
        "paragraphs": len(paragraphs),
        "dup_paragraphs": dup_paragraphs,
        "dup_paragraph_chars": dup_paragraph_chars,
        **{f"top_{n}_gram_chars": top_gram_chars(found, n) for n in (2, 3, 4)},
        **{f"dup_{n}_gram_chars": dup_gram_chars(found, n) for n in range(5, 11)},
        "byte_entropy_bits": byte_entropy(text.encode()) if text else 0.0,
        "xml_header": "<?xml version=" in text[:100],
    }
    return row | line_signals(lines)
