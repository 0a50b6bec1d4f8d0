"""Joins posts that share a thread into one document: the answers to a question, the mails of a discussion.

The first post of a thread gets the text of all of its posts, in order, and their licenses; the others are dropped as
`joined_into_thread`. `posts` has the ids of the posts, so each can be traced to its bytes. Only the posts of one
document are in memory at a time; `thread_places` limits it.

A takedown of any post takes the whole document: takedowns run after all other steps, and change no other document.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gristmill.stages import JOINED, POSTS
from gristmill.stages.buffers import first_numbers
from gristmill.stages.contract import Exchange
from gristmill.warned import idle
from gristmill_formats import thread_places
from gristmill_formats.thread_places import ID

_HEAD, _PLACE = "thread_places.head", "thread_places.place"
RECORD_SCHEMA = pa.schema(
    [
        ("head", ID),
        ("place", pa.int32()),
        ("doc_id", ID),
        ("title", pa.string()),
        ("license", pa.string()),
        ("text", pa.large_string()),
    ]
)
SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("license", pa.string()),
        (POSTS, pa.list_(ID)),
        ("post_count", pa.int32()),
        ("drop", pa.string()),
        ("detail", pa.string()),
    ]
)


class Config(thread_places.Config):
    separator: str = "\n\n---\n\n"
    """What is written between two posts."""
    title: bool = True
    """Write the title of the first post before it."""


def emit(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """Send every post to the head of its document, and other documents to themselves."""
    head = pc.coalesce(batch.column(_HEAD), batch.column("doc_id"))
    columns = [pa.array(first_numbers(head, ">")), pa.array(np.arange(batch.num_rows)), head, batch.column(_PLACE)]
    columns += [batch.column(name) for name in ("doc_id", "title", "license")]
    columns.append(batch.column("text").cast(pa.large_string()))
    return pa.RecordBatch.from_arrays(columns, names=["key", "row", *RECORD_SCHEMA.names])


def reduce(records: pa.Table, config: Config) -> tuple[pa.Table, dict[str, Any]]:
    """By document: the joined text for its head, and a verdict on the other posts."""
    heads = records.column("head").to_pylist()
    places = records.column("place").to_pylist()
    order = sorted(range(len(heads)), key=lambda at: (heads[at], places[at] or 0))
    records = records.take(pa.array(order, pa.int64()))
    heads, places = ([values[at] for at in order] for values in (heads, places))
    ids, titles, licenses, texts = (records.column(name).to_pylist() for name in ("doc_id", "title", "license", "text"))
    starts = [at for at in range(len(heads)) if not at or heads[at] != heads[at - 1]]
    rows: list[tuple[Any, ...]] = []
    for start, stop in zip(starts, [*starts[1:], len(heads)], strict=True):
        if places[start] is None:
            rows.append((texts[start], licenses[start], None, None, None, None))
            continue
        text = config.separator.join(one for one in texts[start:stop] if one)
        title = titles[start]
        if config.title and title and not (texts[start] or "").startswith(title):
            text = f"{title}\n\n{text}"
        named = sorted({one for one in licenses[start:stop] if one is not None})
        rows.append((text, " AND ".join(named) or None, ids[start:stop], stop - start, None, None))
        rows += [(None, None, None, None, JOINED, f"into {heads[start].hex()}")] * (stop - start - 1)
    columns = list(zip(*rows, strict=True)) or [() for _ in SCHEMA]
    answers = {name: records.column(name) for name in ("part", "row")}
    answers |= {field.name: pa.array(values, field.type) for field, values in zip(SCHEMA, columns, strict=True)}
    others = places.count(None)
    return pa.table(answers), {"threads": len(starts) - others, "posts": len(heads) - others}


def warnings(found: dict[str, Any], config: Config) -> Sequence[str]:
    """Warn if nothing was joined."""
    text = f"no two documents have the same `{config.thread}` in meta, so nothing was joined. Check the field's name"
    return idle(found.get("rows_sent"), found.get("threads", 0) < found.get("posts", 0), text)


STAGE = Exchange(
    version=1,
    config=Config,
    reads=("doc_id", "title", "license", "text", _HEAD, _PLACE),
    only_kept=True,
    prerequisites=("gristmill_formats.thread_places",),
    record_schema=RECORD_SCHEMA,
    schema=SCHEMA,
    emit=emit,
    reduce=reduce,
    warnings=warnings,
)
