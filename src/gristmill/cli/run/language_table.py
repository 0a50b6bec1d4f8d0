"""Languages at the end of a run: how many documents of each came in, how many are left, and what took most of them."""

from typing import Any

from rich.table import Table

from gristmill.cli.shared.show import table
from gristmill.counted import counted, percent
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.recipe.checks.mistakes import listed
from gristmill.stages import CORPUS, LANGUAGE

MOST_SHOWN = 20


def languages(view: CorpusView) -> dict[str, Any]:
    """Per language of all sources together: documents read and kept, and what each step took first, and why."""
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


def languages_heading(view: CorpusView) -> str:
    """Of which sources the table speaks: those whose route measures the language."""
    measured = [source for source in view.chains if "languages" in view.states[f"{source}/{CORPUS}"].metrics]
    names = {source: {view.nodes[node_id].name for node_id in chain} for source, chain in view.chains.items()}
    others = [source for source in view.chains if LANGUAGE not in names[source]]
    without = f". Not measured, for want of a step {LANGUAGE}: {listed(others, 10)}" if others else ""
    return f"Languages of the documents of {listed(measured, 10)}{without}."


def language_table(found: dict[str, Any]) -> Table:
    """The languages with most documents left; of languages that nobody kept, the largest."""
    rows = []
    for label, counts in list(found.items())[:MOST_SHOWN]:
        taken = [(rows, f"{step} {reason}") for step, some in counts["first"].items() for reason, rows in some.items()]
        most = max(taken, default=None)
        share = percent(counts["kept"], counts["read"])
        told = f"{most[1]} ({most[0]:,})" if most else ""
        rows.append((label, f"{counts['read']:,}", f"{counts['kept']:,}", share, told))
    if len(found) > MOST_SHOWN:
        rest = list(found.values())[MOST_SHOWN:]
        read, kept = (sum(counts[name] for counts in rest) for name in ("read", "kept"))
        rows.append((counted(len(rest), "other"), f"{read:,}", f"{kept:,}", percent(kept, read), ""))
    made = table(("language", "documents", "kept", "share", "most were taken by"), rows)
    made.columns[-1].justify = "left"
    return made
