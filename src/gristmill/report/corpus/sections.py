"""The sections of the report, each with a chart and a table. A corpus without a step has no section for it.

Every section is made from one version. Beside another version, its table has the numbers of both (`_beside`).
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from gristmill.counted import counted, percent, size
from gristmill.query.documents.histograms import (
    KEPT,
    REMOVED,
)
from gristmill.query.publishing import unguarded
from gristmill.report import charts
from gristmill.report.corpus.reported import MOST_BARS, ReportedCorpus, Section, first_bars
from gristmill.report.corpus.value_sections import lengths, quality, signals
from gristmill.stages import INGEST

TRILLION = 10**12


def sections(now: ReportedCorpus, before: ReportedCorpus | None) -> list[Section]:
    """All sections that this corpus or the other version has."""
    makers = (
        *(
            _alarms,
            _limits,
            _flow,
            _removals,
            _removals_by_language,
            _languages,
            lengths,
            signals,
            quality,
            _clusters,
            _contamination,
        ),
        *(_personal_data, _mixture, _cost),
    )
    found = []
    for make in makers:
        section = make(now, before)
        if before is not None and make is not _alarms:
            section = _beside(section, make(before, None))
        if section is not None:
            found.append(section)
    return found


def _beside(now: Section | None, before: Section | None) -> Section | None:
    """The section with the numbers of both versions in its table."""
    if now is None:
        if before is None:
            return None
        now = replace(before, text="Only the other version has this section.", rows=(), chart=None, facets=())
    keys = now.word_columns if now.key_columns is None else now.key_columns
    old = {row[:keys]: row[keys:] for row in (() if before is None else before.rows)}
    blank = ("",) * (len(now.head) - keys)
    rows = [(*row, *old.pop(row[:keys], blank)) for row in now.rows]
    rows += [(*key, *blank, *numbers) for key, numbers in old.items()]
    return replace(now, head=(*now.head, *(f"{name} before" for name in now.head[keys:])), rows=rows)


def _alarms(corpus: ReportedCorpus, before: ReportedCorpus | None) -> Section | None:
    """The alarms of `watch`: of the comparison with the other version, or else of the run."""
    found = corpus.view.watched
    if before is not None:
        from gristmill.query.watch import compare  # needs the code of the engine

        found = compare(corpus.view, before.view).as_record()
    if not found:
        return None
    rows = [
        (
            *(_alarm_text(one["message"]).replace("RECIPE", corpus.view.label), one["what"], one["where"]),
            *(charts.short_number(one[name]) for name in ("before", "after", "distance", "limit")),
        )
        for one in found["alarms"]
    ]
    text = f"{counted(len(rows), 'change is', 'changes are')} larger than chance and than the limits of watch, against "
    text += " ".join([f"{found['against']}. A change may follow from one above it.", *found["notes"]])
    head = ("change", "kind", "where", "before", "after", "distance", "limit")
    return Section("Alarms", text, head, rows, word_columns=3)


def _alarm_text(message: str) -> str:
    """The fact, and the command that shows documents; not the one that writes this report."""
    fact, look, command = message.removeprefix("watch: ").partition(" To look: ")
    return fact if " report " in command or "report(" in command else f"{fact}{look}{command}"


def _limits(corpus: ReportedCorpus, _: ReportedCorpus | None) -> Section | None:
    lacks = unguarded(corpus.view)
    return None if lacks is None else Section("Before you publish", lacks, ("step",), [])


def _removed(corpus: ReportedCorpus) -> dict[tuple[str, str, str], int]:
    """Documents by step, reason and source, in the order of the recipe."""
    found = {}
    for source, funnel in corpus.funnels.items():
        for step in funnel["steps"]:
            for reason, taken in funnel["first"].get(step, {}).items():
                found[step, reason, source] = int(taken["rows"])
    return found


def _flow(corpus: ReportedCorpus, _: ReportedCorpus | None) -> Section | None:
    read = sum(one["read"]["rows"] for one in corpus.funnels.values())
    if not read:
        return None
    taken: Counter[str] = Counter()
    for (step, _reason, _source), rows in _removed(corpus).items():
        taken[step] += rows
    steps = [(step, taken[step]) for step in (INGEST, *corpus.view.nodes) if taken[step]]
    left = read
    table = [("read", "", f"{read:,}", percent(read, read))]
    for step, removed in steps:
        left -= removed
        table.append((step, f"−{removed:,}", f"{left:,}", percent(left, read)))
    text = f"Of {counted(read, 'document')}, {left:,} ({percent(left, read)}) {'is' if left == 1 else 'are'} kept."
    if steps:
        most = max(steps, key=lambda one: one[1])
        text += f" The step that removes most is {most[0]} ({most[1]:,})."
    return Section("Funnel", text, ("step", "removed", "left", "share left"), table, charts.flow(steps, read))


def _removals(corpus: ReportedCorpus, _: ReportedCorpus | None) -> Section | None:
    text = (
        "A document counts for the first step that removes it. To see the documents: "
        f"gristmill explore {corpus.view.label}."
    )
    return _by_reason("Removals", text, "source", _removed(corpus))


def _removals_by_language(corpus: ReportedCorpus, _: ReportedCorpus | None) -> Section | None:
    found: Counter[tuple[str, str, str]] = Counter()
    for language, counts in corpus.languages.items():
        for step, reasons in counts["first"].items():
            found.update({(step, reason, language): int(rows) for reason, rows in reasons.items()})
    text = "Of the sources whose language is measured. (none): documents that were removed before that."
    return _by_reason("Removals by language", text, "language", dict(found.most_common()))


def _by_reason(title: str, text: str, group: str, removed: Mapping[tuple[str, str, str], int]) -> Section | None:
    """A section of documents by step, reason and group."""
    if not removed:
        return None
    by_reason: Counter[tuple[str, str]] = Counter()
    for (step, reason, _), rows in removed.items():
        by_reason[step, reason] += rows
    bars = [
        {"reason": f"{step} {reason}", "documents": rows, group: name}
        for wanted, _ in by_reason.most_common(MOST_BARS)
        for (step, reason, name), rows in removed.items()
        if (step, reason) == wanted
    ]
    table = [(*key, f"{rows:,}") for key, rows in removed.items()]
    text = f"{text} {counted(len(by_reason), 'reason')} in all."
    chart = charts.bars(bars, "reason", "documents", group)
    return Section(
        title, text + first_bars(by_reason), ("step", "reason", group, "documents"), table, chart, word_columns=3
    )


def _languages(corpus: ReportedCorpus, _: ReportedCorpus | None) -> Section | None:
    read, kept = ({name: int(one[side]) for name, one in corpus.languages.items()} for side in ("read", "kept"))
    if not read:
        return None
    order = sorted(read, key=lambda one: (-read[one], one))
    bars = [
        {"language": language, "documents": rows, "part": part}
        for language in order[:MOST_BARS]
        for part, rows in ((KEPT, kept[language]), (REMOVED, read[language] - kept[language]))
    ]
    table = [(one, f"{read[one]:,}", f"{kept[one]:,}", percent(kept[one], read[one])) for one in order]
    text = "Documents by measured language. (none): documents whose language was not measured."
    chart = charts.bars(bars, "language", "documents", "part")
    return Section("Languages", text + first_bars(order), ("language", "read", "kept", "share kept"), table, chart)


def _clusters(corpus: ReportedCorpus, _: ReportedCorpus | None) -> Section | None:
    bars, table = [], []
    for step, metrics in corpus.metrics("near_dedup"):
        for kind, key in (("cluster size", "clusters_by_size"), ("chain length", "chains")):
            for name, times in sorted(metrics.get(key, {}).items(), key=lambda one: int(one[0].partition("-")[0])):
                numbers = "-".join(f"{int(number):,}" for number in name.split("-"))  # a size may be a class: 3-4
                table.append((step, kind, numbers, f"{int(times):,}"))
                bars.append({"size": f"{kind} {numbers}", "number": int(times), "kind": kind})
    if not table:
        return None
    text = "Near duplicates form clusters. A chain is the number of links from a document to the one that is kept."
    chart = charts.bars(bars[:MOST_BARS], "size", "number", "kind")
    return Section(
        "Clusters of near duplicates",
        text + first_bars(bars),
        ("step", "", "size", "number"),
        table,
        chart,
        word_columns=3,
    )


def _counted_by(
    corpus: ReportedCorpus, step: str, key: str, title: str, text: str, what: str, unit: str
) -> Section | None:
    """A section for a metric that counts by name."""
    found: Counter[str] = Counter()
    for _, metrics in corpus.metrics(step):
        found.update({name: int(times) for name, times in metrics.get(key, {}).items()})
    if not found:
        return None
    rows = found.most_common()
    chart = charts.bars([{what: name, unit: times} for name, times in rows[:MOST_BARS]], what, unit)
    table = [(name, f"{times:,}") for name, times in rows]
    return Section(title, text + first_bars(rows), (what, unit), table, chart)


def _contamination(corpus: ReportedCorpus, _: ReportedCorpus | None) -> Section | None:
    text = "Documents that held items of a benchmark, by benchmark. A document may hold items of several."
    return _counted_by(corpus, "decontaminate", "benchmarks", "Contamination", text, "benchmark", "documents")


def _personal_data(corpus: ReportedCorpus, _: ReportedCorpus | None) -> Section | None:
    text = "What the step scrub found, by type."
    return _counted_by(corpus, "scrub", "findings", "Personal data", text, "type", "findings")


def _mixture(corpus: ReportedCorpus, _: ReportedCorpus | None) -> Section | None:
    bars, table = [], []
    for _id, metrics in corpus.metrics("mix"):
        groups, drawn = metrics["groups"], Counter[str]()
        for phase, facts in metrics["phases"].items():
            for domain, part in facts["domains"].items():
                bars.append({"phase": phase, "tokens": part["tokens"], "domain": domain})
                for group, taken in part["groups"].items():
                    drawn[group] += taken["tokens"]
                    numbers = _drawn(taken["samples"], taken["tokens"], facts["tokens"], groups[group])
                    table.append((phase, domain, group, *numbers, ""))
        for group, facts in groups.items():
            numbers = _drawn(facts["drawn_samples"], drawn[group], drawn.total(), facts)
            again = max(0, drawn[group] - facts["tokens"])
            table.append(("all phases", "", group, *numbers, tokens_text(facts["drawn_samples"], again, facts)))
    if not table:
        return None
    text = (
        "Samples and tokens that each phase draws. One epoch is every sample of a group once; tokens after it are "
        "repeated. Tokens of whole epochs are exact. Others are estimated (about): the samples times the mean "
        "number of tokens in a sample of the group."
    )
    head = ("phase", "domain", "group", "samples", "tokens", "share", "epochs", "repeated tokens")
    return Section("Mixture", text, head, table, charts.bars(bars, "phase", "tokens", "domain"), word_columns=3)


def _drawn(samples: int, tokens: int, whole: int, group: Mapping[str, int]) -> tuple[str, ...]:
    """Cells: samples, tokens, their share of the whole, epochs of the group."""
    epochs = f"{samples / max(1, group['samples']):.2f}"
    return f"{samples:,}", tokens_text(samples, tokens, group), percent(tokens, whole), epochs


def tokens_text(samples: int, tokens: int, group: Mapping[str, int]) -> str:
    """Tokens of some samples of a group: an exact number only if every sample is drawn equally often."""
    return f"{'about ' if tokens and samples % max(1, group['samples']) else ''}{tokens:,}"


def _cost(corpus: ReportedCorpus, _: ReportedCorpus | None) -> Section | None:
    view, tokens = corpus.view, corpus.tokens
    states = sorted(view.states.items(), key=lambda one: -one[1].cpu_s)
    cpu = sum(state.cpu_s for _, state in states)
    if not cpu:
        return None
    read = {step: int(state.metrics.get("bytes_in", 0)) for step, state in states}
    written = {step: view.stored_bytes(step) or 0 for step, _ in states}

    def row(step: str, cpu_s: float, rate: float | None, read_bytes: int, written_bytes: int) -> tuple[str, ...]:
        return (
            step,
            f"{cpu_s / 3600:.4g}",
            percent(cpu_s, cpu),
            "" if rate is None else f"{rate / 1e6:,.1f}",
            size(read_bytes) if read_bytes else "",
            size(written_bytes),
            f"{cpu_s / 3600 * TRILLION / tokens:,.0f}" if tokens else "",
        )

    table = [row("all", cpu, None, sum(read.values()), sum(written.values()))]
    table += [row(step, state.cpu_s, state.bytes_per_s, read[step], written[step]) for step, state in states]
    most, of_most = states[0]
    text = f"The most expensive step is {most} ({percent(of_most.cpu_s, cpu)})."
    bars = [{"step": step, "CPU seconds": state.cpu_s} for step, state in states[:MOST_BARS]]
    head = ("step", "core-hours", "share", "MB/s", "read", "written", "core-hours per trillion tokens")
    return Section("Cost", text + first_bars(states), head, table, charts.bars(bars, "step", "CPU seconds"))
