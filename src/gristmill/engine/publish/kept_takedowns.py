"""Keeps takedowns: no run publishes again what an earlier version of its recipe took down.

    takedowns/<recipe>.json   the requests of the last whole run of a recipe, and those that were restored

A store keeps this record whatever becomes of its versions. A run has to take down everything in it, under any request:
a page is also taken down by its prefix or its domain. A request that `restore` of the recipe names may be gone; the run
records the reason, and later runs need neither. A sample keeps to the takedowns of its recipe and adds none.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gristmill.counted import counted
from gristmill.engine.publish.run_record import newest_run, see_record
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.engine.schedule.run import Run
from gristmill.errors import UserError
from gristmill.hints import hint
from gristmill.recipe.checks.mistakes import listed, suggest
from gristmill.recipe.model import Recipe
from gristmill.stages import TAKEDOWN, TAKEDOWN_MATCH, TAKEDOWN_SETS
from gristmill.stages.matches import match_domains, match_prefixes, match_urls
from gristmill.stages.takedown import takedown, takedown_match, takedown_sets
from gristmill.stages.takedown.requests import ITEMS, read_all
from gristmill.store.store import Store

FOLDER = "takedowns"
_WIDER = {
    "urls": {"urls": match_urls, "url_prefixes": match_prefixes, "domains": match_domains},
    "url_prefixes": {"url_prefixes": match_prefixes, "domains": match_domains},
    "domains": {"domains": match_domains},
}
"""Kind of item -> the kinds whose items also take down what it names."""
Requests = Mapping[str, Mapping[str, Sequence[str]]]
"""Id of a request -> kind -> items; a text is the SHA-256 of its file."""
_NOTHING: Mapping[str, Any] = {"requests": {}, "near": 1.0, "copies": "keep", "restored": {}}


def refuse_undone(store: Store, recipe: Recipe) -> dict[str, Any]:
    """Refuse a recipe that would publish documents that an earlier version took down. Returns what the store has to
    keep once the recipe has run.
    """
    kept, now = _read(store, _path(recipe)), takedowns_of(recipe)
    missing = _missing(kept, now)
    _check_restore(store, recipe, kept, now, missing)
    undone = {request: items for request, items in missing.items() if request not in recipe.restore}
    if undone:
        lines = [
            f"{request} ({'; '.join(f'{kind} {listed(items, 1)[:100]}' for kind, items in of.items())})"
            for request, of in undone.items()
        ]
        raise UserError(
            f"{recipe.path}: an earlier version of {_name(recipe)} took down documents that this run would publish "
            f"again, so nothing was run. Its takedowns lack {listed(lines, 10)}. Add what is missing "
            f"({store.uri}/{_path(recipe)} has all requests), or give the reason why it may come back: "
            f"restore: {{{next(iter(undone))}: REASON}}"
        )
    restored = {request: recipe.restore[request] for request in missing}
    return {**now, "restored": {**kept["restored"], **restored}}


def refuse_lost(run: Run, last: Mapping[str, Any] | None) -> None:
    """Refuse a run that does not recognise what the last version took down, and so could publish it, or its copies,
    again: its text is read no more, or its id is that of another document. The shingles of a receipt recognise it.
    """
    recipe = run.graph.recipe
    configs = {step.name: step.config for step in recipe.steps}
    match, judge = configs.get(TAKEDOWN_MATCH), configs.get(TAKEDOWN)
    if last is None or recipe.sample is not None or not isinstance(match, takedown_match.Config):
        return
    assert isinstance(judge, takedown.Config)
    earlier = see_record(run.store, recipe.name, last)
    lost = _lost_ids(earlier, run, match)
    if judge.copies == "go":
        lost += _lost_texts(earlier, run, judge.near)
    if lost:
        raise UserError(
            f"{recipe.path}: {counted(len(lost), 'document')} that the last version took down, or its copies, would "
            f"not be recognised: {listed(lost, 5)}. Its text is not read any more, or it has another id. Nothing was "
            f"published; all work is stored. Write a receipt of the last version ({hint('receipt')}), and name its "
            "folder: takedowns: {file: ..., receipts: FOLDER}. Correct ids that have changed."
        )


def _lost_ids(earlier: CorpusView, run: CorpusView, config: takedown_match.Config) -> list[str]:
    """The ids in requests that name no document any more."""
    then, now = (
        {
            doc_id
            for node in view.nodes.values()
            if node.name == TAKEDOWN_MATCH
            for doc_id in view.states[node.id].metrics.get("items", {}).get("doc_ids", ())
        }
        for view in (earlier, run)
    )
    requests = read_all(config.requests, config.names)
    return [f"{request.id} ({doc_id})" for request in requests for doc_id in request.doc_ids if doc_id in then - now]


def _lost_texts(earlier: CorpusView, run: Run, near: float) -> list[str]:
    """The documents whose copies were taken down, and whose text is near none that is known now."""
    then, now = earlier.model(TAKEDOWN_SETS), run.model(TAKEDOWN_SETS)
    if then is None or now is None or then == now:
        return []
    table = pq.read_table(run.store.local_path(then))
    table = table.filter(pc.greater_equal(pc.list_value_length(table.column("shingles")), takedown_sets.FEWEST))
    lists = table.column("shingles").combine_chunks()
    ends = np.concatenate([[0], np.cumsum(lists.value_lengths().to_numpy(zero_copy_only=False))]).astype(np.int64)
    sets = takedown.open_sets(run.store.local_path(now))
    best, _, _ = takedown.nearest(ends, lists.flatten().to_numpy(), sets, near)
    owners = zip(table.column("request").to_pylist(), table.column("doc_id").to_pylist(), best.tolist(), strict=True)
    lost = [
        f"{request} ({'a text' if doc_id is None else doc_id.hex()})"
        for request, doc_id, number in owners
        if number < 0 and request not in run.graph.recipe.restore
    ]
    return list(dict.fromkeys(lost))


def keep_takedowns(store: Store, recipe: Recipe) -> None:
    """Record the takedowns of a run that has ended; refuses them if another run has taken more down since it began."""
    kept = refuse_undone(store, recipe)
    if recipe.sample is None and (kept["requests"] or kept["restored"]):
        store.write_json(_path(recipe), kept)


def takedown_notes(store: Store, recipe: Recipe) -> Iterator[str]:
    """Remarks on a recipe that is new in its store: its restore has no effect, or other recipes take more down.

    A recipe without sources, such as that of trainings, publishes no documents.
    """
    if (
        not recipe.sources
        or any(store.list_files(f"runs/{recipe.name}"))
        or store.read_record(_path(recipe)) is not None
    ):
        return
    if recipe.restore:
        yield f"restore has no effect: no version of {_name(recipe)} in {store.uri} took anything down"
    now = takedowns_of(recipe)
    for path, _ in store.list_files(FOLDER):
        if missing := _missing(_read(store, path), now):
            other = path.removeprefix(f"{FOLDER}/").removesuffix(".json")
            yield (
                f"{other} in the same store takes down what {recipe.name} does not: {listed(missing, 10)}. If "
                "both read the same documents, add these requests to takedowns"
            )


def later_takedowns(view: CorpusView) -> list[str]:
    """The requests of the newest run of a recipe, if they differ from those of an older version of it."""
    newest = None if view.record is None else newest_run(view.store, view.name)
    if view.record is None or newest is None or _identities(newest) == _identities(view.record):
        return []
    return list(_read(view.store, f"{FOLDER}/{view.name}.json")["requests"])


def _identities(record: Mapping[str, Any]) -> list[Any]:
    """What the takedown steps of a run did."""
    names = (TAKEDOWN_MATCH, TAKEDOWN_SETS, TAKEDOWN)
    return [node["identity"] for node in record["nodes"].values() if node["name"] in names]


def takedowns_of(recipe: Recipe) -> dict[str, Any]:
    """The takedowns of a recipe, as its store keeps them."""
    configs = {step.name: step.config for step in recipe.steps}
    match, sets, judge = (configs.get(name) for name in (TAKEDOWN_MATCH, TAKEDOWN_SETS, TAKEDOWN))
    if not isinstance(match, takedown_match.Config):
        return {**_NOTHING}
    assert isinstance(sets, takedown_sets.Config)
    assert isinstance(judge, takedown.Config)
    texts = (hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in sets.texts)
    requests: dict[str, dict[str, list[str]]] = {}
    for request in read_all(match.requests, match.names):
        items = {kind: list(named) for kind in ITEMS if (named := getattr(request, kind))}
        requests[request.id] = items | ({"texts": [next(texts) for _ in request.texts]} if request.texts else {})
    return {"requests": requests, "near": judge.near, "copies": judge.copies}


def _name(recipe: Recipe) -> str:
    return recipe.file_name or recipe.name


def _path(recipe: Recipe) -> str:
    return f"{FOLDER}/{_name(recipe)}.json"


def _read(store: Store, path: str) -> dict[str, Any]:
    return {**_NOTHING, **(store.read_record(path) or {})}


def _missing(kept: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, dict[str, list[str]]]:
    """The items of requests that are kept and that `now` does not take down, by request and kind."""
    of_kind: dict[str, dict[str, list[str]]] = {}
    for request, items in kept["requests"].items():
        for kind, named in items.items():
            for item in named:
                of_kind.setdefault(kind, {}).setdefault(item, []).append(request)
    missing: dict[str, dict[str, list[str]]] = {}
    for kind, owners in of_kind.items():
        covered = _covered(kind, list(owners), now["requests"])
        for item, requests in owners.items():
            for request in () if item in covered else requests:
                missing.setdefault(request, {}).setdefault(kind, []).append(item)
    is_less_like = now["near"] > kept["near"]
    for request, items in kept["requests"].items():
        has_texts = is_less_like and "texts" in items
        if has_texts or (kept["copies"] == "go" and (now["copies"] != "go" or is_less_like)):
            missing.setdefault(request, {})["copies"] = [f"near {kept['near']:g}"]
    return {request: missing[request] for request in kept["requests"] if request in missing}


def _covered(kind: str, items: Sequence[str], requests: Requests) -> set[str]:
    """The items of a kind that requests take down as well."""
    named = {wider: [item for one in requests.values() for item in one.get(wider, ())] for wider in ITEMS}
    covered = set(named[kind])
    urls = pa.array([f"https://{item}/" if kind == "domains" else item for item in items], pa.string())
    for wider, match in _WIDER.get(kind, {}).items():
        if named[wider]:
            covered.update(items[row] for row, *_ in match(list(dict.fromkeys(named[wider])))(urls))
    return covered


def _check_restore(
    store: Store, recipe: Recipe, kept: Mapping[str, Any], now: Mapping[str, Any], missing: Mapping[str, Any]
) -> None:
    """Refuse a restored request that is unknown, or that the recipe still takes down."""
    known = {**kept["requests"], **kept["restored"]}
    for request in recipe.restore if known else ():
        is_done = request in kept["restored"] and (request in kept["requests"] or request not in now["requests"])
        if request not in known:
            raise UserError(
                f"{recipe.path}: restore.{request} is no request that a version of {_name(recipe)} in {store.uri} "
                f"carried out, so nothing was run. {suggest(request, known, 'Requests')}"
            )
        if request not in missing and not is_done:
            raise UserError(
                f"{recipe.path}: restore.{request} has no effect, because takedowns still have all that it names, so "
                "nothing was run. Remove it from one of the two."
            )
