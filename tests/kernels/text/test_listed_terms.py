"""Terms of a list are found where plain Python finds them: at the borders of words, in every script."""

import itertools
import unicodedata

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from tests.kernels.dedup.test_shingles import alone, lower

from gristmill.kernels.dedup.shingles import word_tables
from gristmill.kernels.text.listed_terms import MOST_BETWEEN, MOST_WORDS, find_terms, hash_terms, terms_of
from lent_arrays import lent

ALPHABET = "aAb sS_1-'’&.@*é漢字カナー・ไก่\u0301\u00ad\u200b\n"
TEXTS = st.lists(st.text(ALPHABET, max_size=60), max_size=4)
TERMS = st.lists(st.text(ALPHABET.replace("\n", ""), min_size=1, max_size=7), max_size=6)


def words_of(text: str) -> list[tuple[int, int]]:
    """Where words begin and end, in characters: the definition of kernels.dedup.shingles."""
    found: list[tuple[int, int]] = []
    inside = False
    for at, character in enumerate(text):
        category = unicodedata.category(character)
        is_mark = category[0] == "M" or (category == "Cf" and character != "\u200b")
        is_part = category[0] in "LN" or character == "_"
        if character in alone() or is_part:
            if inside and is_part and character not in alone() and text[found[-1][0]] not in alone():
                found[-1] = (found[-1][0], at + 1)
            else:
                found.append((at, at + 1))
            inside = True
        elif is_mark and inside:
            found[-1] = (found[-1][0], at + 1)
        else:
            inside = False
    return found


def is_space(character: str) -> bool:
    return character.isspace() or unicodedata.category(character)[0] == "M" or unicodedata.category(character) == "Cf"


def gap(text: str) -> str | None:
    """The separator between two words of a phrase: empty if it does not count, or the separator itself."""
    signs = "".join(character for character in text if not is_space(character))
    return "" if all(sign in "-'’‐‑" for sign in signs) else signs


def entry(term: str) -> tuple[list[str], list[str], str, str] | None:
    """Words, their separators, and the signs at the edges; None for a term that is never found."""
    spans = words_of(term)
    gaps = [term[one[1] : two[0]] for one, two in itertools.pairwise(spans)]
    if not 0 < len(spans) <= MOST_WORDS or any(len(one.encode()) > MOST_BETWEEN for one in gaps):
        return None
    begin, end = spans[0][0], spans[-1][1]
    if len(spans) == 1 and term[begin] in alone():
        return None
    words = [lower(term[a:b]) for a, b in spans]
    return words, [gap(one) for one in gaps], term[max(begin - 1, 0) : begin], term[end : end + 1]


def is_katakana(text: str) -> bool:
    return bool(text) and ((text != "・" and "ァ" <= text <= "ヿ") or "ㇰ" <= text <= "ㇿ" or "ｦ" <= text <= "ﾝ")


def is_inside(text: str, begin: int, end: int) -> bool:
    """Whether a run of katakana continues before or after the match."""
    edges = [(text[:begin][-1:], text[begin]), (text[end - 1], text[end : end + 1])]
    return any(is_katakana(one) and is_katakana(two) for one, two in edges)


def stripped(term: str) -> str:
    """An entry as the file has it: no comment, no white space (ASCII) around it."""
    term = term.strip("".join(map(chr, range(33))))
    for at, character in enumerate(term):
        if character == "#" and (at == 0 or term[at - 1] <= " "):
            return term[:at].strip()
    return term


def oracle(text: str, terms: list[str]) -> list[tuple[int, int]]:
    """Bytes of all terms, the longest at each word."""
    entries = [found for term in terms if (found := entry(stripped(term))) is not None]
    spans, at, found = words_of(text), 0, []
    while at < len(spans):
        longest = 0
        for words, gaps, before, behind in entries:
            here = spans[at : at + len(words)]
            between = [text[one[1] : two[0]] for one, two in itertools.pairwise(here)]
            if (
                [lower(text[a:b]) for a, b in here] == words
                and all(len(one.encode()) <= MOST_BETWEEN for one in between)
                and [gap(one) for one in between] == gaps
                and not is_inside(text, here[0][0], here[-1][1])
                and (not before or text[max(here[0][0] - 1, 0) : here[0][0]] == before)
                and (not behind or text[here[-1][1] : here[-1][1] + 1] == behind)
            ):
                longest = max(longest, len(words))
        if longest:
            begin, end = spans[at][0], spans[at + longest - 1][1]
            found.append((len(text[:begin].encode()), len(text[:end].encode())))
        at += max(longest, 1)
    return found


def listed(terms: list[str]):
    hashes, faults = hash_terms(np.frombuffer("\n".join(terms).encode() or b"\n", np.uint8), word_tables())
    return terms_of(hashes), len(hashes), faults


def found_in(texts: list[str], terms: list[str]) -> list[list[str]]:
    data = "".join(texts).encode()
    (offsets,) = lent(np.cumsum([0, *(len(text.encode()) for text in texts)]).astype(np.int32))
    rows = np.arange(len(texts))
    _, spans = find_terms(np.frombuffer(data or b" ", np.uint8), offsets, rows, word_tables(), listed(terms)[0])
    return [[data[a:b].decode() for row, a, b in spans.tolist() if row == n] for n in rows]


@given(TEXTS, TERMS)
@example(["@ss ss .@ss"], ["@ss"])
@example(["S-"], ["&S"])
@example(["a-b a.b a b", "a" + " " * 40 + "b"], ["a b"])
@example(["é\u0301a_ カナ漢"], ["カナ", "é"])
def test_found_terms_are_those_of_plain_python(texts, terms):
    """Every term, its bytes, and the number of words, with anything around and between them."""
    data = "".join(texts).encode()
    (offsets,) = lent(np.cumsum([0, *(len(text.encode()) for text in texts)]).astype(np.int32))
    sets, good, faults = listed(terms)
    wanted = [stripped(term) for term in terms if stripped(term)]
    assert good == sum(entry(term) is not None for term in wanted)
    assert good + faults == len(wanted)
    rows = np.arange(len(texts))
    words, spans = find_terms(np.frombuffer(data or b" ", np.uint8), offsets, rows, word_tables(), sets)
    assert words.tolist() == [len(words_of(text)) for text in texts]
    expected = [[(int(offsets[n]) + a, int(offsets[n]) + b) for a, b in oracle(t, terms)] for n, t in enumerate(texts)]
    assert [[(a, b) for row, a, b in spans.tolist() if row == n] for n in rows] == expected


def test_words_are_found_whole():
    """Scunthorpe, assassins, compounds and classes pass; case, hyphens and brackets hide nothing."""
    terms = ["ass", "cunt", "tit", "big black", "arsch", "s&m", "a$$"]
    clean = "Scunthorpe assassin class title Arschbombe S. M. Ahmad a. big. black s m a"
    assert found_in([clean], terms) == [[]]
    assert found_in(["(ASS) tit's Big-Black big\nblack S & M a$$"], terms) == [
        ["ASS", "tit", "Big-Black", "big\nblack", "S & M", "a"]
    ]


def test_scripts_without_spaces_are_found_by_their_characters():
    """Han, kana and Thai terms are found in the middle of a sentence; Korean and Hindi have words."""
    found = found_in(
        ["我说操你妈了", "これは強姦です", "ไอ้ควายตัวนี้", "개새끼야 개새끼"], ["操你妈", "強姦", "ควาย", "개새끼"]
    )
    assert found == [["操你妈"], ["強姦"], ["ควาย"], ["개새끼"]]


def test_terms_are_not_found_within_other_words_of_scripts_without_spaces():
    """A run of katakana is a word; one Han letter is a part of thousands of words, and refused as a term."""
    texts = ["グローバル変数", "ブドウはグレイプ", "グロい", "レイプ、", "性能", "エロ・グロ"]
    assert found_in(texts, ["グロ", "レイプ", "性"]) == [[], [], ["グロ"], ["レイプ"], [], ["グロ"]]
    assert listed(["性", "ก็", "性 1", "a"])[1:] == (2, 2)


def test_what_is_done_for_a_word_is_bounded():
    """Entries with no word, more than MOST_WORDS, or much between two words are refused and counted."""
    assert listed(["!!!", " ".join(["a"] * (MOST_WORDS + 1)), "a" + "." * (MOST_BETWEEN + 1) + "b", "fine"])[1:] == (
        1,
        3,
    )
    assert listed([])[1:] == (0, 0)
