"""Finds the posts of each thread, their order, and which of them are left out. Texts do not travel.

`meta` of a post names its thread: the first post, or any post of the thread. Three rounds follow these names, each
twice as far as the one before it. So if each post names only the one that it answers, posts up to eight replies away
from the first one are found (mails usually name the first). A post is written after the one that it names, the oldest
first.

A record is sent twice: once to the post that it names, which tells it what that one names, and once to its own id, to
tell others. So a thread is complete whatever parts its posts are in, and its order depends on no part.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from gristmill.stages.buffers import first_numbers, one_chunk
from gristmill.stages.contract import AsCount, Bytes, Exchange, StageConfig

ID = pa.binary(16)
RECORD_SCHEMA = pa.schema(
    [
        ("is_owner", pa.bool_()),
        ("post", ID),
        ("names", ID),
        ("thread", ID),
        ("accepted", ID),
        ("doc_id", ID),
        ("time", pa.int64()),
        ("score", pa.int64()),
        ("bytes", pa.int64()),
    ]
)
"""is_owner: whether the record is there to tell `thread` to others; post: its own id; names: the post that it names in
`meta`; thread: the first post, as far as it is known."""
SCHEMA = pa.schema([("head", ID), ("place", pa.int32()), ("drop", pa.string()), ("detail", pa.string())])
"""head: the doc_id of the post whose row gets the joined text; place: the number in that text. Null for a document
without a thread."""
_NEVER = np.iinfo(np.int64).max


class Config(StageConfig):
    thread: str = "thread"
    """The field of `meta` with the id of the thread, or of a post in it. A document without it stays as it is."""
    post: str = "post"
    """The field of `meta` with the post's own id, which others may name."""
    score: str = "score"
    """The field of `meta` with the score of a post."""
    best_replies: Annotated[int, AsCount, Field(ge=0)] | None = None
    """Of the replies to the first post, keep this many, with the replies to them: the accepted one, then those with the
    highest score, then the oldest; in this order. None keeps all, by date."""
    min_score: int | None = None
    """Leave out replies with a lower score, and what replies to them. A reply without a score stays."""
    max_thread_bytes: Bytes = Field(16 << 20, gt=0)
    """A longer thread becomes several documents. Bytes of text."""


def emit(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """Send every post to the one that it names, and to its own id."""
    ids, sources = (batch.column(name).to_pylist() for name in ("doc_id", "source"))
    moments = pc.fill_null(batch.column("timestamp").cast(pa.int64()), _NEVER).to_pylist()
    sizes = pc.fill_null(pc.binary_length(batch.column("text")), 0).to_pylist()
    rows: list[tuple[Any, ...]] = []
    for row, meta in enumerate(batch.column("meta").to_pylist()):
        facts, source = _facts(meta), sources[row]
        named, own = _hashed(source, facts.get(config.thread)), _hashed(source, facts.get(config.post))
        if (known := named or own) is None:
            continue
        score = facts.get(config.score)
        score = score if isinstance(score, int) and abs(score) < 2**62 else None
        told = (own, named, known, _hashed(source, facts.get("accepted")), ids[row], moments[row], score, sizes[row])
        rows.append((_key(known), row, False, *told))
        if own is not None:
            rows.append((_key(own), row, True, *told))
    schema = pa.schema([("key", pa.uint64()), ("row", pa.int64()), *RECORD_SCHEMA])
    columns = list(zip(*rows, strict=True)) or [() for _ in schema]
    return pa.RecordBatch.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)], schema=schema
    )


def _facts(meta: str | None) -> Mapping[str, Any]:
    try:
        found = orjson.loads(meta) if meta else {}
    except orjson.JSONDecodeError:  # a float or a surrogate that only our writer knows
        found = {}
    return found if isinstance(found, dict) else {}


def _hashed(source: str, value: Any) -> bytes | None:
    """The id of a post, within its source."""
    if not isinstance(value, str | int) or isinstance(value, bool) or value == "":
        return None
    return hashlib.blake2b(f"{source}\0{value}".encode(), digest_size=16).digest()


def _key(thread: bytes) -> int:
    return int.from_bytes(thread[:8])


def _owners(records: pa.Table) -> pa.Table:
    """Records that tell the threads of posts, sent to the ids of the posts."""
    own = records.filter(records.column("post").is_valid())
    own = own.set_column(
        own.schema.get_field_index("key"), "key", pa.array(first_numbers(one_chunk(own.column("post")), ">"))
    )
    return own.set_column(own.schema.get_field_index("is_owner"), "is_owner", pa.array(np.ones(len(own), np.bool_)))


def owners(records: pa.Table, config: Config) -> pa.Table:
    """The summary for `follow`: the posts that tell their threads."""
    return records.filter(records.column("is_owner"))


def follow(records: pa.Table, config: Config, others: pa.Table | None = None) -> pa.Table:
    """By post: what names a post gets the thread of that post."""
    known: dict[bytes, bytes] = {}
    told = owners(records, config)
    for table in (told, *([] if others is None else [others])):
        pairs = zip(table.column("post").to_pylist(), table.column("thread").to_pylist(), strict=True)
        for post, thread in pairs:  # of several posts with one id, which thread does not depend on their order
            known[post] = min(known.get(post, thread), thread)
    asking = records.filter(pc.invert(records.column("is_owner")))
    threads = pa.array([known.get(one, one) for one in asking.column("thread").to_pylist()], ID)
    asking = asking.set_column(asking.schema.get_field_index("thread"), "thread", threads)
    asking = asking.set_column(asking.schema.get_field_index("key"), "key", pa.array(first_numbers(threads, ">")))
    return pa.concat_tables([asking, _owners(asking)])


class _Post(NamedTuple):
    """A post, as it is ordered."""

    time: int
    doc_id: bytes
    post: bytes | None
    names: bytes | None
    accepted: bytes | None
    score: int | None
    bytes: int
    at: int
    """Its record."""


def reduce(records: pa.Table, config: Config) -> pa.Table:
    """By thread: the place of each post, or the reason why it is left out."""
    records = records.filter(pc.invert(records.column("is_owner")))
    columns = {name: records.column(name).to_pylist() for name in (*_Post._fields[:-1], "thread")}
    threads: dict[bytes, list[_Post]] = {}
    for at, thread in enumerate(columns.pop("thread")):
        facts = {name: values[at] for name, values in columns.items()}
        threads.setdefault(thread, []).append(_Post(**facts, at=at))
    head: list[bytes | None] = [None] * len(records)
    place: list[int | None] = [None] * len(records)
    drop: list[str | None] = [None] * len(records)
    detail: list[str | None] = [None] * len(records)
    for thread, posts in threads.items():
        number, size, first = 0, 0, b""
        for post, reason, why in _ordered(sorted(posts), thread, config):
            if reason is not None:
                drop[post.at], detail[post.at] = reason, why
                continue
            if not first or size + post.bytes > config.max_thread_bytes:
                first, number, size = post.doc_id, 0, 0
            head[post.at], place[post.at] = first, number
            number, size = number + 1, size + post.bytes
    answers = {name: records.column(name) for name in ("part", "row")}
    lists = (head, place, drop, detail)
    return pa.table(
        answers | {field.name: pa.array(values, field.type) for field, values in zip(SCHEMA, lists, strict=True)}
    )


_Verdict = tuple[_Post, str | None, str | None]


def _ordered(posts: Sequence[_Post], thread: bytes, config: Config) -> Iterator[_Verdict]:
    """The posts of a thread in the order of its text, each with the reason and the detail if it is left out."""
    if len(posts) == 1:
        yield posts[0], None, None
        return
    by_id: dict[bytes | None, _Post] = {}
    replies: dict[int | None, list[_Post]] = {}
    for post in posts:
        if post.post is not None and (same := by_id.setdefault(post.post, post)) is not post:
            yield post, "same_post", f"as {same.doc_id.hex()}"
    root = by_id.get(thread)
    for post in posts:
        if post is not root and by_id.get(post.post, post) is post:
            before = by_id.get(post.names) if post.names is not None else None
            parent = root if before is None or before is post else before
            replies.setdefault(None if parent is None else parent.at, []).append(post)
    if root is None and config.best_replies is None and config.min_score is None and not by_id:
        yield from ((post, None, None) for post in posts)  # nobody names a post: the order of time
        return
    seen: set[int] = set()
    for first in (*([root] if root else replies.get(None, [])), *posts):  # the last ones name each other in a circle
        if by_id.get(first.post, first) is first and first.at not in seen:
            yield from _below(first, replies, root, config, seen)


def _below(
    first: _Post, replies: Mapping[int | None, list[_Post]], root: _Post | None, config: Config, seen: set[int]
) -> Iterator[_Verdict]:
    """A post and everything that replies to it, depth first."""
    waiting: list[_Verdict] = [(first, None, None)]
    while waiting:
        post, reason, why = waiting.pop()
        if post.at in seen:
            continue
        seen.add(post.at)
        yield post, reason, why
        below = replies.get(post.at, [])
        if reason is not None:
            found: list[_Verdict] = [(one, "reply_to_left_out_post", f"to {post.doc_id.hex()}") for one in below]
        else:
            found = list(_judged(below, post if post is root else None, config))
        waiting += reversed(found)


def _judged(posts: Sequence[_Post], root: _Post | None, config: Config) -> Iterator[_Verdict]:
    """Replies to one post with the verdicts on them; `root` is that post if it is the first of the thread. Comments,
    which have no id, come first.
    """
    best = config.best_replies if root is not None else None
    accepted = root.accepted if root is not None else None

    def rank(post: _Post) -> tuple[Any, ...]:
        is_better = (post.post != accepted, -(post.score or 0)) if best is not None and post.post is not None else ()
        return (post.post is not None, *is_better, post.time, post.doc_id)

    posts = sorted(posts, key=rank)
    kept = 0
    for post in posts:
        if config.min_score is not None and post.score is not None and post.score < config.min_score:
            yield post, "low_score", f"{post.score}, min_score = {config.min_score}"
        elif best is not None and post.post is not None and kept >= best:
            yield post, "not_among_best_replies", f"best_replies = {best}"
        else:
            kept += post.post is not None
            yield post, None, None


STAGE = Exchange(
    version=1,
    config=Config,
    libraries=("orjson",),
    reads=("doc_id", "source", "timestamp", "meta", "text"),
    only_kept=True,
    record_schema=RECORD_SCHEMA,
    schema=SCHEMA,
    emit=emit,
    rounds={"first": follow, "second": follow, "third": follow},
    reduce=reduce,
    summaries={"first": owners, "second": owners, "third": owners},
)
