import builtins
import importlib.util
import re
from typing import Any, Literal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.errors import UserError
from gristmill.install_command import install_extra
from gristmill.stages.extract import extract
from gristmill.stages.extract.extract import Config, apply, check
from gristmill.stages.extract.facts import MAX_TITLE_CHARS, language_tag, one_line
from gristmill.stages.extract.other_tools import MAX_DEPTH
from gristmill.stages.shared.normalise import normalise

PROSE = "This is a sentence of the article, and it is long enough to be told from an entry of a menu by anyone."


def page(body: str, head: str = "<title>A title</title>", attributes: str = "") -> str:
    return f"<!doctype html><html {attributes}><head>{head}</head><body><main>{body}</main></body></html>"


def batch(*rows: dict[str, str | None]) -> pa.RecordBatch:
    columns = [pa.array([row.get(name) for row in rows], pa.string()) for name in extract.READS]
    return pa.RecordBatch.from_arrays(columns, names=list(extract.READS))


def one(config: Config | None = None, **row: str | None) -> dict[str, Any]:
    result: dict[str, Any] = apply(batch(row), config or Config()).to_pylist()[0]
    return result


ROWS: list[dict[str, str | None]] = [
    {"html": page(f"<p>{PROSE}</p>"), "title": "old", "language_hint": "de"},
    {"text": "plain\r\ntext  \n\n\n\nmore", "title": "kept", "language_hint": "C++"},
    {},
    {"html": ""},
    {"text": " \n\t"},
    {"html": "<div>" * 50_000},
    {"html": page(f"<p>{PROSE} 中文 é 🙂</p><!-- {PROSE} -->")},
    {"html": page(f"<script>{PROSE}</script><p>{PROSE}</p>"), "text": "not this"},
]
RESILIPARSE = Config(tool="resiliparse")
REASONS = [None, None, None, "no_main_content", "empty_text", "no_main_content", None, None]


@pytest.mark.parametrize("tool", ["gristmill", "resiliparse"])
def test_one_row_for_each_row_in_order(tool: Literal["gristmill", "resiliparse"]) -> None:
    """Good, bad, empty and absent rows each get one row of the schema, at their place."""
    result = apply(batch(*ROWS), Config(tool=tool))
    assert result.schema == extract.SCHEMA
    deep = "nested_too_deep" if tool == "resiliparse" else "no_main_content"
    assert result.column("drop").to_pylist() == [*REASONS[:5], deep, *REASONS[6:]]
    assert [text is None for text in result.column("text").to_pylist()] == [
        reason is not None or row == {} for reason, row in zip(REASONS, ROWS, strict=True)
    ]


@pytest.mark.parametrize("offset", range(len(ROWS) + 1))
def test_a_slice_gives_the_slice_of_the_result(offset: int) -> None:
    """The engine may cut a part anywhere: a row depends neither on its neighbours nor on its offset in a buffer."""
    whole = batch(*ROWS)
    for config in (Config(), RESILIPARSE):
        result = apply(whole, config)
        for length in range(len(ROWS) + 1 - offset):
            assert apply(whole.slice(offset, length), config).equals(result.slice(offset, length))


def test_plain_text_passes_through_in_plain_form() -> None:
    """Title and language of a text row stay as they are: the language may be C++."""
    row = one(**ROWS[1])
    known = {"text": "plain\ntext\n\nmore", "title": "kept", "language_hint": "C++", "formulas": 0, "formula_chars": 0}
    assert row == {name: known.get(name) for name in extract.SCHEMA.names}


def test_blank_lines_are_folded_to_the_configured_number() -> None:
    """max_blank_lines applies to text and to pages."""
    assert one(Config(max_blank_lines=0), text="a\n\n\nb")["text"] == "a\nb"
    html = page(f"<p>{PROSE}</p><p>And {PROSE}</p>")
    assert one(Config(max_blank_lines=0), html=html)["text"] == f"{PROSE}\nAnd {PROSE}"
    assert one(Config(max_blank_lines=1), html=html)["text"] == f"{PROSE}\n\nAnd {PROSE}"


def test_menus_scripts_forms_comments_and_pictures_are_left_out() -> None:
    """Only the main content is kept."""
    body = f"""<nav><a href=/>Home</a></nav><script>var x = "script";</script><style>p {{}}</style>
    <p>{PROSE}</p><noscript>turn it on</noscript><form><input value=field><button>Send</button></form>
    <img alt="picture" src=x><div class="comments">A visitor wrote this.</div><footer>Imprint</footer>"""
    assert one(html=page(body))["text"] == PROSE


def test_paragraphs_lists_and_code_keep_their_shape() -> None:
    """A blank line between paragraphs, a line for each item, and the indentation of code to the space."""
    code = "def f(x):\n    if x:\n        return 1\n\treturn 2"
    prose = [f"{word} {PROSE}" for word in ("One", "Two", "Three", "Four")]
    items = f"<div><div><div><div><ul><li>{prose[2]}</li><li>two of {PROSE}</li></ul>"
    html = page(f"<h1>Heading</h1><p>{prose[0]}</p><p>{prose[1]}</p><pre>{code}</pre>{items}<p>{prose[3]}</p>")
    for config, bullet in ((Config(), "-"), (RESILIPARSE, "•")):
        text = one(config, html=html)["text"]
        assert f"{prose[0]}\n\n{prose[1]}\n" in text
        assert code in text
        assert f"{bullet} {prose[2]}\n" in text
        assert text.startswith("Heading\n")


@pytest.mark.parametrize(
    "text", ["👩‍👩‍👧 🏴󠁧󠁢󠁥󠁮󠁧󠁿", "می‌خواهم بروم", "שלום עולם", "中文的句子。", "한국어 문장", "é å ñ", "क्‍ष"]
)
def test_every_script_survives(text: str) -> None:
    """Joiners, flags, right-to-left, Chinese, Korean and marks leave a page unchanged."""
    assert one(html=page(f"<p>{PROSE} {text}</p>"))["text"] == f"{PROSE} {text}"
    assert one(text=text)["text"] == text


@pytest.mark.parametrize(
    ("head", "body", "title"),
    [
        ("<title> A\n  title\t</title><meta property=og:title content=other>", "<h1>third</h1>", "A title"),
        ("<meta property=og:title content='The other'>", "<h1>third</h1>", "The other"),
        ("<title> </title>", "<h1>The <b>third</b></h1>", "The third"),
        ("", "<svg><title>not this</title></svg>", "known"),
        ("<title>a\u00adb\u202e &amp; e\u0301</title>", "", "ab & é"),
        ("<title>" + "x" * 5_000 + "</title>", "", "x" * MAX_TITLE_CHARS),
    ],
)
def test_the_title_is_the_first_of_three(head: str, body: str, title: str) -> None:
    """<title>, then og:title, then <h1>, then the row's own title; one normalised line of limited length."""
    assert one(html=page(f"{body}<p>{PROSE}</p>", head), title="known")["title"] == title


@pytest.mark.parametrize(
    ("attributes", "head", "language"),
    [
        ("lang=en-US", "<meta http-equiv=Content-Language content=fr>", "en-us"),
        ("lang=''", "<meta http-equiv=Content-Language content='fr, de'>", "fr"),
        ("xml:lang=pt_BR", "", "pt-br"),
        ("", "", "de-at"),
        ("lang='not a language!'", "", "de-at"),
    ],
)
def test_the_language_is_the_one_the_page_states(attributes: str, head: str, language: str) -> None:
    """<html lang>, then content-language, then the row's own hint; lower case, whole tag."""
    row = one(html=page(f"<p>{PROSE}</p>", head, attributes), language_hint="de-AT")
    assert row["language_hint"] == language


@given(st.text(max_size=20))
def test_a_language_tag_is_a_tag_or_nothing(stated: str) -> None:
    """For any input, the result is lower-case ASCII, and parsing it again changes nothing."""
    tag = language_tag(stated)
    assert tag is None or (tag.isascii() and tag == tag.lower() and language_tag(tag) == tag)


@pytest.mark.parametrize(
    ("reason", "html", "config"),
    [
        ("html_too_large", page("x" * 1_000), {"max_html_bytes": 1_000}),
        ("html_too_large", "<p>x</p>" * 2_600_000, {}),
        ("too_many_nodes", page("<p>x" * 100), {"max_nodes": 100}),
        ("too_many_nodes", page("<br>" * 300_000), {}),
        ("nested_too_deep", page("<i>" * 600), {}),
        ("nested_too_deep", "<div>" * 50_000, {}),
        ("nested_too_deep", "<svg></x>", {}),
        ("nested_too_deep", "".join(f"<p><b id={n}>x" for n in range(3_000)), {}),
        ("nested_too_deep", "<div>" * 500 + "word " * 400_000, {}),
        ("too_many_attributes", page("<p " + " ".join(f"a{n}" for n in range(2_000)) + ">x"), {}),
        ("too_many_attributes", "".join(f"<p a{n}>" for n in range(100_000)), {}),
        ("too_many_lines", page("<p>" + f"{PROSE}<br>" * 40_000), {}),
        ("no_main_content", page(" <p>&nbsp;</p> "), {}),
        ("no_main_content", "\0\0", {}),
    ],
)
def test_each_bound_has_its_reason(reason: str, html: str, config: dict[str, int]) -> None:
    """A page over a bound of a library gets the reason and no text, and costs only the scan."""
    row = one(Config.model_validate({"tool": "resiliparse", **config}), html=html)
    assert (row["drop"], row["text"]) == (reason, None)
    assert row["detail"] is None or str(row["detail"]).split()[0].isdigit()


def test_bounds_hold_to_the_unit() -> None:
    """A page at every limit is extracted; one unit more is not."""
    html = page(f"<p>{PROSE}</p>")
    elements, depth, size = 6, 4, len(html)
    exact: dict[str, Any] = {"tool": "resiliparse", "max_html_bytes": size, "max_nodes": elements}
    assert one(Config.model_validate(exact), html=html)["text"] == PROSE
    for name in ("max_html_bytes", "max_nodes"):
        assert one(Config.model_validate({**exact, name: exact[name] - 1}), html=html)["drop"] is not None
    deep = page("<i>" * (MAX_DEPTH - depth + 1) + PROSE)
    assert one(RESILIPARSE, html=deep)["drop"] is None
    assert one(RESILIPARSE, html=deep.replace("<i>", "<i><i>", 1))["drop"] == "nested_too_deep"


@pytest.mark.parametrize(
    "error", [ValueError("bad\nmarkup"), MemoryError(), RecursionError("deep"), UnicodeDecodeError("a", b"", 0, 1, "x")]
)
def test_an_exception_of_a_library_drops_only_its_row(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """If an extractor fails on one page, that page is dropped with the error, and its neighbours are unaffected."""
    real = extract.by_resiliparse

    def fail(html: str, comments: bool) -> str:
        if "bad" in html:
            raise error
        return real(html, comments)

    monkeypatch.setattr(extract, "by_resiliparse", fail)
    good = {"html": page(f"<p>{PROSE}</p>")}
    rows = apply(batch(good, {"html": page("<p>x", "<title>bad</title>")}, good), RESILIPARSE).to_pylist()
    assert [row["drop"] for row in rows] == [None, "extractor_error", None]
    assert rows[1]["detail"].startswith(type(error).__name__)
    assert len(rows[1]["detail"]) <= extract.MAX_DETAIL_CHARS


@given(st.lists(st.one_of(st.none(), st.text(max_size=30), st.text("<>/!-='\" abdiptrs\n\0", max_size=60)), max_size=5))
def test_no_markup_raises(pages: list[str | None]) -> None:
    """Any string may be a page: it gets either text or a reason."""
    pages = [None if html is None else html.encode("utf-8", "replace").decode() for html in pages]
    rows = apply(batch(*({"html": html} for html in pages)), Config()).to_pylist()
    assert len(rows) == len(pages)
    for html, row in zip(pages, rows, strict=True):
        assert (row["text"] is None) == (row["drop"] is not None or html is None)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without trafilatura the recipe fails before any work, and the message names the install command."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    check(Config())
    for call in (check, lambda config: apply(batch({"text": "x"}), config)):
        with pytest.raises(UserError, match=re.escape(install_extra("trafilatura"))):
            call(Config(tool="trafilatura"))


def test_the_default_tool_imports_no_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own extractor works if neither library can be imported."""
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        assert not name.startswith(("trafilatura", "resiliparse.extract"))
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert one(html=page(f"<p>{PROSE}</p>"))["text"] == PROSE


def test_trafilatura_extracts_the_same_article() -> None:
    """The other tool keeps rows, title, language and reasons."""
    pytest.importorskip("trafilatura")
    paragraphs = [f"{PROSE} Paragraph {number} tells something new." for number in range(5)]
    html = page("".join(f"<p>{text}</p>" for text in paragraphs), attributes="lang=en")
    config = Config(tool="trafilatura")
    rows = apply(
        batch({"html": html}, {}, {"html": "<p>"}, {"html": "<b>" * 9_999}, {"text": "x "}), config
    ).to_pylist()
    assert [row["drop"] for row in rows] == [None, None, "no_main_content", "nested_too_deep", None]
    assert all(text in rows[0]["text"] for text in paragraphs)
    assert (rows[0]["title"], rows[0]["language_hint"], rows[4]["text"]) == ("A title", "en", "x")


def test_trafilatura_forgets_earlier_pages() -> None:
    """The text of a page does not depend on how often its sentences were seen before."""
    pytest.importorskip("trafilatura")
    html = page("".join(f"<p>{PROSE} Number {number}.</p>" for number in range(4)))
    texts = apply(batch(*[{"html": html}] * 8), Config(tool="trafilatura")).column("text").to_pylist()
    assert len(set(texts)) == 1


@given(st.lists(st.text("ab\u0301\u0344가\u11a8 \r\n\u2028\ufeff中🙂", max_size=9) | st.none(), max_size=6))
def test_texts_of_a_batch_are_those_of_each_alone(texts: list[str | None]) -> None:
    """This includes texts that grow by NFC or vanish."""
    found = apply(batch(*({"text": text} for text in texts)), Config()).to_pylist()
    assert [row["text"] for row in found] == [normalise(text) or None if text is not None else None for text in texts]
    assert [row["drop"] for row in found] == [
        "empty_text" if text is not None and not normalise(text) else None for text in texts
    ]


@given(st.text("ab é\u0301\u0344\ufffc\ufffd\xad\u200e\u3000\n中가\u11a8🙂\ue000\U0001fbff" + "\u0316", max_size=40))
def test_a_title_is_in_the_plain_form(text: str) -> None:
    """The title is one line, and normalising it again changes nothing."""
    found = one_line(text)
    assert found == " ".join(normalise(" ".join(text.split())).split())
    assert one_line(found) == found


def test_a_run_warns_about_plain_texts_that_are_mostly_markup():
    """The warning has count, share and fix. Pages, single tags and a few such texts do not cause it."""
    tagged = f"Write <b>bold</b> so. {PROSE * 3}"
    rows = [{"text": page(f"<p>{PROSE}</p>")}] * 2 + [
        {"text": PROSE},
        {"text": tagged},
        {"text": ""},
        {"html": page("x")},
    ]
    given = batch(*rows)
    found = extract.metrics(given, apply(given, Config()), Config())
    assert found == {"plain_texts": 5, "markup_texts": 2}
    (messages,) = extract.warnings(found, Config())
    assert "2 of 5 plain texts (40%) are mostly markup" in messages
    assert "`fields: {html: NAME, text: null}`" in messages
    assert not extract.warnings({"plain_texts": 100, "markup_texts": 10}, Config())
