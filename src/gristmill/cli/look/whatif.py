"""gristmill whatif: the effect of another threshold, without running the pipeline."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from gristmill.cli.shared.options import Json, RecipePath, StoreUri, dry_run_with_inputs, open_mill, print_json
from gristmill.cli.shared.screen import Screen, passage, words
from gristmill.cli.shared.show import console, size, table, value_text
from gristmill.counted import percent
from gristmill.query.documents.documents import row_at
from gristmill.query.removal.whatif import Affected, StepEffect, what_if
from gristmill.recipe.checks.mistakes import listed

EXAMPLE = "Example: gristmill whatif recipes/demo.yaml heuristics.gopher_quality.min_letter_words_share=0.8"
SHOWN_CHARACTERS = 200
BOUNDS = {"exact": "", "at_most": ", at most", "at_least": ", at least", "estimate": ", about"}


def command(
    recipe: RecipePath,
    changes: Annotated[
        list[str],
        typer.Argument(metavar="STEP.FIELD=VALUE...", help="Changes to one step's config.", show_default=False),
    ],
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Show what another setting of a step would keep and drop.

    The answer comes from stored columns; nothing is run. It covers steps that judge each document alone. A
    step in several routes is evaluated in each; `web/heuristics` selects one.
    "at most", "at least" and "about" mark numbers that later steps may change.
    """
    mill = open_mill(recipe, store)
    run = dry_run_with_inputs(mill)
    out = console()
    answers = what_if(mill, run, changes)
    for number, answer in enumerate(answers):
        samples = {
            name: [row_at(run, document, row) for document, row in side.samples]
            for name, side in (("come", answer.come), ("go", answer.go))
        }
        if json:
            print_json(_plain(answer, samples))
            continue
        if number:
            out.print()
        _show(out, answer, samples, [name for name in run.chains if name not in answer.sources])


def _plain(answer: StepEffect, samples: dict[str, Any]) -> dict[str, Any]:
    def side(name: str, found: Affected) -> dict[str, Any]:
        return {
            "documents": found.documents,
            "bytes": found.text_bytes,
            "reasons": dict(found.reasons),
            "samples": [{"locator": row.fields["locator"], "text": row.text} for row in samples[name]],
        }

    return {
        "step": answer.step,
        "sources": answer.sources,
        "changes": {name: {"now": now, "then": then} for name, (now, then) in answer.changes.items()},
        "exceptions": answer.exceptions,
        "documents": answer.read,
        "corpus": answer.corpus,
        "corpus_bytes": answer.corpus_bytes,
        "come": side("come", answer.come),
        "go": side("go", answer.go),
        "corpus_after_is": answer.bound,
        "corpus_after": answer.corpus + answer.come.documents - answer.go.documents,
        "corpus_after_bytes": answer.corpus_bytes + answer.come.text_bytes - answer.go.text_bytes,
        "not_judged_by": answer.later,
        "copies_may_return_by": answer.copies,
        "shares_kept_by": answer.shares,
        "verdicts_may_change_by": answer.shifting,
    }


def _show_changes(out: Screen, step: str, changes: Mapping[str, tuple[Any, Any]]) -> None:
    for name, (now, then) in changes.items():
        same = " (as it is now)" if now == then else ""
        out.print(words((f"{step} {name}: {value_text(now)} -> {value_text(then)}{same}", "bold")))


def _show(out: Screen, answer: StepEffect, samples: dict[str, Any], other_sources: list[str]) -> None:
    _show_changes(out, answer.step, answer.changes)
    come, go = answer.come, answer.go
    documents, text = come.documents - go.documents, come.text_bytes - go.text_bytes
    rows = [
        ("corpus now", f"{answer.corpus:,}", _share(answer.corpus, answer), size(answer.corpus_bytes)),
        ("would be added", *_signed("+", come, answer)),
        ("would be removed", *_signed("-", go, answer)),
        (
            f"corpus after{BOUNDS[answer.bound]}",
            f"{answer.corpus + documents:,}",
            _share(answer.corpus + documents, answer),
            size(answer.corpus_bytes + text),
        ),
    ]
    sources = listed(answer.sources, 10)
    out.print(table((f"of {sources}", "documents", f"of the {answer.read:,} read", "text"), rows))
    if other_sources:
        out.print(words((f"Not included, because they do not pass {answer.step}: {listed(other_sources, 10)}.", "dim")))
    for note in (*_limits(answer), *answer.exceptions):
        out.print(words((note, "yellow")))
    for label, name, side in (("would be added", "come", come), ("would be removed", "go", go)):
        if side.reasons:
            reasons = listed((f"{reason} {count:,}" for reason, count in side.reasons.most_common()), 10)
            out.print(passage(f"\n{label}, by reason: {reasons}"))
        for row in samples[name]:
            shown = " ".join((row.text or "").split())[:SHOWN_CHARACTERS]
            out.print(words((row.fields["locator"], "dim"), f" {shown}"), overflow="fold")


def _limits(answer: StepEffect) -> Iterator[str]:
    """Why the corpus after the change is not known exactly."""
    if answer.come.documents and answer.later:
        yield f"Added documents would still have to pass {listed(answer.later, 10)}."
    if answer.go.documents and answer.copies:
        steps = listed(answer.copies, 10)
        yield f"Removed documents may have copies that {steps} dropped or cut; those would then be kept."
    if answer.shares and answer.bound != "exact":
        yield f"{listed(answer.shares, 10)} keeps a share of the documents that reach it, so others may change."
    if answer.shifting and answer.come.documents + answer.go.documents:
        yield f"Other verdicts may change, too: {listed(answer.shifting, 10)} depend on all documents before them."


def _signed(sign: str, side: Affected, answer: StepEffect) -> tuple[str, str, str]:
    if not side.documents:
        return "0", "", ""
    return f"{sign}{side.documents:,}", f"{sign}{_share(side.documents, answer)}", f"{sign}{size(side.text_bytes)}"


def _share(documents: int, answer: StepEffect) -> str:
    return percent(documents, answer.read, 2)
