"""Prints the history of a document."""

from collections.abc import Mapping
from typing import Any

from gristmill.cli.look.evidence_screen import flag_text
from gristmill.cli.shards.find import MOST_LISTED, listed_samples
from gristmill.cli.shared.screen import Screen, passage, words
from gristmill.cli.shared.show import size, table, value_text
from gristmill.counted import counted, percent
from gristmill.printable import one_line
from gristmill.query.lineage.lineage import Life, StepTaken
from gristmill.query.lineage.origin import RecordOrigin
from gristmill.stages.derived import PARENT

SHOWN_CHARACTERS = 160
"""Characters shown of a text or a cut."""
SHOWN_VALUE = 60
MOST_SCORES = 10
"""Scores shown per step."""
FACTS = ("title", "url", "snapshot", "license", "timestamp", "content_type", "charset", "language_hint")


def show_life(out: Screen, life: Life, whole: Mapping[str, Any]) -> None:
    """Print the history, from the input to the versions."""
    out.rule(f"{life.source}: {life.fields['locator']}", align="left", style="dim")
    verdict = words(("kept", "green")) if whole["is_kept"] else words(("dropped", "red"), f" by {life.dropped_by}")
    out.print(words(verdict, f"   id {life.doc_id}"))
    if (similarity := whole["matched"].get("similarity")) is not None:
        _line(out, "like it", f"has {percent(similarity, 1, 0)} of the text in question")
    if token := whole.get("token"):
        label = f"{token['id']}, token {token['doc_token']:,} of the document, at {token['token']:,} of sample"
        _line(out, "token", f"{label} {token['sample']:,}")
        before, after = token["around"]
        _line(out, "it is", f"{one_line(before)}[{one_line(token['text'])}]{one_line(after)}")
    if life.generated:
        about = ", ".join(f"{name} {value}" for name, value in life.generated.items() if name != PARENT)
        _line(out, "generated", f"from {life.generated[PARENT]} ({about})")
    _line(out, "read from", _where(life.origin))
    for box in whole.get("page_boxes", [])[:MOST_LISTED]:
        edges = " ".join(str(box[edge]) for edge in ("left", "top", "right", "bottom"))
        _line(out, "on page", f"{box['page']:,}, box {edges} (left top right bottom, points from the upper left)")
    for name in FACTS:
        if life.fields.get(name) is not None:
            _line(out, name, value_text(life.fields[name]))
    out.print()
    for step in life.steps:
        _show_step(out, step)
    out.print()
    for cluster in life.clusters:
        kept = "this one" if cluster.is_keeper else f"{cluster.id} ({cluster.keeper or 'not in this run'})"
        _line(out, "cluster", f"{cluster.step}: {counted(cluster.size, 'document')}, the keeper is {kept}")
    if life.text is not None:
        _line(out, "text", "")
        out.print(passage(_short(life.text)))
    if life.tokens is not None:
        _line(out, "tokens", f"{life.tokens:,} by the tokenizer {(life.tokenizer or 'of another run')[:12]}")
    if life.group is not None:
        drawn = [f"{percent(share, 1, 1)} in {phase}" for phase, share in whole["weights"].items()]
        _line(out, "group", f"{life.group}, drawn {', '.join(drawn) or 'never'}")
    if whole["shards"]:
        names = ("shard", "row", "offset", "doc_offset", "tokens")
        rows = [
            (one["group"], *(f"{one[name]:,}" for name in names), listed_samples(one["seen_at"]))
            for one in whole["shards"]
        ]
        out.print(table(("group", "shard", "row", "at", "from token", "tokens", "seen at sample"), rows))
    for version in whole["versions"]:
        named = f" ({', '.join(version['names'])})" if version["names"] else ""
        _line(out, "held by", f"{version['recipe']} {version['version']}{named}, run of {version['ended'][:19]} UTC")
    if not whole["versions"]:
        _line(out, "held by", "no finished run in the store" if whole["is_kept"] else "no run: it was dropped")
    if "proof" in whole:
        _show_proof(out, whole["proof"])
    out.print()


def _line(out: Screen, name: str, text: str) -> None:
    out.print(words((name, "dim"), f" {text}"))


def _where(origin: RecordOrigin) -> str:
    file = f"{origin.file}{'' if origin.sha256 is None else f' (sha256 {origin.sha256[:12]})'}"
    if origin.unit == "the whole file":
        return file
    if origin.start is None:
        return f"{file}; the record is found by its own key, so its position is only known from the input"
    end = "the end" if origin.stop is None else f"{origin.stop:,}"
    return f"{file}, {origin.start:,} to {end} ({origin.unit})"


def _show_step(out: Screen, step: StepTaken) -> None:
    """Print the decision of a step, its scores, its flags and its cuts."""
    verdict = words(("stays", "green"))
    if step.reason is not None:
        verdict = words((step.reason, "red"), f": {step.detail}" if step.detail else "")
    text = "" if step.bytes_after is None else f"   text {size(step.bytes_after)}"
    if step.bytes_before is not None and step.bytes_before != step.bytes_after:
        text += f", before {size(step.bytes_before)}"
    libraries = (f", {name} {number}" for name, number in step.made_by["libraries"].items())
    version = f" (version {step.made_by['version']}{''.join(libraries)})"
    out.print(words((step.step, "bold"), (version, "dim"), " ", verdict, text))
    scores = [f"{name} {_short(value_text(value), SHOWN_VALUE)}" for name, value in step.scores.items()]
    if scores:
        more = f", and {len(scores) - MOST_SCORES:,} more (--json)" if len(scores) > MOST_SCORES else ""
        out.print(words((f"  {', '.join(scores[:MOST_SCORES])}{more}", "dim")))
    for flag in step.flags[:MOST_LISTED]:
        _line(out, f"{step.step} found", f"{flag_text(flag)}, bytes {flag.start:,} to {flag.stop:,}:")
        out.print(passage(_short(flag.passage)))
    if len(step.flags) > MOST_LISTED:
        _line(out, f"{step.step} found", f"{len(step.flags) - MOST_LISTED:,} more (gristmill inspect --evidence --id)")
    _show_cuts(out, step)


def _show_cuts(out: Screen, step: StepTaken) -> None:
    for cut in step.cuts[:MOST_LISTED]:
        _line(out, f"{step.step} cut", f"bytes {cut.start:,} to {cut.stop:,}:")
        out.print(passage(_short(cut.text), "strike"))
    if len(step.cuts) > MOST_LISTED:
        _line(out, f"{step.step} cut", f"{len(step.cuts) - MOST_LISTED:,} more stretches")


def _show_proof(out: Screen, proof: Mapping[str, Any]) -> None:
    if "differs" in proof:
        out.print(words(("not proved", "red"), f" {proof['differs']}"))
        return
    recorded = f", {', '.join(proof['as_recorded'])} taken as recorded" if proof["as_recorded"] else ""
    facts = f"the record at {proof['record']['position']:,} of {proof['record']['file']}, "
    facts += f"{counted(len(proof['run_again']), 'step')} run again{recorded}, {counted(proof['tokens'], 'token')}"
    out.print(words(("proved", "green"), f" {facts}: all as stored"))


def _short(text: str, most: int = SHOWN_CHARACTERS) -> str:
    return text if len(text) <= most else f"{text[: most // 2]} [...] {text[-most // 2 :]}"
