"""Languages of a run: documents read and kept of each, and the most frequent reason for removal."""

from typing import Any

from rich.table import Table

from gristmill.cli.shared.show import table
from gristmill.counted import counted, percent
from gristmill.engine.schedule.corpus_view import CorpusView
from gristmill.recipe.checks.mistakes import listed
from gristmill.stages import CORPUS, LANGUAGE

MOST_SHOWN = 20


def languages_heading(view: CorpusView) -> str:
    """The heading: the sources whose route measures the language, and those without."""
    measured = [source for source in view.chains if "languages" in view.states[f"{source}/{CORPUS}"].metrics]
    names = {source: {view.nodes[node_id].name for node_id in chain} for source, chain in view.chains.items()}
    others = [source for source in view.chains if LANGUAGE not in names[source]]
    without = f". Not measured, because they have no {LANGUAGE} step: {listed(others, 10)}" if others else ""
    return f"Languages of the documents of {listed(measured, 10)}{without}."


def language_table(found: dict[str, Any]) -> Table:
    """The languages with the most kept documents, then the largest of the others."""
    rows = []
    for label, counts in list(found.items())[:MOST_SHOWN]:
        taken = [(rows, f"{step} {reason}") for step, some in counts["first"].items() for reason, rows in some.items()]
        most = max(taken, default=None)
        share = percent(counts["kept"], counts["read"])
        top = f"{most[1]} ({most[0]:,})" if most else ""
        rows.append((label, f"{counts['read']:,}", f"{counts['kept']:,}", share, top))
    if len(found) > MOST_SHOWN:
        rest = list(found.values())[MOST_SHOWN:]
        read, kept = (sum(counts[name] for counts in rest) for name in ("read", "kept"))
        rows.append((counted(len(rest), "other"), f"{read:,}", f"{kept:,}", percent(kept, read), ""))
    shown = table(("language", "documents", "kept", "share", "most dropped by"), rows)
    shown.columns[-1].justify = "left"
    return shown
