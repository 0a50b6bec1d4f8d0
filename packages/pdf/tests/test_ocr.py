"""Page images are read, and what the engine says is checked against the text layer."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from gristmill.errors import UserError
from gristmill_generate.generate import judge
from gristmill_generate.prompts import Malformed
from gristmill_pdf.ocr import ocr
from gristmill_pdf.ocr.engine import MOST_ASPECT, PageEngine
from gristmill_pdf.ocr.layout import page_texts
from gristmill_pdf.ocr.verify import checked, find_loops, without
from gristmill_pdf.ocr.vision import text_of

LAYER = (
    "The wheel has 24 paddles and turns 6 times a minute.\nIn 1887 the miller sold 310 sacks of flour.\n"
    "The stones weigh 900 kg each and were dressed twice a year by hand."
)


WIDTH, HEIGHT = 600, 800
"""Of all pages, in points. Their images have two pixels in a point."""


def line(x, y, words, size=10, turn=0.0):
    """A line of text as the engine tells it; x and y are its upper left corner in points, turn is its slope."""
    right, bottom = x + size * len(words) / 2, y + size * 1.1
    corners = [(x, y), (right, y), (right, bottom), (x, bottom)]
    return {"text": words, "corners": [round(2 * one) for a, b in corners for one in (a, b + turn * (a - WIDTH / 2))]}


def image(*lines):
    return {"width": 2 * WIDTH, "height": 2 * HEIGHT, "turns": 0, "lines": list(lines)}


def laid_out(*images):
    """The texts of the pages of a document."""
    found = page_texts(dict(enumerate(images)), dict.fromkeys(range(len(images)), (WIDTH, HEIGHT)))
    return [found[number] for number in range(len(images))]


class StandIn:
    """An engine that finds the lines that the image has as plain text."""

    def read(self, png):
        return image(*(line(60, 60 + 12 * n, words) for n, words in enumerate(png.decode().split("\n"))))


def batch_of(*rows):
    """Rows of (text, [(start, verdict)], {page: image})."""
    page = {"width": WIDTH, "height": HEIGHT, "confidence": 1.0}
    fields = [("start", pa.int64()), ("verdict", pa.string()), ("width", pa.int32()), ("height", pa.int32())]
    fields.append(("confidence", pa.float64()))
    return pa.record_batch(
        {
            "text": pa.array([text for text, _, _ in rows], pa.string()),
            "pages": pa.array(
                [[{"start": start, "verdict": verdict, **page} for start, verdict in pages] for _, pages, _ in rows],
                pa.list_(pa.struct(fields)),
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
    assert page["blocks"] == [
        {"start": page["start"], "left": 60, "top": 58, "right": 175, "bottom": 71, "kind": "text"}
    ]


def test_a_document_without_images_passes_unchanged():
    """No engine is needed for it."""
    (row,) = ocr.apply(batch_of(("A mill.", [(0, None)], {})), ocr.Config()).to_pylist()
    assert row == {"text": "A mill.", "ocr_pages": None, "drop": None, "detail": None}


def test_a_document_whose_images_have_no_text_is_dropped():
    """The reason says that its images were read."""
    (row,) = ocr.apply(batch_of((None, [(0, "needs_ocr")], {0: b""})), ocr.Config(), loaded=StandIn()).to_pylist()
    assert (row["text"], row["drop"], row["detail"]) == (None, "no_text_on_images", "1 page image read, no text found")


@pytest.mark.parametrize(("right", "wrong"), [("24", "26"), ("1887", "1837"), ("310", "3100"), ("900 kg", "90 kg")])
@pytest.mark.parametrize("end", ["\n", " ", "\n\n"])
def test_a_sentence_with_a_number_that_the_text_layer_lacks_is_cut(right, wrong, end):
    """The other sentences stay, and the number is counted."""
    answer = LAYER.replace("\n", end)
    (page,) = checked([answer.replace(right, wrong)], [LAYER], [1.0])
    assert page.new_numbers >= 1
    assert page.cut_sentences == 1
    assert page.text == end.join(one for one in LAYER.split("\n") if right not in one)
    last = page.text.split(end)[-1]
    place = answer.replace(right, wrong).index(last)
    assert page.text[page.moved(place) :] == last


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("The wheel turns 7 times. It is old.\n\nIt has 24 paddles.", "It is old.\n\nIt has 24 paddles."),
        ("It is old. The wheel turns 7 times.\n\nIt has 24 paddles.", "It is old.\n\nIt has 24 paddles."),
        ("| paddles | 24 |\n| turns. No | 7 |\n\nIt is old.", "| paddles | 24 |\n\nIt is old."),
        ("It is old.\n\n| turns | 7 |\n| paddles | 24 |", "It is old.\n\n| paddles | 24 |"),
        ("7 wheels, 8 stones.", ""),
        ("It is old.\n\n7 wheels.\n8 stones.", "It is old."),
    ],
)
def test_what_is_cut_leaves_no_holes(answer, text):
    """A row of a table goes as a whole, and paragraphs and tables stay apart."""
    (page,) = checked([answer], [LAYER], [1.0])
    assert page.text == text


def test_what_an_engine_says_is_cleaned_like_any_text():
    """Control characters and marks that hide text are removed."""
    (page,) = checked(["\x1b[31mThe\x00 wheel\r\nturns\u202e.\x07"], [""], [1.0])
    assert page.text == "[31mThe wheel\nturns."


def test_an_answer_that_is_longer_than_any_page_is_no_page():
    """However long it is, it is refused with its length."""
    assert text_of("a" * 100_000) == "a" * 100_000
    with pytest.raises(Malformed, match="100,001 characters; a page has 100,000 at most"):
        text_of("a" * 100_001)


def test_numbers_that_the_text_layer_has_stay():
    """In another order and among letters that the layer got wrong, too."""
    answer = "\n".join(reversed(LAYER.split("\n")))
    (page,) = checked([answer], [LAYER.replace("flour", "fl0ur").replace("miller", "mi11er")], [0.8])
    assert (page.text, page.new_numbers) == (answer, 0)


def test_a_garbled_or_short_text_layer_is_no_witness():
    """Nothing is cut because of it."""
    assert not checked([LAYER], ["a few words"], [1.0])[0].is_compared
    batch = batch_of((LAYER[:60] * 2, [(0, "garbled")], {0: b"In 1999 all was new."}))
    (row,) = ocr.apply(batch, ocr.Config(), loaded=StandIn()).to_pylist()
    assert row["text"] == "In 1999 all was new."
    assert not row["ocr_pages"][0]["compared"]


def test_a_text_layer_that_lacks_most_words_is_a_witness_only_if_it_is_sure():
    """Its numbers are as wrong as its words. A sure one shows that the answer is another text."""
    poor = LAYER.translate(str.maketrans("aeost0123", "ocac1o7l8"))
    (page,) = checked([LAYER], [poor], [0.8])
    assert (page.text, page.is_compared) == (LAYER, False)
    assert checked([LAYER], [poor], [1.0])[0].cut_sentences


@pytest.mark.parametrize(
    "answer",
    [
        "I'm sorry, but I can't assist with that request.",
        "I cannot transcribe this page.",
        "Sorry, I am unable to read the text in this image. Please send a larger one.",
        "Unfortunately, I can\u2019t help with that.",
        "As an AI language model, I am not able to view images.",
    ],
)
def test_a_refusal_is_no_page(answer):
    """Pages that have such words among others are not counted."""
    assert judge((answer, "stop", None), text_of)[1:] == ("refused", answer)
    for page in (
        answer + " He read it twice." * 30,
        "I am sorry, said the miller.",
        "I can't see the wheel, she said.",
    ):
        assert judge((page, "stop", None), text_of)[0]


@pytest.mark.parametrize("unit", ["mill", "the mill turns", "水車は川のそば", " ".join(f"w{n}" for n in range(40))])
def test_a_loop_is_cut_to_its_first_passage(unit):
    """Whatever its length is, and the text before and after it stays."""
    text = f"Before. {' '.join([unit] * 20)} After."
    loops, words = find_loops(text)
    assert without(text, loops) == f"Before. {unit} After."
    assert words > 0
    assert find_loops(text, text) == ([], 0)
    assert find_loops(f"Before. {unit} {unit} After.")[1] == 0


LEFT = [f"the {word} stone of the mill was turned by" for word in ("first", "last", "upper", "lower", "old", "new")]
RIGHT = [
    f"the {word} wheel in the water of that brook" for word in ("small", "large", "great", "left", "right", "wide")
]


def two_columns(turn=0.0):
    """A title over two columns, and a stamp in the margin that is written upwards."""
    lines = [line(60, 60, "The mills of the valley and of the plain above it", 20, turn)]
    lines += [
        line(x, 100 + 12 * n, words, 10, turn) for x, some in ((60, LEFT), (310, RIGHT)) for n, words in enumerate(some)
    ]
    stamp = {"text": "Library of the mill", "corners": [20, 900, 20, 500, 40, 500, 40, 900]}
    return image(*reversed(lines), stamp)


@pytest.mark.parametrize("turn", [0.0, 0.05, -0.05])
def test_lines_go_down_one_column_before_the_next(turn):
    """Also on a page that was scanned askew. What is written in another direction is left out."""
    (page,) = laid_out(two_columns(turn))
    assert page.text == f"The mills of the valley and of the plain above it\n\n{' '.join([*LEFT, *RIGHT])}"
    assert [block.kind for block in page.blocks] == ["heading", "text", "text"]


@pytest.mark.parametrize(
    ("turns", "box"),
    [(0, (60, 58, 175, 71)), (1, (529, 60, 542, 175)), (2, (425, 729, 540, 742)), (3, (58, 625, 71, 740))],
)
def test_blocks_of_a_page_that_was_turned_are_where_it_has_them(turns, box):
    """So that they can be shown on its image."""
    size = (2 * HEIGHT, 2 * WIDTH) if turns % 2 else (2 * WIDTH, 2 * HEIGHT)
    (page,) = laid_out(dict(image(line(60, 60, "Zweite Seite, gedruckt.")), turns=turns, width=size[0], height=size[1]))
    assert [block.box for block in page.blocks] == [box]


class Turned:
    """Replaces rapidocr: it reads an image whose upper left pixel is black, also turned by a quarter."""

    def load_img(self, png):
        return self.pixels

    def __init__(self, pixels):
        self.pixels = pixels

    def __call__(self, pixels):
        (x,), (y,) = (pixels[..., 0] == 0).nonzero()[::-1]
        is_high = (x > 0) != (y > 0)
        corners = np.array(
            [[(10, 10), (20, 10), (20, 90), (10, 90)] if is_high else [(10, 10), (90, 10), (90, 20), (10, 20)]]
        )
        return SimpleNamespace(txts=("The mill.",), boxes=corners, scores=(0.99 if y == 0 else 0.6,))


@pytest.mark.parametrize("turns", range(4))
def test_a_page_that_is_not_upright_is_turned(turns):
    """By what the engine says of its lines: whether they are high, and how sure it is."""
    upright = np.full((120, 100, 3), 255, np.uint8)
    upright[0, 0] = 0
    engine = PageEngine()
    engine._engine = Turned(np.rot90(upright, -turns))
    height, width = (100, 120) if turns % 2 else (120, 100)
    assert engine._engine.pixels.shape[:2] == (height, width)
    found = engine.read(b"")
    assert (found["turns"], found["width"], found["height"]) == (turns, 100, 120)
    assert found["lines"] == [{"text": "The mill.", "corners": [10, 10, 90, 10, 90, 20, 10, 20]}]


class Rows(Turned):
    """Replaces rapidocr: it reads each row of black pixels as a line."""

    def __call__(self, pixels):
        assert max(pixels.shape) <= MOST_ASPECT * min(pixels.shape[:2])
        ink = (pixels[..., 0] == 0).any(axis=1)
        rows = np.flatnonzero(ink[1:] & ~ink[:-1]).tolist()
        corners = np.array([[(5, y), (95, y), (95, y + 20), (5, y + 20)] for y in rows])
        return SimpleNamespace(txts=("The mill.",) * len(rows), boxes=corners, scores=(0.99,) * len(rows))


def test_a_long_page_is_read_in_parts():
    """No line is lost or read twice. The engine would need gigabytes for the whole."""
    pixels = np.full((9000, 100, 3), 255, np.uint8)
    starts = range(30, 8950, 30)
    for start in starts:
        pixels[start : start + 20, 5:95:2] = 0
    engine = PageEngine()
    engine._engine = Rows(pixels)
    found = engine.read(b"")
    assert (found["width"], found["height"]) == (100, 9000)
    assert [one["corners"][1] for one in found["lines"]] == [start - 1 for start in starts]


def test_the_cells_of_a_table_are_no_columns():
    """However many rows it has."""
    rows = [(f"Mill {n} at the brook", f"{n * 37} sacks", f"{n * 91} kg") for n in range(12)]
    (page,) = laid_out(
        image(
            *(
                line(x, 60 + 12 * n, cell)
                for n, row in enumerate(rows)
                for x, cell in zip((60, 300, 450), row, strict=True)
            )
        )
    )
    assert page.text == "\n".join(f"| {' | '.join(row)} |" for row in rows)


GRAINS = ("Barley", "Wheat", "Rye", "Spelt")


def book(number):
    """A page of a book with a running head, which the engine does not read as well on each page, and its number."""
    head = "THE MILLS OF THE VALLEY" if number % 3 else "THE MILLS OFTHE VALLEY"
    lines = [line(200 + number, 40 + number, head), line(300, 750 + number, str(17 + number))]
    words = [
        f"{GRAINS[number]} was ground by day and by night, and",
        f"in year {number} of the flood the great mill-",
        "stones were dressed and",
    ]
    lines += [line(60, 100 + 12 * n, text) for n, text in enumerate(words)]
    return image(*lines)


def test_running_heads_are_left_out_and_paragraphs_continue_on_the_next_page():
    """A hyphen at the end of a line is, too."""
    pages = laid_out(*map(book, range(4)))
    for number, page in enumerate(pages):
        when = f"in year {number} of the flood"
        text = f"{GRAINS[number]} was ground by day and by night, and {when} the great millstones were dressed and"
        assert page == (text, "\n\n", page.blocks)
    (row,) = ocr.apply(
        batch_of(
            (
                "",
                [(0, "needs_ocr")] * 2,
                {0: b"The great wheel of the old\nmill has many pad-", 1: b"dles of oak and of beech."},
            )
        ),
        ocr.Config(),
        loaded=StandIn(),
    ).to_pylist()
    assert row["text"] == "The great wheel of the old mill has many paddles of oak and of beech."
    assert [(page["start"], page["stop"]) for page in row["ocr_pages"]] == [(0, 44), (44, 69)]


def test_a_recipe_without_the_engine_is_refused(monkeypatch):
    """The message names the extra."""
    monkeypatch.setattr(ocr.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"rapidocr and onnxruntime are not installed.*pip install .*\[ocr\]"):
        ocr.check(ocr.Config())


def test_images_that_no_document_has_are_a_warning():
    """A step that does nothing says so."""
    batch = batch_of(("A mill.", [(0, None)], {}))
    found = ocr.metrics(batch, ocr.apply(batch, ocr.Config()), ocr.Config())
    assert "no document has a page that needs OCR" in next(ocr.warnings(found, ocr.Config()))
