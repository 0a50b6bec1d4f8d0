"""The receipt of a takedown as a self-contained HTML page without scripts."""

from collections.abc import Mapping, Sequence
from typing import Any

from gristmill.counted import counted
from gristmill.report import markup
from gristmill.report.markup import escaped, table


def page(content: Mapping[str, Any]) -> str:
    """The requests, the documents found and removed, and the hashes before and after."""
    before, after = content["before"], content["after"]
    shards = content["shards"]
    return markup.page(
        f"Takedown {after['version']}",
        [
            "<h1>Receipt of a takedown</h1>",
            f"<p>{counted(len(content['documents']), 'document was', 'documents were')} removed from "
            f"{escaped(before['recipe'])}. {_named(before)} had them, {_named(after)} does not: "
            f"{counted(len(shards['changed']), 'shard was', 'shards were')} rewritten, {shards['unchanged']} are "
            "identical to the byte.</p>",
            "<h2>Requests</h2>",
            table(
                ("request", "date", "reason", "items", "found", "removed"), map(_request, content["requests"]), left=6
            ),
            "<h2>Removed documents</h2>",
            table(
                ("document", "request", "named by", "URL or source", "sha256 of its text", "shard", "samples"),
                map(_document, content["documents"]),
                left=7,
            ),
            *_more("Named, but not in the earlier shards either", content["elsewhere"]),
            *_more("Copies that are kept until you decide", content["listed"]),
            *_more("Named, but still in the new version", content["left"]),
            "<h2>Shards</h2>",
            table(("shard", "before", "after"), map(_shard, shards["changed"]), left=3),
            f"<p>Manifest before: <code>{escaped(before['manifest'])}</code><br>",
            f"Manifest after: <code>{escaped(after['manifest'])}</code></p>",
        ],
    )


def _named(version: Mapping[str, Any]) -> str:
    return f"Version <code>{escaped(version['version'])}</code> ({escaped(version['run'])})"


def _request(one: Mapping[str, Any]) -> Sequence[str]:
    items = "; ".join(f"{kind}: {', '.join(named)}" for kind, named in one["asked"].items())
    return (one["id"], one["date"], one["reason"], items, str(one["found"]), str(one["removed"]))


def _document(one: Mapping[str, Any]) -> Sequence[str]:
    samples = one["samples"]
    shown = ", ".join(map(str, samples[:5])) + (f" and {len(samples) - 5} more" if len(samples) > 5 else "")
    where = one["url"] or one["source"]
    return (
        one["doc_id"],
        one["request"],
        _by(one),
        where,
        one["content_hash"] or "",
        f"{one['group']} {one['shard']}",
        shown,
    )


def _more(title: str, documents: Sequence[Mapping[str, Any]]) -> list[str]:
    if not documents:
        return []
    rows = ((one["doc_id"], one["request"], one["url"] or one["source"], _by(one)) for one in documents)
    return [f"<h2>{title}</h2>", table(("document", "request", "URL or source", "named by"), rows, left=4)]


def _by(one: Mapping[str, Any]) -> str:
    of = one["copy_of"]
    return str(one["named_by"]) if of is None else f"copy of {of} ({one['similarity']:.3f})"


def _shard(one: Mapping[str, Any]) -> Sequence[str]:
    before, after = (one[side]["bin"] if one[side] else "none" for side in ("before", "after"))
    return (f"{one['group']} {one['shard']}", before, after)
