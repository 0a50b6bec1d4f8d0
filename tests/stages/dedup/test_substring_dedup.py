"""Repeated substrings are cut from all documents but the best, for any order of documents, batches and parts."""

import hashlib
import json
import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from exchanged import run_stage
from gristmill.query.documents.documents import rows
from gristmill.stages.dedup import substring_blocks, substring_dedup, substring_spans
from gristmill.stages.shared.keep_order import KeepOrder

LETTERS = random.Random(1)


def letters(count: int) -> str:
    return "".join(LETTERS.choices("abcdefghijklmnop", k=count))


def document(text: str | None, name: str = "", **fields) -> dict:
    """A row; fields that are not given follow from the name."""
    return {
        "doc_id": hashlib.blake2b((name or letters(20)).encode(), digest_size=16).digest(),
        "source": "crawl",
        "snapshot": "2026",
        "url": None,
        "timestamp": None,
        "text": text,
        "text_bytes": len((text or "").encode()),
        **fields,
    }


def batch_of(documents: list[dict]) -> pa.RecordBatch:
    schema = {
        "doc_id": pa.binary(16),
        "source": pa.string(),
        "snapshot": pa.string(),
        "url": pa.string(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "text": pa.string(),
        "text_bytes": pa.int64(),
    }
    return pa.RecordBatch.from_pylist(documents, schema=pa.schema(schema))


def find(batches: list[list[dict]], config: substring_spans.Config, **ways) -> tuple[dict, dict]:
    """The spans of each document with repeated bytes, by doc_id, and the counts: an exchange in one process."""
    parts = [pa.Table.from_batches([batch_of(documents)]) for documents in batches]
    blocks, _ = run_stage(substring_blocks, substring_blocks.STAGE.config_within(config), parts, **ways)
    parts = [
        part.append_column("substring_blocks.block", layer["block"]) for part, layer in zip(parts, blocks, strict=True)
    ]
    layers, counts = run_stage(substring_spans, config, parts, **ways)
    answers = [span for layer in layers for span in layer["spans"].to_pylist()]
    names = [one["doc_id"] for documents in batches for one in documents]
    return {name: spans for name, spans in zip(names, answers, strict=True) if spans is not None}, counts


def blocks_of(documents: list[dict], config: substring_blocks.Config, **ways) -> tuple[list, dict]:
    layers, counts = run_stage(substring_blocks, config, [pa.Table.from_batches([batch_of(documents)])], **ways)
    return layers[0]["block"].to_pylist(), counts


def oracle(documents: list[dict], size: int) -> dict:
    """The spans of windows that an earlier document has, for documents in order."""
    known: set[bytes] = set()
    found = {}
    for one in documents:
        text = (one["text"] or "").encode()
        windows = [text[at : at + size] for at in range(len(text) - size + 1)]
        marked = [False] * (len(text) + 1)
        for at, window in enumerate(windows):
            if window in known:
                marked[at : at + size] = [True] * size
        known.update(windows)
        edges = [at for at in range(len(text) + 1) if marked[at] != (at > 0 and marked[at - 1])]
        if edges:
            found[one["doc_id"]] = edges
    return found


def cut(documents: list[dict], spans: list[list[int] | None], **fields) -> list[dict]:
    config = substring_dedup.Config(**fields)
    texts = pa.array([one["text"] for one in documents], pa.string())
    batch = pa.record_batch([texts, pa.array(spans, pa.list_(pa.int64()))], names=list(substring_dedup.READS))
    answers = substring_dedup.apply(batch, config)
    assert answers.schema == substring_dedup.SCHEMA
    return answers.to_pylist()


PIECES = [letters(size) for size in (3, 10, 20, 40)] + ["é" * 12, "-" * 30]
TEXTS = st.lists(st.lists(st.sampled_from(PIECES), max_size=4).map("".join), max_size=12)


@settings(max_examples=100, deadline=None)
@given(TEXTS, st.randoms(use_true_random=False))
def test_the_cuts_do_not_depend_on_the_order_of_documents_batches_or_reducers(texts, draw):
    """In one block, the result is that of a set of all windows in the keep order: longest first, then doc_id."""
    documents = [document(text, str(number)) for number, text in enumerate(texts)]
    draw.shuffle(documents)
    borders = sorted(draw.choices(range(len(documents) + 1), k=2))
    batches = [documents[: borders[0]], documents[borders[0] : borders[1]], documents[borders[1] :]]
    config = substring_spans.Config(min_bytes=16)
    ranked = sorted(documents, key=lambda one: (-one["text_bytes"], one["doc_id"]))
    assert find(batches, config, bits=draw.choice([0, 2]), limit=draw.choice([None, 400]))[0] == oracle(ranked, 16)


@pytest.mark.parametrize("copies", [2, 50])
def test_one_of_any_number_of_copies_stays(copies):
    """Each document but one loses exactly the substring that all share, and the counts match."""
    shared = letters(700)
    # No two documents have the same sign beside the stretch.
    documents = [document(f"{letters(300)}{chr(33 + n)}{shared}{chr(33 + n)}{letters(300)}") for n in range(copies)]
    found, counts = find([documents], substring_spans.Config())
    best = min(one["doc_id"] for one in documents)
    assert found == {one["doc_id"]: [301, 1001] for one in documents if one["doc_id"] != best}
    assert (counts["documents_repeating"], counts["bytes_repeated"]) == (copies - 1, 700 * (copies - 1))
    assert (counts["documents_compared"], counts["bytes_compared"]) == (copies, 1302 * copies)


def test_the_keep_order_decides_which_copy_stays():
    """The first of the named sources keeps the substring, although it is shorter and its doc_id is larger."""
    shared = letters(600)
    best = document(shared, "book", source="books")
    other = document(shared + letters(90), "page", source="crawl")
    config = substring_spans.Config(scope="global", keep=KeepOrder(sources=("books", "crawl")))
    assert find([[other, best]], config)[0] == {other["doc_id"]: [0, 600]}


@pytest.mark.parametrize(("scope", "cut"), [("snapshot", 1), ("source", 1), ("source_and_snapshot", 0), ("global", 3)])
def test_documents_are_compared_within_their_scope(scope, cut):
    """The same text in two snapshots of one source, and in another source with the snapshot of the first."""
    text = letters(600)
    fields = [("a", "1"), ("a", "2"), ("b", "1"), ("c", None)]
    documents = [document(text, source=source, snapshot=snapshot) for source, snapshot in fields]
    config = substring_spans.Config(scope=scope)
    assert len(find([documents], config, bits=2)[0]) == cut


@pytest.mark.parametrize("block", ["host", "document"])
def test_pages_of_a_host_share_a_block_and_documents_are_spread(block):
    """With 64 blocks, 40 pages of a host, in any spelling, are in one block or, by document, in many; documents without
    a URL are spread.
    """
    text = letters(600)
    pages = [document(text, str(n), url=f"http://{'WWW' if n % 2 else 'www'}.site.example/{n}") for n in range(40)]
    others = [document(text, f"other {n}") for n in range(40)]
    config = substring_spans.Config(block=block, block_bytes=24_000 if block == "host" else 800)
    blocks, _ = blocks_of(pages + others, substring_blocks.STAGE.config_within(config))
    assert (len(set(blocks[:40])) == 1) == (block == "host")
    assert len(set(blocks[40:])) == 2 if block == "host" else len(set(blocks[40:])) > 20
    assert len(find([pages + others], config, bits=6)[0]) == 80 - len(set(blocks)), "one stays in each block"


def test_short_texts_and_rows_without_one_are_not_sent():
    """A text shorter than a window cannot repeat or be repeated."""
    documents = [document("a" * 499), document(None), document("a" * 500), document("")]
    blocks, _ = blocks_of(documents, substring_blocks.Config())
    assert [block is not None for block in blocks] == [False, False, True, False]
    assert find([documents], substring_spans.Config())[1]["documents_compared"] == 1


def test_the_later_copy_in_a_document_is_cut_with_within_document():
    """By default it is kept."""
    shared = letters(600)
    one = document(shared + letters(100) + shared)
    assert find([[one]], substring_spans.Config())[0] == {}
    assert find([[one]], substring_spans.Config(within_document=True))[0] == {one["doc_id"]: [700, 1300]}


def test_a_cut_removes_whole_characters_or_whole_lines():
    """Byte spans that split characters or lines shrink, and a cut can be undone from the original text."""
    text = "erste Zeile é\nzweite 漢字\ndritte\n"
    encoded = text.encode()
    start, stop = encoded.index("é".encode()) + 1, encoded.index("字".encode()) + 2
    (one,) = cut([document(text)], [[start, stop]])
    assert one["text"] == "erste Zeile é字\ndritte\n"
    begin, end = one["cut_spans"]
    left = one["text"].encode()
    assert left[:begin] + encoded[begin:end] + left[begin:] == encoded
    assert one["cut_bytes"] == end - begin
    (one,) = cut([document(text)], [[start, len(encoded) - 3]], snap="line")
    assert one["text"] == "erste Zeile é\ndritte\n"
    (one,) = cut([document(text)], [[2, 9]], snap="line")
    assert (one["text"], one["cut_spans"], one["cut_bytes"], one["drop"]) == (text, [], 0, None)


def test_a_document_with_nothing_left_gets_a_verdict():
    """White space that a cut leaves does not count; rows without spans or text are unchanged."""
    documents = [document(" " + "a" * 600 + "\n"), document("b" * 600), document(None), document("c" * 600)]
    answers = cut(documents, [[1, 601], None, None, [0, 599]])
    assert [one["drop"] for one in answers] == ["all_text_repeated", None, None, None]
    assert [one["text"] for one in answers] == [" \n", "b" * 600, None, "c"]
    assert [one["cut_bytes"] for one in answers] == [600, 0, None, 599]


def test_a_giant_host_is_compared_in_blocks():
    """Only a host over the limit is split, into blocks that are within it on average."""
    giant = [document(letters(600), url=f"https://giant.example/{n}") for n in range(40)]
    small = [document(letters(600), url=f"https://small.example/{n}") for n in range(4)]
    config = substring_blocks.Config(block_bytes=6000)
    blocks, counts = blocks_of(giant + small, config)
    assert 2 <= len(set(blocks[:40])) <= 4
    assert len(set(blocks[40:])) == 1
    assert counts == {"hosts": 2, "hosts_cut": 1}
    for ways in ({"bits": 3}, {"limit": 1}, {"limit": 300}):
        assert blocks_of(giant + small, config, **ways) == (blocks, counts), ways


def test_steps_without_effect_warn():
    """A step that compared or cut nothing warns, and so does one that had to split a host."""
    spans, dedup = substring_spans.Config(), substring_dedup.Config()
    assert "lower min_bytes" in substring_spans.warnings({"rows_sent": 3, "records": 0}, spans)[0]
    assert substring_spans.warnings({"rows_sent": 3, "records": 3}, spans) == ()
    assert "Raise block_bytes" in substring_blocks.warnings({"hosts_cut": 1}, substring_blocks.Config())[0]
    assert "no text was cut" in substring_dedup.warnings({"documents_seen": 3, "documents_cut": 0}, dedup)[0]
    assert list(substring_dedup.warnings({"documents_seen": 3, "documents_cut": 1}, dedup)) == []


def test_metrics_count_what_was_cut_and_what_snapping_left():
    """Two documents, one cut to whole lines."""
    texts = pa.array(["ab\ncd\nef", "gh"])
    batch = pa.record_batch([texts, pa.array([[1, 7], None], pa.list_(pa.int64()))], names=list(substring_dedup.READS))
    config = substring_dedup.Config(snap="line")
    assert substring_dedup.metrics(batch, substring_dedup.apply(batch, config), config) == {
        "documents_seen": 2,
        "documents_cut": 1,
        "text_bytes_cut": 3,
        "repeated_bytes_left_by_snapping": 3,
    }


def test_a_window_of_a_few_bytes_is_refused():
    """It would cut every common word; a wrong unit must not pass."""
    with pytest.raises(ValidationError):
        substring_spans.Config(min_bytes=5)
    assert substring_spans.Config(min_bytes="1KB").min_bytes == 1000


def test_a_run_of_the_engine_cuts_all_copies_but_one(project):
    """Only the step is in the recipe; the stages before it run automatically, and later steps see the cut text."""
    shared = letters(800)
    lines = [json.dumps({"id": str(number), "text": f"{number}: {shared}"}) for number in range(9)]
    for number in range(4):
        (project.folder / "in" / f"{number:02}.jsonl").write_text("\n".join(lines[number::4]) + "\n")
    project.write_recipe("- gristmill.stages.dedup.substring_dedup: {block: document, scope: global}")
    run = project.run()
    found = [row for row in rows(run, None, None, None) if row.text]
    assert len(found) == 9
    assert sum(shared in row.text for row in found) == 1
    assert all(row.text in (f"{n}: {shared}" for n in range(9)) or len(row.text) <= 3 for row in found)
