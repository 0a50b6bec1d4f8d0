"""gristmill whatif: what another threshold would do, without running the pipeline."""

from typing import Annotated, Any

import typer

from gristmill.cli.options import Json, RecipePath, StoreUri, look_with_inputs, open_mill, print_json
from gristmill.cli.screen import Screen, passage, words
from gristmill.cli.show import console, size, table, value_text
from gristmill.counted import percent
from gristmill.query.documents import row_at
from gristmill.query.whatif import Answer, Side, ask
from gristmill.recipe.mistakes import listed

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
    """Show what another setting of a step would keep and drop.

    How many documents and bytes would come and go is answered from stored columns, and nothing is run. A step that
    stands in several routes is asked in each, one answer after the other; `web/heuristics` names one alone.
    """
    mill = open_mill(recipe, store)
    run = look_with_inputs(mill)
    out = console()
    for number, answer in enumerate(ask(mill, run, changes)):
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
        "sources": answer.sources,
        "changes": {name: {"now": now, "then": then} for name, (now, then) in answer.changes.items()},
        "exceptions": answer.exceptions,
        "documents": answer.read,
        "corpus": answer.corpus,
        "corpus_bytes": answer.corpus_bytes,
        "come": side("come", answer.come),
        "go": side("go", answer.go),
        "corpus_after": answer.corpus + answer.come.documents - answer.go.documents,
        "corpus_after_bytes": answer.corpus_bytes + answer.come.text_bytes - answer.go.text_bytes,
        "not_judged_by": answer.later,
    }


def _show(out: Screen, answer: Answer, samples: dict[str, Any], other_sources: list[str]) -> None:
    for name, (now, then) in answer.changes.items():
        same = " (as it is now)" if now == then else ""
        out.print(words((f"{answer.step} {name}: {value_text(now)} -> {value_text(then)}{same}", "bold")))
    come, go = answer.come, answer.go
    may_go = come.documents and answer.later
    documents, text = come.documents - go.documents, come.text_bytes - go.text_bytes
    rows = [
        ("corpus now", f"{answer.corpus:,}", _share(answer.corpus, answer), size(answer.corpus_bytes)),
        ("would come", *_signed("+", come, answer)),
        ("would go", *_signed("-", go, answer)),
        (
            "corpus after, at most" if may_go else "corpus after",
            f"{answer.corpus + documents:,}",
            _share(answer.corpus + documents, answer),
            size(answer.corpus_bytes + text),
        ),
    ]
    sources = listed(answer.sources, 10)
    out.print(table((f"of {sources}", "documents", f"of the {answer.read:,} read", "text"), rows))
    if other_sources:
        out.print(words((f"Not asked, as they do not pass {answer.step}: {listed(other_sources, 10)}.", "dim")))
    for told in answer.exceptions:
        out.print(words((told, "yellow")))
    for label, name, side in (("would come", "come", come), ("would go", "go", go)):
        if side.reasons:
            reasons = listed((f"{reason} {count:,}" for reason, count in side.reasons.most_common()), 10)
            out.print(passage(f"\n{label}, by reason: {reasons}"))
        for row in samples[name]:
            shown = " ".join((row.text or "").split())[:SHOWN_CHARACTERS]
            out.print(words((row.fields["locator"], "dim"), f" {shown}"), overflow="fold")
    if may_go:
        out.print(f"\nDocuments that come would still have to pass {listed(answer.later, 10)}.")


def _signed(sign: str, side: Side, answer: Answer) -> tuple[str, str, str]:
    if not side.documents:
        return "0", "", ""
    return f"{sign}{side.documents:,}", f"{sign}{_share(side.documents, answer)}", f"{sign}{size(side.text_bytes)}"


def _share(documents: int, answer: Answer) -> str:
    return percent(documents, answer.read, 2)
