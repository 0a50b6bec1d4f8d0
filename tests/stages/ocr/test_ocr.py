"""Page images are read, and what the engine says is checked against the text layer."""

import pyarrow as pa
import pytest

from gristmill.errors import UserError
from gristmill.stages.generate.prompts import Malformed
from gristmill.stages.ocr import ocr
from gristmill.stages.ocr.engine import Box, lines_of
from gristmill.stages.ocr.verify import checked, cut_loops
from gristmill.stages.ocr.vision import text_of

LAYER = (
    "The wheel has 24 paddles and turns 6 times a minute.\nIn 1887 the miller sold 310 sacks of flour.\n"
    "The stones weigh 900 kg each and were dressed twice a year by hand."
)


class StandIn:
    """An engine that answers with the image itself."""

    def read(self, png):
        return png.decode()


def batch_of(*rows):
    """Rows of (text, [(start, verdict)], {page: image})."""
    return pa.record_batch(
        {
            "text": pa.array([text for text, _, _ in rows], pa.string()),
            "pages": pa.array(
                [[{"start": start, "verdict": verdict} for start, verdict in pages] for _, pages, _ in rows],
                pa.list_(pa.struct([("start", pa.int64()), ("verdict", pa.string())])),
            ),
            "images": pa.array(
                [[images.get(number) for number in range(len(pages))] for _, pages, images in rows],
                pa.list_(pa.binary()),
            ),
        }
    )


def test_a_page_image_takes_the_place_of_its_page_only():
    """Other pages keep their bytes, and the offsets of a page are those of its new text."""
    text = "Première page.\n\nscan\n\nLast page."
    starts = [text.encode().index(part) for part in (b"Prem", b"scan", b"Last")]
    verdicts = (None, "needs_ocr", None)
    (row,) = ocr.apply(
        batch_of((text, list(zip(starts, verdicts, strict=True)), {1: b"Zweite Seite, gedruckt."})),
        ocr.Config(),
        loaded=StandIn(),
    ).to_pylist()
    assert row["text"] == "Première page.\n\nZweite Seite, gedruckt.\n\nLast page."
    (page,) = row["ocr_pages"]
    assert row["text"].encode()[page["start"] : page["stop"]].decode() == "Zweite Seite, gedruckt."
    assert (page["page"], page["compared"], row["drop"]) == (1, False, None)


def test_a_document_without_images_passes_unchanged():
    """No engine is needed for it."""
    (row,) = ocr.apply(batch_of(("A mill.", [(0, None)], {})), ocr.Config()).to_pylist()
    assert row == {"text": "A mill.", "ocr_pages": None, "drop": None, "detail": None}


def test_a_document_whose_images_have_no_text_is_dropped():
    """The reason says that its images were read."""
    (row,) = ocr.apply(batch_of((None, [(0, "needs_ocr")], {0: b""})), ocr.Config(), loaded=StandIn()).to_pylist()
    assert (row["text"], row["drop"], row["detail"]) == (None, "no_text_on_images", "1 page image read, no text found")


@pytest.mark.parametrize(("right", "wrong"), [("24", "26"), ("1887", "1837"), ("310", "3100"), ("900 kg", "90 kg")])
def test_a_line_with_a_number_that_the_text_layer_lacks_is_cut(right, wrong):
    """The other lines stay, and the number is counted."""
    (page,) = checked([LAYER.replace(right, wrong)], [LAYER])
    assert page.new_numbers >= 1
    assert page.cut_lines == 1
    assert page.text == "\n".join(line for line in LAYER.split("\n") if right not in line)


def test_what_an_engine_says_is_cleaned_like_any_text():
    """Control characters and marks that hide text are removed."""
    (page,) = checked(["\x1b[31mThe\x00 wheel\r\nturns\u202e.\x07"], [""])
    assert page.text == "[31mThe wheel\nturns."


def test_an_answer_that_is_longer_than_any_page_is_no_page():
    """However long it is, it is refused with its length."""
    assert text_of("a" * 100_000) == "a" * 100_000
    with pytest.raises(Malformed, match="100,001 characters; a page has 100,000 at most"):
        text_of("a" * 100_001)


def test_numbers_that_the_text_layer_has_stay():
    """In another order and among letters that the layer got wrong, too."""
    answer = "\n".join(reversed(LAYER.split("\n")))
    (page,) = checked([answer], [LAYER.replace("flour", "fl0ur").replace("miller", "mi11er")])
    assert (page.text, page.new_numbers) == (answer, 0)


def test_a_garbled_or_short_text_layer_is_no_witness():
    """Nothing is cut because of it."""
    assert not checked([LAYER], ["a few words"])[0].is_compared
    batch = batch_of((LAYER[:60] * 2, [(0, "garbled")], {0: b"In 1999 all was new."}))
    (row,) = ocr.apply(batch, ocr.Config(), loaded=StandIn()).to_pylist()
    assert row["text"] == "In 1999 all was new."
    assert not row["ocr_pages"][0]["compared"]


@pytest.mark.parametrize("unit", ["mill", "the mill turns", "水車は川のそば", " ".join(f"w{n}" for n in range(40))])
def test_a_loop_is_cut_to_its_first_passage(unit):
    """Whatever its length is, and the text before and after it stays."""
    text = f"Before. {' '.join([unit] * 20)} After."
    cut, words = cut_loops(text)
    assert cut == f"Before. {unit} After."
    assert words > 0
    assert cut_loops(text, text) == (text, 0)
    assert cut_loops(f"Before. {unit} {unit} After.")[1] == 0


def test_lines_go_down_one_column_before_the_next():
    """A heading across the page comes first, boxes of one line are joined."""
    boxes = [Box(0, 10, 0, 100, "Title")]
    boxes += [
        Box(20 + 12 * n, 30 + 12 * n, x, x + 40, f"{side}{n}") for n in range(6) for x, side in ((0, "l"), (55, "r"))
    ]
    boxes += [Box(20, 30, 41, 47, "!")]
    assert lines_of(boxes) == ["Title", "l0 !", *(f"l{n}" for n in range(1, 6)), *(f"r{n}" for n in range(6))]


def test_page_numbers_far_from_their_headings_are_on_their_lines():
    """They are too narrow for a column."""
    boxes = [
        Box(12 * n, 12 * n + 10, x, x + len(word), word)
        for n in range(6)
        for x, word in ((0, f"{n} Mills" + " " * 40), (90, f"{n}"))
    ]
    assert lines_of(boxes) == [f"{n} Mills{' ' * 40} {n}" for n in range(6)]


def test_a_recipe_without_the_engine_is_refused(monkeypatch):
    """The message names the extra."""
    monkeypatch.setattr(ocr.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"rapidocr and onnxruntime are not installed.*pip install 'gristmill\[ocr\]'"):
        ocr.check(ocr.Config())


def test_images_that_no_document_has_are_a_warning():
    """A step that does nothing says so."""
    batch = batch_of(("A mill.", [(0, None)], {}))
    found = ocr.metrics(batch, ocr.apply(batch, ocr.Config()), ocr.Config())
    assert "no document has a page that needs OCR" in next(ocr.warnings(found, ocr.Config()))
