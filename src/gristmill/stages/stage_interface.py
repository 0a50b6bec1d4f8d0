"""What a stage module is and needs, once its config is known.

A stage whose columns depend on its config defines `reads(config)` in place of READS and `schema(config)` in place
of SCHEMA; nobody else has to know which of the two a module has.
"""

import importlib.metadata
import inspect
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from types import ModuleType
from typing import Any, Literal

import pyarrow as pa

from gristmill.counted import counted
from gristmill.errors import BrokenPromise
from gristmill.kernels.text.unicode_data import UNICODE_VERSION
from gristmill.stages.contract import Prerequisite, Resources, StageConfig

_OF_RECORDS = ("key", "part", "row")
Kind = Literal["map", "exchange", "fit", "asset", "sink"]

_VERBS: dict[Kind, tuple[str, ...]] = {
    "map": ("apply",),
    "exchange": ("emit", "reduce"),
    "fit": ("fit",),
    "asset": ("make",),
    "sink": ("layout", "emit", "build", "files", "facts"),
}
_OWN = {"apply": "map", "reduce": "exchange", "fit": "fit", "make": "asset", "build": "sink"}
"""The verb that only one kind has."""
_NAMES = """
    VERSION LIBRARIES Config READS SCHEMA RECORD_SCHEMA ROUNDS SUMMARIES COPIES COUNTS CARRIES_ROWS ONLY_KEPT JUDGES
    USES PREREQUISITES MATCHED MAY_READ MEMORY_FIELD SUFFIX SPLITTABLE POSITIONS BESIDE USED MARKUP WANTED OTHER_SUFFIX
    SKIPPED_FOLDER companions read apply emit reduce fit make layout build files facts prerequisites reads schema
    libraries uses may_read check metrics warnings explain explain_fully highlights exceptions tally totals
    RESOURCES resources setup
"""
_DECLARATIONS = frozenset(_NAMES.split())
"""Every name of a module that the engine looks for (contract.py)."""


def kind_of(module: ModuleType) -> Kind:
    """The kind that the module's verbs show; TypeError where they show none, or two."""
    kinds = [kind for kind, verbs in _VERBS.items() if all(callable(getattr(module, verb, None)) for verb in verbs)]
    if len(kinds) != 1:
        raise TypeError(f"{module.__name__} is {' and '.join(kinds) or 'no'} stage")
    return kinds[0]


def adds_layer(module: ModuleType) -> bool:
    """Whether a step writes columns beside the documents; others write files."""
    return kind_of(module) in ("map", "exchange")


def reads_of(module: ModuleType, config: StageConfig) -> tuple[str, ...]:
    """The columns that a step needs, an asset none: `text`, or `extract.text` for that of a certain earlier step."""
    reads: Any = module.reads(config) if hasattr(module, "reads") else getattr(module, "READS", ())
    return tuple(reads)


def may_read_of(module: ModuleType, config: StageConfig) -> tuple[str, ...]:
    """Columns that a step is given where an earlier step of its route writes them."""
    names: Any = module.may_read(config) if hasattr(module, "may_read") else getattr(module, "MAY_READ", ())
    needed = reads_of(module, config)
    return tuple(name for name in names if name not in needed)


def schema_of(module: ModuleType, config: StageConfig) -> pa.Schema:
    """The columns that a step adds; none where it writes files."""
    if not adds_layer(module):
        return pa.schema([])
    schema: pa.Schema = module.schema(config) if hasattr(module, "schema") else module.SCHEMA
    return schema


def libraries_of(module: ModuleType, config: StageConfig) -> tuple[str, ...]:
    """The distributions whose version changes what a stage does with this config."""
    libraries: Any = module.libraries(config) if hasattr(module, "libraries") else getattr(module, "LIBRARIES", ())
    return tuple(libraries)


@cache
def version_of(library: str) -> str:
    """The version of an installed distribution; `unicode` is that of the character tables that we ship.

    Kept: to parse what a distribution says of itself takes a millisecond, and a plan asks for each of its steps.
    """
    return UNICODE_VERSION if library == "unicode" else importlib.metadata.version(library)


def before_of(module: ModuleType, config: StageConfig) -> list[Prerequisite]:
    """The stages that run just before a step, as parts of it."""
    if hasattr(module, "prerequisites"):
        return list(module.prerequisites(config))
    return [Prerequisite(path.rpartition(".")[2], path) for path in getattr(module, "PREREQUISITES", ())]


def part_config(module: ModuleType, config: StageConfig) -> StageConfig:
    """The config of a stage that runs before its step: those fields of the step's that it has."""
    made: StageConfig = module.Config(**{name: getattr(config, name) for name in module.Config.model_fields})
    return made


def uses_of(module: ModuleType, config: StageConfig) -> tuple[str, ...]:
    """The names of the steps whose models a step needs."""
    return tuple(module.uses(config) if hasattr(module, "uses") else getattr(module, "USES", ()))


def resources_of(module: ModuleType, config: StageConfig, part_bytes: int) -> Resources | None:
    """What a stage declares that one task needs, for a part with so many bytes of text; None: it declares nothing."""
    declare = getattr(module, "resources", None)  # a step of the user's own may import a module of that name
    declared = declare(config, part_bytes) if callable(declare) else getattr(module, "RESOURCES", None)
    if declared is not None and not isinstance(declared, Resources):
        raise BrokenPromise(
            f"its resources are of type {type(declared).__name__}, not Resources (gristmill.stages.contract)"
        )
    return declared


def has_setup(module: ModuleType) -> bool:
    """Whether a stage loads something once in each worker."""
    return callable(getattr(module, "setup", None))


def faults_of_reader(module: ModuleType) -> list[str]:
    """What keeps a module from being a reader."""
    wanted = {"read(piece, config)": "read", "SPLITTABLE(name)": "SPLITTABLE"}
    return _common_faults(module) + [
        f"it has no {shown}" for shown, name in wanted.items() if not callable(getattr(module, name, None))
    ]


def faults_of_step(module: ModuleType) -> list[str]:
    """What keeps a module from being a step."""
    faults = _common_faults(module)
    present = {verb for verbs in _VERBS.values() for verb in verbs if callable(getattr(module, verb, None))}
    kinds: list[Kind] = [kind for kind, verbs in _VERBS.items() if any(_OWN.get(verb) == kind for verb in present)]
    kinds = kinds or [kind for kind, verbs in _VERBS.items() if kind != "sink" and present.intersection(verbs)]
    if not kinds:
        return [*faults, "it has no verb: apply, emit and reduce, fit, make, or build"]
    if len(kinds) > 1:
        return [*faults, f"it has the verbs of {' and '.join(kinds)}, and a stage is of one kind"]
    kind = kinds[0]
    faults += [f"it has no {verb}" for verb in _VERBS[kind] if verb not in present]
    has_reads = hasattr(module, "READS") or hasattr(module, "reads")
    if kind == "asset" and has_reads:
        faults.append("it says which columns it reads, and what has the verb make reads no documents")
    elif kind != "asset" and not has_reads:
        faults.append("it has no READS")
    elif isinstance(getattr(module, "READS", ()), str):
        faults.append("its READS is text, not a tuple of column names")
    if isinstance(getattr(module, "USES", ()), str):
        faults.append("its USES is text, not a tuple of step names")
    if kind in ("map", "exchange") and not hasattr(module, "SCHEMA") and not hasattr(module, "schema"):
        faults.append("it has no SCHEMA")
    if kind in ("exchange", "sink") and not hasattr(module, "RECORD_SCHEMA"):
        faults.append("it has no RECORD_SCHEMA")
    if kind == "sink":
        faults += [] if hasattr(module, "COUNTS") else ["it has no COUNTS"]
    if has_setup(module) and kind not in ("map", "exchange"):
        faults.append("it has setup, which is for apply and emit. Load what it needs where it needs it")
    faults += _faults_of_exchange(module) if kind == "exchange" else []
    return faults or _faults_of_calls(module, kind)


def _faults_of_calls(module: ModuleType, kind: Kind) -> list[str]:
    """Functions that cannot be called as the contract says, by their arguments."""
    models: tuple[str, ...] = ("models",) if getattr(module, "USES", ()) or hasattr(module, "uses") else ()
    loaded = (*models, *(["loaded"] if has_setup(module) else []))
    totals = ("totals",) if hasattr(module, "tally") else ()
    summaries = getattr(module, "SUMMARIES", {})
    calls: dict[str, tuple[int, tuple[str, ...]]] = {
        "map": {"apply": (2, loaded)},
        "exchange": {
            "emit": (2, loaded),
            "tally": (3, ()),
            "totals": (2, ()),
            **dict.fromkeys(summaries.values(), (2, totals)),
            **{
                name: (2, (*totals, *(["others"] if name in summaries else [])))
                for name in getattr(module, "ROUNDS", ("reduce",))
            },
        },
        "fit": {"fit": (3, models)},
        "asset": {"make": (2, models)},
    }.get(kind, {})
    more: dict[str, tuple[int, tuple[str, ...]]] = {"resources": (2, ()), "setup": (1, models)}
    calls |= {name: how for name, how in more.items() if callable(getattr(module, name, None))}
    faults = []
    for name, (given, named) in calls.items():
        try:
            inspect.signature(getattr(module, name)).bind(*[None] * given, **dict.fromkeys(named))
        except TypeError as error:
            told = f"{counted(given, 'argument')}{''.join(f' and {one}=' for one in named)}"
            faults.append(f"its {name} is called with {told}, and takes others ({error})")
        except (AttributeError, ValueError):  # not there, which is optional, or it does not say what it takes
            continue
    return faults


def _faults_of_exchange(module: ModuleType) -> list[str]:
    """What else an exchange says of itself, checked before any work: a slip would show in the largest corpus only."""
    faults = []
    schema = getattr(module, "RECORD_SCHEMA", None)
    if schema is not None and not isinstance(schema, pa.Schema):
        faults.append(f"its RECORD_SCHEMA is of type {type(schema).__name__}, not a pyarrow.Schema")
    elif schema is not None:
        taken = [name for name in _OF_RECORDS if name in schema.names]
        faults += [f"its RECORD_SCHEMA has {name}, which every record has by itself" for name in taken]
        if len(set(schema.names)) < len(schema.names):
            faults.append("its RECORD_SCHEMA has a column twice")
    for one, other in (("tally", "totals"), ("totals", "tally")):
        if callable(getattr(module, one, None)) and not callable(getattr(module, other, None)):
            faults.append(f"it has {one} and no {other}")
    rounds = getattr(module, "ROUNDS", ("reduce",))
    if not isinstance(rounds, tuple | list) or not rounds or not all(isinstance(name, str) for name in rounds):
        return [*faults, "its ROUNDS is not a tuple of names of functions"]
    missing = [name for name in rounds if not callable(getattr(module, name, None))]
    faults += [f"its ROUNDS name {name}, which it has not" for name in missing]
    summaries = getattr(module, "SUMMARIES", {})
    if not isinstance(summaries, Mapping):
        return [*faults, "its SUMMARIES is not a dict from a round to the name of a function"]
    for name, function in summaries.items():
        if name not in rounds:
            faults.append(f"its SUMMARIES name the round {name}, and its rounds are {', '.join(rounds)}")
        if not isinstance(function, str) or not callable(getattr(module, function, None)):
            faults.append(f"its SUMMARIES name the function {function}, which it has not")
    return faults


def _common_faults(module: ModuleType) -> list[str]:
    faults = []
    version = getattr(module, "VERSION", None)
    if version is None:
        faults.append("it has no VERSION")
    elif not isinstance(version, int) or isinstance(version, bool):
        faults.append("its VERSION is not a whole number")
    config = getattr(module, "Config", None)
    if config is None:
        faults.append("it has no Config")
    elif not (isinstance(config, type) and issubclass(config, StageConfig)):
        faults.append("its Config is not a StageConfig (gristmill.stages.contract)")
    return faults + _misspelt(module)


def _misspelt(module: ModuleType) -> list[str]:
    """Public constants and functions of the module that resemble a declaration: the engine would never read them."""
    own = {
        name: 0.8 if name.isupper() else 0.9  # functions have more names of their own that resemble ours: ready, fits
        for name, value in vars(module).items()
        if not name.startswith("_") and name not in _DECLARATIONS
        if (inspect.isfunction(value) and value.__module__ == module.__name__)
        or (name.isupper() and not callable(value) and not inspect.ismodule(value))
    }
    near = {name: get_close_matches(name, _DECLARATIONS - vars(module).keys(), 1, alike) for name, alike in own.items()}
    return [
        f"it defines {name}, which the engine does not know. Did you mean {found[0]}? "
        f"If the name is your own, write _{name}"
        for name, found in near.items()
        if found
    ]
