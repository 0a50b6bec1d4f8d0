"""How well a swarm predicts mixtures, and whether its proposal beats natural, uniform and temperature sampling.

    python -m bench._mixture prepare DATA FOLDER          texts of DATA as a pool of eight domains; needs `tokenizers`
    python -m bench._mixture train FOLDER --tokens 16M    27 + 6 + 12 trainings; needs numpy and torch only

DATA has `text/` and `text_large/` with `<domain>.jsonl.zst`. Results are appended to `results.jsonl` in `--out`, and a
stopped run continues from there.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from gristmill.proxy.domains import DomainPool, shared_documents
from gristmill.proxy.items import TextItem, encode_items
from gristmill.proxy.pool import mixed
from gristmill.proxy.stream import Training
from gristmill.proxy.swarm import MixtureSpace, propose, spearman

MEGABYTES = {
    "gutenberg-en": 24,
    "mdn-translated": 16,
    "sql-docs": 14,
    "dotnet-docs": 10,
    "mdn-en": 8,
    "latex-math": 6,
    "code": 5,
    "bible-corpus": 3,
}
"""The most bytes of each domain."""
HELD_BYTES = 200_000
VOCAB, PIECE, WINDOW = 16_384, 8192, 1024
END = 0
EPOCHS = 4.0
SETTINGS = {
    "30m": {"sequence": 1024, "batch": 65_536, "rate": 1e-3},
    "3m": {"sequence": 128, "batch": 1024, "rate": 3e-3},
}


def prepare(data, folder, scale):
    """Writes the pool and the held-out texts to files."""
    import zstandard
    from tokenizers import ByteLevelBPETokenizer

    texts = {}
    for name, megabytes in MEGABYTES.items():
        held, size = [], 0
        for path in (data / "text" / f"{name}.jsonl.zst", data / "text_large" / f"{name}.jsonl.zst"):
            if path.exists():
                raw = zstandard.ZstdDecompressor().stream_reader(path.open("rb")).read()
                for line in raw.split(b"\n"):
                    if line and size < megabytes * 1e6 * scale:
                        held.append(json.loads(line)["text"])
                        size += len(held[-1].encode())
        texts[name] = held
        print(f"{name}: {len(held):,} documents, {size / 1e6:.1f} MB", flush=True)
    tokenizer = ByteLevelBPETokenizer()
    sample = [text[:20_000] for some in texts.values() for text in some[:: max(1, len(some) // 100)]]
    tokenizer.train_from_iterator(sample, vocab_size=VOCAB, special_tokens=["<|end|>"], show_progress=False)
    tokens, starts, keys, domain, apart = [], [0], [], [], []
    for number, (name, some) in enumerate(texts.items()):
        held = 0
        for at, text in enumerate(some):
            if held < HELD_BYTES * min(1, scale) and at % 2:
                apart.append(TextItem(name, f"{name} {at}", text[: int(20_000 * min(1, 5 * scale))]))
                held += len(apart[-1].question.encode())
                continue
            ids = np.array([*tokenizer.encode(text).ids, END], np.uint16)
            for first in range(0, len(ids), PIECE):
                tokens.append(ids[first : first + PIECE])
                starts.append(starts[-1] + len(tokens[-1]))
                keys.append(len(keys))
                domain.append(number)
    keys, domain = mixed(np.array(keys, np.uint64) + np.uint64(1)), np.array(domain)
    none = np.zeros(0, np.int64)
    pool = DomainPool(
        np.concatenate(tokens),
        np.array(starts),
        keys,
        np.zeros(len(keys), np.int32),
        np.zeros(1, bool),
        VOCAB,
        END,
        tuple(texts),
        domain,
        held_tokens=none,
        held_starts=np.zeros(1, np.int64),
        held_domain=none,
        shared=shared_documents(keys, domain, len(texts)),
    )
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / "pool.npz", **vars(pool))
    rows = [(one.benchmark, one.question, tokenizer.encode(one.question).ids) for one in apart]
    (folder / "held.json").write_text(json.dumps(rows))
    for path in folder.iterdir():
        print(f"{path}: {path.stat().st_size / 2**20:.1f} MiB")


def train_all(folder, tokens, size, device, out, runs, tried, seeds, budget):
    from gristmill.proxy.evaluate import score
    from gristmill.proxy.train import train

    began = time.time()
    pool = DomainPool.load(folder / "pool.npz")
    rows = json.loads((folder / "held.json").read_text())
    ids = {text: found for _, text, found in rows}
    items = encode_items([TextItem(name, "", text) for name, text, _ in rows], ids.__getitem__, END, WINDOW, 10**9)
    results = out / "results.jsonl"
    known = {}
    if results.exists():
        for line in results.read_text().splitlines():
            one = json.loads(line)
            known[one["name"]] = np.array(one["scores"])
    sizes = np.bincount(pool.domain, np.diff(pool.starts))
    natural = sizes / sizes.sum()
    space = MixtureSpace(pool.names, natural, np.zeros(len(natural)), EPOCHS * sizes / tokens)
    tasks = [items.tasks.index(name) for name in pool.names]

    def scores(name, shares, seed=0):
        if name not in known:
            if time.time() - began > budget:
                sys.exit(f"the budget of {budget} s is used up; start again with the same --out to go on")
            start = time.time()
            config = Training(size, tokens, seed, device, **SETTINGS[size], shares=tuple(shares))
            snapshots, losses = train(pool, config)
            bits, _ = score(snapshots, size, pool.vocab, items, device)
            sums = [np.bincount(items.task, np.bincount(items.unit_item, each)) for each in (bits, items.unit_bytes)]
            known[name] = (sums[0] / sums[1])[tasks]
            row = {"name": name, "seed": seed, "shares": list(map(float, shares)), "scores": known[name].tolist()}
            with results.open("a") as file:
                file.write(json.dumps({**row, "loss": losses[-1], "seconds": round(time.time() - start, 1)}) + "\n")
            print(f"{name}: {known[name].mean():.4f} in {time.time() - start:.1f} s", flush=True)
        return known[name]

    design = space.design(runs)
    swarm = np.stack([scores(f"swarm {at}", row) for at, row in enumerate(design)])
    by_domain = dict(zip(pool.names, swarm.T, strict=True))
    found = propose(space, design, by_domain, dict.fromkeys(pool.names, 1.0))
    base = swarm[0]

    def objective(each):
        return float((each / base).mean())

    others = space.design(tried + 1, seed=7)[1:]
    observed = [objective(scores(f"held-out {at}", row)) for at, row in enumerate(others)]
    predicted = [objective(np.array([found.responses[name].predict(row) for name in pool.names])) for row in others]
    report = {
        "tokens": tokens,
        "size": size,
        "spearman_held_out": spearman(np.array(observed), np.array(predicted)),
        "spearman_left_out": found.rank_correlation,
        "observed": observed,
        "predicted": predicted,
        "predicted_gain": found.gain,
        "natural": dict(zip(pool.names, natural.round(4).tolist(), strict=True)),
        "proposal": dict(zip(pool.names, found.shares.round(4).tolist(), strict=True)),
        "low": found.low.round(4).tolist(),
        "high": found.high.round(4).tolist(),
    }
    print(json.dumps(report, indent=1), flush=True)
    mixtures = {
        "proposal": found.shares,
        "natural": natural,
        "uniform": space.project(np.ones(len(natural))),
        "temperature": space.project(natural**0.5),
    }
    means = {
        name: np.array([objective(scores(f"{name} {seed}", shares, seed)) for seed in range(seeds)])
        for name, shares in mixtures.items()
    }
    for name, each in means.items():
        line = f"{name}: {each.mean():.5f} +- {each.std(ddof=1):.5f}"
        if name != "proposal":
            gap = each - means["proposal"]
            line += f"; proposal better by {gap.mean():+.5f}, paired sigma {gap.std(ddof=1):.5f}"
        print(line, flush=True)
        report[name + "_objective"] = each.tolist()
    (out / "report.json").write_text(json.dumps(report, indent=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("prepare")
    one.add_argument("data", type=Path)
    one.add_argument("folder", type=Path)
    one.add_argument("--scale", type=float, default=1.0, help="share of the texts")
    two = commands.add_parser("train")
    two.add_argument("folder", type=Path)
    two.add_argument(
        "--tokens", type=lambda text: int(float(text.replace("M", "e6").replace("k", "e3"))), required=True
    )
    two.add_argument("--size", choices=SETTINGS, default="30m")
    two.add_argument("--device", default="cuda")
    two.add_argument("--out", type=Path, default=Path("."))
    two.add_argument("--runs", type=int, default=27)
    two.add_argument("--tried", type=int, default=6)
    two.add_argument("--seeds", type=int, default=3)
    two.add_argument("--budget", type=float, default=1e9, help="seconds after which no training begins")
    options = parser.parse_args()
    if options.command == "prepare":
        prepare(options.data, options.folder, options.scale)
    else:
        options.out.mkdir(parents=True, exist_ok=True)
        bounds = (options.runs, options.tried, options.seeds, options.budget)
        train_all(options.folder, options.tokens, options.size, options.device, options.out, *bounds)


if __name__ == "__main__":
    main()
