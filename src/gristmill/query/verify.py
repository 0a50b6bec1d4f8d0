"""Checking a store: parts against their names, and tasks against what they made before."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gristmill.counted import counted
from gristmill.engine.executors.executor import Executor
from gristmill.engine.executors.insist import insist
from gristmill.engine.mill import wait_for
from gristmill.engine.publish.run_record import run_records, task_names
from gristmill.engine.schedule.run import Run
from gristmill.engine.schedule.seen import Seen
from gristmill.engine.schedule.task_cache import Listener
from gristmill.engine.work.task import Hash, Result, Task, part_from_json
from gristmill.errors import UserError
from gristmill.places import Place
from gristmill.store.store import CorruptPart, Part, Store, with_verdicts


@dataclass
class Findings:
    """What a check found."""

    parts: int = 0
    broken: dict[Part, str] = field(default_factory=dict)
    made_by: dict[str, str] = field(default_factory=dict)
    """Of broken parts, by hash: the step and the task that made it; the recipe, where it is another. Missing: nobody is
    on record."""
    recomputed: int = 0
    different: list[str] = field(default_factory=list)
    survivors: int = 0
    """Documents that were given up because they killed their worker, and do so no more."""

    def as_json(self) -> dict[str, Any]:
        return {
            "parts": self.parts,
            "broken": [
                {"part": part.hash, "fact": fact, "made_by": self.made_by.get(part.hash)}
                for part, fact in self.broken.items()
            ],
            "recomputed": self.recomputed,
            "different": self.different,
            "survivors": self.survivors,
        }


def parse_share(text: str | None) -> float:
    """`5%` or `0.05`, as a share of one."""
    if text is None:
        return 0.0
    try:
        share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        share = -1
    if not 0 <= share <= 1:
        raise UserError(f"--recompute {text} is not a share. Write a percentage (5%) or a fraction (0.05).")
    return share


def is_chosen(share: float, task: Task, _: Result) -> bool:
    """Whether a task is among a share of all: by its key, so that it is the same each time."""
    return int(task.key[:8], 16) < share * 2**32


def verify(seen: Seen, share: float, executor: Executor, listener: Listener) -> Findings:
    """Hash every part of the store, look for parts that are missing, and run a share of a recipe's tasks again."""
    if share and not isinstance(seen, Run):
        raise UserError(
            "--recompute runs tasks again, and for that the recipe, its inputs and the code of its steps are needed, "
            f"which {seen.told} does not name. Nothing was checked. Give the recipe's file, or leave --recompute out."
        )
    chosen = [pair for pair in seen.tasks.kept if is_chosen(share, *pair)] if isinstance(seen, Run) else []
    findings = Findings()
    # Lists and records are read out here, where a signal ends it all at once: in the loop nobody would hear it.
    parts = list(_parts_in(seen.store))
    findings.parts = len(parts)
    known = {part.hash for part in parts}
    maker: dict[str, str] = {}
    for part, label in _wanted(seen):
        maker.setdefault(part.hash, label)
        if part.hash not in known:
            findings.broken[part] = "is missing"
    wait_for(_check(seen.store, parts, chosen, executor, findings, listener), executor)
    findings.made_by = {part.hash: maker[part.hash] for part in findings.broken if part.hash in maker}
    _blame_others(seen, findings)
    return findings


def _parts_in(store: Store) -> Iterator[Part]:
    for name, size in store.list_files("parts"):
        digest, _, suffix = name.rsplit("/", 1)[1].partition(".")  # a suffix may have dots of its own: ds.index
        yield Part(digest, suffix, size)


async def _check(
    store: Store,
    parts: Sequence[Part],
    chosen: Sequence[tuple[Task, Result]],
    executor: Executor,
    findings: Findings,
    listener: Listener,
) -> None:
    listener.note(f"hashing {counted(len(parts), 'part')}")
    hashing = asyncio.as_completed([_hash(store, part, executor, findings, listener) for part in parts])
    for one in listener.track("parts", hashing, len(parts)):
        await one
    if chosen:
        listener.note(f"running {counted(len(chosen), 'task')} again")
    again = asyncio.as_completed([_again(task, made, executor, findings, listener) for task, made in chosen])
    for one in listener.track("tasks", again, len(chosen)):
        await one
    findings.different.sort()


def _blame_others(seen: Seen, findings: Findings) -> None:
    """Broken parts that another recipe of the store made, as far as runs are on record."""
    unknown = {part.hash for part in findings.broken} - findings.made_by.keys()
    for record in run_records(seen.store) if unknown else ():
        for node_id, node in record["nodes"].items() if record["recipe"] != seen.name else ():
            for key, label in task_names(seen.store, node).items():
                parts = (seen.store.read_json(f"tasks/{key}.json") or {}).get("parts", ())
                for part in with_verdicts(map(part_from_json, parts)):
                    if part.hash in unknown:
                        told = f"{node_id}, {label} of the recipe {record['recipe']}"
                        findings.made_by.setdefault(part.hash, told)


def _wanted(seen: Seen) -> Iterator[tuple[Part, str]]:
    """The parts that the tasks of a corpus made, as far as they are on record, and those of its layers; by whom."""
    for node_id, made in seen.made.items():
        labels = dict(made.tasks.items()) | {key: label for key, (label, _) in made.missing.items()}
        for key, label in labels.items():
            record = seen.store.read_json(f"tasks/{key}.json")
            for part in with_verdicts(map(part_from_json, (record or {}).get("parts", ()))):
                yield part, f"{node_id}, {label}"
        for layer, key in made.layers.values():
            for part in with_verdicts((layer,)):
                yield part, f"{node_id}, {labels[key]}" if key in labels else node_id


async def _hash(store: Store, part: Part, executor: Executor, findings: Findings, listener: Listener) -> None:
    place = Place(store.part_path(part), None if store.is_local else store.fs)
    if store.is_local and not os.path.isfile(place.path):
        findings.broken[part] = "is no file"
        return
    result = await insist(Task("", "verify", part.hash, Hash((place,), blocks=False)), executor, listener.note)
    if result.values[0].sha256 != part.hash:
        findings.broken[part] = "does not match its hash"


async def _again(task: Task, made: Result, executor: Executor, findings: Findings, listener: Listener) -> None:
    """Run a task as if for the first time: documents that it gave up get another chance, and may survive now."""
    try:
        result = await insist(task, executor, listener.note)
    except CorruptPart as error:
        findings.different.append(f"{task.node}, {task.label} (could not be run again: {error})")
        return
    findings.recomputed += 1
    fatal = [where for *where, _ in result.poisoned]
    survivors = sum(where not in fatal for *where, _ in made.poisoned)
    findings.survivors += survivors
    if not _are_same(result.parts, made.parts) and not survivors:
        findings.different.append(f"{task.node}, {task.label}")


def _are_same(again: Sequence[Part], before: Sequence[Part]) -> bool:
    """Parts that an earlier version wrote have no verdicts beside them."""
    if len(again) != len(before):
        return False
    pairs = zip(again, before, strict=True)
    return all((one if two.verdicts else replace(one, verdicts=None)) == two for one, two in pairs)
