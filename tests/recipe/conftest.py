"""Small stages for the tests, so that what they prove about recipes does not depend on the real stages."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fsspec.registry import _registry as fsspec_registry

from gristmill import stages
from gristmill.recipe.load import load
from gristmill.recipe.model import Recipe

HEADER = """
from typing import Annotated, Literal
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field
from gristmill.stages.contract import Bytes, File, StageConfig
"""

MODULES = {
    "lines_reader": """
VERSION = 1
class Config(StageConfig):
    field_text: str = "text"
    max_record_bytes: Bytes = 1000
    seed: int = 0
def SPLITTABLE(name): return True
def read(piece, config): return iter(())
""",
    "clean": """
VERSION = 1
READS = ("text",)
SCHEMA = pa.schema([("text", pa.string()), ("clean_ratio", pa.float64())])
class Robots(BaseModel):
    model_config = ConfigDict(extra="forbid")
    agent: str = "bot"
    depth: int = 1
class Config(StageConfig):
    min_words: int = Field(default=50, ge=0)
    max_ratio: float = Field(default=0.5, gt=0, le=1)
    tool: Literal["fast", "careful"] = "fast"
    keep: dict[str, float] = {}
    rules: tuple[str, ...] = ()
    loud: bool = False
    seed: int = 0
    limit_bytes: Bytes = 10
    limit: int | list[int] | None = None
    robots: Robots | None = None
def apply(batch, config): return batch
""",
    "listed": """
VERSION = 1
READS = ()
SCHEMA = pa.schema([("listed", pa.bool_())])
class Config(StageConfig):
    blocked: File
    '''Domains to leave out, one a line.'''
    more: File | None = None
    lists: list[File] = []
    named: dict[str, File] = {}
    pick: File | Literal["builtin"] = "builtin"
def apply(batch, config): return batch
""",
    "needs": """
VERSION = 1
SCHEMA = pa.schema([("needed", pa.int64())])
class Config(StageConfig):
    columns: tuple[str, ...]
def reads(config): return config.columns
def apply(batch, config): return batch
""",
    "writes": """
VERSION = 1
READS = ("text",)
class Config(StageConfig):
    columns: tuple[str, ...]
def schema(config): return pa.schema([(name, pa.int64()) for name in config.columns])
def apply(batch, config): return batch
""",
    "trainer": """
VERSION = 1
READS = ("text",)
class Config(StageConfig):
    size: int = 1
def fit(batches, config, path): return {}
""",
    "user_of_model": """
VERSION = 1
READS = ("text",)
USES = ("trainer",)
SCHEMA = pa.schema([("score", pa.float64())])
class Config(StageConfig): pass
def apply(batch, config, models): return batch
""",
    "pairs": """
VERSION = 1
READS = ("text",)
RECORD_SCHEMA = pa.schema([("size", pa.int64())])
SCHEMA = pa.schema([("cluster", pa.uint64())])
class Config(StageConfig): pass
def emit(batch, config): return batch
def reduce(records, config): return records
""",
    "pairs_of_model": """
VERSION = 1
READS = ("text",)
USES = ("trainer",)
RECORD_SCHEMA = pa.schema([("size", pa.int64())])
SCHEMA = pa.schema([("cluster", pa.uint64())])
class Config(StageConfig): pass
def emit(batch, config, models): return batch
def reduce(records, config): return records
""",
    "no_version": "READS = ()\nSCHEMA = None\nclass Config(StageConfig): pass\ndef apply(batch, config): pass\n",
    "no_verb": "VERSION = 1\nREADS = ()\nclass Config(StageConfig): pass\n",
    "half_exchange": "VERSION = 1\nREADS = ()\nclass Config(StageConfig): pass\ndef emit(batch, config): pass\n",
    "two_kinds": "VERSION = 1\nclass Config(StageConfig): pass\ndef apply(b, c): pass\ndef fit(b, c, p): pass\n",
    "loose_config": "VERSION = 1\nREADS = ()\nSCHEMA = None\nclass Config(BaseModel): pass\ndef apply(b, c): pass\n",
    "raises": "raise RuntimeError('the moon is full')\n",
    "wants_package": "import no_such_package_at_all\n",
}


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The modules above as the package `own`, written once."""
    folder = tmp_path_factory.mktemp("modules")
    (folder / "own").mkdir()
    (folder / "own" / "__init__.py").touch()
    for name, text in MODULES.items():
        (folder / "own" / f"{name}.py").write_text(HEADER + text)
    return folder


@pytest.fixture
def own(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps of `own` by their short names, and its reader as two formats; s3fs and gcsfs are not installed."""
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.setattr(stages, "READERS", {"lines": "own.lines_reader", "jsonl": "own.lines_reader"})
    short = ("clean", "listed", "needs", "writes", "trainer", "user_of_model", "pairs", "pairs_of_model")
    monkeypatch.setattr(stages, "STEPS", {name: f"own.{name}" for name in short})
    for scheme, distribution in (("s3", "s3fs"), ("gs", "gcsfs")):
        monkeypatch.delitem(fsspec_registry, scheme, raising=False)
        monkeypatch.setitem(sys.modules, distribution, None)


@pytest.fixture
def loaded(own: None, tmp_path: Path) -> Callable[..., Recipe]:
    """Writes a recipe to recipes/r.yaml below tmp_path and loads it."""

    def write_and_load(text: str, **given: object) -> Recipe:
        file = tmp_path / "recipes" / "r.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return load(file, **{"env": {}, **given})

    return write_and_load
