"""How fast proxy models train on a GPU, as a share of the rate of a plain bfloat16 matrix product.

    python -m bench._proxy_speed FOLDER    FOLDER is made by `python -m bench._mixture prepare`; needs numpy and torch

Operations are counted as 6 for each parameter and token, plus causal attention over the whole sequence (half of the
pairs), although document masks leave out some of them. The time is that of `train` as `ablate` calls it, from a pool
of tokens to the kept weights, without compilation; "evaluated" adds scoring the held-out texts.
"""

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import torch

from gristmill.proxy import train as training
from gristmill.proxy.evaluate import score
from gristmill.proxy.items import TextItem, encode_items
from gristmill.proxy.model import SIZES
from gristmill.proxy.pool import Pool
from gristmill.proxy.stream import Training

VOCAB, SEQUENCE, BATCH = 32_768, 2048, 131_072
TOKENS = {"30m": 30_000_000, "124m": 12_000_000}


def clock(function):
    torch.cuda.synchronize()
    start = time.perf_counter()
    result = function()
    torch.cuda.synchronize()
    return time.perf_counter() - start, result


def product_rate(side=8192, repeats=50):
    """Operations a second of a plain product."""
    a, b = (torch.randn(side, side, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    for _ in range(10):
        a @ b
    seconds, _ = clock(lambda: [a @ b for _ in range(repeats)])
    return 2 * side**3 * repeats / seconds


def main():
    folder = Path(sys.argv[1])
    rate = product_rate()
    print(f"a bfloat16 product of 8192 x 8192: {rate / 1e12:.0f} TFLOP/s", flush=True)
    pool = replace(Pool.load(folder / "pool.npz"), vocab=VOCAB, names=())
    rows = json.loads((folder / "held.json").read_text())
    ids = {text: found for _, text, found in rows}
    items = encode_items([TextItem(name, "", text) for name, text, _ in rows], ids.__getitem__, pool.end, 1024, 10**9)
    waited = []
    batches = training._ahead

    def watched(*arguments):
        made = batches(*arguments)
        while True:
            start = time.perf_counter()
            try:
                batch = next(made)
            except StopIteration:
                return
            waited.append(time.perf_counter() - start)
            yield batch

    training._ahead = watched
    for size, tokens in TOKENS.items():
        config = Training(size, BATCH * 4, 0, "cuda", sequence=SEQUENCE, batch=BATCH, rate=1e-3)
        training.train(pool, config)
        config = replace(config, tokens=tokens)
        waited.clear()
        seconds, (snapshots, _) = clock(lambda config=config: training.train(pool, config))
        score(snapshots, size, VOCAB, items, "cuda")
        evaluating, _ = clock(lambda kept=snapshots, size=size: score(kept, size, VOCAB, items, "cuda"))
        shape = SIZES[size]
        each = 6 * (shape.inner + VOCAB * shape.width) + 6 * shape.layers * shape.width * SEQUENCE
        trained = config.steps * BATCH
        line = {
            "size": size,
            "tokens_per_second": round(trained / seconds),
            "share": round(trained / seconds * each / rate, 3),
            "waited_for_batches": round(sum(waited[1:]) / seconds, 5),
            "evaluation_seconds": round(evaluating, 2),
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
