"""What a scan of markup knows by heart: the names of elements, what each does to the tree, and where its state lies."""

import numpy as np

ELEMENTS, DEPTH, ATTRIBUTES, NAMES, TEXT, BLOCKS, NESTED, COLUMNS = range(8)
"""Columns of what `scan` returns:
ELEMENTS    elements of the tree
DEPTH       the most elements open at once; `<html>` is 1
ATTRIBUTES  the most attributes on one element
NAMES       distinct names of attributes and unknown elements, by a hash of 16 bits; attributes after the first 10,000
TEXT        bytes of text, with the indentation that an extractor gives to list items
BLOCKS      elements that start a line of their own
NESTED      bytes of text and 8 for each element, times the open elements whose whole content an extractor weighs"""

FREE_NAMES = 10_000
SHORTEST_CUT = 64
"""Bytes; it costs as much to cut as to parse them."""

_H = "h1 h2 h3 h4 h5 h6"
_SETS = {
    "VOID": "area base basefont bgsound br col embed frame hr image img input keygen link meta param source track wbr",
    "RAW": "iframe noembed noframes script style textarea title xmp",
    "ENDS_P": "address article aside blockquote center dd details dialog dir div dl dt fieldset figcaption figure "
    f"footer form {_H} header hgroup hr li listing main menu nav ol p plaintext pre section summary ul xmp",
    "FORMAT": "a b big code em font i nobr s small strike strong tt u",
    "SPECIAL": "address applet area article aside base basefont bgsound blockquote body br button caption center col "
    f"colgroup dd details dir div dl dt embed fieldset figcaption figure footer form frame frameset {_H} head header "
    "hgroup hr html iframe img input keygen li link listing main marquee menu meta nav noembed noframes noscript "
    "object ol p param plaintext pre script section select source style summary table tbody td template textarea tfoot "
    "th thead title tr track ul wbr xmp",
    "SCOPE": "applet caption html table td th marquee object template",
    "SCOPED_END": "address applet article aside blockquote button center dd details dialog dir div dl dt fieldset "
    "figcaption figure footer header hgroup listing main marquee menu nav object ol pre section summary ul",
    "MARKER": "applet caption marquee object td template th",
    "QUIET": "base basefont bgsound frame frameset iframe link meta noembed noframes param rb rp rt rtc script source "
    "style table template textarea title track",
    "NOT_SVG": f"b big blockquote body br center code dd div dl dt em embed {_H} head hr i img li listing menu meta "
    "nobr ol p pre ruby s small span strong strike sub sup table tt u ul var",
    "INTEGRATES": "annotation-xml desc foreignobject mi mn mo ms mtext title",
    "TABLE_PART": "caption col colgroup tbody td tfoot th thead tr",
    "IN_TABLE": "caption col colgroup table tbody td tfoot th thead tr",
    "NO_TEXT": "table tbody tfoot thead tr",
    "ROW_GROUP": "tbody tfoot thead",
    "IN_GROUP": "td th tr",
    "TABLE_ROOT": "table template",
    "ROOT": "body head html",
    "HEADING": _H,
    "ITEM": "dd dt li",
    "TERM": "dd dt",
    "THIN": "address div p",
    "LIST": "ol ul",
    "RUBY": "rb rp rt rtc",
    "RUBY_BASE": "rb rtc",
    "CHOICE": "optgroup option",
    "ENDS_SELECT": "input keygen select textarea",
    "IN_SELECT": "script template",
    "FOREIGN_ROOT": "math svg",
    "WEIGHED": "article div footer ul",
    "COUNTED": "article div footer ol p pre select ul",
    "BLOCK": "address article aside blockquote br center dd details dialog div dl dt fieldset figcaption figure footer "
    f"form {_H} header hgroup hr li listing main menu nav ol p pre section summary table tbody tfoot thead tr ul",
}
TAG_NAMES = ["", *sorted({name for names in _SETS.values() for name in names.split()})]
KIND_OTHER, KIND_GHOST, KIND_FOREIGN, KIND_INTEGRATION = 0, len(TAG_NAMES), len(TAG_NAMES) + 1, len(TAG_NAMES) + 2
_BIT = {name: 1 << bit for bit, name in enumerate(_SETS)}
(VOID, RAW, ENDS_P, FORMAT, SPECIAL, SCOPE, SCOPED_END, MARKER, QUIET, NOT_SVG, INTEGRATES, TABLE_PART) = list(
    _BIT.values()
)[:12]
(IN_TABLE, NO_TEXT, ROW_GROUP, IN_GROUP, TABLE_ROOT, ROOT, HEADING, ITEM, TERM, THIN, LIST) = list(_BIT.values())[12:23]
(RUBY, RUBY_BASE, CHOICE, ENDS_SELECT, IN_SELECT, FOREIGN_ROOT, WEIGHED, COUNTED, BLOCK) = list(_BIT.values())[23:]
FLAGS = np.zeros(len(TAG_NAMES) + 3, np.int64)
for _set, _members in _SETS.items():
    FLAGS[[TAG_NAMES.index(name) for name in _members.split()]] |= _BIT[_set]
FLAGS[KIND_INTEGRATION] = SPECIAL | SCOPE
TAG_A, TAG_BODY, TAG_BR, TAG_BUTTON, TAG_COL, TAG_FORM, TAG_HTML, TAG_LI, TAG_NOBR = map(
    TAG_NAMES.index, ["a", "body", "br", "button", "col", "form", "html", "li", "nobr"]
)
TAG_OPTGROUP, TAG_OPTION, TAG_P, TAG_PLAINTEXT, TAG_PRE = map(
    TAG_NAMES.index, ["optgroup", "option", "p", "plaintext", "pre"]
)
TAG_RTC, TAG_RUBY, TAG_SCRIPT, TAG_SELECT, TAG_STYLE, TAG_TABLE = map(
    TAG_NAMES.index, ["rtc", "ruby", "script", "select", "style", "table"]
)
TAG_TBODY, TAG_TEMPLATE, TAG_TR = map(TAG_NAMES.index, ["tbody", "template", "tr"])

HASH_BASIS, HASH_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
HASH_MIX = np.uint64(0x9E3779B97F4A7C15)  # FNV alone puts names that end in digits into few slots
BYTE_ONES, BYTE_SEVENS, ALL_BITS = np.uint64(0x0101010101010101), np.uint64(0x7F7F7F7F7F7F7F7F), np.uint64(2**64 - 1)


def fnv(name: str) -> int:
    """FNV-1a, as scans compute it byte by byte."""
    code = int(HASH_BASIS)
    for byte in name.encode():
        code = (code ^ byte) * int(HASH_PRIME) % 2**64
    return code


TAG_HASHES = np.array([fnv(name) for name in TAG_NAMES], np.uint64)
# Twelve bits of the hash that differ for all known names: a table without collisions.
TAG_SHIFT = np.uint64(next(s for s in range(52) if len({fnv(k) >> s & 4095 for k in TAG_NAMES}) == len(TAG_NAMES)))
TAG_SLOTS = np.zeros(4096, np.uint8)
TAG_SLOTS[(TAG_HASHES >> TAG_SHIFT & np.uint64(4095)).astype(np.int64)] = np.arange(len(TAG_NAMES))

BYTE_SPACE, BYTE_SLASH, BYTE_GREATER, BYTE_EQUALS = 1, 2, 4, 8
BYTE_CLASS = np.zeros(256, np.uint8)
BYTE_CLASS[[0x09, 0x0A, 0x0C, 0x0D, 0x20]] = BYTE_SPACE
BYTE_CLASS[[0x2F, 0x3E, 0x3D]] = BYTE_SLASH, BYTE_GREATER, BYTE_EQUALS
BYTE_LOWER = np.arange(256).astype(np.uint64)
BYTE_LOWER[0x41:0x5B] += np.uint64(0x20)


# The state of a scan is one array, because every further array that a compiled function takes costs at each call.
# Row 0 holds the columns of `scan` and further numbers; rows 1 and 2 the stack of open elements, by number in TAG_NAMES
# and hash of the name; rows 3 to 6 the list of active formatting elements: kind (-1: a marker), place in the stack
# (-1: closed), where its tag starts and stops.
STATE_KINDS, STATE_CODES, STATE_LISTED_KIND, STATE_PLACE, STATE_FROM, STATE_TO, STATE_ROWS = range(1, 8)
STATE_TOP, STATE_LISTED, STATE_OPEN_P, STATE_OPEN_WEIGHED, STATE_OPEN_LISTS, STATE_OPEN_PRE = range(
    COLUMNS, COLUMNS + 6
)
STATE_OPEN_SELECTS, STATE_HAS_FORM, STATE_ATTRIBUTES, STATE_NUMBERS = range(COLUMNS + 6, COLUMNS + 10)
