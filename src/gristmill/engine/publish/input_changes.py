"""Reports which input files are gone, changed or new since the last whole run, and how many documents each had."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from gristmill.counted import counted
from gristmill.engine.publish.run_record import task_names
from gristmill.engine.schedule.run import Run
from gristmill.places import exact, shown_exact
from gristmill.recipe.checks.columns import INGEST
from gristmill.store.store import Store

MOST_NAMED = 10
"""Files per kind that get their own line; a total follows if there are more."""


def input_changes(run: Run, before: Mapping[str, Any] | None) -> Iterator[str]:
    """A line for each change since the record of the last whole run. A dry run does not count current documents."""
    kinds: dict[str, list[tuple[str, int | None, int | None]]] = {"gone": [], "changed": [], "new": []}
    for source, inputs in run.inputs.items():
        if source in run.graph.derived:  # its files are parts of another step
            continue
        nodes = [(one or {}).get("nodes", {}).get(f"{source}/{INGEST}", {}) for one in (before, run.ended)]
        then, now = nodes[0].get("files"), inputs.record()
        if then is not None and then != now:
            listed = {exact(file.name) for file in inputs.files.values()}  # a sample or a limit reads some of them
            kind_of = {name: "gone" for name in then if name not in listed}
            kind_of |= {name: "changed" if name in then else "new" for name in now if then.get(name) != now[name]}
            old, new = (_documents(run.store, node, kind_of) if node else {} for node in nodes)
            for name, kind in kind_of.items():
                kinds[kind].append((f"{shown_exact(name)} of {source}", old.get(name), new.get(name)))
    for kind, some in kinds.items():
        lines = [f"{name}{_counts([then], [now])}" for name, then, now in some[:MOST_NAMED]]
        if len(some) > MOST_NAMED:
            both = _counts([one[1] for one in some], [one[2] for one in some])
            lines.append(f"{counted(len(some), 'file')} in all{both}")
        yield from (f"input {kind} since the last whole run: {line}" for line in lines)


def _documents(store: Store, node: Mapping[str, Any], names: Collection[str]) -> dict[str, int]:
    """Documents by file, from the records of the tasks that read it; no entry if one of these is gone."""
    found: dict[str, int] = {}
    for task in store.each(store.read_json, (f"tasks/{key}.json" for key in task_names(store, node))):
        if task is None:
            return {}
        for name in {piece[0] for piece in task["inputs"]["pieces"]}.intersection(names):
            found[name] = found.get(name, 0) + task.get("files", {}).get(name, 0)
    return found


def _counts(then: Sequence[int | None], now: Sequence[int | None]) -> str:
    """The number of documents, if it is known for all files."""
    known = {when: sum(filter(None, rows)) for when, rows in (("then", then), ("now", now)) if None not in rows}
    return "".join(f", {counted(rows, 'document')} {when}" for when, rows in known.items())
