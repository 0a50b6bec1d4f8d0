"""gristmill diff: the differences between two versions of a corpus."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from gristmill.cli.corpus.versions_open import VersionLocation, open_location, open_version
from gristmill.cli.run.mix_table import short
from gristmill.cli.shared.options import Json, StoreUri, is_run, print_json
from gristmill.cli.shared.screen import Screen, passage, words
from gristmill.cli.shared.show import console, listed_steps, table, value_text
from gristmill.counted import counted
from gristmill.engine.publish.catalog import Version, find_version
from gristmill.engine.publish.folder import read_model
from gristmill.engine.publish.run_record import see_record
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.errors import UserError
from gristmill.query.documents.documents import Row, row_at
from gristmill.query.versions.comparisons import Alarm
from gristmill.query.versions.diff import NO_LABEL, DiffResult, OnlyIn, compare_documents, compare_recipes
from gristmill.query.watch import compare
from gristmill.recipe.checks.mistakes import listed
from gristmill.recipe.sections.mix import MIX
from gristmill.stages.mix.tally import tally

EXAMPLE = "Example: gristmill diff demo/store@demo recipes/demo.yaml"
FIRST_CHARACTERS = 80


def command(
    version: Annotated[
        list[str],
        typer.Argument(
            metavar="A B",
            help="STORE@A STORE@B, RECIPE A B or STORE A B; RECIPE is its newest. One version: against its parent.",
            show_default=False,
        ),
    ],
    samples: Annotated[int, typer.Option("-n", min=0, metavar="N", help="Documents to show of each kind.")] = 3,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Show what changed from version A to version B.

    Shows changed recipe fields, versions of stages and libraries, and input files; documents that were added and
    removed, by the step and reason that drops them in the other version, and by language; tokens of every group and
    phase; and what `watch` compares. Documents are matched by id, or by URL if the input files differ.
    """
    (old_at, old), (new_at, new) = opened = _open(version, store)
    before, now = (see_record(place.store, one.label(place.store), one.record) for place, one in opened)
    is_same = (old.hash, old.recipe) == (new.hash, new.recipe)
    changes = compare_recipes(before, now)
    found = compare_documents(before, now, samples)
    alarms = [] if is_same else compare(now, before).alarms
    tokens = _tokens(before, now)
    came, went = (
        [row_at(view, document, row).unless_hidden(other) for _, document, row in side.samples]
        for view, other, side in ((now, before, found.came), (before, now, found.went))
    )
    if json:
        print_json(
            {
                "before": {"store": old_at.store.uri, "version": old.hash, "recipe": old.recipe},
                "now": {"store": new_at.store.uri, "version": new.hash, "recipe": new.recipe},
                "same": is_same,
                "changes": changes,
                "sources": {source: asdict(one) for source, one in found.sources.items()},
                "came": _plain(found.came, came),
                "went": _plain(found.went, went),
                "dropped_otherwise": [
                    {"source": source, "before": one, "now": other, "documents": count}
                    for (source, one, other), count in found.otherwise.most_common()
                ],
                "tokens": tokens,
                "alarms": [asdict(alarm) for alarm in alarms],
            }
        )
        return
    out = console()
    out.print(words(f"{before.label} ({old.hash}) -> {now.label} ({new.hash})"))
    if is_same:
        out.print("They are the same version, byte for byte.")
        return
    _show_changes(out, changes, before)
    _show_documents(out, found, came, went)
    _show_tokens(out, tokens)
    _show_alarms(out, alarms)


def _open(typed: Sequence[str], store: str | None) -> list[tuple[VersionLocation, Version]]:
    """The two versions that the arguments name."""
    if len(typed) == 1:
        place, now, _ = open_version(typed, store)
        parent = now.record["parent"]
        if parent is None:
            raise UserError(
                f"{now.hash} of {now.recipe} has no parent on record to compare it with. Name "
                "a second version: gristmill diff A B"
            )
        return [(place, find_version(place.store, parent, now.recipe)), (place, now)]
    if len(typed) == 2:
        unknown = next((one for one in typed if not is_run(one) and not os.path.exists(one)), None)
        if unknown is not None and not unknown.endswith((".yaml", ".yml")):
            raise UserError(
                f"{unknown} is neither STORE@V nor a recipe, so there are not two versions to compare. Write STORE@A "
                "STORE@B, RECIPE A B, or STORE A B."
            )
        return [(place, one) for place, one, _ in (open_version([name], store) for name in typed)]
    if len(typed) == 3 and not is_run(typed[0]):
        place = open_location(typed[0], store)
        return [(place, find_version(place.store, name, place.recipe)) for name in typed[1:]]
    raise UserError(
        f"{' '.join(typed)} are too many arguments for two versions, so nothing was compared. Write STORE@A STORE@B, "
        "RECIPE A B, or STORE A B."
    )


def _plain(side: OnlyIn, rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "documents": side.documents,
        "causes": [
            {"source": source, "step": step, "reason": reason, "documents": count}
            for (source, step, reason), count in side.causes.most_common()
        ],
        "languages": [
            {"source": source, "language": label, "documents": count}
            for (source, label), count in side.languages.most_common()
        ],
        "samples": [
            {"doc_id": row.fields["doc_id"].hex(), **_named(row), "text": " ".join((row.text or "").split())[:500]}
            for row in rows
        ],
    }


def _named(row: Row) -> dict[str, Any]:
    return {name: row.fields[name] for name in ("source", "locator", "url")}


def _tokens(before: CorpusView, now: CorpusView) -> list[dict[str, Any]]:
    """Per phase and group: available and drawn tokens in both versions; None if a version lacks the group."""
    manifests = [read_model(view, MIX) for view in (before, now)]
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for side, manifest in zip(("before", "now"), manifests, strict=True):
        counts = None if manifest is None else tally(manifest)
        for phase, one in counts["phases"].items() if counts else ():
            for domain in one["domains"].values():
                for group, drawn in domain["groups"].items():
                    entry = found.setdefault((phase, group), {"phase": phase, "group": group})
                    there = counts["groups"][group]["tokens"] if counts else 0
                    entry[side] = {"available": there, "drawn": drawn["tokens"]}
    return [{"before": None, "now": None, **entry} for entry in found.values()]


def _show_changes(out: Screen, changes: Mapping[str, Sequence[str]], before: CorpusView) -> None:
    by_change: dict[str, list[str]] = {}
    for step, some in changes.items():
        by_change.setdefault("; ".join(some), []).append(step)
    rows = [(listed_steps(steps, before.chains), what) for what, steps in by_change.items()]
    out.print()
    if rows:
        out.print(table(("step", "what changed"), rows, left=2))
    else:
        out.print("No field, stage, library or input file changed.")


def _show_documents(out: Screen, found: DiffResult, came: Sequence[Row], went: Sequence[Row]) -> None:
    rows = [
        (source, f"{one.read[0]:,}", f"{one.read[1]:,}", f"{one.kept[0]:,}", f"{one.kept[1]:,}")
        for source, one in found.sources.items()
    ]
    out.print()
    out.print(table(("source", "read A", "read B", "kept A", "kept B"), rows))
    for source, one in found.sources.items():
        if one.matched_by == "url":
            out.print(words(f"{source}: the input files differ and no id is in both; matched by URL."))
        elif one.matched_by == "nothing":
            out.print(words(f"{source}: no id or URL is in both, so all documents count as added and removed."))
    for verb, side, sampled, other in (("added", found.came, came, "A"), ("removed", found.went, went, "B")):
        out.print(passage(f"\n{counted(side.documents, 'document')} {verb}."))
        if side.documents:
            causes = [(*cause, f"{count:,}") for cause, count in side.causes.most_common()]
            out.print(table(("source", f"step of {other}", f"reason in {other}", "documents"), causes, left=3))
            by_label: Counter[str] = Counter()
            for (_, label), count in side.languages.items():
                by_label[label] += count
            if set(by_label) != {NO_LABEL}:
                counts = listed((f"{label} {count:,}" for label, count in by_label.most_common()), 10)
                out.print(words(f"By language: {counts}"))
        for row in sampled:
            first = " ".join((row.text or "").split())[:FIRST_CHARACTERS]
            where = row.fields["url"] or row.fields["locator"]
            out.print(words((f"{row.fields['doc_id'].hex()} {where}", "dim"), f" {first}"), overflow="fold")
    if found.otherwise:
        out.print(passage(f"\n{counted(found.otherwise.total(), 'document')} dropped in both, for different reasons:"))
        moved = [(source, one, other, f"{count:,}") for (source, one, other), count in found.otherwise.most_common()]
        out.print(table(("source", "A", "B", "documents"), moved, left=3))


def _show_tokens(out: Screen, tokens: Sequence[Mapping[str, Any]]) -> None:
    if not tokens:
        return
    rows = [
        (
            entry["phase"],
            entry["group"],
            *(
                "-" if entry[side] is None else short(entry[side][name])
                for name in ("available", "drawn")
                for side in ("before", "now")
            ),
        )
        for entry in tokens
    ]
    out.print()
    out.print(table(("phase", "group", "tokens A", "tokens B", "drawn A", "drawn B"), rows, left=2))


def _show_alarms(out: Screen, alarms: Sequence[Alarm]) -> None:
    out.print()
    if not alarms:
        out.print("No other change is larger than chance and than the limits of watch.")
        return
    rows = [
        (alarm.what, alarm.where, alarm.source, *(value_text(value) for value in (alarm.before, alarm.after)))
        for alarm in alarms
    ]
    out.print(table(("change (watch)", "of", "source", "A", "B"), rows, left=3))
