"""gristmill tokenizer audit: check a tokenizer and measure its efficiency."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from gristmill.cli.shared.added_options import refuse_sample
from gristmill.cli.shared.options import Json, StoreUri, print_json
from gristmill.cli.shared.screen import json_text, remark, words
from gristmill.cli.shared.show import Bars, console, table
from gristmill.cli.tokenizer.open import TokenizerName, is_corpus, open_up_to_tokenizer
from gristmill.counted import counted
from gristmill.errors import UserError
from gristmill.query.documents.sample import sample_by_language, tokenizer_file
from gristmill.stages.tokenizer.tokenizer_sample import HELD_OUT
from gristmill_tokenizer.audit import D_MODEL, SIZES, audit, failed
from gristmill_tokenizer.subject import Subject, open_subject
from gristmill_tokenizer.text import Domain, built_in, from_arrays, read_domains

EXAMPLE = "Example: gristmill tokenizer audit tokenizer/ --against other/ --text 'code=held_out/code*.jsonl.zst'"


def command(
    tokenizer: TokenizerName,
    against: Annotated[
        list[str] | None, typer.Option(metavar="OTHER", help="Compare with this one. May be repeated.")
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DOMAIN=GLOB",
            help="Held-out text: JSON Lines (text, lang) or plain files. May be repeated. Default: that of the recipe, "
            "or else files of the Python library.",
        ),
    ] = None,
    d_model: Annotated[int, typer.Option(min=1, metavar="N", help="Width of the embedding.")] = D_MODEL,
    sizes: Annotated[
        str, typer.Option(metavar="N,N", help="Vocabulary sizes to compare, by leaving out the last merges.")
    ] = ",".join(map(str, SIZES)),
    pattern: Annotated[
        str | None, typer.Option(metavar="NAME", help="The pattern of tiktoken files that do not name theirs.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report to this file, as JSON.")] = None,
    store: StoreUri = None,
    json: Json = False,
) -> None:
    """Check a tokenizer, and measure its bytes per token.

    Checks special tokens, bytes, round trips, digits, the pattern and the vocabulary. A failed check fails the
    command, after the report is written.
    """
    chosen = _sizes(sizes)
    if out is not None and (out.is_dir() or (out.exists() and out.suffix != ".json")):
        raise UserError(f"--out {out} is there, and is no .json file. Nothing was measured. Name another file.")
    if out is not None and not out.absolute().parent.is_dir():
        raise UserError(f"--out {out}: there is no folder {out.parent}, so nothing was measured. Make it first.")
    held_out: list[Domain] = []
    name = tokenizer
    if is_corpus(tokenizer):
        view = open_up_to_tokenizer(tokenizer, store)
        tokenizer = tokenizer_file(view)
        held_out = from_arrays(sample_by_language(view, HELD_OUT), f"held out by {name}")
    else:
        refuse_sample(tokenizer)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        subjects = [open_subject(uri, pattern) for uri in (tokenizer, *(against or ()))]
    for warning in caught:
        remark(str(warning.message), "yellow")
    subjects[0] = replace(subjects[0], name=name)
    domains = read_domains(text) if text else held_out or built_in()
    with Bars(quiet=json) as bars:
        report = audit(subjects[0], _named_apart(subjects), domains, chosen, d_model, bars)
    if not text and not held_out:
        report["notes"].insert(
            0, "No --text was given: measured on a small sample from the Python library, not on held-out text."
        )
    if out is not None:
        _write(out, report)
    if json:
        print_json(report)
    else:
        _show(report)
    if names := failed(report):
        details = {check["name"]: check["detail"] for check in report["checks"]}
        for name in names:
            remark(f"failed: {name}: {details[name]}")
        raise typer.Exit(1)


def _write(file: Path, report: Mapping[str, Any]) -> None:
    try:
        file.write_text(json_text(report, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"The report cannot be written to {file}: {error.strerror}. Name another file.") from None


def _sizes(given: str) -> list[int]:
    try:
        found = [int(size) for size in given.replace("_", "").split(",") if size.strip()]
    except ValueError as error:
        raise UserError(
            f"--sizes {given} is not a list of numbers, so there is nothing to compare. Example: 32000,64000"
        ) from error
    return found


def _named_apart(subjects: list[Subject]) -> list[Subject]:
    """All but the first. Names must differ, since the report is by name."""
    names = [subject.name for subject in subjects]
    if len({*names}) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UserError(f"{twice} is given twice, so the report could not distinguish them. Leave one out.")
    return subjects[1:]


def _show(report: dict[str, Any]) -> None:
    screen = console()
    for check in report["checks"]:
        verdict = ("passed    ", "green") if check["passed"] else ("FAILED    ", "red")
        verdict = verdict if check["judged"] else ("not judged", "dim")
        screen.print(words(verdict, f" {check['name']:30} {check['detail']}"))
    for note in report["notes"]:
        screen.print(words(note), style="yellow")
    screen.print()
    by_domain = report["bytes_per_token"]
    names = list(by_domain)
    rows = [(domain, *(f"{by_domain[name][domain]:.3f}" for name in names)) for domain in by_domain[names[0]]]
    screen.print(table(("bytes per token", *names), rows))
    if sized := report["sizes"]["rows"]:
        screen.print()
        rows = [
            (
                f"{row['vocab']:,}",
                f"{row['bytes_per_token']['all']:.3f}",
                f"{row['embedding_parameters_tied'] / 1e6:,.0f} M",
                f"{row['embedding_parameters_untied'] / 1e6:,.0f} M",
            )
            for row in sized
        ]
        head = ("vocabulary", "bytes per token", f"embedding at d_model {report['sizes']['d_model']:,}", "untied")
        screen.print(table(head, rows, left=0))
    tokens = report["tokens"]
    screen.print()
    screen.print(
        f"{counted(tokens['dead']['count'], 'token')} ({tokens['dead']['share']:.1%}) not used on this text, "
        f"{tokens['unreachable']['count']:,} unreachable, "
        f"{sum(kind['count'] for kind in tokens['junk'].values()):,} junk, "
        f"{sum(kind['count'] for kind in tokens['private'].values()):,} private or random, "
        f"{tokens['long_literals']['count']:,} long literals."
    )
