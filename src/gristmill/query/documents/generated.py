"""The generated sources of a corpus: what made them, and the columns that only they have."""

from collections.abc import Mapping
from typing import Any

from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.stages import GENERATE, INGEST
from gristmill.stages.generate.generated import PARENT

BIRTH = (PARENT, "prompt", "model", "sample")
"""Columns of generated documents that look-ups and exports have by their plain names."""


def generated_sources(view: CorpusView) -> dict[str, Mapping[str, Any]]:
    """By source: its parents, the model and its revision, the number of prompts and samples."""
    found: dict[str, Mapping[str, Any]] = {}
    for source in view.chains:
        maker = view.nodes.get(f"{source}/{GENERATE}")
        if maker is not None:
            config = maker.identity["config"]
            about = {name: config[name] for name in ("model", "revision", "samples")}
            found[source] = {"parents": maker.sources, "prompts": len(config["prompts"]), **about}
    return found


def birth_columns(view: CorpusView) -> tuple[str, ...]:
    """The columns of generated documents, if the corpus has any."""
    return BIRTH if any(PARENT in view.nodes[f"{source}/{INGEST}"].columns for source in view.chains) else ()
