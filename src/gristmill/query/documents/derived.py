"""The derived sources of a corpus: what made them, and the columns that only they have."""

from collections.abc import Mapping
from typing import Any

from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.stages import INGEST
from gristmill.stages.derived import BIRTH, FACTS, PARENT


def derived_sources(view: CorpusView) -> dict[str, Mapping[str, Any]]:
    """By source: its parents, and facts about the step that made it, such as the model and the number of prompts."""
    found: dict[str, Mapping[str, Any]] = {}
    for node in view.nodes.values():
        source = node.id.partition("/")[0]
        if node.kind == "map" and source in view.chains and source not in node.sources and _is_derived(view, source):
            config = node.identity["config"]
            about = {name: config[name] for name in FACTS if name in config}
            about = {name: len(value) if isinstance(value, list) else value for name, value in about.items()}
            found[source] = {"parents": node.sources, **about}
    return {source: found[source] for source in view.chains if source in found}


def birth_columns(view: CorpusView) -> tuple[str, ...]:
    """The columns of derived documents that look-ups and exports have, if the corpus has such documents."""
    readers = [view.nodes[f"{source}/{INGEST}"].columns for source in view.chains if _is_derived(view, source)]
    return tuple(name for name in BIRTH if any(name in columns for columns in readers))


def _is_derived(view: CorpusView, source: str) -> bool:
    return PARENT in view.nodes[f"{source}/{INGEST}"].columns
