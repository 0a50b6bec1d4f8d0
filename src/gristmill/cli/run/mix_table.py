"""The table of a mixture: what every phase draws from every group, how often, and the target."""

from collections.abc import Mapping
from typing import Any

from rich.console import Group as Lines
from rich.text import Text

from gristmill.cli.shared.screen import passage, words
from gristmill.cli.shared.show import table
from gristmill.counted import counted, percent
from gristmill.stages.mix.tally import tally

COLUMNS = ("phase, domain, group", "available", "drawn", "epochs", "total", "share", "target")


def mix_table(manifest: Mapping[str, Any]) -> Lines:
    """The table of a manifest. Tokens exclude padding; `epochs` is per phase, `total` over all phases."""
    found = tally(manifest)
    rows: list[tuple[str | Text, ...]] = []
    for phase_name, phase in found["phases"].items():
        whole = phase["tokens"]
        names = [name for counts in phase["domains"].values() for name in counts["groups"]]
        available = sum(found["groups"][name]["tokens"] for name in names)
        rows.append((words((phase_name, "bold")), *_tokens(available, whole), "", "", ""))
        for domain, counts in phase["domains"].items():
            available = sum(found["groups"][name]["tokens"] for name in counts["groups"])
            label = f" {domain or 'no domain'}"
            rows.append((label, *_tokens(available, counts["tokens"]), "", *_shares(counts, whole)))
            for name, group in counts["groups"].items():
                one = found["groups"][name]
                total = f"{one['drawn_samples'] / one['samples']:.2f}"
                epochs = words((f"{total}!", "red")) if _is_over(one) else total
                shares = (words((share, "dim")) for share in _shares(group, whole))
                rows.append((f"  {name}", *_tokens(one["tokens"], group["tokens"]), epochs, *shares))
    return Lines(table(COLUMNS, rows), *map(passage, _notes(found)))


def _tokens(available: int, drawn: int) -> tuple[str, str, str]:
    return short(available), short(drawn), f"{drawn / available:.2f}"


def _shares(counts: Mapping[str, int], whole: int) -> tuple[str, str]:
    return percent(counts["tokens"], whole, 2), f"{counts['target'] / 1e9:.2%}"


def _is_over(group: Mapping[str, int]) -> bool:
    return group["drawn_samples"] > group["cap_samples"]


def mix_totals(manifest: Mapping[str, Any]) -> str:
    """The tokens in the shards, how they are packed, and those that the mixture draws from them."""
    return f"{packed(manifest)}; {_drawn(tally(manifest))}:"


def packed(manifest: Mapping[str, Any]) -> str:
    """The tokens in the shards, the padding, and the documents that fit into a sample and are split."""
    columns = ("tokens", "samples", "split")
    tokens, samples, split = (sum(group[name] for group in manifest["groups"]) for name in columns)
    padding = percent(samples * manifest["seq_len"] - tokens, samples * manifest["seq_len"], 2)
    return f"{short(tokens)} tokens ({padding} padding, {counted(split, 'document')} split to fill samples)"


def _drawn(found: Mapping[str, Any]) -> str:
    tokens, samples = (sum(phase[name] for phase in found["phases"].values()) for name in ("tokens", "samples"))
    return f"the mixture draws {short(tokens)} in {counted(samples, 'sample')}"


def _notes(found: Mapping[str, Any]) -> list[str]:
    notes = [f"\nT{_drawn(found)[1:]}."]
    if any(map(_is_over, found["groups"].values())):
        notes.append("!: more epochs than max_epochs allows")
    unused = {name: group["tokens"] for name, group in found["groups"].items() if not group["drawn_samples"]}
    if unused:
        notes.append(f"Not drawn: {', '.join(f'{name} ({short(tokens)})' for name, tokens in unused.items())}")
    return notes


def short(count: float) -> str:
    """Tokens or parameters in three digits: 12.3B."""
    power = 0
    while count >= 999.5 and power < 4:
        count, power = count / 1000, power + 1
    digits = 0 if count >= 99.95 or not power else 1 if count >= 9.995 else 2
    return f"{count:,.{digits}f}{' kMBT'[power].strip()}"
