"""gristmill bias: which groups a step keeps and removes, and the documents at the edge of its cutoff."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from gristmill.cli.shared.options import Json, RecipeOrRun, StoreUri, open_view, print_json
from gristmill.cli.shared.screen import Screen, passage, remark, words
from gristmill.cli.shared.show import Bars, console, size, table
from gristmill.counted import counted, percent
from gristmill.errors import UserError
from gristmill.query.opening import check_finished
from gristmill.recipe.checks.mistakes import listed, suggest
from gristmill.report.page import check_charts
from gristmill_bias.bias import ALL, OF_TEXTS, BiasReport, Question, compare
from gristmill_bias.edge import EdgeDocument
from gristmill_bias.groups import BiasGroup
from gristmill_bias.intervals import Share
from gristmill_bias.page import NEEDED_BY, page
from gristmill_bias.term_groups import TermGroups

MOST_EDGE, MOST_TEXTS = 1000, 1_000_000
MOST_SHOWN = 20
"""Groups of one kind on a terminal, apart from those with a warning."""
EXAMPLE = "Example: gristmill bias recipes/demo.yaml --step heuristics --by register,length --edge 2"


def command(
    recipe: RecipeOrRun,
    step: Annotated[
        str, typer.Option(metavar="STEP", help="The step whose verdicts are compared.", show_default=False)
    ],
    by: Annotated[str | None, typer.Option(metavar="KINDS", help=f"Groups: {','.join(ALL)}. Default: all.")] = None,
    terms: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Lists of terms (.txt), one per dialect or topic.")
    ] = None,
    min_terms: Annotated[
        int, typer.Option(min=1, metavar="N", help="Different terms of a list that a text needs.")
    ] = 2,
    edge: Annotated[
        int, typer.Option(min=0, max=MOST_EDGE, metavar="N", help="Show N documents on each side of the cutoff.")
    ] = 0,
    score: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Score that defines the edge, such as quality.edu. Default: the step's own."
        ),
    ] = None,
    texts: Annotated[
        int, typer.Option(min=1, max=MOST_TEXTS, metavar="N", help="Texts to read for register and terms.")
    ] = Question.texts,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page with plots to this file.")] = None,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Show which groups a step keeps and removes.

    Groups are by language, source, domain, length, register and snapshot. Shares have 95% intervals, in which documents
    of one host do not count as independent. You are warned about groups that lose far more than the others.
    """
    if html is not None:
        check_charts(NEEDED_BY)
    question = Question(step, _kinds(by), score, edge, None if terms is None else TermGroups(terms, min_terms), texts)
    view = open_view(recipe, store)
    check_finished(view, f"bias --step {step}")
    with Bars(quiet=json) as bars:
        report = compare(view, question, bars.track)
    notes = [_scope(report), *_few_hosts(report), *report.notes]
    loud = [_loud(group, measure, report.whole) for group, measure in report.under_half]
    groups = [_plain(group, report.whole) for group in report.groups]
    if html is not None:
        title = f"{step} ({view.label})"
        _write(
            html, page(title, _plain(report.whole, report.whole), groups, list(map(asdict, report.edge)), loud, notes)
        )
    if json:
        for group in (_plain(report.whole, report.whole), *groups):
            print_json(group)
        for document in report.edge:
            print_json({"edge": document.side, **asdict(document)})
    else:
        console().print(_table(report))
        for document in report.edge if html is None else ():
            _show(console(), document)
    for line in loud:
        remark(line, "bold red")
    for note in notes:
        remark(note, "dim")
    if html is not None and not json:
        console().print(words(f"{html}: {counted(len(groups), 'group')}, {counted(len(report.edge), 'document')}."))


def _kinds(by: str | None) -> tuple[str, ...] | None:
    if by is None:
        return None
    kinds = tuple(dict.fromkeys(one.strip() for one in by.split(",")))
    for kind in kinds:
        if kind not in ALL:
            raise UserError(
                f"--by {kind or by!r} is not a kind of group. Nothing was done. {suggest(kind, ALL, 'Kinds')}"
            )
    return kinds


def _plain(group: BiasGroup, whole: BiasGroup) -> dict[str, Any]:
    def share(own: Share, of_all: Share) -> dict[str, Any]:
        ratio = own.value / of_all.value if of_all.value and own.all else None
        return {**asdict(own), "share": own.value if own.all else None, "ratio": ratio}

    return {
        "by": group.by,
        "group": group.name,
        "documents": share(group.documents, whole.documents),
        "bytes": share(group.bytes, whole.bytes),
        "hosts": group.hosts,
        "under_half": None if group is whole else group.under_half(whole),
    }


def _loud(group: BiasGroup, measure: str, whole: BiasGroup) -> str:
    own, of_all = getattr(group, measure), getattr(whole, measure)
    many = counted(own.all, "document") if measure == "documents" else size(own.all)
    return (
        f"{group.by} {group.name}: {percent(own.kept, own.all)} of {many} kept (95%: {own.low:.1%} to {own.high:.1%}), "
        f"less than half of the overall {percent(of_all.kept, of_all.all)}. Read its documents, and give it its own "
        "cutoff or floor if it is worth keeping."
    )


def _scope(report: BiasReport) -> str:
    whole = report.whole
    line = f"{counted(whole.documents.all, 'document')} of {', '.join(report.sources)} reached {report.step}"
    kinds = [by for by in dict.fromkeys(group.by for group in report.groups) if by in OF_TEXTS]
    if kinds:
        every = "all" if report.texts == whole.documents.all else "a sample by hash of the ids"
        line += f"; {' and '.join(kinds)}: from {counted(report.texts, 'text')}, {every}"
    if report.edge:
        line += (
            f"; edge by {report.scores[0]}" if report.scores else "; both sides sampled by hash, as there is no score"
        )
    return f"{line}."


def _few_hosts(report: BiasReport) -> list[str]:
    low = []
    for group in report.few_hosts:
        share = percent(group.documents.kept, group.documents.all)
        low.append(f"{group.by} {group.name} ({share}, {counted(group.hosts, 'host')})")
    return [f"Also less than half, but from too few hosts to generalize: {listed(low, 10)}."] if low else []


def _table(report: BiasReport) -> Any:
    rows = [_row("all", "", report.whole, report.whole)]
    for by in dict.fromkeys(group.by for group in report.groups):
        own = [group for group in report.groups if group.by == by]
        shown = [group for at, group in enumerate(own) if at < MOST_SHOWN or group.under_half(report.whole)]
        rows += [_row(by if at == 0 else "", group.name, group, report.whole) for at, group in enumerate(shown)]
        if len(shown) < len(own):
            rows.append(("", f"{len(own) - len(shown):,} smaller groups (--json has all)", *("",) * 7))
    names = ("by", "group", "documents", "kept", "95%", "to all", "bytes kept", "95% of bytes", "hosts")
    return table(names, rows, left=2)


def _row(by: str, name: str, group: BiasGroup, whole: BiasGroup) -> Sequence[Any]:
    own, data = group.documents, group.bytes
    style = "bold red" if group is not whole and group.under_half(whole) else ""
    ratio = f"{own.value / whole.documents.value:.2f}" if own.all else ""
    cells = (percent(own.kept, own.all), _interval(own), ratio, percent(data.kept, data.all), _interval(data))
    return (by, words((name, style)), f"{own.all:,}", *(words((cell, style)) for cell in cells), f"{group.hosts:,}")


def _interval(own: Share) -> str:
    return f"{own.low:.1%} to {own.high:.1%}" if own.all else ""


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"--html {path} cannot be written ({error.strerror}). Name another file.") from None


def _show(out: Screen, one: EdgeDocument) -> None:
    out.rule(f"{one.source}: {one.locator}", align="left", style="dim")
    scores = ", ".join(f"{name} {'none' if value is None else f'{value:.6g}'}" for name, value in one.scores.items())
    facts = "   ".join(filter(None, (scores, one.language, one.register, f"id {one.doc_id}")))
    verdict = one.side if one.reason is None else f"{one.side} ({one.reason})"
    out.print(words((verdict, "green" if one.reason is None else "red"), f"   {facts}"))
    if one.url is not None:
        out.print(words(("url", "dim"), f" {one.url}"))
    out.print(passage(one.excerpt))
    out.print()
