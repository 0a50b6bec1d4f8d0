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
from gristmill.stages.contract import Bytes, Exchange, File, Fit, Map, Reader, StageConfig
"""

MODULES = {
    "lines_reader": """
class Config(StageConfig):
    field_text: str = "text"
    max_record_bytes: Bytes = 1000
    seed: int = 0
def read(piece, config): return iter(())
STAGE = Reader(config=Config, read=read, splittable=True)
""",
    "clean": """
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
STAGE = Map(config=Config, reads=("text",), schema=SCHEMA, apply=apply)
""",
    "listed": """
SCHEMA = pa.schema([("listed", pa.bool_())])
class Config(StageConfig):
    blocked: File
    '''Domains to leave out, one a line.'''
    more: File | None = None
    lists: list[File] = []
    named: dict[str, File] = {}
    pick: File | Literal["builtin"] = "builtin"
def apply(batch, config): return batch
STAGE = Map(config=Config, reads=(), schema=SCHEMA, apply=apply)
""",
    "needs": """
SCHEMA = pa.schema([("needed", pa.int64())])
class Config(StageConfig):
    columns: tuple[str, ...]
def reads(config): return config.columns
def apply(batch, config): return batch
STAGE = Map(config=Config, reads=reads, schema=SCHEMA, apply=apply)
""",
    "writes": """
class Config(StageConfig):
    columns: tuple[str, ...]
def schema(config): return pa.schema([(name, pa.int64()) for name in config.columns])
def apply(batch, config): return batch
STAGE = Map(config=Config, reads=("text",), schema=schema, apply=apply)
""",
    "trainer": """
class Config(StageConfig):
    size: int = 1
def fit(batches, config, path): return {}
STAGE = Fit(config=Config, reads=("text",), fit=fit)
""",
    "user_of_model": """
SCHEMA = pa.schema([("score", pa.float64())])
class Config(StageConfig): pass
def apply(batch, config, models): return batch
STAGE = Map(config=Config, uses=("trainer",), reads=("text",), schema=SCHEMA, apply=apply)
""",
    "pairs": """
RECORD_SCHEMA = pa.schema([("size", pa.int64())])
SCHEMA = pa.schema([("cluster", pa.uint64())])
class Config(StageConfig): pass
def emit(batch, config): return batch
def reduce(records, config): return records
STAGE = Exchange(
    config=Config, reads=("text",), schema=SCHEMA, record_schema=RECORD_SCHEMA, emit=emit, reduce=reduce
)
""",
    "pairs_of_model": """
RECORD_SCHEMA = pa.schema([("size", pa.int64())])
SCHEMA = pa.schema([("cluster", pa.uint64())])
class Config(StageConfig): pass
def emit(batch, config, models): return batch
def reduce(records, config): return records
STAGE = Exchange(
    config=Config, uses=("trainer",), reads=("text",), schema=SCHEMA, record_schema=RECORD_SCHEMA,
    emit=emit, reduce=reduce,
)
""",
    "no_stage": "class Config(StageConfig): pass\ndef apply(batch, config): pass\n",
    "no_verb": "VERSION = 1\n",
    "half_exchange": "STAGE = Exchange(config=StageConfig, reads=(), emit=lambda batch, config: None)\n",
    "of_another_type": "STAGE = 5\n",
    "loose_config": "STAGE = Map(config=BaseModel, reads=(), schema=None, apply=lambda batch, config: None)\n",
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
