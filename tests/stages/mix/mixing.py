"""Groups, catalogues and manifests for the tests of the mixture."""

import hashlib
import json
from fractions import Fraction
from pathlib import Path

from hypothesis import strategies as st

from gristmill.stages.mix import mix
from gristmill.stages.mix.groups import MixGroup
from gristmill.stages.mix.numbers import exact
from gristmill.stages.mix.options import MixOptions
from gristmill.stages.shards.shard_groups import group_name, parts_of

SEQ_LEN = 64
DOMAINS = ("web", "code", "books")
TIERS = ("A", "B", "C")


def group(name, tokens, samples=None, domain="web"):
    """A group by name; its samples are full unless they are given."""
    source, tier, weight = parts_of(name)
    samples = -(-tokens // SEQ_LEN) if samples is None else samples
    return MixGroup(name, source, domain, tier, exact(weight), 1, tokens, samples, 0, ())


@st.composite
def some_groups(draw, least_tokens=1):
    """Two to eight groups in up to three domains, each of one source and tier, with any padding."""
    keys = draw(
        st.lists(st.tuples(st.sampled_from(DOMAINS), st.sampled_from(TIERS)), min_size=2, max_size=8, unique=True)
    )
    made = []
    for domain, tier in keys:
        held = draw(st.integers(least_tokens, 10**7))
        full = -(-held // SEQ_LEN)
        samples = draw(st.integers(full, min(held, 2 * full)))
        made.append(group(group_name(f"from_{domain}", tier), held, samples, domain))
    return made


ratios = st.fixed_dictionaries({name: st.integers(1, 100).map(lambda n: n / 100) for name in DOMAINS})
multipliers = st.fixed_dictionaries({name: st.sampled_from((0.25, 0.5, 1.0, 2.0, 4.0)) for name in TIERS})


def tokens_by(groups, weights, key):
    """The exact tokens that a phase draws, by the `key` of a group."""
    found = {}
    for one in groups:
        amount = Fraction(weights.get(one.name, 0) * one.tokens, one.samples)
        found[key(one)] = found.get(key(one), 0) + amount
    return found


def catalogue(sizes, seq_len=SEQ_LEN):
    """A catalogue of groups {name: (tokens, shards)}; each shard but the last is full."""
    outputs = []
    for name, (tokens, shards) in sizes.items():
        source = name.partition("/")[0].partition("@")[0]
        for shard in range(shards):
            held = tokens * (shard + 1) // shards - tokens * shard // shards
            digest = {part: hashlib.sha256(f"{name} {shard} {held} {part}".encode()).hexdigest() for part in "bil"}
            files = {"tokens.bin": digest["b"], "tokens.index": digest["i"], "lineage.parquet": digest["l"]}
            outputs.append(
                {
                    "entry": {"group": name, "source": source, "shard": shard, "of": shards},
                    "files": {file: {"hash": value, "file_bytes": 1, "suffix": "x"} for file, value in files.items()},
                    "metrics": {
                        "documents": held // 10,
                        "tokens": held,
                        "samples": -(-held // seq_len),
                        "split_to_fill": 0,
                    },
                }
            )
    tokenizer = {"hash": "t" * 64, "vocab_size": 1000, "end_of_document": 0, "padding": 1}
    return {"outputs": outputs, "facts": {"tokenizer": tokenizer, "seq_len": seq_len, "token_bytes": 2}}


def mixed(folder, cataloged, name="manifest.json", **options):
    """The manifest that the stage writes to `folder`, its metrics and its warnings."""
    shards, tokenizer, path = folder / "shards.json", folder / "tokenizer.json", Path(folder) / name
    shards.write_text(json.dumps(cataloged))
    tokenizer.write_text("{}")
    sources = {output["entry"]["source"]: "web" for output in cataloged["outputs"]}
    config = mix.Config(**{"recipe": "toy", "seed": 5, "sources": sources, **options})
    found = mix.make(config, path, {"shards": shards, "tokenizer": tokenizer})
    return json.loads(path.read_text()), found, mix.warnings(found, config)


def mix_options(**fields):
    return MixOptions(**fields)
