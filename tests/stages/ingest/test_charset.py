"""Decoding pages: declared, undeclared and wrongly declared encodings."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.stages.ingest import charset

RUSSIAN = "Съешь же ещё этих мягких французских булок, да выпей чаю. Широкая электрификация южных губерний. "
KOREAN = (
    "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 인간은 천부적으로 이성과 양심을 부여받았다. "
)
JAPANESE = "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。カタカナも漢字もある。"
CHINESE = "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。"
TAIWANESE = "人人生而自由，在尊嚴和權利上一律平等。他們賦有理性和良心，並應以兄弟關係的精神相對待。"
GERMAN = "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich – “fast” schön. "

SAMPLES = [
    ("euc-kr", "cp949", KOREAN, "euc-kr"),
    ("ks_c_5601-1987", "cp949", KOREAN + "똠방각하", "euc-kr"),
    ("shift_jis", "cp932", JAPANESE + "①", "shift_jis"),
    ("euc-jp", "euc_jp", JAPANESE, "euc-jp"),
    ("iso-2022-jp", "iso2022_jp", JAPANESE, "iso-2022-jp"),
    ("gb2312", "gb18030", CHINESE + "镕", "gb18030"),
    ("gbk", "gbk", CHINESE, "gb18030"),
    ("big5", "big5hkscs", TAIWANESE, "big5"),
    ("windows-1251", "cp1251", RUSSIAN, "windows-1251"),
    ("koi8-r", "koi8_r", RUSSIAN, "koi8-r"),
    ("iso-8859-1", "cp1252", GERMAN, "windows-1252"),
    ("hz-gb-2312", "hz", CHINESE, "hz-gb-2312"),
]


def html(text: str, meta: str | None = None) -> str:
    head = f'<meta http-equiv="Content-Type" content="text/html; charset={meta}">' if meta else ""
    return f"<html><head>{head}<title>t</title></head><body><p>{text * 4}</p></body></html>"


@pytest.mark.parametrize(("label", "codec", "text", "name"), SAMPLES)
def test_a_label_in_the_http_header_is_used(label: str, codec: str, text: str, name: str) -> None:
    """Text in an encoding that the server names is decoded, including the vendor's extra characters."""
    page = html(text)
    assert charset.decode(page.encode(codec), label.upper(), True) == (page, name, 0)


@pytest.mark.parametrize(("label", "codec", "text", "name"), SAMPLES[:-1])
def test_a_label_in_the_markup_is_used(label: str, codec: str, text: str, name: str) -> None:
    """So is text in an encoding that only a <meta> names, even if the server says Latin-1 by default."""
    page = html(text, label)
    assert charset.decode(page.encode(codec), None, True) == (page, name, 0)
    assert charset.decode(page.encode(codec), "iso-8859-1", True) == (page, name, 0)


@pytest.mark.parametrize(
    ("codec", "text", "name"),
    [
        ("cp949", KOREAN, "euc-kr"),
        ("cp932", JAPANESE, "shift_jis"),
        ("iso2022_jp", JAPANESE, "iso-2022-jp"),
        ("euc_jp", JAPANESE, "euc-jp"),
        ("big5hkscs", TAIWANESE, "big5"),
        ("gb18030", CHINESE, "gb18030"),
        ("cp1251", RUSSIAN, "windows-1251"),
        ("koi8_r", RUSSIAN, "koi8-r"),
        ("cp1252", GERMAN, "windows-1252"),
    ],
)
def test_without_any_label_the_encoding_is_detected(codec: str, text: str, name: str) -> None:
    """A page without any declaration is read correctly."""
    page = html(text * 3)
    assert charset.decode(page.encode(codec), None, True) == (page, name, 0)


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "utf-16-be", "utf-16-le"])
def test_a_byte_order_mark_beats_every_label(codec: str) -> None:
    """The mark decides and is not part of the text; UTF-16 without a mark is recognised by its zeros."""
    page = html(GERMAN, "windows-1251")
    text, name, replaced = charset.decode(page.encode(codec), "koi8-r", True)
    assert (text, replaced) == (page, 0)
    assert name == ("utf-16-le" if codec == "utf-16" else codec.removesuffix("-sig"))


@pytest.mark.parametrize("label", ["iso-8859-1", "windows-1251", "euc-kr", "shift_jis", "nonsense", None])
@pytest.mark.parametrize("text", [RUSSIAN, KOREAN, GERMAN])
def test_valid_utf8_is_utf8_under_any_declaration(label: str | None, text: str) -> None:
    """A false label does not turn a UTF-8 page into mojibake."""
    page = html(text, label)
    assert charset.decode(page.encode(), label, True) == (page, "utf-8", 0)


def test_a_few_characters_may_be_valid_utf8_by_chance() -> None:
    """The famous 联通: in GBK its bytes are valid UTF-8, and the declared encoding is right."""
    assert charset.decode("<p>联通</p>".encode("gbk"), "gbk", True)[0] == "<p>联通</p>"
    assert charset.decode("<p>é</p>".encode(), "iso-8859-1", True)[0] == "<p>é</p>"


def test_utf8_with_a_few_broken_bytes_stays_utf8() -> None:
    """A page cut inside a character, or with one bad byte, loses that character only."""
    page = html(RUSSIAN)
    cut = page.encode()[:-20] + "ы".encode()[:1]
    text, name, replaced = charset.decode(cut, None, True)
    assert (text, name, replaced) == (page[:-20] + "\ufffd", "utf-8", 1)


def test_a_false_label_of_utf8_gives_way_to_detection() -> None:
    """Bytes that are mostly not UTF-8 are not read as UTF-8 because a header says so."""
    page = html(RUSSIAN * 3, "utf-8")
    assert charset.decode(page.encode("cp1251"), "utf-8", True) == (page, "windows-1251", 0)


def test_curly_quotes_do_not_make_a_page_czech() -> None:
    """Few non-ASCII bytes in a Latin page are windows-1252, as in every browser."""
    page = html("The nation’s “leading” café is rather good and has many visitors – every day of the year. ")
    assert charset.decode(page.encode("cp1252"), None, True) == (page, "windows-1252", 0)


def test_markup_is_not_searched_in_plain_text() -> None:
    """A text file about <meta charset> does not declare its own encoding."""
    body = b'<meta charset="koi8-r"> ' + RUSSIAN.encode("cp1251") * 5
    assert charset.decode(body, None, False)[1] == "windows-1251"


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"<meta charset=euc-kr>", "cp949"),
        (b'<!-- <meta charset="koi8-r"> --><META content="text/html; charset=windows-1251" http-equiv=x>', "cp1251"),
        (b'<?xml version="1.0" encoding="Shift_JIS"?><html>', "cp932"),
        (b'<meta charset="utf-16">', "utf-8"),
        (b'<meta name="charset-info">', None),
        (b"<p>charset=koi8-r", None),
    ],
)
def test_the_markup_is_searched_as_browsers_do(head: bytes, expected: str | None) -> None:
    """<meta> in both forms and XML declarations count; comments do not; UTF-16 cannot be true."""
    assert charset.declared_in_markup(head) == expected


@given(
    body=st.binary(max_size=400),
    label=st.sampled_from(
        [None, "utf-16", "utf-7", "iso-2022-jp", "hz-gb-2312", "gbk", "big5", "euc-jp", "cp949", "x", ""]
    ),
)
def test_any_bytes_give_valid_text(body: bytes, label: str | None) -> None:
    """For any bytes and label: a string that can be encoded as UTF-8, and a correct count."""
    text, name, replaced = charset.decode(body, label, True)
    text.encode()
    assert name
    assert 0 <= replaced <= text.count("\ufffd")


def test_broken_utf8_is_not_made_to_read_as_latin_letters():
    """A page that claims UTF-8 and is mostly broken counts as broken; a legacy page that claims UTF-8 by mistake is
    read."""
    garbage = bytes(random.Random(1).choices(range(128, 256), k=4000)) + b" some words " * 50
    assert charset.decode(garbage, "utf-8", False)[2] > 1000
    cyrillic = ("Мельница стоит у реки и мелет зерно. " * 60).encode()
    holes = bytes(byte for number, byte in enumerate(cyrillic) if number % 3)
    assert charset.decode(holes, "utf-8", False)[2] > 500
    mistaken = ("Мельница стоит у реки и мелет зерно. " * 60).encode("cp1251")
    assert charset.decode(mistaken, "utf-8", False)[0].startswith("Мельница")
    french = ("Le moulin à eau était bâti près de la rivière. " * 60).encode("cp1252")
    assert charset.decode(french, "utf-8", False)[0].startswith("Le moulin à eau était")


@given(
    st.sampled_from([sample[2] for sample in SAMPLES] + ["plain ASCII", "~{VPND~}", "\x1b$)C", "a\0b", "", "é"]),
    st.sampled_from(["utf-8", "cp949", "cp932", "gb18030", "cp1251", "utf-16-le", "utf-8-sig", "hz", "iso2022_jp"]),
    st.sampled_from([None, "", "utf-8", "hz-gb-2312", "gbk", "euc-kr", "iso-8859-1", "no such name"]),
    st.booleans(),
)
def test_bytes_that_need_no_decoding_are_what_decoding_gives(
    text: str, codec: str, label: str | None, markup: bool
) -> None:
    """If decoding is skipped, it would have returned the same bytes as UTF-8, and replaced nothing."""
    body = text.encode(codec, "replace")
    if charset.is_plain_utf8(body, label):
        assert charset.decode(body, label, markup) == (body.decode(), "utf-8", 0)


def test_most_pages_need_no_decoding() -> None:
    """UTF-8 of any script, and ASCII that declares itself."""
    for page in (RUSSIAN, KOREAN, GERMAN * 10, "plain ASCII"):
        assert charset.is_plain_utf8(html(page).encode(), "utf-8")
        assert charset.is_plain_utf8(html(page).encode(), None)
