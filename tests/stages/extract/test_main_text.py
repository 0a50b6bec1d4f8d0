"""Our own extractor as the step uses it: model files, options, bounds, independent pages."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.stages.extract.test_extract import PROSE, batch, one, page

from gristmill.errors import UserError
from gristmill.kernels.html.bounds import as_words
from gristmill.kernels.html.features import FEATURES
from gristmill.kernels.html.page import COLUMNS, MAX_BLOCKS
from gristmill.kernels.html.trees import Trees
from gristmill.recipe.load import load
from gristmill.stages.extract import main_text
from gristmill.stages.extract.extract import Config, apply
from gristmill.stages.extract.main_text import (
    DEFAULT,
    MAX_MODEL_BYTES,
    Extractor,
    ExtractorModel,
    default_model,
    read_model,
    write_model,
)
from gristmill.stages.shared.trees_file import trees_to_bytes

SURE = 8_192
"""A score that means certainty."""


def trees(columns: int, score: int) -> Trees:
    """An ensemble that gives every block the same score."""
    shape = (1, 1)
    return Trees(np.zeros(shape, np.uint16), np.zeros(shape, np.uint8), np.zeros((1, 2), np.int16), score, columns)


ALL_OR_NOTHING = ExtractorModel(trees(len(FEATURES), 0), trees(COLUMNS, -SURE), trees(COLUMNS, SURE))
"""Nothing is content, but with comments everything is."""


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "all.model"
    path.write_bytes(write_model(ALL_OR_NOTHING))
    return str(path)


def text_of(extractor: Extractor, html: bytes) -> bytes:
    return extractor.text(*as_words(np.frombuffer(html, np.uint8)), 0, len(html))


def everything(html: str, markdown: bool = False) -> str:
    return text_of(Extractor(ALL_OR_NOTHING, comments=True, markdown=markdown), html.encode()).decode()


def test_a_model_is_the_same_from_its_file(model: str) -> None:
    """All three ensembles are equal."""
    for path, expected in ((Path(model), ALL_OR_NOTHING), (DEFAULT, default_model())):
        found = read_model(path)
        assert write_model(found) == write_model(expected) == path.read_bytes()


def test_options_choose_the_model_and_the_form(model: str) -> None:
    """The config's own model, its ensemble for comments, Markdown."""
    html = page(f"<h2>Heading</h2><p>{PROSE}</p><div class=comments><p>First!</p></div>")
    assert one(Config(model=model), html=html)["drop"] == "no_main_content"
    with_comments = one(Config(model=model, comments=True), html=html)
    assert with_comments["text"] == f"Heading\n\n{PROSE}\n\nFirst!"
    assert one(Config(model=model, comments=True, markdown=True), html=html)["text"].startswith("## Heading\n\n")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: b"", "is not an extractor model"),
        (lambda data: b"x" + data, "is not an extractor model"),
        (lambda data: data[:-9], "is not an extractor model"),
        (lambda data: data.replace(main_text._names_hash().encode(), b"x" * 64), "with other features"),
        (lambda data: write_model(ALL_OR_NOTHING._replace(second=ALL_OR_NOTHING.first)), "for other columns"),
        (
            lambda data: trees_to_bytes({"first": ALL_OR_NOTHING.first}, {"features": main_text._names_hash()}),
            "missing",
        ),
    ],
)
def test_a_damaged_model_is_refused(model: str, damage, message: str) -> None:  # type: ignore[no-untyped-def]
    """The message has the path and the fix, before any page is read."""
    Path(model).write_bytes(damage(Path(model).read_bytes()))
    with pytest.raises(UserError, match=message) as error:
        one(Config(model=model), html=page(PROSE))
    assert model in str(error.value)
    assert "Train" in str(error.value)


def test_every_flipped_bit_of_a_model_is_detected(model: str) -> None:
    """A model with a flipped bit is refused, unless the bit has no meaning."""
    data = Path(model).read_bytes()
    refused = 0
    for place in range(len(data)):
        Path(model).write_bytes(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :])
        try:
            assert write_model(read_model(Path(model))) == data
        except UserError:
            refused += 1
    assert refused > len(data) // 2


def test_a_missing_model_is_reported(tmp_path: Path) -> None:
    """A folder is not a file, either."""
    for path in (tmp_path / "none.model", tmp_path):
        with pytest.raises(UserError, match=r"cannot be read.*(Check the path|Name a file)"):
            read_model(path)


def test_only_a_file_of_a_models_size_is_read(tmp_path: Path) -> None:
    """Reading a pipe would block, and a device never ends."""
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(MAX_MODEL_BYTES + 1)
    for path, message in (
        (tmp_path / "pipe", "is a pipe, not a file, so it cannot be read. Name a file"),
        (Path("/dev/zero"), "is a device, not a file"),
        (tmp_path / "large", "has more than 64.0 MB, which is too large.*Train a model"),
    ):
        with pytest.raises(UserError, match=message):
            read_model(path)


def test_a_model_is_refused_with_the_recipe_and_its_line(tmp_path: Path) -> None:
    """Before any input is read: not a model, an empty file, and a model with other features."""
    (tmp_path / "none.model").write_bytes(b"nothing")
    (tmp_path / "other.model").write_bytes(DEFAULT.read_bytes().replace(main_text._names_hash().encode(), b"x" * 64))
    recipe = tmp_path / "r.yaml"
    for named, message in (
        ("none.model", "is not an extractor model"),
        ('""', "is a folder, not a file"),
        ("other.model", "with other features"),
    ):
        source = "{kind: web, read: {format: text, paths: [none.model], suffixes: [.model]}}"
        recipe.write_text(
            f"recipe: p\nstore: ./store\nsources:\n  a: {source}\nsteps:\n  - extract:\n      model: {named}\n"
        )
        with pytest.raises(UserError, match=message) as error:
            load(recipe)
        assert "r.yaml:7: steps" in str(error.value)
        assert "model: " in str(error.value)


def test_a_model_is_read_once_for_many_batches_and_again_after_a_change(model: str, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """The same path is read again after a change."""
    read: list[str] = []
    monkeypatch.setattr(main_text, "read_model", lambda path: read.append(path) or ALL_OR_NOTHING)
    for _ in range(3):
        one(Config(model=model), html=page(PROSE))
    assert read == [model]
    os.utime(model, ns=(1, 1))
    one(Config(model=model), html=page(PROSE))
    assert read == [model, model]


def test_bounds_hold_to_the_unit(model: str) -> None:
    """A page at the limits of bytes and blocks is extracted; one more gives the reason and no text."""
    html = page("".join(f"<p>{PROSE} {number}.</p>" for number in range(20)))
    exact = Config(model=model, comments=True, max_html_bytes=len(html), max_nodes=20)
    assert one(exact, html=html)["text"].count(PROSE) == 20
    for limits, reason in (
        ({"max_html_bytes": len(html) - 1}, "html_too_large"),
        ({"max_nodes": 19}, "too_many_nodes"),
    ):
        row = one(Config.model_validate(limits), html=html)
        assert (row["drop"], row["text"]) == (reason, None)
        assert any(str(limit) in row["detail"] for limit in limits.values())


def test_more_blocks_than_any_page_has_are_too_many() -> None:
    """The config cannot raise this limit."""
    assert one(Config(max_nodes=10 * MAX_BLOCKS), html="<p>x" * (MAX_BLOCKS + 1))["drop"] == "too_many_nodes"


def test_a_page_larger_than_any_before_gets_more_memory() -> None:
    """3 MB after a small page, to the last word, and a small one again."""
    extractor = Extractor(ALL_OR_NOTHING, comments=True)
    long = " ".join(f"word{number}" for number in range(300_000))
    for text in ("small", long, "small"):
        assert text_of(extractor, f"<p>{text}</p>".encode()).decode() == text


PIECES = st.one_of(
    st.sampled_from(
        ["<p>", "</p>", "<b>x", "<td>", "<li>", "<ol start=5>", "<img class=tex alt=y>", "</img>", "<math>"]
    ),
    st.sampled_from(["</math>", "<math alttext=z>", "<mi>x</mi>", "<pre>", "<q>", "<rt>", "<svg>", "<title>t</title>"]),
    st.sampled_from(
        [PROSE, "word ", "&amp;", "<a href=u>", "</a>", "<h1>", "<div class=comments>", "<!--", "<script>"]
    ),
)
PAGES = st.lists(PIECES, max_size=25).map("".join)


@settings(max_examples=120, deadline=None)
@given(st.lists(PAGES, min_size=2, max_size=4), st.booleans())
@example(["<img class=tex alt=y>", "</img>"], False)
def test_a_text_depends_on_its_page_alone(pages: list[str], markdown: bool) -> None:
    """The memory is reused, but holds nothing of the page before."""
    used = Extractor(ALL_OR_NOTHING, True, markdown)
    for html in pages:
        fresh = Extractor(ALL_OR_NOTHING, True, markdown)
        for array in fresh._buffers.small:
            array[...] = 77
        assert text_of(used, html.encode()) == text_of(fresh, html.encode())


def test_two_threads_give_the_texts_of_one() -> None:
    """The step runs in threads: kernels release the GIL, and each call has its own memory."""
    pages = [page(f"<h1>{number}</h1>" + f"<p>{PROSE} {number} &amp; more.</p><li>x" * 40) for number in range(60)]
    batches = [batch(*({"html": html} for html in pages[first:] + pages[:first])) for first in range(8)]
    alone = [apply(one_batch, Config()) for one_batch in batches]
    with ThreadPoolExecutor(2) as threads:
        together = list(threads.map(lambda one_batch: apply(one_batch, Config()), batches))
    assert all(found.equals(expected) for found, expected in zip(together, alone, strict=True))


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>a <math><mfrac><mi>a</mi><mn>2</mn></mfrac></math> b", "a $\\frac{a}{2}$ b"),
        ("<p>a <math><mfrac><mi>a</mi><mn>2</mn></mfrac></math>, <math alttext=x></math>", "a $\\frac{a}{2}$, $x$"),
        ("<p>a <m:math><m:mi>x</m:mi></m:math> b", "a $x$ b"),
        ("<p>a <math><mi>x</mi>", "a x"),
        ("<p class=formulaDsp>\\[ Ax \\: = b \\]</p><span class=formulaInl>\\(a\\)</span>", "$$Ax \\: = b$$\n\n$a$"),
    ],
)
def test_formulas_without_tex_are_written_in_it(html: str, text: str) -> None:
    """MathML becomes TeX if the page has no TeX; a formula without an end stays text."""
    assert everything(html) == text


@settings(max_examples=60, deadline=None)
@given(PAGES)
def test_the_judged_blocks_are_the_text(html: str) -> None:
    """The text consists of the blocks that `judged` keeps, in order."""
    extractor = Extractor()
    judged = extractor.judged(html.encode())
    text = text_of(extractor, html.encode()).decode()
    at = 0
    for block, kept in zip(judged.blocks.texts, judged.kept, strict=True):
        if kept:
            at = text.index(block, at) + len(block)
    assert bool(judged.kept.any()) == bool(text)
