"""The funnel of a corpus: what came in, what each step took or cut, what is left."""

from typing import Any

from gristmill.engine.graph import CORPUS
from gristmill.engine.seen import Seen
from gristmill.recipe.columns import INGEST


def funnels(seen: Seen) -> dict[str, Any]:
    """Per source: the steps that took or cut something, in order; documents and bytes that were read, that each step
    took first and why, that each cut, and that are kept.

    In bytes of text: read - first - cut = kept. In raw bytes: read - first - extracted = kept.
    """
    found = {}
    for source, chain in seen.chains.items():
        funnel = seen.made[f"{source}/{CORPUS}"].metrics.get("funnel")
        if funnel:
            active = {step for name in ("first", "extracted", "cut") for step in funnel[name]}
            found[source] = {"steps": [step for step in (INGEST, *chain) if step in active], **funnel}
    return found
