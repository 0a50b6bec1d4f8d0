"""Weights of domains by DoReMi, against a trained reference model (proxy/doremi.py)."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from gristmill.proxy.domains import DomainPool
from gristmill.proxy.pool import save_arrays
from gristmill.stages.contract import Asset
from gristmill.stages.proxy import train
from gristmill.stages.proxy.evaluate import read_snapshots


def make(config: train.Config, path: Path, *, models: Mapping[str, Path]) -> dict[str, int]:
    from gristmill.proxy.doremi import reweigh
    from gristmill.proxy.stream import Training

    fields = config.model_dump(exclude={"checkpoints", "shares"})
    folder = train.checkpoint_folder(config.checkpoints, models, f"doremi {fields} {config.shares}")
    reference = read_snapshots(models["train"])[-1]
    pool = DomainPool.load(models["pool"])
    alphas = reweigh(pool, Training(**fields), config.shares, reference, folder)
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
