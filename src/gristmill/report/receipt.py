"""The receipt of a takedown as an HTML page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gristmill.counted import counted
from gristmill.report.page import render


def page(content: Mapping[str, Any]) -> str:
    """The requests, the documents found and removed, and the hashes before and after."""
    before, after, shards = content["before"], content["after"], content["shards"]
    others = {
        "Named, but not in the earlier shards either": content["elsewhere"],
        "Copies that are kept until you decide": content["listed"],
        "Named, but still in the new version": content["left"],
        "Not generated, because the parent was not sent": [
            {**one, "named_by": f"parent {one['parent']}", "copy_of": None, "url": None} for one in content["unsent"]
        ],
    }
    return render(
        Path(__file__).with_name("receipt.html"),
        title=f"Takedown {after['version']}",
        before=before,
        after=after,
        removed=counted(len(content["documents"]), "document was", "documents were"),
        rewritten=counted(len(shards["changed"]), "shard was", "shards were"),
        unchanged=shards["unchanged"],
        requests=map(_request, content["requests"]),
        restored=content["restored"].items(),
        documents=map(_document, content["documents"]),
        others=[(heading, list(map(_other, documents))) for heading, documents in others.items()],
        shards=map(_shard, shards["changed"]),
    )


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


def _other(one: Mapping[str, Any]) -> Sequence[str]:
    return (one["doc_id"], one["request"], one["url"] or one["source"], _by(one))


def _by(one: Mapping[str, Any]) -> str:
    of = one["copy_of"]
    return str(one["named_by"]) if of is None else f"copy of {of} ({one['similarity']:.3f})"


def _shard(one: Mapping[str, Any]) -> Sequence[str]:
    before, after = (one[side]["bin"] if one[side] else "none" for side in ("before", "after"))
    return (f"{one['group']} {one['shard']}", before, after)
