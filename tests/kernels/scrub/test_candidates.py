"""The single pass finds what plain Python finds, for any bytes and any block boundaries."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.scrub.oracle import candidates

from gristmill.kernels.scrub import shapes
from gristmill.kernels.scrub.candidates import find_candidates
from lent_arrays import lent

PREFIXES = (b"ghp_", b"sk-", b"AKIA", b"SG.", b"eyJ")
PIECES = st.one_of(
    st.text("0123456789", min_size=1, max_size=22).map(str.encode),
    st.sampled_from([b" ", b"-", b".", b"/", b"(", b")", b"+", b"\xc2\xa0", b"\xe2\x80\x91", b"\n", b"@", b":", b"_"]),
    st.sampled_from(
        [b"a", b"AB", b"K", b"fe", b"bc1", b"0x", b"DE89", b"1990-2000", b"2024-01-02", b"1.2.3.4", b"://u:p"]
    ),
    st.sampled_from([b"ghp_", b"sk-", b"AKIA", b"-----BEGIN RSA PRIVATE KEY-----", b"2a00:1:", b"::"]),
    st.sampled_from([b"dot", b"at", b"DOT", b"At", b"(at)", b"[ at ]", b"{dot}", b" dot ", b"(", b"]", b"{ at}", b"d"]),
    st.sampled_from([b"%40", b"%", b"a%40b.de", b" @ ", b"a @ b.de"]),
    st.text("ABCDEFGHJKLMNPabcdefghijk123456789", min_size=5, max_size=40).map(str.encode),
    st.sampled_from(
        [b"x.com", "müller.de".encode(), "。".encode(), b"word " * 9, b"abcdefghijklmnopqrstuvwxyz", b"\xff"]
    ),
)
TEXTS = st.lists(PIECES, max_size=24).map(b"".join)


def found_in(texts, long_words=True):
    ends = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    data, offsets = lent(np.frombuffer(b"".join(texts) or b"\0", np.uint8).copy(), ends)
    opened = shapes.openings(PREFIXES)
    found = find_candidates(data, offsets, shapes.CLASSES, opened, np.zeros(64, np.uint8), long_words)
    rows = [set() for _ in texts]
    for row, kind, start, stop in found.tolist():
        rows[row].add((kind, start - int(offsets[row]), stop - int(offsets[row])))
    return rows


@given(st.lists(TEXTS, min_size=1, max_size=3), st.booleans())
def test_the_pass_is_equal_to_the_oracle(texts, long_words):
    """Kinds, starts and stops, for each of several texts in one buffer."""
    assert found_in(texts, long_words) == [candidates(text, PREFIXES, long_words) for text in texts]


def test_every_place_in_a_block_is_the_same():
    """A shape is found at any position, also across two blocks."""
    wanted = {
        shapes.AT: b"a.b@c.de",
        shapes.NUMBER: b"+49 30 1234567",
        shapes.COLONS: b"2a00:1450::200e",
        shapes.TOKEN: b"ghp_abcdefghijklmnopqrstuvwxyz",
        shapes.IBAN: b"DE89370400440532013000",
        shapes.KEY: b"-----BEGIN ",
        shapes.LOGIN: b"u:pw",
        shapes.SPELT: b"Do",
    }
    for kind, shape in wanted.items():
        around = (
            (b"x://", b"@h.org")
            if kind == shapes.LOGIN
            else (b" ", {shapes.KEY: b"PRIVATE KEY-----", shapes.SPELT: b"t "}.get(kind, b" "))
        )
        for before in range(130):
            text = b"." * before + around[0] + shape + around[1] + b"......."
            start = before + len(around[0])
            assert (kind, start, start + len(shape)) in found_in([text])[0], (kind, before)


def test_prose_has_no_candidate():
    """What the speed rests on."""
    prose = (
        b"In 1984 the mill ground 1,200 sacks: rye, wheat (and oats) - at 12:30, 3.5 times a day, e.g. on 2024-05-06. "
        * 40
    )
    assert found_in([prose]) == [set()]
