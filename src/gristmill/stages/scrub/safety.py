"""Drops documents that must not be trained on: by domain, by words, by digests of known content, by a classifier.

    listed_hash         hashes: its URL or text is on a list of digests; no part of it is ever shown
    blocked_category    domains: its host is on the list of a category in drop_categories
    toxic               toxicity: the probability of toxic_label is above max_toxicity
    unsafe_terms        terms: at least min_terms of the list of its language, and more than max_term_ratio per word

The rules are applied in this order, and the first that a document fails gives the reason. Earlier stages measure what
the rules need (`safety_hashes`, `safety_scores`), so another threshold measures nothing again. `category` is the list
of domains that has the host, dropped or not. `detail` has numbers and names of lists, never a term.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from gristmill.errors import WrongSetting
from gristmill.stages.buffers import bytes_of
from gristmill.stages.contract import Count, File, Map
from gristmill.stages.natural_languages import LABEL
from gristmill.stages.scrub import safety_hashes, safety_scores
from gristmill.stages.shared import lists, urls
from gristmill.stages.shared.counting import counts_of, found_in, languages_of
from gristmill.warned import Warnings

SCHEMA = pa.schema([("drop", pa.string()), ("detail", pa.string()), ("category", pa.string())])

Array = np.ndarray[Any, Any]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]

TERM = "term"
"""The label of spans in `highlights`."""


class Config(safety_hashes.Config, safety_scores.Config):
    """Lists are files or folders of files with one entry per line (select/lists.py)."""

    domains: File | None = None
    """Domains by category, each with its subdomains: a folder with a list for each category, or one file."""
    drop_categories: tuple[str, ...] | None = None
    """Categories whose documents are dropped; the others are only written to the column `category`. Null: all."""
    min_terms: Count = 3
    """The fewest terms for which a document is dropped."""
    max_term_ratio: Share = 0.01
    """Terms per word above which a document is dropped, 0 to 1."""
    max_toxicity: Share = 0.8
    """The probability above which a document is dropped, 0 to 1."""

    @model_validator(mode="after")
    def _does_something(self) -> "Config":
        if not (self.domains or self.terms or self.hashes or self.toxicity):
            raise ValueError("it has no rule, so it would keep everything; set domains, terms, hashes or toxicity")
        return self


def check(config: Config) -> None:
    """Checks that the dropped categories exist."""
    if config.domains is None or not config.drop_categories:
        return
    known = [_category(name) for name in _domains(config).names]
    for name in config.drop_categories:
        if name not in known:
            raise WrongSetting(
                "drop_categories",
                f"{name} is not a list in {config.domains}, so it would drop nothing. Lists: {', '.join(known)}.",
            )


def reads(config: Config) -> tuple[str, ...]:
    settings = {
        "safety_hashes.withheld": config.hashes,
        "url": config.domains,
        "safety_scores.words": config.terms,
        "safety_scores.terms": config.terms,
        "safety_scores.toxicity": config.toxicity,
    }
    return ("source", *(column for column, wanted in settings.items() if wanted))


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    nothing = pa.nulls(batch.num_rows, pa.string())
    category = nothing if config.domains is None else _categories(batch["url"], config)
    drop, detail = nothing, nothing
    for reason, hit, details in _rules(batch, category, config):
        mask = pc.and_(hit, drop.is_null())
        drop, detail = pc.if_else(mask, reason, drop), pc.if_else(mask, details, detail)
    return pa.RecordBatch.from_arrays([drop, detail, category], schema=SCHEMA)


def _rules(batch: pa.RecordBatch, category: pa.Array, config: Config) -> Iterator[tuple[str, pa.Array, pa.Array]]:
    """For each rule its reason, the rows that fail it, and their details."""
    if config.hashes:
        withheld = batch["safety_hashes.withheld"]
        yield "listed_hash", withheld.is_valid(), withheld
    if config.domains:
        dropped = config.drop_categories
        listed = category.is_valid() if dropped is None else pc.is_in(category, pa.array(dropped, pa.string()))
        yield "blocked_category", listed, category
    if config.toxicity:
        toxicity = batch["safety_scores.toxicity"]
        # Both in float32: the float32 nearest to 0.8 is above 0.8.
        above = pc.greater(toxicity, pa.scalar(np.float32(config.max_toxicity), pa.float32()))
        yield "toxic", above.fill_null(False), pc.round(toxicity.cast(pa.float64()), 4).cast(pa.string())
    if config.terms:
        yield "unsafe_terms", *_many_terms(batch, config)


def _many_terms(batch: pa.RecordBatch, config: Config) -> tuple[pa.Array, pa.Array]:
    terms, words = (batch[f"safety_scores.{name}"].fill_null(0).to_numpy(zero_copy_only=False) for name in _COUNTS)
    most = Fraction(repr(config.max_term_ratio))
    limit = [most.numerator * count // most.denominator for count in words.tolist()]
    hit = (terms >= config.min_terms) & (terms > np.array(limit, np.int64))
    languages = languages_of(batch).to_pylist()
    details = [
        f"{terms[row]} in {words[row]} words, {languages[row]}" if hit[row] else None for row in range(batch.num_rows)
    ]
    return pa.array(hit), pa.array(details, pa.string())


_COUNTS = ("terms", "words")


def _domains(config: Config, only: tuple[str, ...] | None = None) -> lists.Lists:
    assert config.domains is not None
    return lists.load("domains", config.domains, "domains", only)


def _category(name: str) -> str:
    """`adult` for the list `domains/adult`; `domains` for a single file."""
    return name.rpartition("/")[2]


def _categories(column: pa.Array, config: Config) -> pa.Array:
    """If a host is on several lists: one that drops it, or the one with the shortest domain."""
    hosts = urls.hosts_of(column).fill_null("").to_pylist()
    found = pa.nulls(len(column), pa.string())
    for only in (config.drop_categories, None) if config.drop_categories else (None,):
        listed = _domains(config, only)
        labels = {host: label for host, (label, _) in listed.domains(hosts).items()}
        label = np.array([labels.get(host, -1) for host in hosts], np.int32)
        names = pa.array(map(_category, listed.names), pa.string())
        found = pc.coalesce(found, names.take(pa.array(label, mask=label < 0)))
    return found


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """`found`: dropped documents by reason, source and language; `categories`: documents on each list of domains."""
    dropped = ((row, (drop,)) for row, drop in enumerate(answers["drop"].to_pylist()) if drop is not None)
    counted: dict[str, Any] = {"found": found_in(dropped, batch), "judged": batch.num_rows}
    if config.domains:
        loaded = _domains(config)
        counts = dict.fromkeys(map(_category, loaded.names), 0) | counts_of(answers["category"])
        counted |= {"categories": counts, **lists.list_faults({"domains": loaded})}
    return counted


def warnings(found: dict[str, Any], config: Config) -> Sequence[str]:
    """Warns about empty or wrong lists, and about rules that dropped no document."""
    if not found.get("judged"):
        return ()
    messages = Warnings(lists.list_warnings(found, lambda _: "not domains"))
    if config.domains and not any(found.get("categories", {}).values()):
        messages.add("no_effect", "domains matched no documents")
    for field, reason, limit in (("terms", "unsafe_terms", "max_term_ratio"), ("toxicity", "toxic", "max_toxicity")):
        if getattr(config, field) and not found["dropped"].get(reason):
            messages.add(
                "no_effect", f"{field} dropped no documents: none is above {limit} ({getattr(config, limit):g})"
            )
    return messages


def highlights(batch: pa.RecordBatch, config: Config) -> list[tuple[int, int, int, str]]:
    begins = bytes_of(batch["text"])[1]
    return [
        (row, start - int(begins[row]), stop - int(begins[row]), TERM)
        for _, _, spans in safety_scores.spans_of_terms(batch, safety_scores.Config(terms=config.terms))
        for row, start, stop in spans.tolist()
    ]


STAGE = Map(
    version=3,
    config=Config,
    libraries=urls.LIBRARIES,
    reads=reads,
    may_read=(LABEL,),
    only_kept=True,
    prerequisites=("gristmill.stages.scrub.safety_hashes", "gristmill.stages.scrub.safety_scores"),
    schema=SCHEMA,
    apply=apply,
    metrics=metrics,
    highlights=highlights,
    check=check,
    warnings=warnings,
)
