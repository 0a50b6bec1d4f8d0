"""Posts that share a thread become one document, the same for every cut into parts and every size of memory."""

import hashlib
import json

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from exchanged import run_exchange
from gristmill_formats import thread_places, threads


def post(text, time=0, title=None, license="CC-BY-SA-4.0", source="se", **meta):
    return {"text": text, "time": time, "title": title, "license": license, "source": source, "meta": meta}


def doc_id(row):
    return hashlib.md5(json.dumps(row, sort_keys=True).encode()).digest()


def table(rows):
    return pa.table(
        {
            "doc_id": pa.array([doc_id(row) for row in rows], pa.binary(16)),
            "source": pa.array([row["source"] for row in rows], pa.string()),
            "timestamp": pa.array([row["time"] for row in rows], pa.timestamp("us", tz="UTC")),
            "meta": pa.array([json.dumps(row["meta"]) if row["meta"] else None for row in rows], pa.string()),
            "text": pa.array([row["text"] for row in rows], pa.string()),
            "title": pa.array([row["title"] for row in rows], pa.string()),
            "license": pa.array([row["license"] for row in rows], pa.string()),
        }
    )


def joined(rows, parts=1, bits=0, limit=None, **config):
    """{text of the post: its row of the layer, or the reason why it was left out}."""
    config = threads.Config(separator="|", **config)
    tables = [table(rows[number::parts]) for number in range(parts)]
    places, _ = run_exchange(thread_places, config, tables, bits=bits, limit=limit)
    kept = []
    for number, layer in enumerate(places):  # a step sees only what the steps before it keep
        extended = tables[number]
        for name in ("head", "place"):
            extended = extended.append_column(f"thread_places.{name}", layer.column(name))
        kept.append(extended.filter(layer.column("drop").is_null()).combine_chunks())
    layers, _ = run_exchange(threads, config, kept, bits=bits, limit=limit)
    found = {row["text"]: None for row in rows}
    for one, layer in zip(tables, places, strict=True):
        found |= dict(zip(one.column("text").to_pylist(), layer.column("drop").to_pylist(), strict=True))
    for one, layer in zip(kept, layers, strict=True):
        found |= dict(zip(one.column("text").to_pylist(), layer.to_pylist(), strict=True))
    return found


QUESTION = post("q", 1, "Title", "CC-BY-SA-2.5", post="1", thread="1", accepted="4")
ANSWERS = [
    post("low", 2, post="2", thread="1", score=-3),
    post("best", 3, post="3", thread="1", score=9),
    post("accepted", 4, post="4", thread="1", score=1),
    post("first comment", 7, thread="1", score=0),
    post("comment on best", 8, thread="3", score=0),
    post("comment on low", 9, thread="2", score=0),
]
THREAD = [*ANSWERS, QUESTION]


def test_a_whole_thread_is_in_the_order_of_time_with_comments_below_their_posts():
    """The first post gets the text, the title and all licenses; the others say where they went."""
    found = joined(THREAD)
    assert found["q"]["text"] == "Title\n\nq|first comment|low|comment on low|best|comment on best|accepted"
    assert (found["q"]["license"], found["q"]["post_count"]) == ("CC-BY-SA-2.5 AND CC-BY-SA-4.0", 7)
    assert found["q"]["posts"][0] == doc_id(QUESTION)
    assert (found["low"]["drop"], found["low"]["detail"]) == (threads.JOINED, f"into {doc_id(QUESTION).hex()}")


def test_the_best_answers_come_first_and_the_others_are_left_out():
    """The accepted one is the best; comments of an answer that is left out go with it."""
    found = joined(THREAD, best_replies=2)
    assert found["q"]["text"] == "Title\n\nq|first comment|accepted|best|comment on best"
    assert (found["low"], found["comment on low"]) == ("not_among_best_replies", "reply_to_left_out_post")
    found = joined(THREAD, min_score=0, title=False)
    assert found["q"]["text"] == "q|first comment|best|comment on best|accepted"
    assert found["low"] == "low_score"


def test_a_long_thread_becomes_several_documents():
    """Each has at most the bytes that the setting allows, and its own head."""
    found = joined([post(f"{n:03}", n, thread="0", post=str(n)) for n in range(10)], max_thread_bytes=9)
    assert [row["text"] for row in found.values() if row["text"]] == [
        "000|001|002",
        "003|004|005",
        "006|007|008",
        "009",
    ]


def test_replies_are_followed_to_the_first_mail():
    """Each of these names only the one before it; ids of another source are other ids."""
    chain = [post(str(n), n, post=str(n), thread=str(max(n - 1, 0))) for n in range(9)]
    assert joined(chain)["0"]["text"] == "0|1|2|3|4|5|6|7|8"
    other = post("other", 9, source="b", post="x", thread="8")
    assert joined([*chain, other])["other"]["text"] == "other"


def test_other_documents_stay_as_they_are():
    """Without a thread there is no title, and nothing is dropped; the same mail twice is written once."""
    alone, empty = post("alone", title="T"), post(None, title="T")
    twice = [post("a", 1, post="1"), post("a again", 2, post="1")]
    circle = [post("c", 1, post="8", thread="9"), post("d", 2, post="9", thread="8")]
    found = joined([alone, empty, *twice, *circle])
    assert [found[text]["text"] for text in ("alone", None, "a")] == ["alone", None, "a"]
    assert found["a again"] == "same_post"
    assert sorted(row["text"] for row in (found["c"], found["d"])) == ["c", "d"]


def oracle(rows):
    """The texts of all threads by a plain walk: every post under the one that it names."""
    ids = {row["meta"]["post"]: row for row in rows}
    below = {}
    for row in sorted(rows, key=lambda row: (row["time"], doc_id(row))):
        named = row["meta"]["thread"]
        root = named == row["meta"]["post"]
        below.setdefault(None if root else named, []).append(row)

    def walk(row):
        yield row["text"]
        for reply in below.get(row["meta"]["post"], []):
            yield from walk(reply)

    return {"|".join(walk(row)) for row in below[None]} if ids else set()


@given(st.data())
def test_any_cut_into_parts_and_memory_gives_the_same_documents(data):
    """Trees of replies: each post names an earlier one, at most eight away from the first."""
    rows, depth = [], []
    for number in range(data.draw(st.integers(1, 12))):
        named = data.draw(st.integers(0, number))
        named = named if named < number and depth[named] < 8 else number
        depth.append(0 if named == number else depth[named] + 1)
        rows.append(post(f"t{number}", data.draw(st.integers(0, 3)), post=str(number), thread=str(named)))
    rows = data.draw(st.permutations(rows))
    ways = data.draw(st.sampled_from([{}, {"parts": 3}, {"parts": 2, "bits": 2}, {"parts": 2, "limit": 300}]))
    found = joined(rows, **ways)
    assert {row["text"] for row in found.values() if row["text"]} == oracle(rows)
