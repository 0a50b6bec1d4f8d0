"""Trains a proxy model on a pool, and keeps its last snapshots (proxy/train.py)."""

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from gristmill.stages.contract import Asset, Count, ReportMark, Resources, StageConfig
from gristmill_ablate.proxy.pool import Pool, save_arrays


class Config(StageConfig):
    size: Literal["3m", "10m", "30m", "60m", "124m", "350m"]
    tokens: Count
    """Tokens to train on."""
    seed: int
    """Of the initialisation and of the order of documents."""
    device: Literal["cpu", "cuda"]
    """cpu: float32. cuda: bfloat16, compiled."""
    sequence: int = Field(ge=16, le=8192)
    """Tokens of a sequence."""
    batch: Count
    """Tokens of a step."""
    rate: float = Field(gt=0, le=1)
    """The peak learning rate."""
    shares: tuple[float, ...] = ()
    """Of the domains of the pool; none: the pool as it is."""
    checkpoints: Annotated[str, ReportMark()] = ""
    """The folder for checkpoints; empty: a run that is killed begins again."""


def resources(config: Config, part_bytes: int) -> Resources:
    on_gpu = config.device == "cuda"
    return Resources(memory=8 * 10**9 if on_gpu else 2 * 10**9, gpus=int(on_gpu))


def make(config: Config, path: Path, *, models: Mapping[str, Path]) -> dict[str, float]:
    from gristmill_ablate.proxy.stream import Training
    from gristmill_ablate.proxy.threads import one_thread
    from gristmill_ablate.proxy.train import train

    fields = config.model_dump(exclude={"checkpoints"})
    folder = ""
    if config.checkpoints:
        with open(models["pool"], "rb") as file:
            pool_hash = hashlib.file_digest(file, "sha256").hexdigest()
        folder = os.path.join(config.checkpoints, hashlib.sha256(f"{pool_hash} {fields}".encode()).hexdigest()[:32])
    with one_thread():
        snapshots, losses = train(Pool.load(models["pool"]), Training(**fields), folder)
    arrays = {f"{number}/{name}": array for number, kept in enumerate(snapshots) for name, array in kept.items()}
    save_arrays(path, arrays)
    if folder:
        shutil.rmtree(folder, ignore_errors=True)
    return {"steps": len(losses), "loss": round(float(np.mean(losses[-10:])), 6)}


STAGE = Asset(version=2, config=Config, libraries=("torch",), uses=("pool",), resources=resources, make=make)
