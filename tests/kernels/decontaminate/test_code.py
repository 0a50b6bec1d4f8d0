"""Tokens of code: what a copyist changes is nowhere in them, and what makes another program is."""

import ast
import keyword
import random
import re
import textwrap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.kernels.decontaminate.code import match_code
from gristmill.kernels.decontaminate.match import ROW, TEXT_FROM, TEXT_TO, UNIT
from gristmill.kernels.decontaminate.tokens import LITERAL, NAME, sums_of_tokens, word_hash
from gristmill.kernels.dedup.shingles import ROLL
from gristmill.stages.decontaminate.matching.code_tokens import count_tokens, kept_words, read_tokens
from gristmill.stages.decontaminate.matching.units import table_of
from lent_arrays import lent

PROGRAM = '''
def total_of(items, limit=3):
    """Sums them up."""
    total = 0
    for item in items:  # all of them
        if item.value > limit and item.name != "none":
            total += item.value * 2
    return [total, {"a": total % 7}]
'''
_TOKEN = re.compile(
    r"""(?P<skip>[\x00-\x20()]+|\#[^\n]*|/\*(?s:.*?)(?:\*/|\Z))
    |(?P<word>[A-Za-z_\x80-\U0010ffff][\w\x80-\U0010ffff]*)
    |(?P<number>\d[\w.\x80-\U0010ffff]*|\.\d[\w.\x80-\U0010ffff]*)
    |(?P<string>(["'`])(?:\\.|(?!\5)[^\n\\])*(?:\5|(?=\n)|\\?\Z))|(?P<sign>.)""",
    re.VERBOSE | re.ASCII,
)


def oracle(text):
    """Words, NAME, LITERAL and signs, one after the other; for code without triple quotes and `//`."""
    kept = set(keyword.kwlist) | {"len", "range", "str", "int", "list", "print", "sum", "sorted"}
    found, before = [], ""
    for token in _TOKEN.finditer(text):
        kind, here = token.lastgroup, token[0]
        if token["skip"] is not None:
            before = "" if "\n" in here else before
            continue
        if token["word"] is not None:
            here = here if before == "." or here in kept else NAME
        elif token["number"] is not None or token["string"] is not None:
            here = LITERAL
        assert kind
        before = token[0][0]
        if here is LITERAL and len(found) > 1 and found[-1] in (",", ":") and found[-2] is LITERAL:
            found.pop()
            continue
        found.append(here)
    return found


def as_hash(token):
    if token is NAME or token is LITERAL:
        return int(token)
    if len(token) == 1 and not (token.isalpha() or token == "_"):
        return int((np.array([ord(token)], np.uint64) * np.uint64(0xA4093822299F31D0))[0])
    return int(word_hash(np.frombuffer(token.encode(), np.uint8)))


def tokens(text):
    return read_tokens(text)[0].tolist()


PIECES = """
def for if return len foo bar_2 a_rather_long_name_of_one é lower .x 1 2.5 0x1f .5 "a" 'it\\'s' `x` /*no*/
( ) [ ] { } = + - * % < > ! , : ; . & | ^ ~ @ $ ? \\
"""
CODE = st.lists(
    st.sampled_from([*PIECES.split(), " ", "\n", "\n    ", "# note", "# it's", "'open\n", '"a b"']), max_size=30
).map("".join)


@settings(max_examples=200, deadline=None)
@given(CODE)
def test_tokens_equal_the_oracle(code):
    """Any neighbouring tokens, in code without triple-quoted strings."""
    if re.search("'''|\"\"\"|```", code):
        return
    assert tokens(code) == [as_hash(token) for token in oracle(code)]


def amid(code, before, after):
    """The tokens of a range between others, and where each begins in it."""
    data = np.frombuffer(before + code + after, np.uint8)
    begin, end = len(before), len(before) + len(code)
    sums, starts = np.zeros(len(code) + 2, np.uint64), np.empty(len(code) + 1, np.int64)
    count = sums_of_tokens(data, begin, end, kept_words(), sums, starts, 0)
    return (sums[1 : count + 1] - sums[:count] * ROLL).tolist(), (starts[:count] - begin).tolist()


@settings(max_examples=300, deadline=None)
@given(CODE, st.binary(max_size=20), st.binary(max_size=150))
def test_neighbours_in_the_buffer_do_not_count(code, before, after):
    """A range has the same tokens at any position, and each token begins in it, one after the other."""
    found, starts = amid(code.encode(), before, after)
    assert found == tokens(code)
    assert (np.diff(starts) > 0).all()
    assert all(0 <= start < len(code.encode()) for start in starts)


ODD = [
    *PIECES.split(),
    *" \n\t\0#",
    "'''",
    '"""',
    "```",
    "//",
    "/*",
    "*/",
    ". ",
    ".(",
    "..5",
    "\r\n",
    "x" * 70,
    "9" * 70,
]


@settings(max_examples=600, deadline=None)
@given(st.lists(st.sampled_from(ODD).map(str.encode) | st.binary(max_size=9), max_size=60).map(b"".join))
def test_a_block_has_the_tokens_of_its_bytes(code):
    """The last bytes of all data are read one token at a time, others by blocks: both find the same."""
    code = code[:71]
    assert amid(code, b"", b"") == amid(code, b"", bytes(range(80)))


LONG = (
    PROGRAM.strip()
    + """
x = a. (b).c // 2 /* it's */ + '''no''' + foo.1e5 + [1, 2.5, .5: 'a']  # a note.
"""
    + "n" * 63
    + ".append(9)"
)


@pytest.mark.parametrize("at", range(66))
def test_tokens_do_not_depend_on_where_blocks_begin(at):
    """They also do not depend on where a range begins and ends, at every byte of a block."""
    found, starts = amid(LONG.encode(), b"", b"")
    assert amid(b" " * at + LONG.encode(), b"", b" " * 80) == (found, [start + at for start in starts])
    for cut in (LONG.encode()[at:], LONG.encode()[: len(LONG) - at]):
        assert amid(cut, b"(", b"a" * 80) == amid(cut, b"", b"")


class Renamed(ast.NodeTransformer):
    def visit_Name(self, node):
        node.id = f"other_{node.id}"
        return node

    def visit_arg(self, node):
        node.arg = f"other_{node.arg}"
        return node


@pytest.mark.parametrize(
    "change",
    [
        lambda code: ast.unparse(Renamed().visit(ast.parse(code))),
        lambda code: ast.unparse(ast.parse(code)),
        lambda code: code.replace('    """Sums them up."""\n', ""),
        lambda code: code.replace("  # all of them", "").replace(
            "total = 0\n", "total = 0\n    # none yet, isn't it\n\n"
        ),
        lambda code: code.replace("    ", "\t"),
        lambda code: code.replace(" > ", ">").replace("total % 7", "(total%7)"),
        lambda code: code.replace("= 0", "= 12.5e3").replace('"none"', "'it\\'s'").replace("limit=3", "limit=400"),
        lambda code: f"```python\n{code}```\n",
        lambda code: textwrap.indent(code, "        "),
        lambda code: code.replace('"""Sums', '"""\n    Sums').replace('up."""', 'up.\n    """'),
    ],
    ids=["renamed", "printed", "docstring", "comments", "tabs", "spaces", "literals", "fence", "indented", "long"],
)
def test_what_a_copyist_changes_is_no_part_of_the_tokens(change):
    """These are names, layout, comments, docstrings, literals, and the position of the code."""
    changed = change(PROGRAM)
    assert changed != PROGRAM
    assert tokens(changed) == tokens(PROGRAM)


@pytest.mark.parametrize(
    ("old", "new"), [("+=", "-="), (".value", ".price"), ("for ", "while "), ("and", "or"), ("[t", "{t")]
)
def test_what_makes_another_program_is_in_the_tokens(old, new):
    """Operators, attributes, keywords and brackets."""
    assert tokens(PROGRAM.replace(old, new)) != tokens(PROGRAM)


@pytest.mark.parametrize("quotes", ['"""', "'''"])
@pytest.mark.parametrize(
    "rest", ["and the end of it.{q}\n", "is what it gives.\n    {q}\n", "or so\n{q})\n", "{q} % name\n"]
)
def test_a_range_that_begins_inside_a_string_loses_no_code(quotes, rest):
    """Three quotes that end what began before are not taken for the beginning of a string."""
    stretch = rest.format(q=quotes) + PROGRAM
    assert tokens(stretch)[-len(tokens(PROGRAM)) :] == tokens(PROGRAM)


def test_a_string_that_never_ends_eats_no_code():
    """A range may end inside a string, or its author may have forgotten the quotes."""
    assert tokens(f'x = """begun\n{PROGRAM.replace(chr(34) * 3, "")}')[-20:] == tokens(PROGRAM)[-20:]


def table():
    counted = count_tokens([PROGRAM])
    return table_of(counted, np.full(1, 14, np.int64), np.full(1, -1, np.int64), 8)


@pytest.mark.parametrize("before", [0, 1, 40, 63, 64, 500, 511, 512, 700, 1023, 2000])
@pytest.mark.parametrize("after", [0, 3, 900])
def test_code_is_found_anywhere_in_a_range(before, after):
    """There is prose on both sides; the position is given in bytes of the text."""
    prose = ("some words of prose, as people write them, and more of that " * 40)[:before] + "\n"
    text = f"{prose}{PROGRAM}{'and so it goes on. ' * (after // 19)}".encode()
    lead = b"another text, which ends in a word"
    ends = np.array([0, len(lead), len(lead + text)], np.int32)
    data, offsets = lent(np.frombuffer(lead + text, np.uint8).copy(), ends)
    ranges = np.array([[1, len(lead), len(data)]], np.int64)
    hits, bounded = match_code(data, offsets, ranges, kept_words(), table())
    assert not bounded.any()
    assert hits[:, [ROW, UNIT]].tolist() == [[1, 0]]
    there = text[hits[0, TEXT_FROM] : hits[0, TEXT_TO]].decode()
    assert there.startswith("def total_of")
    assert "total % 7" in there


def test_only_ranges_are_read():
    """One that ends before the code holds nothing; two that hold it have it twice, in order."""
    prose = "words of prose that go on for a while " * 30
    text = f"{prose}{PROGRAM}{prose}{PROGRAM}".encode()
    data, offsets = lent(np.frombuffer(text, np.uint8).copy(), np.array([0, len(text)], np.int32))
    ends = [[0, len(prose)], [len(prose), len(prose) + len(PROGRAM)], [len(text) - len(PROGRAM), len(text)]]
    ranges = np.array([[0, *one] for one in ends], np.int64)
    hits, _ = match_code(data, offsets, ranges, kept_words(), table())
    assert hits[:, TEXT_FROM].tolist() == [text.index(b"def"), text.rindex(b"def")]
    assert len(match_code(data, offsets, ranges[:1], kept_words(), table())[0]) == 0


def test_prose_is_not_read_as_code():
    """Stretches with hardly a sign of code have no tokens; those of the listing next to them count."""
    draw = random.Random(1)
    prose = " ".join(draw.choices(["the", "of", "and", "that", "was", "had", "with", "for", "some", "would"], k=3000))
    data, offsets = lent(np.frombuffer(prose.encode(), np.uint8).copy(), np.array([0, len(prose)], np.int32))
    unit = table_of(count_tokens([prose]), np.full(1, 14, np.int64), np.full(1, -1, np.int64), 8)
    ranges = np.array([[0, 0, len(data)]], np.int64)
    assert len(match_code(data, offsets, ranges, kept_words(), unit)[0]) == 0
