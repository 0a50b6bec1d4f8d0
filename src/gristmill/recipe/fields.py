"""The fields of a recipe outside of the stages, with their units and defaults."""

import re
from typing import Annotated, Any, Literal, TypeGuard

from pydantic import AfterValidator, BeforeValidator, Field

from gristmill.recipe.sections.snapshot import check_snapshot
from gristmill.stages.contract import Bytes, Count, SourceName, StageConfig
from gristmill.stages.shards.shard_groups import ELSE
from gristmill.stages.shared.expressions import parse_condition, parse_value

EVERY_SOURCE = "all"
"""The key in `steps` whose list applies to every source; no source or kind may have this name."""

COLUMN = "column"
_TIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,19}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
ONE_FILE = "and names become file names: some disks would store both in one file. Rename one of them"


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError(
            f"{value!r} cannot be a name, because names become file names. "
            "Use up to 100 of A-Z a-z 0-9 . _ - and begin with a letter or a digit"
        )
    return value


def check_name(value: str) -> str:
    """Check the name of a source or a kind; raises ValueError with what is wrong with it."""
    if value == EVERY_SOURCE:
        raise ValueError(f"{EVERY_SOURCE!r} is reserved for the steps that every source takes. Use another name")
    return _name(value)


def _location(value: str) -> str:
    if not value.strip():
        raise ValueError("the path is empty. Write . for the recipe's own folder")
    return value


def _tier(value: str) -> str:
    if not _TIER.fullmatch(value):
        raise ValueError(
            f"{value!r} cannot be the name of a tier, because names become file names. "
            "Use up to 20 of A-Z a-z 0-9 . _ - and begin with a letter or a digit"
        )
    return value


def is_column(value: object) -> TypeGuard[dict[str, str]]:
    """Whether a domain or tier is the value of a column: {column: NAME}, or {column: NAME, default: NAME}."""
    return isinstance(value, dict) and {COLUMN} <= value.keys() <= {COLUMN, "default"} and value[COLUMN] != ELSE


def _column(value: str) -> None:
    formula = parse_value(value)
    if formula.columns != (value,):
        raise ValueError(f"{value!r} is not the name of a column. Write one, such as language.label")


def _domain(value: str | dict[str, str]) -> str | dict[str, str]:
    if is_column(value):
        _column(value[COLUMN])
    elif not isinstance(value, str):
        raise ValueError("a domain is a name, or {column: language.label, default: NAME}, where default may be absent")
    return value


def _tiers(value: str | dict[str, str]) -> str | dict[str, str]:
    if isinstance(value, str):
        return value
    if is_column(value):
        _column(value[COLUMN])
        return value | ({"default": _tier(value["default"])} if "default" in value else {})
    if not value or list(value.values())[-1] != ELSE or ELSE in list(value.values())[:-1]:
        raise ValueError(f"only the last tier takes all other documents. Write its name and {ELSE}: C: {ELSE}")
    for text in list(value.values())[:-1]:
        parse_condition(text)
    if len({name.lower() for name in value}) < len(value):
        raise ValueError(f"two tiers differ only in case, {ONE_FILE}")
    return value


def _weight(value: str) -> str:
    parse_value(value)
    return value


def _reasons(value: dict[str, str]) -> dict[str, str]:
    bare = next((request for request, reason in value.items() if not reason.strip()), None)
    if bare is not None:
        raise ValueError(f"{bare} has no reason, and every version records it. Write why its documents may come back")
    return value


def parse_share(value: object) -> Any:
    """`1%` or `0.01` as a share between 0 and 1; raises ValueError with what is wrong with it."""
    text = str(value).strip()
    try:
        share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        share = 0.0
    if isinstance(value, bool) or not 0 < share < 1:
        meant = f"{share:g}%" if 1 <= share < 100 and not text.endswith("%") else "1%"
        raise ValueError(f"{value!r} is not a share. Write a percentage above 0% and below 100%, such as {meant}")
    return share


Sample = Annotated[float, BeforeValidator(parse_share)]
_Text = Annotated[str, Field(min_length=1)]
Name = Annotated[str, AfterValidator(_name)]
Tier = Annotated[str, AfterValidator(_tier)]
Location = Annotated[str, AfterValidator(_location)]


class RecipeFields(StageConfig):
    """The top level of a recipe."""

    recipe: Name
    """name of the corpus, such as web-2026.11"""
    seed: int = Field(default=0, ge=0, lt=2**63)
    """all randomness derives from it"""
    store: Location = "./store"
    """where parts and manifests are kept: a folder, or a URI such as s3://bucket/prefix"""
    strict: bool = False
    """whether warnings of a run that are not accepted are errors"""
    accept: dict[str, Any] | list[Any] | None = None
    """warnings that are accepted: {name: reason}, or a list of {name, reason, step}; does not change results or keys"""
    sources: dict[str, Any] = Field(min_length=1)
    """the inputs, by name"""
    steps: list[Any] | dict[str, Any]
    """a list of steps for every source, or lists by kind or by source name, and one under all that comes last"""
    quality: dict[str, Any] | None = None
    """models that a run trains to recognize good text: classifiers and language_models, by name; see docs/quality.md"""
    tokenizer: dict[str, Any] | None = None
    """the tokenizer: train (what to train it on and how), or file (an existing one)"""
    takedowns: str | list[Any] | dict[str, Any] | None = None
    """the file of takedown requests, or file, near and copies; see docs/takedown.md"""
    restore: Annotated[dict[str, str], AfterValidator(_reasons)] = Field(default_factory=dict)
    """takedown requests that may be undone: the id of each, and the reason; see docs/takedown.md"""
    shards: dict[str, Any] | None = None
    """the token files that a trainer reads: sample length, packing, size"""
    mix: dict[str, Any] | None = None
    """how often documents are drawn: domains, tiers, a budget of tokens, phases"""
    index: bool | None = None
    """whether lookups by id, URL and text (lineage) get an index; by default if the recipe has shards"""
    cluster: dict[str, Any] | None = None
    """Slurm jobs for runs with the executor slurm: how many, sbatch options, setup; does not change results or keys"""
    watch: str | dict[str, Any] | None = None
    """the version that a finished run is compared with, or against with other settings; see docs/watch.md"""
    sample: Sample | None = None
    """share of every source's records to read, such as 1%, to try a recipe; the run gets its own name"""


class SourceFields(StageConfig):
    """The fields of one of `sources`."""

    kind: Annotated[str, AfterValidator(check_name)]
    """which steps apply to the source, such as web, text or code"""
    read: dict[str, Any]
    """format, paths, and the fields of the format's reader"""
    license: str | None = Field(default=None, min_length=1)
    """license of every document that does not state its own"""
    domain: Annotated[_Text | dict[str, _Text], AfterValidator(_domain)] | None = None
    """the domain of its documents in the mix: a name, or the values of a column, {column: language.label, default: web}
    """
    tier: Annotated[Tier | dict[Tier, str], AfterValidator(_tiers)] | None = None
    """quality tier of its documents, for the mix: a name; names with conditions over columns, the last one else; or the
    values of a column, {column: NAME, default: C}
    """
    weight: Annotated[str, AfterValidator(_weight)] | None = None
    """how often a document is drawn relative to others of its tier: a value over columns, e.g. exact_dedup.dup_count"""


class DerivedFields(StageConfig):
    """The fields of every derived source, under the key that an installed package adds in place of `read`."""

    parents: Annotated[
        tuple[SourceName, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)
    ] = Field(min_length=1)
    """the sources whose documents its own are made from: those that their own steps keep, before the steps under all"""


class CdxFields(StageConfig):
    """The fields of `index`: which records of web archives to read."""

    files: tuple[Location, ...] = Field(min_length=1)
    """CDX or CDXJ files, plain or compressed, or Parquet files with the columns of Common Crawl's index: files, folders
    and globs"""
    hosts: tuple[_Text, ...] = ()
    """host names; each includes the hosts below it; empty: all"""
    mime: tuple[_Text, ...] = ()
    """media types, as detected if the index has that, else as the server stated them; empty: all"""
    statuses: tuple[int, ...] = ()
    """HTTP statuses; empty: all"""
    languages: tuple[_Text, ...] = ()
    """language codes as the index has them (eng, deu); a page with one of them is read; empty: all"""


class ReadFields(StageConfig):
    """The fields that every format has under `read`; its reader's Config has the others."""

    format: str
    """the format of the files"""
    paths: tuple[Location, ...] = Field(min_length=1)
    """files, folders (read recursively) and globs, relative to the recipe's folder"""
    exclude: tuple[Location, ...] = ()
    """files, folders and globs to skip, relative to the recipe's folder"""
    links: Literal["inside", "follow"] = "inside"
    """which links in a folder or a glob to follow: inside, links that stay below it; follow, all (files read once)"""
    snapshot: Annotated[str, AfterValidator(check_snapshot)] | None = Field(default=None, min_length=1)
    """a name, or a regular expression whose one group matches it in a file's path"""
    part_bytes: Bytes = Field(default=64 * 2**20, ge=1)
    """input bytes per part"""
    index: CdxFields | None = None
    """for format warc and wet: read only the records that a CDX index names; paths is the folder of its file names"""
    limit: Count | None = None
    """the most records to read, good or bad: the first ones in the order of the files, to try a recipe"""
