"""What a user may write in a recipe, outside of the stages: the fields, their units and their defaults."""

import re
from typing import Annotated, Any, Literal, TypeGuard

from pydantic import AfterValidator, BeforeValidator, Field

from gristmill.recipe.sections.snapshot import check_snapshot
from gristmill.stages.contract import Bytes, Count, StageConfig
from gristmill.stages.shards.shard_groups import ELSE
from gristmill.stages.shared.expressions import parse_condition, parse_value

EVERY_SOURCE = "all"
"""The key in `steps` whose list every source goes through; no source or kind may have this name."""

COLUMN = "column"
_TIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,19}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
ONE_FILE = "and names become file names: on some disks the two would be one file. Rename one of them"


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError(
            f"{value!r} cannot be a name, because names become file names. "
            "Use up to 100 of A-Z a-z 0-9 . _ - and begin with a letter or a digit"
        )
    return value


def check_name(value: str) -> str:
    """A name of a source or a kind; ValueError says what is wrong with it."""
    if value == EVERY_SOURCE:
        raise ValueError(f"{EVERY_SOURCE!r} is kept for the steps that every source goes through. Use another name")
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
        raise ValueError(f"the last tier, and no other, is for all that is left. Write its name and {ELSE}: C: {ELSE}")
    for text in list(value.values())[:-1]:
        parse_condition(text)
    if len({name.lower() for name in value}) < len(value):
        raise ValueError(f"two tiers differ in case only, {ONE_FILE}")
    return value


def _weight(value: str) -> str:
    parse_value(value)
    return value


def parse_sample(value: Any) -> Any:
    """`1%` or `0.01`, as a share of one; ValueError says what is wrong with it."""
    text = str(value).strip()
    try:
        share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        share = 0.0
    if isinstance(value, bool) or not 0 < share < 1:
        meant = f"{share:g}%" if 1 <= share < 100 and not text.endswith("%") else "1%"
        raise ValueError(
            f"{value!r} is no share of the records. Write a percentage above 0% and below 100%, such as {meant}"
        )
    return share


Sample = Annotated[float, BeforeValidator(parse_sample)]
_Text = Annotated[str, Field(min_length=1)]
Name = Annotated[str, AfterValidator(_name)]
Tier = Annotated[str, AfterValidator(_tier)]
Location = Annotated[str, AfterValidator(_location)]


class RecipeFields(StageConfig):
    """The top of the file."""

    recipe: Name
    """name of the corpus, such as web-2026.11"""
    seed: int = Field(default=0, ge=0, lt=2**63)
    """all randomness comes from it"""
    store: Location = "./store"
    """where parts and manifests are kept: a folder, or a URI such as s3://bucket/prefix"""
    strict: bool = False
    """whether what a run would only warn of is an error"""
    sources: dict[str, Any] = Field(min_length=1)
    """the inputs, by name"""
    steps: list[Any] | dict[str, Any]
    """a list of stages for every source, or lists by kind or name of source and a last one under all"""
    quality: dict[str, Any] | None = None
    """models that a run trains to tell good text: classifiers and language_models, by name; see docs/quality.md"""
    tokenizer: dict[str, Any] | None = None
    """the tokenizer: train, what to train it on and how, or file, one that exists"""
    takedowns: str | list[Any] | dict[str, Any] | None = None
    """the file of requests to take documents out, or file, near and copies; see docs/takedown.md"""
    shards: dict[str, Any] | None = None
    """the files of tokens that a trainer reads: length of a sample, packing, size"""
    mix: dict[str, Any] | None = None
    """what is drawn how often: domains, tiers, a budget of tokens, phases"""
    index: bool | None = None
    """whether look-ups by id, URL and text get an index (lineage); by default where there are shards"""
    cluster: dict[str, Any] | None = None
    """jobs of Slurm for runs with the executor slurm: how many, options of sbatch, setup; changes no byte and no key"""
    sample: Sample | None = None
    """share of every source's records that is taken, such as 1%, to try a recipe; runs under a name of its own"""


class SourceFields(StageConfig):
    """One of `sources`."""

    kind: Annotated[str, AfterValidator(check_name)]
    """which steps the source takes, such as web, text or code"""
    read: dict[str, Any]
    """format, paths, and the fields of the format's reader"""
    license: str | None = Field(default=None, min_length=1)
    """license of every document whose own is not known"""
    domain: Annotated[_Text | dict[str, _Text], AfterValidator(_domain)] | None = None
    """what the mix counts its documents as: a name, or the values of a column, {column: language.label, default: web}
    """
    tier: Annotated[Tier | dict[Tier, str], AfterValidator(_tiers)] | None = None
    """how good its documents are, for the mix: a name; names with conditions over columns, the last of them else; or
    the values of a column, {column: NAME, default: C}
    """
    weight: Annotated[str, AfterValidator(_weight)] | None = None
    """how often a document is drawn against others of its tier: a value over columns, such as exact_dedup.dup_count"""


class ReadFields(StageConfig):
    """What every format has under `read`; its reader's Config has the rest."""

    format: str
    """what the files are"""
    paths: tuple[Location, ...] = Field(min_length=1)
    """files, folders with all below them, and globs, relative to the recipe's folder"""
    exclude: tuple[Location, ...] = ()
    """files, folders and globs that are not read, relative to the recipe's folder"""
    links: Literal["inside", "follow"] = "inside"
    """links in a folder or behind a glob: inside, those that stay below it; follow, all, each file still read once"""
    snapshot: Annotated[str, AfterValidator(check_snapshot)] | None = Field(default=None, min_length=1)
    """a name, or a regular expression whose one group finds it in a file's path"""
    part_bytes: Bytes = Field(default=64 * 2**20, ge=1)
    """input bytes that become one part"""
    limit: Count | None = None
    """records that are read at most, good and bad: the first ones of the files in their order, to try a recipe"""
