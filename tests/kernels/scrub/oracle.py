"""Candidates by plain Python: what kernels/scrub/shapes.py says, without blocks, one place after the other."""

import re

from gristmill.kernels.scrub import shapes

WORD = re.compile(rb"[A-Za-z0-9_]+")
SEPARATOR = rb"(?:[ \-./()]|\xc2\xa0|\xe2\x80[\xaf\x90-\x93])"
MORE = re.compile(rb"(" + SEPARATOR + rb"{1,4})(\d+)(?:(?![A-Za-z0-9_])|([A-Z])(?![A-Za-z0-9_]))")
LETTER = re.compile(rb"-[A-Z](?![A-Za-z0-9_])")
LOCAL = re.compile(rb"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~\x80-\xff-]{1,64}\Z")
DOMAIN = re.compile(rb"[A-Za-z0-9.\-\x80-\xff]{0,253}")
LOGIN = re.compile(rb"://[^\x00-\x20/]*:[^\x00-\x20/]*\Z")


def candidates(text, prefixes, long_words):
    """All of one text, as a set of (kind, start, stop)."""
    return {*words(text, prefixes, long_words), *at_signs(text), *colons(text), *keys(text), *spelt(text)}


def words(text, prefixes, long_words):
    covered = 0
    for word in WORD.finditer(text):
        start, stop = word.span()
        if start < covered or not is_candidate(text, start, stop):
            continue
        if word[0].isdigit():
            begin, covered, wanted = number(text, start, stop)
            if wanted:
                yield shapes.NUMBER, begin, covered
        else:
            covered = stop
            found = kind_of(text, start, stop, prefixes, long_words)
            if found is not None:
                yield *found, stop


def is_candidate(text, start, stop):
    """A word with a digit in it, or as long as a key."""
    return stop - start >= shapes.MIN_TOKEN or any(48 <= byte <= 57 for byte in text[start:stop])


def number(text, start, stop):
    groups, marks, at = [text[start:stop]], [], stop
    while found := MORE.match(text, at):
        groups.append(found[2])
        marks.append(found[1] if found[3] is None else b"")
        at = found.end()
        if found[3] is not None:
            break
    if LETTER.match(text, at):
        at += 2
    digits = sum(map(len, groups))
    quad = any(marks[place : place + 3] == [b"."] * 3 for place in range(len(marks)))
    wanted = (digits >= shapes.MIN_DIGITS and max(map(len, groups)) <= shapes.MOST_GROUP) or quad
    if digits == 6 and len(groups) == 3 and re.search(rb"[A-Z]{2} \Z", text[max(0, start - 3) : start]):
        wanted = True
    span = text[start:at]
    if len(groups) == 2 and (text[stop : stop + 1] == b"." or (len(span) == 9 and [*map(len, groups)] == [4, 4])):
        wanted = False
    if 3 <= len(groups) <= 4 and digits <= 10 and is_date(span, groups):
        wanted = False
    if len(groups) == 1 and digits < shapes.MIN_BARE and text[start - 1 : start] != b"+":
        wanted = False
    begin = start - len(re.search(rb"[(+]*\Z", text[:start])[0])
    return begin, at, wanted


def is_date(span, groups):
    """Year, month and day or the reverse; a mark is the byte after a group, with the next group after it."""
    first, second = groups[0], groups[1]
    rest = span[len(first) + 1 + len(second) :]
    third = re.match(rb"\d*", rest[1:])[0]
    year, other = (first, third) if len(first) == 4 else (third, first)
    marks = span[len(first) : len(first) + 1], rest[:1]
    is_year = len(year) == 4 and re.match(rb"2|1[89]", year)
    return bool(is_year and len(second) <= 2 and len(other) <= 2 and marks[0] == marks[1] != b" ")


def kind_of(text, start, stop, prefixes, long_words):
    word, size = text[start:stop], stop - start
    head = word[: shapes.MOST_JOINED]
    digits = sum(48 <= byte <= 57 for byte in head)
    uppers = sum(65 <= byte <= 90 for byte in head)
    if size == 4:
        grouped = re.match(SEPARATOR, text[stop:])
        return (shapes.IBAN, start) if re.fullmatch(rb"[A-Z]{2}\d\d", word) and grouped else None
    if size < 8:
        return None
    if word.startswith(b"0x"):
        return (shapes.WALLET, start) if size == 42 else None
    if opens(text, start, prefixes) and len(re.match(rb"[\w.-]{0,20}", text[start:], re.ASCII)[0]) >= shapes.MIN_TOKEN:
        return shapes.TOKEN, start
    joined = start - len(re.search(rb"[\w.-]*\Z", text[max(0, start - shapes.MOST_JOINED) : start], re.ASCII)[0])
    if joined < start and opens(text, joined, prefixes) and stop - joined >= shapes.MIN_TOKEN:
        return shapes.TOKEN, joined
    if 15 <= size <= 34 and b"_" not in head and re.match(rb"[A-Z]{2}\d\d", word):
        return shapes.IBAN, start
    if 25 <= size <= 90 and digits and b"_" not in head and (size <= 36 or word.startswith((b"bc", b"lt"))):
        return shapes.WALLET, start
    if digits >= 4 and uppers and re.fullmatch(rb"[A-Z0-9]+", word) and size in (9, 10, 16, 18):
        return shapes.CODED, start
    if not long_words or size < shapes.MIN_LONG or not digits:
        return None
    before = re.search(rb"[\w+=/-]*\Z", text[max(0, start - shapes.MIN_MIXED) : start], re.ASCII)[0]
    after = re.match(rb"[\w+=/-]*", text[stop : stop + shapes.MIN_MIXED], re.ASCII)[0]
    mixed = uppers > 0 and uppers + digits + head.count(b"_") < size
    return (shapes.LONG, start) if mixed and size + len(before) + len(after) >= shapes.MIN_MIXED else None


def opens(text, at, prefixes):
    """Uses the hash of three bytes, which other bytes may share."""
    table = shapes.openings(prefixes)
    return bool(table[shapes._opening.py_func(*text[at : at + 3])])


def at_signs(text):
    last = 0
    for sign in re.finditer(rb"@", text):
        at, before = sign.start(), text[last : sign.start()]
        last = at + 1
        if at == 0 or at + 2 >= len(text):
            continue
        login = LOGIN.search(before[-shapes.MOST_LOGIN - 3 :])
        if login and len(login[0]) - 3 <= shapes.MOST_LOGIN:
            yield shapes.LOGIN, at - len(login[0]) + 3, at
            continue
        spaced = text[at - 1 : at + 2] == b" @ "
        name = LOCAL.search((before[:-1] if spaced else before)[-64:])
        domain = DOMAIN.match(text, at + 1 + spaced)
        if name and b"." in domain[0]:
            yield shapes.AT, at - spaced - len(name[0]), domain.end()
    for sign in re.finditer(rb"%40", text):
        name, domain = LOCAL.search(text[: sign.start()][-64:]), DOMAIN.match(text, sign.end())
        if name and sign.end() + 1 < len(text) and b"." in domain[0]:
            yield shapes.AT, sign.start() - len(name[0]), domain.end()


def colons(text):
    for run in re.finditer(rb"[0-9a-fA-F:]+", text):
        start, stop = run.span()
        inner = re.search(rb"(?<=[A-Za-z0-9_]):(?=[A-Za-z0-9_:])", text[max(0, start - 1) : stop + 1])
        count = run[0].count(b":")
        whole = start == 0 or WORD.match(text[start - 1 : start]) is None
        shaped = len(run[0]) <= shapes.MOST_HEX and count >= 2 and (b"::" in run[0] or count == 7)
        if inner and whole and shaped:
            yield shapes.COLONS, start, stop


def spelt(text):
    """`dot` with something before and after it, and `at` in brackets with at most one space inside."""
    for found in re.finditer(rb"(?i)(?<![A-Za-z0-9_])(?:dot(?![A-Za-z0-9_])|at(?= ?[)\]}]))", text):
        start, stop = found.span()
        opened = re.search(rb"([(\[{]) ?\Z", text[max(0, start - 2) : start])
        closed = text[stop:].lstrip(b" ")[:1]
        bracketed = opened and opened[1] + closed in (b"()", b"[]", b"{}")
        if 0 < start <= len(text) - 4 and (stop - start == 3 or bracketed):
            yield shapes.SPELT, start, start + 2


def keys(text):
    for found in re.finditer(rb"(?<!-)-----BEG", text):
        if found.start() + 11 <= len(text):
            yield shapes.KEY, found.start(), found.start() + 11
