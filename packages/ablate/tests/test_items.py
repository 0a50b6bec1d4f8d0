"""Evaluation items as tokens."""

from pathlib import Path

import numpy as np

from gristmill.stages.decontaminate.suite.form import Item
from gristmill_ablate.proxy.items import KINDS, Items, encode_items, touched
from gristmill_ablate.proxy.pool import Pool

END = 999


def encode(text):
    return list(text.encode())


def item(question, answer="", choices=(), benchmark="task"):
    return Item(benchmark, question[:8], question, answer, tuple(choices), (), "")


def test_each_kind_has_its_sequences():
    """A choice, an answer, the windows of a text: the context is given, and all else is scored."""
    held = encode_items(
        [
            item("Two and two?", "four", ("three", "four"), "choice"),
            item("The mill grinds", "grain", benchmark="cloze"),
            item("x" * 25, benchmark="text"),
        ],
        encode,
        END,
        12,
        10**6,
        lambda: [True, False],
    )
    assert held.tasks == ("choice", "cloze", "text")
    assert [KINDS[kind] for kind in held.kind] == ["choices", "answer", "text"]
    assert held.unit.tolist() == [0, 1, 2, 3, 3, 3]
    assert held.unit_gold.tolist() == [False, True, True, True]
    assert held.unit_bytes.tolist() == held.unit_chars.tolist() == held.unit_tokens.tolist() == [6, 5, 6, 25]
    assert held.continues.tolist() == [True, False]
    scored = [
        bytes(held.tokens[start + given : stop].tolist()).decode()
        for start, stop, given in zip(held.starts[:-1], held.starts[1:], held.context, strict=True)
    ]
    assert scored == [" three", " four", " grain", "x" * 11, "x" * 11, "xxx"]
    assert all(stop - start <= 12 for start, stop in zip(held.starts[:-1], held.starts[1:], strict=True))


def test_a_task_ends_with_its_share_of_tokens(tmp_path):
    """Each task for itself; and the file gives back what was saved, the same bytes every time."""
    many = [item(f"{number:04} " + "y" * 15, benchmark=name) for name in ("a", "b") for number in range(50)]
    held = encode_items(many, encode, END, 64, 100)
    assert np.bincount(held.task).tolist() == [5, 5]
    for name in ("one", "two"):
        held.save(tmp_path / name)
    assert Path(tmp_path / "one").read_bytes() == Path(tmp_path / "two").read_bytes()
    again = Items.load(tmp_path / "one")
    assert (again.tasks, again.ids) == (held.tasks, held.ids)
    assert (again.tokens == held.tokens).all()


def test_items_that_a_pool_holds_are_found():
    """Most of the text, or of the question with its answer, must be there; half of a sentence is not enough."""
    sentences = [f"The {name} mill stands by the river {name} since the year {name}, and it grinds." for name in "abcd"]
    quiz = item(
        "Which river turns the wheel of the old mill at Aldgate?", "the Lea", ("the Lea", "none at all"), "quiz"
    )
    held = encode_items([*map(item, sentences), quiz], encode, END, 200, 10**6)
    pieces = [sentences[0], sentences[2][:30], quiz.question]
    tokens = np.array(encode(" | ".join(pieces)), np.uint16)
    pool = Pool(tokens, np.array([0, len(tokens)]), np.zeros(1, np.uint64), np.zeros(1, np.int32), np.zeros(1), 300, 1)
    assert touched(held, pool).tolist() == [True, False, False, False, True]
