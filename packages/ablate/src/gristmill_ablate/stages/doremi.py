"""Weights of domains by DoReMi, against a trained reference model (proxy/doremi.py)."""

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from gristmill.stages.contract import Asset
from gristmill_ablate.proxy.pool import Pool, save_arrays
from gristmill_ablate.stages import train


def make(config: train.Config, path: Path, *, models: Mapping[str, Path]) -> dict[str, int]:
    from gristmill_ablate.proxy.doremi import reweigh
    from gristmill_ablate.proxy.stream import Training

    fields = config.model_dump(exclude={"checkpoints"})
    with np.load(models["train"]) as file:
        last = max(int(name.partition("/")[0]) for name in file.files)
        weights = {name.partition("/")[2]: file[name] for name in file.files if name.startswith(f"{last}/")}
    folder = ""
    if config.checkpoints:
        used = [hashlib.sha256(Path(models[name]).read_bytes()).hexdigest() for name in ("pool", "train")]
        name = hashlib.sha256(f"doremi {used} {fields}".encode()).hexdigest()[:32]
        folder = os.path.join(config.checkpoints, name)
    alphas = reweigh(Pool.load(models["pool"]), Training(**fields), weights, folder)
    save_arrays(path, {"alphas": alphas})
    if folder:
        shutil.rmtree(folder, ignore_errors=True)
    return {"steps": len(alphas)}


STAGE = Asset(
    version=1,
    config=train.Config,
    libraries=("torch",),
    uses=("pool", "train"),
    resources=train.resources,
    make=make,
)
