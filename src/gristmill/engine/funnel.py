"""The funnel of a corpus: what came in, what each step took or cut, what is left."""

from typing import Any

from gristmill.engine.graph import CORPUS
from gristmill.engine.seen import Seen
from gristmill.recipe.columns import INGEST


def funnels(seen: Seen) -> dict[str, Any]:
    """Per source: documents and bytes that were read, taken by each step and reason, cut by each step, and kept.

    In bytes of text: read - first - cut = kept. In raw bytes: read - first - extracted = kept.
    """
    found = {}
    for source, chain in seen.chains.items():
        funnel = seen.made[f"{source}/{CORPUS}"].metrics.get("funnel")
        if funnel:
            steps = [INGEST, *chain]
            ordered = {name: {step: funnel[name][step] for step in steps if step in funnel[name]} for name in _BY_STEP}
            found[source] = {**funnel, **ordered}
    return found


_BY_STEP = ("first", "cut", "extracted")
