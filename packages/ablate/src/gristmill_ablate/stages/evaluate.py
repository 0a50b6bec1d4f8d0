"""Scores of a trained proxy on the items of a suite, and which items its pool holds (proxy/evaluate.py)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np

from gristmill.stages.contract import Asset, Resources, StageConfig
from gristmill_ablate.proxy.items import Items, touched
from gristmill_ablate.proxy.pool import Pool, save_arrays


class Config(StageConfig):
    size: Literal["3m", "10m", "30m", "60m", "124m", "350m"]
    device: Literal["cpu", "cuda"]


def resources(config: Config, part_bytes: int) -> Resources:
    on_gpu = config.device == "cuda"
    return Resources(memory=8 * 10**9 if on_gpu else 2 * 10**9, gpus=int(on_gpu))


def make(config: Config, path: Path, *, models: Mapping[str, Path]) -> dict[str, int]:
    from gristmill_ablate.proxy.evaluate import score
    from gristmill_ablate.proxy.threads import one_thread

    items, pool = Items.load(models["items"]), Pool.load(models["pool"])
    snapshots: dict[str, dict[str, np.ndarray]] = {}
    with np.load(models["train"]) as file:
        for name in file.files:
            number, _, weight = name.partition("/")
            snapshots.setdefault(number, {})[weight] = file[name]
    with one_thread():
        bits, greedy = score(list(snapshots.values()), config.size, pool.vocab, items, config.device)
    in_pool = touched(items, pool)
    save_arrays(path, {"bits": bits, "greedy": greedy, "touched": in_pool})
    return {"items": len(items.task), "touched": int(in_pool.sum())}


STAGE = Asset(
    version=3,
    config=Config,
    libraries=("torch",),
    uses=("pool", "items", "train"),
    resources=resources,
    make=make,
)
