"""The funnel of a corpus: what was read, what each step dropped or cut, and what is kept."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from gristmill.counted import percent
from gristmill.engine.plan.facts import NodeFacts
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.stages import CORPUS, INGEST, NO_DOCUMENT, STEPS
from gristmill.stages.dedup.scope_words import SCOPE_WORDS


def funnels(view: CorpusView) -> dict[str, Any]:
    """Per source: the steps that dropped or cut something, and all dedup steps with their scopes, in order; the
    documents and bytes that were read, dropped by each step (with the reason), cut by each step, and kept.

    In bytes of text: read - first - cut = kept. In raw bytes: read - first - extracted = kept.
    """
    found = {}
    for source, chain in view.chains.items():
        funnel = view.states[f"{source}/{CORPUS}"].metrics.get("funnel")
        if funnel:
            active = {step for name in ("first", "extracted", "cut") for step in funnel[name]}
            scopes = {step: words for step in chain if (words := _words_of(view.nodes[step], view.chains))}
            steps = [step for step in (INGEST, *chain) if step in active or step in scopes]
            found[source] = {"steps": steps, "scopes": scopes, **funnel}
    return found


def _words_of(node: NodeFacts, sources: Collection[str]) -> str | None:
    """The remark in the row of a step: its scope, or the share that it keeps."""
    if node.name == "keep_quality":
        return _kept_share(node.identity["config"])
    return scope_of(node, sources, node.id.partition("/")[0])


def _kept_share(config: Mapping[str, Any]) -> str | None:
    """`(kept the best 10% of each language)`; None for a config without a share."""
    best = config.get("keep_best")
    if best is None:
        return None
    whole = f"each {' and '.join(config['per'])}" if config.get("per") else "all documents"
    return f"(kept the best {percent(best, 1)} of {whole})"


def scope_of(node: NodeFacts, sources: Collection[str], route: str = "its route") -> str | None:
    """A description of the documents that a dedup step compares; None for other steps. `route` names its route."""
    if not STEPS.get(node.name, "").startswith("gristmill.stages.dedup.") or "scope" not in node.identity["config"]:
        return None
    words = SCOPE_WORDS[node.identity["config"]["scope"]]
    return words if len(node.sources) == len(sources) else f"{words} of {route}"


def languages(view: CorpusView) -> dict[str, Any]:
    """Per language over the sources in `view.chains`: documents read and kept, and those that each step dropped first,
    by reason.
    """
    found: dict[str, Any] = {}
    for source in view.chains:
        for label, counts in view.states[f"{source}/{CORPUS}"].metrics.get("languages", {}).items():
            language = found.setdefault(label, {"read": 0, "kept": 0, "first": {}})
            language["read"] += counts["read"]
            language["kept"] += counts["kept"]
            for step, reasons in counts["first"].items():
                for reason, rows in reasons.items():
                    taken = language["first"].setdefault(step, {})
                    taken[reason] = taken.get(reason, 0) + rows
    return dict(sorted(found.items(), key=lambda item: (-item[1]["kept"], -item[1]["read"], item[0])))


def unread_files(view: CorpusView) -> dict[str, dict[str, dict[str, Any]]]:
    """Per source: the reasons why files next to its inputs are not read, with the number of files and one example; from
    the run record, or from the current state of the folder.
    """
    found = {}
    for source in view.chains:
        if view.record is not None:
            unread = view.record["nodes"][f"{source}/{INGEST}"].get("unread", {})
        else:
            unread = view.inputs[source].unread_record() if source in view.inputs else {}
        if unread:
            found[source] = {why: {"files": files, "example": example} for why, (files, example) in unread.items()}
    return found


def funnel_lines(found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The funnel as rows of one table: per source what was `read`, what each step `dropped` (with the reason),
    `extracted` or `cut` (negative if it added text), and what is `kept`.
    """
    for source, funnel in found.items():
        yield _line(source, "", "read", "", funnel["read"])
        for step in funnel["steps"]:
            for reason, counts in sorted(funnel["first"].get(step, {}).items(), key=lambda item: -item[1]["rows"]):
                yield _line(source, step, "dropped", reason, counts)
            for what in ("extracted", "cut"):
                if counts := funnel[what].get(step):
                    yield _line(source, step, what, "", counts)
        yield _line(source, "", "kept", "", funnel["kept"])


def _line(source: str, step: str, what: str, reason: str, counts: Mapping[str, int]) -> dict[str, Any]:
    sizes = {name: counts.get(name, 0) for name in ("text_bytes", "raw_bytes")}
    return {"source": source, "step": step, "what": what, "reason": reason, "documents": counts["rows"], **sizes}


def documents_by_step(view: CorpusView) -> dict[str, tuple[int | None, int]]:
    """For each step, its input documents and the documents that it dropped, as in the funnel.

    An unfinished source has no funnel. Then the count of dropped documents is what the step has dropped so far, and the
    input is only known for the reader (None for other steps).
    """
    found: dict[str, tuple[int | None, int]] = {}
    whole = funnels(view)
    for node_id, node in view.nodes.items():
        if node.kind == "asset":
            found[node_id] = (None, 0)  # it reads no documents
            continue
        ended = [source for source in node.sources if source in whole]
        counted = [_came_and_dropped(view, source, node_id, whole[source]) for source in ended]
        if len(counted) == len(node.sources):
            found[node_id] = (sum(came for came, _ in counted), sum(dropped for _, dropped in counted))
            continue
        metrics = view.states[node_id].metrics
        reasons = {} if node.name == CORPUS else metrics.get("dropped", {})
        no_documents = sum(rows for reason, rows in reasons.items() if reason in NO_DOCUMENT)
        came = metrics.get("rows", 0) - no_documents if node.kind == "read" else None
        found[node_id] = (came, sum(reasons.values()) - no_documents)
    return found


def _came_and_dropped(view: CorpusView, source: str, node_id: str, funnel: dict[str, Any]) -> tuple[int, int]:
    """The same for one source; stages without layers (tokenizer, shards) get the kept documents."""
    taken = {step: sum(counts["rows"] for counts in reasons.values()) for step, reasons in funnel["first"].items()}
    if node_id == f"{source}/{INGEST}":
        return funnel["read"]["rows"], taken.get(INGEST, 0)
    before = [INGEST, *view.chains[source]]
    came = funnel["read"]["rows"] - sum(taken.get(step, 0) for step in before[: before.index(node_id)])
    return came, taken.get(node_id, 0)
