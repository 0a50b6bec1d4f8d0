"""Copies of named documents are found exactly, as by a plain comparison of all pairs."""

import os
import resource
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.errors import UserError
from gristmill.stages.config_types import fields_of_output
from gristmill.stages.matches import content_hash, shingles_of
from gristmill.stages.select.index import sketches
from gristmill.stages.takedown import takedown, takedown_match, takedown_sets
from gristmill.stages.takedown.takedown import copies_of, make_sets
from gristmill.stages.takedown.takedown_sets import FEWEST, SCHEMA_OF_SETS

WORDS = st.sampled_from(["mill", "grain", "stone", "water", "wheel"])
TEXTS = st.lists(st.lists(WORDS, min_size=0, max_size=40).map(" ".join), min_size=1, max_size=6)


def sets_of(documents, texts):
    column = pa.array([*documents, *texts], pa.string())
    ends, values = shingles_of(column)
    lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(values, pa.uint64()))
    ids = pa.array([bytes([n] * 16) for n in range(len(documents))] + [None] * len(texts), pa.binary(16))
    names = pa.array([f"r{n}" for n in range(len(column))])
    return make_sets(pa.Table.from_arrays([ids, names, lists], schema=SCHEMA_OF_SETS))


def one_set(text):
    return set(shingles_of(pa.array([text]))[1].tolist())


def plain_copies(corpus, documents, texts, near):
    """Row -> similarity to its most similar set, by a comparison of all pairs."""
    expected = {}
    for row, text in enumerate(corpus):
        here = one_set(text)
        shares = []
        for number, other in enumerate([*documents, *texts]):
            there = one_set(other)
            if not here & there:
                continue
            is_part = number >= len(documents) and len(there) >= FEWEST
            shares.append(len(here & there) / (len(there) if is_part else len(here | there)))
        if shares and max(shares) >= near:
            expected[row] = max(shares)
    return expected


NEAR = st.sampled_from([0.3, 0.5, 0.8, 1.0])


@given(TEXTS, TEXTS, TEXTS, NEAR)
def test_copies_are_those_of_a_comparison_of_all_pairs(corpus, documents, texts, near):
    sets = sets_of(documents, texts)
    copies, cut = copies_of(pa.array(corpus), sets, near)
    assert {copy.row: copy.similarity(sets) for copy in copies} == plain_copies(corpus, documents, texts, near)
    assert cut == []


PLAIN = (
    "the miller of the old mill by the river ground rye and wheat for every village in the valley until the water fell "
    "so low that the wheel stood still for a year and people bought their flour from the city"
)
KHMER = "ភាសា ខ្មែរ ជា ភាសា ផ្លូវការ របស់ ប្រទេស កម្ពុជា ហើយ ត្រូវ បាន និយាយ ដោយ មនុស្ស ជាង ដប់ប្រាំមួយ លាន នាក់"  # words
DISGUISED = [
    PLAIN.translate({ord("a"): "а", ord("e"): "е", ord("o"): "ο"}),
    "".join(chr(ord(letter) + 0xFEE0) if letter != " " else letter for letter in PLAIN),
    PLAIN.replace("e", "e\x01").replace("ll", "l\x7fl").replace("ou", "o\x9b\x00u"),
    PLAIN.replace("e", "é").replace("a", "a\u0308\u0336").replace("ll", "l\U000e0041l"),
    PLAIN.replace("e", "e\u00ad").replace("ll", "l\u200bl").replace("ou", "o\u200c\ufe0fu"),
]


@pytest.mark.parametrize("copy", DISGUISED)
def test_a_disguised_copy_is_a_copy(copy):
    """Look-alike and full-width letters, accents, control and invisible characters do not change a single shingle."""
    (found,), _ = copies_of(pa.array([copy]), sets_of([PLAIN], []), 1.0)
    assert found.row == 0


@pytest.mark.parametrize("text", [DISGUISED[0], KHMER.replace(" ", "")])
def test_the_index_leads_to_disguised_copies(text):
    """The keys of the index with which `takedown check` finds documents are those of the plain text."""
    plain = PLAIN if text == DISGUISED[0] else KHMER.replace(" ", "\u200b")
    assert sketches(pa.array([text]))[1].tolist() == sketches(pa.array([plain]))[1].tolist()


@pytest.mark.parametrize("between", ["", "\u200b"])
def test_a_khmer_copy_is_one_with_and_without_zero_width_spaces(between):
    (found,), _ = copies_of(
        pa.array([KHMER.replace(" ", between)]),
        sets_of([KHMER.replace(" ", "\u200b"), KHMER.replace(" ", "")], []),
        1.0,
    )
    assert found.owner == 0


@given(TEXTS, TEXTS, TEXTS, NEAR, st.integers(1, 3))
def test_copies_missed_by_a_partial_comparison_are_reported(corpus, documents, texts, near, most):
    """With a limit of 1 to 3 sets per shingle, every match is a copy, and every other candidate is reported."""
    sets = sets_of(documents, texts)
    with patch.multiple(takedown, MOST=most, COMPARED=most):
        copies, cut = copies_of(pa.array(corpus), sets, near)
    expected = plain_copies(corpus, documents, texts, near)
    found = {copy.row: copy.similarity(sets) for copy in copies}
    assert all(near <= share <= expected[row] for row, share in found.items())
    assert expected.keys() - found.keys() <= set(cut)


def test_a_document_that_was_compared_in_part_is_marked(tmp_path):
    """Pages of a site differ in most of a few words: another page of the same words is compared with some of them."""
    own = [" ".join(f"{kind}{number}" for kind in "abcde") for number in range(takedown.MOST + 4)]
    rows = [(f"https://a.example/{number}", f"{PROSE} {words}") for number, words in enumerate(own[:-1])]
    found = run_steps(
        tmp_path, "- id: r\n  domains: [a.example]\n", [*rows, ("https://b.example/", f"{PROSE} {own[-1]}")], near=0.7
    )
    assert {name: value for name, value in found[-1].items() if value is not None} == {"detail": takedown.CUT}
    answers = pa.RecordBatch.from_pylist(found, schema=takedown.SCHEMA)
    counts = takedown.metrics(answers, answers, takedown.Config())
    (warned,) = takedown.warnings(counts, takedown.Config())
    assert counts["compared_in_part"] == 1
    assert warned.startswith("1 document consists mostly of passages that more than 128 taken-down documents share")


def run_steps(tmp_path, requests, rows, first=None, kept=None, **config):
    """The three steps over one batch of (url, text); `first` are the texts as they were read, `kept` the rows left."""
    path = tmp_path / "requests.yaml"
    path.write_text(requests)
    batch = pa.record_batch(
        {
            "doc_id": pa.array([number.to_bytes(1, "big") * 16 for number in range(len(rows))], pa.binary(16)),
            "url": pa.array([url for url, _ in rows], pa.string()),
            "*.locator.0": pa.array([f"b/{url}#{number}" for number, (url, _) in enumerate(rows)]),
            "*.text.0": pa.array(first or [text for _, text in rows], pa.string()),
            "*.text.1": pa.array([text for _, text in rows], pa.string()),
        }
    )
    match = takedown_match.apply(batch, takedown_match.Config(requests=(str(path),), names=("",)))
    matched = pa.record_batch([batch["doc_id"], match["request"], *match.columns[2:]], names=list(takedown_sets.READS))
    takedown_sets.fit(iter([matched]), takedown_sets.Config(requests=(str(path),), names=("",)), tmp_path / "model")
    names = ["*.text.0", "*.text.1", *takedown.READS[1:]]
    judged = pa.record_batch([*batch.columns[3:], match["request"], match["named_by"], batch["doc_id"]], names=names)
    judged = judged.take(pa.array(range(len(rows)) if kept is None else kept))
    answers = takedown.apply(judged, takedown.Config(**config), {"takedown_sets": tmp_path / "model"})
    takedown.open_sets.cache_clear()
    return answers.to_pylist()


PROSE = "the mill stands by the river and grinds corn and rye and wheat for all of the village every day but sunday"
ROWS = [
    ("https://a.example/x?utm_source=m", PROSE),
    ("https://b.example/y", PROSE + " and holidays"),
    ("https://c.example/z", "something else that has nothing at all to do with it, and goes on for a while"),
    (None, None),
]


def test_named_documents_and_their_copies_are_dropped(tmp_path):
    found = run_steps(tmp_path, "- id: r1\n  urls: [HTTP://A.example/x]\n", ROWS)
    assert [one["drop"] for one in found] == ["taken_down", "taken_down", None, None]
    assert found[0]["detail"] == "r1: named by urls"
    assert found[1]["copy_of"] == bytes(16)
    assert found[1]["detail"].startswith(f"r1: copy of {'00' * 16}, Jaccard 0.")


def test_a_named_file_takes_all_its_documents(tmp_path):
    """Also if names or keys have a `#`; a file whose name only begins the same way stays."""
    rows = [(name, f"{PROSE} {number} " * 3) for number, name in enumerate(["a.pdf", "a.pdf", "a.pdfx", "b#1.pdf"])]
    found = run_steps(tmp_path, "- id: r1\n  files: [b/a.pdf, 'b/b#1.pdf', b/none.pdf]\n", rows, near=1.0)
    assert [one["detail"] for one in found] == ["r1: named by files"] * 2 + [None, "r1: named by files"]


def test_copies_of_documents_dropped_early_are_dropped(tmp_path):
    """Steps that cut or scrub see only kept documents: the named document has its first text, its copy another."""
    request, cut = "- id: r1\n  urls: [https://a.example/x]\n", " ".join(PROSE.split()[:12])
    rows = [("https://a.example/x", None), ("https://b.example/y", cut), ("https://c.example/z", ROWS[2][1])]
    found = run_steps(tmp_path, request, rows, [PROSE, PROSE, ROWS[2][1]], [1, 2])
    assert [one["drop"] for one in found] == ["taken_down", None]
    assert found[0]["copy_of"] == bytes(16)
    rows[1] = ("https://b.example/y", PROSE)  # texts are equal after all steps, and differ before
    found = run_steps(
        tmp_path, request, [(rows[0][0], PROSE), *rows[1:]], [PROSE + cut * 9, cut * 7, ROWS[2][1]], [1, 2]
    )
    assert [one["drop"] for one in found] == ["taken_down", None]


def test_a_hash_may_be_of_the_text_as_it_was_read(tmp_path):
    """The author of a text hashes its first form, a reader of the corpus its last: both name the document."""
    for text in (PROSE, "cut"):
        request = f"- id: r1\n  content_hashes: ['{content_hash(text)}']\n"
        found = run_steps(tmp_path, request, [("https://a.example/x", "cut")], [PROSE])
        assert found[0]["detail"] == "r1: named by content_hashes"
        takedown_match.rules_of.cache_clear()


def test_a_text_that_removes_nothing_is_a_warning():
    """The warning has its request and path; a text that removed a document is not named. No output depends on the names
    of texts.
    """
    assert fields_of_output(takedown.Config()) == {"near", "copies"}
    config = takedown.Config(texts=("r1: a.txt", "r1: b.txt"))
    (warned,) = takedown.warnings({"texts": {"1": 3}}, config)
    assert warned.startswith("1 text of a request removes no document: r1: a.txt.")


def test_copies_may_be_listed_for_a_person(tmp_path):
    found = run_steps(tmp_path, "- id: r1\n  domains: [a.example]\n", ROWS, copies="list")
    assert [one["drop"] for one in found] == ["taken_down", None, None, None]
    assert [one["request"] for one in found] == ["r1", "r1", None, None]


def test_the_first_of_several_requests_is_named(tmp_path):
    both = "- id: r1\n  domains: [example]\n- id: r2\n  urls: ['https://a.example/x']\n".replace(
        "[example]", "[c.example]"
    )
    found = run_steps(tmp_path, both + f"- id: r3\n  doc_ids: ['{'00' * 16}']\n", ROWS)
    assert [one["request"] for one in found] == ["r2", "r2", "r1", None]


def test_a_prefix_matches_other_spellings_and_only_whole_prefixes(tmp_path):
    rows = [
        (f"https://a.example{path}", f"{path} {PROSE} {path}")
        for path in ("/x/1", "/./x/2", "/%78/3", "/y/../x/4", "/x5", "/z")
    ]
    found = run_steps(tmp_path, "- id: r\n  url_prefixes: [http://A.example/x/]\n", rows, copies="keep")
    assert [one["request"] for one in found] == ["r"] * 4 + [None] * 2


def test_copies_of_a_page_of_a_few_words_are_listed(tmp_path):
    rows = [
        ("https://a.example/x", "403 Forbidden"),
        ("https://b.example/y", "403 forbidden"),
        ("https://c.example/", PROSE),
    ]
    found = run_steps(tmp_path, "- id: r\n  domains: [a.example]\n", rows)
    assert [one["drop"] for one in found] == ["taken_down", None, None]
    assert found[1]["copy_of"] == bytes(16)


def test_items_without_matches_and_short_texts_are_warnings(tmp_path):
    (tmp_path / "requests.yaml").write_text("- id: r\n  domains: [a.example, nobody.example]\n  texts: [t.txt]\n")
    (tmp_path / "t.txt").write_text("a few words")
    config = takedown_match.Config(requests=(str(tmp_path / "requests.yaml"),), names=("",))
    (warned,) = takedown_match.warnings({"items": {"domains": {"a.example": 3}}}, config)
    assert "r: nobody.example" in warned
    texts = takedown_sets.Config(**config.model_dump(), texts=(str(tmp_path / "t.txt"),))
    found = takedown_sets.fit(iter(()), texts, tmp_path / "model")
    assert takedown_sets.warnings(found, texts)
    (tmp_path / "t.txt").write_text(" ")
    with pytest.raises(UserError, match="is empty"):
        takedown_sets.check(texts)


def test_the_sets_have_no_text(tmp_path):
    run_steps(tmp_path, "- id: r1\n  domains: [a.example]\n", ROWS)
    assert b"river" not in (tmp_path / "model").read_bytes()
    assert pq.read_table(tmp_path / "model").schema.names == SCHEMA_OF_SETS.names


def test_boilerplate_needs_little_memory():
    """500 documents share 600 words with 500 named ones: a list of all pairs would take gigabytes, and a worker that
    runs out of memory might blame the documents. The search needs 256 MB more than the process has.
    """
    footer = " ".join(f"f{number}" for number in range(600))
    sets = sets_of([], [f"{footer} n{number % 250}" for number in range(500)])
    column = pa.array([f"{footer} d{number} " * 2 for number in range(500)])
    copies_of(column.slice(0, 1), sets, 0.8)
    child = os.fork()
    if child == 0:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGESIZE") + (256 << 20),) * 2)
        try:
            os._exit(len(copies_of(column, sets, 0.8)[0]) != 500)
        except MemoryError:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_children_of_a_named_document_go(tmp_path):
    """By the id of their parent alone, even if copies are not searched for; other generated documents stay."""
    parent = bytes(range(16))
    named = pa.RecordBatch.from_arrays(
        [
            pa.array([parent], pa.binary(16)),
            pa.array(["r1"]),
            pa.array([[7]], pa.list_(pa.uint64())),
            pa.nulls(1, pa.list_(pa.uint64())),
            pa.array([b"t" * 16], pa.binary(16)),
        ],
        names=[*takedown_sets.READS, "thread_places.head"],
    )
    (tmp_path / "requests.yaml").write_text("- id: r1\n  doc_ids: ['000102030405060708090a0b0c0d0e0f']\n")
    requests = (str(tmp_path / "requests.yaml"),)
    config = takedown_sets.Config(requests=requests, names=("",), documents=False)
    takedown_sets.fit(iter([named]), config, tmp_path / "sets")
    batch = pa.RecordBatch.from_pydict(
        {
            "*.text.0": pa.array(["a child", "another child", "no child", "its thread", "a child of the thread"]),
            "takedown_match.request": pa.nulls(5, pa.string()),
            "takedown_match.named_by": pa.nulls(5, pa.string()),
            "doc_id": pa.array([b"a" * 16, b"b" * 16, b"c" * 16, b"t" * 16, b"d" * 16], pa.binary(16)),
            "parent": pa.array([parent, bytes(16), None, None, b"t" * 16], pa.binary(16)),
            "parent_text": pa.array(["x", "y", None, None, "z"]),
        }
    )
    found = takedown.apply(batch, takedown.Config(copies="keep"), {"takedown_sets": tmp_path / "sets"})
    assert found["drop"].to_pylist() == ["taken_down", None, None, "taken_down", "taken_down"]
    assert found["detail"].to_pylist()[0] == f"r1: generated from {parent.hex()}"
    assert found["detail"].to_pylist()[3] == "r1: names a post of this thread"
