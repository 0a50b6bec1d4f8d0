"""Cutting repeated lines: the counting exchange and the cutting map, run as the engine runs them."""

import hashlib
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.dedup.oracle_lines import counts, normal, units_of

from exchanged import one_round
from gristmill.engine.work.task import add_counts
from gristmill.errors import UserError
from gristmill.stages.dedup import line_counts, line_dedup
from gristmill.stages.dedup.line_dedup import Config

MENU = "Home | About us | Contact"
STORY = "Once upon a time there was a mill."


def document(name, text, source="web", snapshot=None):
    return {"doc_id": hashlib.md5(name.encode()).digest(), "text": text, "source": source, "snapshot": snapshot}


def batch_of(documents):
    kinds = {"text": pa.string(), "doc_id": pa.binary(16), "source": pa.string(), "snapshot": pa.string()}
    return pa.RecordBatch.from_arrays(
        [pa.array([one[name] for one in documents], kind) for name, kind in kinds.items()], names=list(kinds)
    )


def run(parts, config, **ways):
    """{doc_id: result} of documents in parts, each a list of batches; and the metrics."""
    tables, tally, found = [], {}, {}
    for number, batches in enumerate(parts):
        before = 0
        for documents in batches:
            batch = batch_of(documents)
            sent = line_counts.emit(batch, config)
            add_counts(tally, line_counts.tally(batch, sent, config))
            records = pa.Table.from_batches([sent])
            row = pa.array(records["row"].to_numpy().astype(np.int64) + before)
            records = records.set_column(records.schema.get_field_index("row"), "row", row)
            tables.append(records.append_column("part", pa.array(np.full(len(records), number * 10**15, np.uint64))))
            before += len(documents)
    totals = {"totals": line_counts.totals(tally, config)}
    tables, line_totals = one_round(line_counts, "by_line", config, tables, totals, **ways)
    tables, _ = one_round(line_counts, "reduce", config, tables, totals, **ways)
    rows = [row for table in tables for row in table.to_pylist()]
    assert all(list(row) == ["part", "row", *line_counts.SCHEMA.names] for row in rows)
    hot = {(row["part"], row["row"]): row for row in rows}
    assert len(hot) == len(rows), "one answer a row"
    answers = {}
    for number, batches in enumerate(parts):
        before = 0
        for documents in batches:
            own = [hot.get((number * 10**15, before + place), {}) for place in range(len(documents))]
            columns = [pa.array([row.get(item.name) for row in own], item.type) for item in line_counts.SCHEMA]
            batch = pa.RecordBatch.from_arrays(
                [pa.array([one["text"] for one in documents], pa.string()), *columns], names=list(line_dedup.READS)
            )
            answer = line_dedup.apply(batch, config)
            add_counts(found, line_dedup.metrics(batch, answer, config))
            answers |= {one["doc_id"]: row for one, row in zip(documents, answer.to_pylist(), strict=True)}
            before += len(documents)
    return answers, found | {"counted": line_totals}


def oracle(documents, config):
    """The units of every document as (start, stop, normal form, hot, first of all); and all hot occurrences."""
    scopes = {"global": lambda one: "", "source": lambda one: one["source"]}
    scopes["snapshot"] = lambda one: one["snapshot"]
    scopes["source_and_snapshot"] = lambda one: (one["source"], one["snapshot"])
    scope_of = scopes[config.scope]
    members = Counter(scope_of(one) for one in documents)
    units, times, holders = {}, Counter(), {}
    for one in documents:
        place = int.from_bytes(one["doc_id"][:4], "big")
        bucket = place * -(-members[scope_of(one)] // config.bucket_documents) >> 32
        text = one["text"] or ""
        units[one["doc_id"]] = []
        for start, stop in units_of(text, config.unit == "paragraph"):
            form = normal(text[start:stop])
            group = (form, scope_of(one), bucket) if counts(text[start:stop], config.min_chars) else None
            units[one["doc_id"]].append((len(text[:start].encode()), len(text[:stop].encode()), group))
            if group:
                times[group] += 1
                holders.setdefault(group, []).append((one["doc_id"], start))
    hot = {group: count for group, count in times.items() if count > config.max_count}
    expected = {}
    for name, found in units.items():
        expected[name] = [
            (start, stop, group in hot, group in hot and (name, _start(documents, name, start)) == min(holders[group]))
            for start, stop, group in found
        ]
    lines = Counter()
    for (form, _, _), count in hot.items():
        lines[form] += count
    return expected, lines


def _start(documents, name, start):
    """Byte place to character place."""
    text = next(one["text"] for one in documents if one["doc_id"] == name)
    return len(text.encode()[:start].decode())


LINES = st.sampled_from(
    [MENU, MENU.upper(), f"  {MENU} ", STORY, "}", "", " ", "\u4e16\u754c\u4e16", "a tab\there", "b"]
)
DOCUMENTS = st.lists(
    st.tuples(st.lists(LINES, max_size=6).map("\n".join), st.sampled_from("ab"), st.sampled_from(["x", "y", None])),
    max_size=12,
).map(lambda rows: [document(str(place), *row) for place, row in enumerate(rows)])
CONFIGS = st.builds(
    Config,
    unit=st.sampled_from(["line", "paragraph"]),
    min_chars=st.integers(1, 5),
    max_count=st.integers(1, 4),
    bucket_documents=st.integers(1, 12),
    scope=st.sampled_from(["global", "snapshot", "source", "source_and_snapshot"]),
    keep_first=st.booleans(),
)


@given(DOCUMENTS, CONFIGS)
def test_exactly_the_lines_repeated_too_often_are_cut(documents, config):
    """Every line over the limit is cut (except the first, with keep_first), and no other loses a byte; a cut can be
    undone.
    """
    answers, found = run([[documents]], config)
    expected, lines = oracle(documents, config)
    for one in documents:
        answer, text = answers[one["doc_id"]], one["text"].encode()
        bounds = [0, *answer["cut_spans"], len(text)]
        kept = [text[a:b] for a, b in zip(bounds[::2], bounds[1::2], strict=True)]
        assert b"".join(kept).decode() == answer["text"]
        gone = {place for a, b in zip(bounds[1::2], bounds[2::2], strict=False) for place in range(a, b)}
        assert answer["cut_bytes"] == len(gone) == len(text) - len(answer["text"].encode())
        went = 0
        for start, stop, hot, first in expected[one["doc_id"]]:
            goes = hot and not (config.keep_first and first)
            assert goes == gone.issuperset(range(start, stop))
            assert goes or not gone.intersection(range(start, start + len(text[start:stop].rstrip())))
            went += goes
        assert answer["cut_lines"] == went
        in_units = {place for start, stop, _, _ in expected[one["doc_id"]] for place in range(start, stop)}
        assert all(text[place : place + 1].isspace() for place in gone - in_units)
        assert (answer["drop"] == "all_lines_repeated") == (bool(gone) and not answer["text"].strip())
    shown = Counter()
    for form, count in found.get("most_cut", {}).items():
        shown[form] += count
    assert shown == lines


@settings(deadline=None, max_examples=40)
@given(DOCUMENTS, CONFIGS, st.sampled_from([0, 1, 6]), st.sampled_from([None, 1, 300]), st.randoms())
@pytest.mark.slow
def test_cuts_do_not_depend_on_order_parts_batches_and_blocks(documents, config, bits, limit, random):
    """The same documents shuffled, in other parts and batches, with empty ones between, reduced by other ranges and in
    blocks that split a line, give the same result.
    """
    answers, found = run([[documents]], config)
    shuffled = random.sample(documents, len(documents))
    parts = [[[]], [[], []]]
    for one in shuffled:
        if random.random() < 0.3:
            parts.append([[]])
        if random.random() < 0.3:
            parts[-1].append([])
        parts[-1][-1].append(one)
    again, counts = run(parts, config, bits=bits, limit=limit)
    assert again == answers
    assert counts["most_cut"] == found.get("most_cut", {})
    assert counts["counted"] == found["counted"]


def test_totals_say_how_many_buckets_each_scope_has():
    """Documents without a line also count, and one more document changes nothing until a bucket is full."""
    config = Config(scope="source", bucket_documents=2)
    found = []
    for more in ([], [document("d", "z")]):
        documents = [document("a", "x"), document("b", None), document("c", "y", source="books"), *more]
        batch = batch_of(documents)
        tally = line_counts.tally(batch, line_counts.emit(batch, config), config)
        found.append(sorted(line_counts.totals(tally, config)["buckets"].values()))
    assert found == [[1, 1], [1, 2]]


def test_the_limit_is_per_bucket():
    """A line that is frequent in all documents but rare in each bucket stays."""
    documents = [document(str(place), MENU) for place in range(40)]
    cut = [
        sum(row["cut_lines"] for row in run([[documents]], Config(bucket_documents=size))[0].values())
        for size in (40, 4)
    ]
    assert cut[0] == 40
    assert cut[1] < 40


def test_the_first_occurrence_stays_with_keep_first():
    """One occurrence per bucket stays: the first one in the document with the smallest doc_id."""
    documents = [document(str(place), f"{MENU}\nPage {place} is long enough.\n{MENU}\n") for place in range(9)]
    answers, found = run([[documents]], Config(keep_first=True))
    smallest = min(answers)
    assert [name for name, row in answers.items() if MENU in row["text"]] == [smallest]
    assert answers[smallest]["text"].startswith(MENU)
    assert found["lines_cut"] == 17


def test_protected_lines_stay_and_are_counted(tmp_path):
    """A list protects lines with any white space, patterns protect what they match, and both are counted separately."""
    path = tmp_path / "keep.txt"
    path.write_text(f"\ufeff{MENU.replace(' ', '  ')}\r\nSomething else\n", encoding="utf-8")
    text = f"\t{MENU}\nCopyright 2026 by the miller\nRead more about this now\n"
    documents = [document(str(place), text) for place in range(8)]
    config = Config(protected=str(path), protected_patterns=("^Copyright [0-9]+", "never there"))
    answers, found = run([[documents]], config)
    assert {row["text"] for row in answers.values()} == {f"\t{MENU}\nCopyright 2026 by the miller\n"}
    assert found["spared_by"] == {"protected": 8, "pattern ^Copyright [0-9]+": 8, "pattern never there": 0}
    assert found["lines_spared"] == 16
    assert found["most_cut"] == {"Read more about this now": 8}
    assert line_dedup.warnings(found, config) == ["pattern never there protected no line"]


def test_a_protected_paragraph_is_one_of_the_file(tmp_path):
    """With unit paragraph the file has paragraphs, however their lines are wrapped."""
    path = tmp_path / "keep.txt"
    path.write_text("First line of it,\nsecond line of it.\n\nSecond one\n")
    documents = [document(str(place), f"{STORY}\n\nFirst line of it, second\nline of it.\n") for place in range(8)]
    answers, _ = run([[documents]], Config(protected=str(path), unit="paragraph"))
    assert {row["text"] for row in answers.values()} == {"First line of it, second\nline of it.\n"}


def test_protections_and_limits_without_effect_are_warned_about(tmp_path):
    """Law 7: there is a warning if no line was cut or the list is empty, and none if there was no document."""
    path = tmp_path / "empty.txt"
    path.write_text("\n")
    config = Config(protected=str(path))
    _, found = run([[[document("a", STORY)]]], config)
    warned = line_dedup.warnings(found, config)
    assert warned[0] == "the file of protected lines is empty"
    assert "no line was cut" in warned[1]
    assert len(warned) == 2
    assert line_dedup.warnings(run([[[]]], config)[1], config) == ()


def test_documents_that_lose_everything_and_rows_without_text():
    """A document with nothing visible left is dropped with a reason; a null stays null."""
    documents = [document(str(place), f"\n{MENU}\n\n") for place in range(7)] + [document("n", None)]
    answers, _ = run([[documents]], Config())
    empty = answers.pop(documents[-1]["doc_id"])
    assert set(empty.values()) == {None}
    assert {(row["text"], row["drop"], row["detail"]) for row in answers.values()} == {
        ("", "all_lines_repeated", f"{len(MENU) + 3} bytes cut")
    }


def test_a_slice_of_a_batch_gives_a_slice_of_the_result():
    """Rows are independent, even if a batch starts within its buffers."""
    lines = line_counts.emit(batch_of([document("a", MENU)]), Config())["key"].to_pylist()
    columns = [[f"{MENU}\nx", None, STORY, f"y\n{MENU}", ""], [lines, None, None, lines, None], [None] * 5, [None] * 5]
    kinds = [pa.string(), *(item.type for item in line_counts.SCHEMA)]
    whole = pa.RecordBatch.from_arrays(
        [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)], names=list(line_dedup.READS)
    )
    rows = line_dedup.apply(whole, Config()).to_pylist()
    assert [row["text"] for row in rows] == ["x", None, STORY, "y\n", ""]
    for start in range(5):
        for stop in range(start, 6):
            assert line_dedup.apply(whole.slice(start, stop - start), Config()).to_pylist() == rows[start:stop]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", "not a regular expression"),
        ("[[a]", "not a regular expression: Possible nested set"),
        ("a{99999999999}", "not a regular expression"),
        ("x*", "protect every line"),
    ],
)
def test_patterns_are_checked_before_any_work(pattern, message):
    """A pattern that does not compile, or would protect everything, is an error of the recipe."""
    with pytest.raises(UserError, match=message):
        line_dedup.check(Config(protected_patterns=("fine", pattern)))


def test_counting_does_not_depend_on_what_is_spared():
    """Fields that only decide what is cut are not in the counting stage, so changing them counts nothing again."""
    spared = set(Config.model_fields) - set(line_counts.Config.model_fields)
    assert spared == {"protected", "protected_patterns", "keep_first"}


def test_lists_do_not_depend_on_the_order_of_lines():
    """The lines of a document come from many reducers; the lists are sorted by hash."""
    lines = {"line": pa.array([7, 3, 5], pa.uint64()), "first": [True, False, True], "occurrences": [0, 9, 8]}
    records = pa.table({"key": [1, 1, 1], "part": [4, 4, 4], "row": [2, 2, 2], **lines})
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        answer = line_counts.reduce(records.take(order), Config(), {}).to_pylist()
        witness = [{"line": 3, "count": 9}, {"line": 5, "count": 8}]
        assert answer == [{"part": 4, "row": 2, "hot": [3, 5, 7], "first": [5, 7], "witness": witness}]
