"""Replaces personal data and secrets by a placeholder, a mask or a pseudonym of the same form.

It finds e-mail addresses, public IP addresses, phone numbers, payment cards, IBANs, national ids, crypto wallets and
secrets (API keys, private keys, passwords in URLs). One pass over the bytes finds candidates by their shape; checksums
and the words around them decide. docs/scrub.md says what counts and what is kept. Numbers in formulas stay (`extract`
finds formulas).

`locator`, which is written to shards and their sidecars, is scrubbed as well, since it has file names and keys of
records. An export does the same for all its other columns (`scrub_column`).

Replacements are recorded: `replaced_spans` in bytes of the text before, `replacement_spans` in bytes of the text after,
both as start, stop, start, stop ..., and `replaced_types`. A document that is mostly personal data is dropped.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Self
from urllib.parse import unquote, unquote_plus

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from gristmill.counted import counted
from gristmill.errors import UserError, WrongSetting
from gristmill.places import place_of
from gristmill.schema import VERDICT
from gristmill.stages.contract import File, Map, StageConfig
from gristmill.stages.natural_languages import LABEL, language_of
from gristmill.stages.scrub import email_addresses, phones
from gristmill.stages.scrub.find import SearchOptions, find_all
from gristmill.stages.scrub.finding import ALL, Type
from gristmill.stages.scrub.replacements import WITH_PSEUDONYM, Action, Replacer
from gristmill.stages.scrub.rewrite import Edit, scrubbed, shifted
from gristmill.stages.shared import public_suffix
from gristmill.stages.shared.counting import found_in
from gristmill.stages.shared.formulas import COLUMN as FORMULAS
from gristmill.stages.shared.formulas import rows_with_formulas
from gristmill.warned import idle

_SPANS = pa.list_(pa.field("item", pa.int64()))
SCHEMA = pa.schema(
    [
        pa.field("text", pa.string()),
        pa.field("locator", pa.string()),
        pa.field("replaced_spans", _SPANS),
        pa.field("replacement_spans", _SPANS),
        pa.field("replaced_types", pa.list_(pa.field("item", pa.string()))),
        pa.field("replaced_bytes", pa.int64()),
        *VERDICT,
    ]
)
TOO_DENSE = "pii_density"
MIN_FOUND = 5
"""The fewest findings for which density counts: one address in a short note does not make it a list."""
MIN_KEY_BYTES = 16
_URL = re.compile(r'[^\s"<>\\]++')
"""A possible URL, with or without its scheme, alone or in a string."""
_HIDING = re.compile(r"[%+]|[0-9]\.[0-9]")
"""Escapes, spaces, and addresses after a slash: without these, decoding a URL reveals nothing new."""
_PIECE = re.compile(r"[^/?&=#;]+")
_WHOLE = re.compile(r".+")


class Config(StageConfig):
    types: tuple[Type, ...] = ALL
    """The types to find."""
    action: Action | dict[Type, Action] = "placeholder"
    """The replacement. placeholder: `<EMAIL>`; mask: `*` for every letter and digit; pseudonym, for email, ip,
    phone and secret: a value of the same form that depends on `key` and the value. One for all types, or by type; other
    types get a placeholder."""
    placeholders: dict[Type, str] = Field(default={})
    """Other placeholders for some types. The default is the type in capitals and brackets: `<NATIONAL_ID>`."""
    key: File | None = None
    """A secret file of at least 16 bytes: the key of pseudonyms. The same key gives the same pseudonyms."""
    regions: tuple[str, ...] = ()
    """Countries (ISO 3166, two capitals) whose phone numbers count without a country code, in every document. The
    countries of the top-level domain of its URL and of its language (language.label) always count."""
    keep_domains: tuple[str, ...] = email_addresses.EXAMPLES
    """Domains whose e-mail addresses are kept, with their subdomains. Reserved names (.invalid) are always kept."""
    max_density: Annotated[float, Field(gt=0, le=1)] | None = 0.3
    """The largest share of a text's bytes, 0 to 1, that findings may have; more: pii_density. Applies to documents with
    five or more findings. None: no document is dropped."""

    @model_validator(mode="after")
    def _can_be_done(self) -> Self:
        if not self.types:
            raise ValueError("types is empty, so nothing would be found. Add some types, or remove the step")
        if "pseudonym" in self.actions().values() and self.key is None:
            raise ValueError("action: pseudonym needs a key. Set key to a file of at least 16 random bytes")
        if wrong := [
            one for one, action in self.actions().items() if action == "pseudonym" and one not in WITH_PSEUDONYM
        ]:
            raise ValueError(f"{', '.join(wrong)} has no pseudonyms. Use placeholder or mask")
        return self

    def actions(self) -> dict[str, Action]:
        if isinstance(self.action, dict):
            return {type_: self.action.get(type_, "placeholder") for type_ in ALL}
        others: Action = "placeholder" if self.action == "pseudonym" else self.action
        return {type_: self.action if type_ in WITH_PSEUDONYM else others for type_ in ALL}

    def placeholder(self, type_: Type) -> str:
        return self.placeholders.get(type_, f"<{type_.upper()}>")


def libraries(config: Config) -> tuple[str, ...]:
    emails = public_suffix.LIBRARIES if "email" in config.types else ()
    return (*emails, *(phones.LIBRARIES if "phone" in config.types else ()), "unicode")


def check(config: Config) -> None:
    """Checks for unknown regions, placeholders that would be replaced again, and actions for unused types."""
    if unknown := set(config.regions) - (phones.known_regions() if config.regions else set()):
        raise WrongSetting(
            "regions", f"{', '.join(sorted(unknown))}: unknown country. Write ISO 3166 codes such as DE or US"
        )
    if isinstance(config.action, dict) and (idle := set(config.action) - set(config.types)):
        idle_types = ", ".join(sorted(idle))
        raise WrongSetting(
            "action", f"{idle_types}: not in types, so the action has no effect. Add it to types, or remove it here"
        )
    written = pa.array(config.placeholders.values(), pa.string())
    for row, found in find_all(written, lambda _: (), _options(config)) if config.placeholders else ():
        raise WrongSetting(
            "placeholders",
            f"{written[row].as_py()!r} would be found as {found[0].type} and replaced again. Use another placeholder",
        )


def _options(config: Config) -> SearchOptions:
    kept = tuple(domain.lower() for domain in config.keep_domains)
    return SearchOptions(frozenset(config.types), kept)


@lru_cache(maxsize=4)
def _key(path: str) -> bytes:
    with place_of(path).open() as file:
        key: bytes = file.read(1 << 16)
    if len(key) < MIN_KEY_BYTES:
        raise UserError(
            f"{path}: the key of scrub has {len(key)} bytes, which can be guessed to undo pseudonyms. "
            f"Write a file of at least {MIN_KEY_BYTES} random bytes: head -c 32 /dev/urandom"
        )
    return key


def _replacer(config: Config) -> Replacer:
    placeholders: dict[str, str] = {type_: config.placeholder(type_) for type_ in ALL}
    return Replacer(config.actions(), placeholders, _key(config.key) if config.key else None)


def scrub_column(column: pa.Array, config: Config) -> tuple[pa.Array, int]:
    """Any column but the text, with the same replacements in its strings, and the number of changed strings.

    URLs are also searched decoded.
    """
    if "string" not in str(column.type):
        return column, 0
    if pa.types.is_nested(column.type):
        rows, strings = column.to_pylist(), list[str]()
        _each(rows, strings.append)
        replaced, changed = scrub_column(pa.array(strings, pa.string()), config)
        left = iter(replaced.to_pylist())
        return pa.array(_each(rows, lambda _: next(left)), column.type), changed
    options = _options(config)

    def scrub(strings: pa.Array) -> tuple[pa.Array, Mapping[int, Any]]:
        return scrubbed(strings, lambda _: config.regions, options, _replacer(config))

    after, edits = scrub(pc.replace_substring(column, "%40", "@"))
    is_changed = np.isin(np.arange(len(column)), list(edits))
    replaced = _scrub_urls(pc.if_else(pa.array(is_changed), after, column) if edits else column, scrub)
    return replaced, pc.sum(pc.not_equal(replaced, column)).as_py() or 0


def _scrub_urls(column: pa.Array, scrub: Callable[[pa.Array], tuple[pa.Array, Mapping[int, Any]]]) -> pa.Array:
    """Also replaces what is found in the decoded pieces of a URL, or in the whole URL decoded."""
    if not pc.any(pc.match_substring_regex(column, _HIDING.pattern)).as_py():
        return column  # as for most locators
    strings = column.to_pylist()
    for pattern in (_PIECE, _WHOLE):
        places = [
            (row, (url.start() + found.start(), url.start() + found.end()), unquote(unquote_plus(found[0])))
            for row, string in enumerate(strings)
            for url in _URL.finditer(string or "")
            if "/" in url[0] or "?" in url[0]
            for found in pattern.finditer(url[0])
            if _HIDING.search(found[0])
        ]
        after, edits = scrub(pa.array([decoded for *_, decoded in places], pa.string()))
        for place in sorted(edits, reverse=True):  # the last one of a string first, so that earlier offsets stay valid
            row, (start, stop), _ = places[place]
            strings[row] = strings[row][:start] + after[place].as_py().replace(" ", "+") + strings[row][stop:]
    return pa.array(strings, column.type)


def _each(value: object, do: Callable[[str], Any]) -> Any:
    """Applies `do` to each string in nested values, in order."""
    if isinstance(value, dict):
        return {name: _each(one, do) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_each(one, do) for one in value)
    return do(value) if isinstance(value, str) else value


def apply(batch: pa.RecordBatch, config: Config) -> pa.RecordBatch:
    """A row without text has nulls."""
    text = batch.column("text")
    with_formulas = set(rows_with_formulas(batch))
    after, edits = scrubbed(text, _regions(batch, config), _options(config), _replacer(config), with_formulas)
    missing = text.is_null()
    replaced = np.zeros(len(text), np.int64)
    for row, listed in edits.items():
        replaced[row] = sum(edit.stop - edit.start for edit in listed)
    drop, detail = _verdicts(text, edits, replaced, config)
    columns = [
        after,
        scrub_column(batch.column("locator"), config)[0],
        _lists(edits, missing, lambda listed: [bound for edit in listed for bound in (edit.start, edit.stop)], _SPANS),
        _lists(edits, missing, lambda listed: [bound for span in shifted(listed) for bound in span], _SPANS),
        _lists(edits, missing, lambda listed: [edit.type for edit in listed], SCHEMA.field("replaced_types").type),
        pa.array(replaced, mask=missing.to_numpy(zero_copy_only=False)),
        drop,
        detail,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _regions(batch: pa.RecordBatch, config: Config) -> Callable[[int], tuple[str, ...]]:
    urls = batch.column("url")
    labels = batch.column(LABEL) if LABEL in batch.schema.names else None

    def regions(row: int) -> tuple[str, ...]:
        label = labels[row].as_py() if labels is not None else None
        return phones.regions_of(language_of(label) if label else None, urls[row].as_py(), config.regions)

    return regions


def _lists(
    edits: Mapping[int, list[Edit]], missing: pa.Array, values_of: Callable[[list[Edit]], list[Any]], kind: Any
) -> Any:
    values = [values_of(edits[row]) for row in sorted(edits)]
    sizes = np.zeros(len(missing) + 1, np.int32)
    for row, listed in zip(sorted(edits), values, strict=True):
        sizes[row + 1] = len(listed)
    flat = pa.array([one for listed in values for one in listed], kind.value_type)
    mask = missing if pc.any(missing).as_py() else None
    return pa.ListArray.from_arrays(pa.array(np.cumsum(sizes, dtype=np.int32)), flat, mask=mask).cast(kind)


def _verdicts(
    text: pa.Array, edits: Mapping[int, list[Edit]], replaced: Any, config: Config
) -> tuple[pa.Array, pa.Array]:
    drops: list[str | None] = [None] * len(text)
    details: list[str | None] = [None] * len(text)
    sizes = pc.binary_length(text).fill_null(0).to_numpy(zero_copy_only=False)
    for row, listed in edits.items() if config.max_density is not None else ():
        share = replaced[row] / sizes[row]
        if len(listed) >= MIN_FOUND and share > (config.max_density or 1):
            drops[row] = TOO_DENSE
            details[row] = f"{len(listed)} findings are {share:.3f} of the bytes, above {config.max_density}"
    return pa.array(drops, pa.string()), pa.array(details, pa.string())


def metrics(batch: pa.RecordBatch, answers: pa.RecordBatch, config: Config) -> dict[str, Any]:
    """`found`: documents with findings of each type, by source and language; `findings`: all findings, by type."""
    types = answers["replaced_types"]
    counts = types.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    changed = np.flatnonzero(counts).tolist()
    return {
        "documents_seen": answers.num_rows - answers["text"].null_count,
        "documents_changed": len(changed),
        "text_bytes_replaced": pc.sum(answers["replaced_bytes"]).as_py() or 0,
        "found": found_in(((row, sorted(set(types[row].as_py()))) for row in changed), batch),
        "findings": dict(Counter(types.flatten().to_pylist())),
    }


def warnings(found: Mapping[str, Any], config: Config) -> Sequence[str]:
    """A warning if nothing at all was found. A single missing type is a good sign."""
    seen, types = found.get("documents_seen", 0), ", ".join(config.types)
    text = (
        f"nothing was found in {counted(seen, 'document')}, searched for {types}. If the texts were scrubbed before, "
    )
    return idle(seen, found.get("documents_changed"), f"{text}remove the step")


def highlights(batch: pa.RecordBatch, config: Config) -> list[tuple[int, int, int, str]]:
    spans, types = (batch.column(name).to_pylist() for name in ("replaced_spans", "replaced_types"))
    return [
        (row, start, stop, kind)
        for row, (bounds, kinds) in enumerate(zip(spans, types, strict=True))
        for start, stop, kind in zip((bounds or ())[::2], (bounds or ())[1::2], kinds or (), strict=True)
    ]


STAGE = Map(
    version=6,
    config=Config,
    libraries=libraries,
    reads=("text", "url", "source", "locator"),
    may_read=(LABEL, FORMULAS),
    only_kept=True,
    schema=SCHEMA,
    spans=("replaced_spans",),
    apply=apply,
    metrics=metrics,
    matched=("replaced_types",),
    highlights=highlights,
    check=check,
    warnings=warnings,
)
