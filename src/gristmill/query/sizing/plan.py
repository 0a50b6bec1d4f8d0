"""The plan: what is in the store, what would run, and why, compared with the last run of the recipe."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gristmill.counted import counted, duration, number
from gristmill.engine.mill import Mill
from gristmill.engine.plan.graph import CORPUS, Node, reads_from
from gristmill.engine.publish.run_record import task_names
from gristmill.engine.schedule.run import Run
from gristmill.hints import option
from gristmill.places import shown_exact
from gristmill.query.removal.funnel import scope_of
from gristmill.recipe.checks.mistakes import listed
from gristmill.stages.declarations import stage_of

MOST_NAMED = 3
"""The most files or parts that a reason names; it counts the rest."""


MOST_CHARACTERS = 40
"""The longest value in a reason."""
SHOWN_BEFORE = 8
"""Characters of a long value that are shown before the first difference."""


@dataclass(frozen=True)
class PlanLine:
    """One line of a plan."""

    id: str
    cached: int
    to_run: int
    waiting: int
    """Tasks whose keys are unknown because their input does not exist yet."""
    why: tuple[str, ...]
    identity: Mapping[str, Any]
    metrics: Mapping[str, Any]
    cost: Mapping[str, float]
    explained: tuple[str, ...]
    """The stage's explanation of its config."""


def make_plan(mill: Mill, run: Run, fully: bool = False) -> list[PlanLine]:
    """Make the plan; with `fully`, stages explain their config at length."""
    before, last = mill.known_before(), mill.last_run()
    stages = []
    for node_id, node in mill.graph.nodes.items():
        state = run.states[node_id]
        stages.append(
            PlanLine(
                node_id,
                len(state.tasks),
                len(state.missing),
                state.waiting,
                tuple(_why(node, run, before, last)),
                node.identity,
                state.metrics,
                state.cost,
                _explained(node, fully, run, before.get(node_id, {})),
            )
        )
    return stages


def _explained(node: Node, fully: bool, run: Run, before: Mapping[str, Any]) -> tuple[str, ...]:
    stage = stage_of(node.module)
    explain = (stage.explain_fully if fully else None) or stage.explain
    scope, needs = scope_of(node, run.chains), run.graph.declared(node)
    facts = [] if scope is None else [f"compares documents {scope}"]
    facts += [] if needs is None else [f"each task needs {needs}"]
    pinned = _differing_files(before.get("pinned_code", {}), node.pinned_code)
    if before.get("identity") == node.identity and pinned:
        facts.append(f"{'; '.join(pinned)}, but it pins version={stage.version}: raise it if results change")
    return (*facts, *([] if explain is None else explain(node.config)))


def _why(node: Node, run: Run, earlier: Mapping[str, Mapping[str, Any]], last: Mapping[str, Any] | None) -> list[str]:
    state = run.states[node.id]
    if not state.missing and not state.waiting:
        return []
    before = earlier.get(node.id)
    is_cut_short = node.name == CORPUS and last is not None and last.get("not_run")  # the last run was partial
    if before is None or is_cut_short:
        return [_why_never(node, last)]
    found = differences(before["identity"], node.identity)
    if found:
        return [*found, *_bill(node, run, before)]
    if node.kind == "read":
        found = file_changes(before.get("files"), run.inputs[node.sources[0]].record())
    elif state.missing and (tasks := task_names(run.store, before)):
        known = set(tasks.values())
        new = [label for label, _ in state.missing.values() if label not in known]
        found = [_name_some(new, "is new", "are new")] if new else []
        changed = len(state.missing) - len(new)
        if changed:
            lost = [label for key, (label, _) in state.missing.items() if key in tasks]
            if lost:
                found.append(_name_some(lost, "is no longer in the store", "are no longer in the store"))
            if changed > len(lost):
                found.append(f"its input changed ({counted(changed - len(lost), 'task')})")
    if state.waiting and not found:
        waits_for = _unfinished_before(node, run)
        found.append(f"waits for {listed(waits_for, MOST_NAMED)}" if waits_for else "waits for an earlier step")
    return found or ["not in the store"]


def _bill(node: Node, run: Run, before: Mapping[str, Any]) -> list[str]:
    """What one of the user's own steps cost, and how many documents it sees again. Nothing for less than a second."""
    manifests = run.store.each(run.store.read_json, [f"datasets/{name}.json" for name in before["datasets"].values()])
    documents = sum(manifest["rows"] for manifest in manifests if manifest is not None)
    seconds = before["cost"].get("wall_s", 0.0) - before["cost"].get("compile_s", 0.0)
    if "code" not in node.identity or not node.has_layers or not documents or seconds < 1:
        return []
    again = sum(document.part.rows for source in node.sources for document in run.documents.get(source, ()))
    each = f"{counted(documents, 'document')} ({number(seconds / documents, 2)} s each)"
    return [f"took {duration(seconds)} for {each}" + (f"; will run again for {again:,}" if again else "")]


def _why_never(node: Node, last: Mapping[str, Any] | None) -> str:
    """The reason for a step that never ran."""
    if last is None:
        return "first run"
    if last.get("not_run") and (node.name == CORPUS or node.id in last["not_run"]):
        return f"not reached: the last run was stopped after {last['until']} ({option('until')})"
    return "not reached: the last run was stopped" if node.id in last["nodes"] else "new step"


def _unfinished_before(node: Node, run: Run) -> list[str]:
    """The steps that have to run first: direct or indirect inputs of a node that wait for nothing themselves."""
    todo, visited, first = reads_from(node), set[str](), set[str]()
    while todo:
        node_id = todo.pop()
        state = run.states.get(node_id)
        if node_id in visited or state is None or state.foreseen or not (state.missing or state.waiting):
            continue
        visited.add(node_id)
        if state.missing and not state.waiting:
            first.add(node_id)
        else:
            todo |= reads_from(run.graph.nodes[node_id])
    return [node_id for node_id in run.graph.nodes if node_id in (first or visited)]


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The differences between two identities of a step, field by field: `config.min_words: 50 -> 30`."""
    found = []
    if before["stage"] != now["stage"]:
        return [f"made by {_plain(now['stage'])} instead of {_plain(before['stage'])}"]  # its config has other fields
    if before["version"] != now["version"]:
        found.append(f"VERSION: {describe_change(before['version'], now['version'])}")
    for group, prefix in (("config", "config."), ("libraries", ""), ("columns", "column ")):
        old, new = _flat(before.get(group, {})), _flat(now.get(group, {}))
        for name in sorted({*old, *new}):
            if old.get(name) != new.get(name):
                found.append(f"{prefix}{name}: {describe_change(old.get(name), new.get(name))}")
    if before["version"] == now["version"]:
        found += _differing_files(before.get("code", {}), now.get("code", {}))
    return found


def _differing_files(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    found = []
    for file in sorted({*old, *new}):
        if old.get(file) != new.get(file):
            change = "changed" if file in old and file in new else "is new" if file in new else "is no longer imported"
            found.append(f"{file} {change}")
    return found


def _flat(value: object, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {prefix: value}
    flat: dict[str, Any] = {}
    for name, inner in value.items():
        flat |= _flat(inner, f"{prefix}.{name}" if prefix else str(name))
    return flat


def describe_change(old: object, new: object) -> str:
    """Describe a change: `50 -> 30`; for lists the items that differ, for long texts the first difference."""
    if isinstance(old, list) and isinstance(new, list):
        others = [{*map(str, new)}, {*map(str, old)}]
        removed, added = ([item for item in one if str(item) not in others[n]] for n, one in enumerate((old, new)))
        groups = [(removed, "without"), (added, "with")]
        parts = [f"{word} {listed(map(_show, some), MOST_NAMED)}" for some, word in groups if some]
        if parts:
            return " and ".join(parts)
        if sorted(map(str, old)) == sorted(map(str, new)):
            return "in another order"
    before, after = _text(old), _text(new)
    shorter = min(len(before), len(after))
    same = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    start = max(0, same - SHOWN_BEFORE) if max(len(before), len(after)) > MOST_CHARACTERS else 0
    return f"{_show(before, start)} -> {_show(after, start)}"


def _text(value: object) -> str:
    return "nothing" if value is None else str(value)


def _show(value: object, start: int = 0) -> str:
    """The text of a value from an offset, cut to fit into a table."""
    text = f"{'...' if start else ''}{_text(value)[start:]}"
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 3] + "..."


def file_changes(before: Mapping[str, str] | None, now: Mapping[str, str]) -> list[str]:
    """The new, changed and removed files of a source, from two run records."""
    if before is None or now == before:
        return []
    groups = (
        ([name for name in now if name not in before], "is new", "are new"),
        ([name for name in now if name in before and now[name] != before[name]], "changed", "changed"),
        ([name for name in before if name not in now], "is gone", "are gone"),
    )
    return [_name_some([shown_exact(name) for name in names], one, many) for names, one, many in groups if names]


def _name_some(names: Sequence[str], one: str, many: str) -> str:
    return f"{listed(names, MOST_NAMED)} {one if len(names) == 1 else many}"


def _plain(stage: str) -> str:
    """`tokenizer.tokenizer_pin` becomes `tokenizer pin`."""
    return stage.rpartition(".")[2].replace("_", " ")
