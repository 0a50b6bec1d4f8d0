"""gristmill whatif: what another threshold would do, without running the pipeline."""

from typing import Annotated, Any

import typer

from gristmill.cli.options import Json, RecipePath, StoreUri, open_mill, print_json
from gristmill.cli.screen import words
from gristmill.cli.show import console, size, table
from gristmill.engine.look import row_at
from gristmill.engine.whatif import Answer, Side, ask

EXAMPLE = "Example: gristmill whatif recipes/demo.yaml heuristics.gopher_quality.min_letter_words_share=0.8"
SHOWN_CHARACTERS = 200


def command(
    recipe: RecipePath,
    changes: Annotated[
        list[str],
        typer.Argument(metavar="STEP.FIELD=VALUE...", help="Changes to one step's config.", show_default=False),
    ],
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Answer from stored columns how many documents and bytes would come and go if a step's config were changed."""
    mill = open_mill(recipe, store)
    run = mill.look()
    answer = ask(mill, run, changes)
    samples = {
        name: [row_at(run, document, row) for document, row in side.samples]
        for name, side in (("come", answer.come), ("go", answer.go))
    }
    if json:
        print_json(_plain(answer, samples))
    else:
        _show(answer, samples)


def _plain(answer: Answer, samples: dict[str, Any]) -> dict[str, Any]:
    def side(name: str, found: Side) -> dict[str, Any]:
        return {
            "documents": found.documents,
            "bytes": found.text_bytes,
            "reasons": dict(found.reasons),
            "samples": [{"locator": row.fields["locator"], "text": row.text} for row in samples[name]],
        }

    return {
        "step": answer.step,
        "changes": {name: {"now": now, "then": then} for name, (now, then) in answer.changes.items()},
        "documents": answer.seen,
        "corpus": answer.corpus,
        "come": side("come", answer.come),
        "go": side("go", answer.go),
        "not_judged_by": answer.later,
    }


def _show(answer: Answer, samples: dict[str, Any]) -> None:
    out = console()
    for name, (now, then) in answer.changes.items():
        out.print(words(f"{answer.step} {name}: {now} -> {then}"))
    rows = []
    for label, side in (("would come", answer.come), ("would go", answer.go)):
        share = f"{100 * side.documents / answer.corpus:.2f}%" if answer.corpus else ""
        rows.append((label, f"{side.documents:,}", share, size(side.text_bytes)))
    rows.append(("corpus now", f"{answer.corpus:,}", "", f"of {answer.seen:,} rows"))
    out.print(table(("", "documents", "of corpus", "bytes"), rows))
    for label, name, side in (("would come", "come", answer.come), ("would go", "go", answer.go)):
        if side.reasons:
            reasons = ", ".join(f"{reason} {count:,}" for reason, count in side.reasons.most_common())
            out.print(f"\n{label}, by reason: {reasons}")
        for row in samples[name]:
            text = " ".join((row.text or "").split())[:SHOWN_CHARACTERS]
            out.print(words((row.fields["locator"], "dim"), f" {text}"), soft_wrap=True)
    if answer.come.documents and answer.later:
        out.print(f"\nDocuments that come would still have to pass {', '.join(answer.later)}.")
