"""For every stage, the inputs that might make it do more work than their length justifies, and how to run it on them.

Work is what the meter counts (fuzz/meter.py) plus, with the plugin tests/kernels/counted_work.py, the basic blocks that
compiled kernels run.
"""

import hashlib
import importlib
import json
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fuzz.meter import METER

FOOTER = " all rights reserved by the miller of the mill on the river in the valley"


def words(number: int, count: int) -> str:
    """Words that no other number has."""
    return " ".join(f"w{number}x{place}" for place in range(count))


def many(count: int, text: Callable[[int], str], url: Callable[[int], str]) -> list[tuple[str, str]]:
    return [(text(number), url(number)) for number in range(count)]


def one(text: str = "the mill", url: str = "https://a.example/") -> list[tuple[str, str]]:
    return [(text, url)]


SHAPES: dict[str, Callable[[int], list[tuple[str, str]]]] = {
    "one word again and again": lambda size: one("mill " * (size // 5)),
    "different words of one line": lambda size: one(words(0, size // 6)),
    "one word without end": lambda size: one("x" * size),
    "lines of a letter": lambda size: one("a\n" * (size // 2)),
    "equal lines": lambda size: one("the mill stands by the river.\n" * (size // 30)),
    "digits and signs": lambda size: one("1.2-3@4:5/" * (size // 10)),
    "numbers of different values": lambda size: one(" ".join(str(1000 + n) for n in range(size // 5))),
    "letters of other scripts": lambda size: one("水é" * (size // 5)),
    "quotes and code that never end": lambda size: one('“a «b "c `d $e \\(f ' * (size // 24)),
    "opened tags": lambda size: one("<div><b>" * (size // 8)),
    "a footer that all share": lambda size: many(
        size // 100, lambda n: words(n, 4) + FOOTER, lambda n: f"https://a.example/{n}"
    ),
    "equal texts at one address": lambda size: many(
        size // 40, lambda _: "the mill by the river " * 2, lambda _: "http://a.de"
    ),
}
"""(text, url) of documents, with a given number of bytes in all."""
ADDRESSES: dict[str, Callable[[int], list[tuple[str, str]]]] = {
    "a host of many labels": lambda size: one(url=f"http://{'a.' * (size // 2)}com/"),
    "a host of one label": lambda size: one(url=f"http://{'é' * (size // 2)}.com/"),
    "a path of dots": lambda size: one(url=f"http://a.com{'/a/..' * (size // 5)}"),
    "a query of names": lambda size: one(url="http://a.com/?" + "&".join(f"a{n}" for n in range(size // 6))),
    "combining marks": lambda size: one(url="http://a.com/e" + "%CC%81" * (size // 6)),
}
"""The same for steps that read addresses."""


def table_of(rows: list[tuple[str, str]]) -> pa.Table:
    """The columns that readers produce and that every step may read."""
    count = len(rows)
    texts = [text for text, _ in rows]
    return pa.table(
        {
            "text": pa.array(texts),
            "text_bytes": pa.array([len(text.encode()) for text in texts], pa.int64()),
            "html": pa.array([f"<html><body><p>{text}</p></body></html>" for text in texts]),
            "doc_id": pa.array([hashlib.md5(b"%d" % n).digest() for n in range(count)], pa.binary(16)),
            "url": pa.array([url for _, url in rows]),
            "source": pa.array(["mill"] * count),
            "snapshot": pa.array(["2026"] * count),
            "timestamp": pa.array([0] * count, pa.timestamp("us", tz="UTC")),
            "locator": pa.array([f"mill/{n}.py" for n in range(count)]),
            "language_hint": pa.array(["python"] * count),
            "license": pa.array(["MIT OR ISC"] * count),
            "parent_text": pa.array(texts),
            "meta": pa.array([json.dumps({"thread": max(n - 1, 0), "post": n}) for n in range(count)]),
            "ingest.text": pa.array(texts),
            "ingest.drop": pa.nulls(count, pa.string()),
            "corpus.drop": pa.nulls(count, pa.string()),
        }
    )


def rows_of(table: pa.Table) -> list[tuple[str, str]]:
    return list(zip(table["text"].to_pylist(), table["url"].to_pylist(), strict=True))


def work_of(task: Callable[[], Any]) -> int:
    """The work of Python and of kernels."""
    plugin = sys.modules.get("tests.kernels.counted_work")
    if plugin is not None:
        plugin.BLOCKS[0] = 0
    METER.reset()
    task()
    return METER.work + (0 if plugin is None else int(plugin.BLOCKS[0]))


def imported(name: str) -> Any:
    return importlib.import_module(name)


def with_layers(table: pa.Table, names: list[str]) -> pa.Table:
    """The table with the columns that other steps compute from it."""
    steps = imported("gristmill.recipe.stage_module").known_steps()
    for name in names:
        step = name.rpartition(".")[0]
        if name in table.column_names:
            continue
        if step not in steps:
            table = table.append_column(name, pa.nulls(len(table), pa.string()))
            continue
        module = imported(steps[step])
        reads = module.STAGE.reads_of(module.Config())
        table = with_layers(table, list(reads))
        batch = pa.RecordBatch.from_arrays([table[one].combine_chunks() for one in reads], names=list(reads))
        output = module.apply(batch, module.Config())
        for own in (one for one in output.schema.names if f"{step}.{one}" not in table.column_names):
            table = table.append_column(f"{step}.{own}", output[own])
    return table


def run_step(name: str, config: dict[str, Any], table: pa.Table) -> Callable[[], Any]:
    """A step with its stages, ready to run."""
    module = imported(imported("gristmill.recipe.stage_module").known_steps()[name])
    exchanged = imported("exchanged")
    parsed = module.Config.model_validate(config)
    parts = [*exchanged.stages_of(module, parsed)]
    own = {part for _, _, part in parts}
    for stage, part, _ in parts:
        reads = (*stage.STAGE.reads_of(part), *stage.STAGE.may_read_of(part))
        table = with_layers(table, [one for one in reads if one.split(".")[0] not in own])
    return lambda: exchanged.run_step(module, parsed, [table])


def takedown(folder: Path, table: pa.Table) -> Callable[[], Any]:
    """All four stages: requests name half of the documents by their domain, and by as many prefixes."""
    match, sets, judge = (
        imported(f"gristmill.stages.takedown.{name}") for name in ("takedown_match", "takedown_sets", "takedown")
    )
    unsent = imported("gristmill.stages.takedown.takedown_unsent")
    prefixes = [f"https://a.example/{number}" for number in range(len(table))]
    request = {"id": "r", "domains": ["a.example", "a.de", "a.com"], "url_prefixes": prefixes}
    (folder / "requests.yaml").write_text(json.dumps([request]))
    options = {"requests": (str(folder / "requests.yaml"),), "names": ("",)}
    half = table.slice(0, (len(table) + 1) // 2)
    judge.MOST = judge.COMPARED = 4  # as small for these inputs as the real limits are for a corpus

    def columns(some: pa.Table, names: Any) -> pa.RecordBatch:
        found = [some[name.removeprefix("*.")].combine_chunks() for name in names]
        return pa.RecordBatch.from_arrays(found, names=list(names))

    def run() -> None:
        match.rules_of.cache_clear()
        judge.open_sets.cache_clear()
        named = match.apply(columns(half, match.STAGE.reads), match.Config(**options))
        match.metrics(columns(half, match.STAGE.reads), named, match.Config(**options))
        unsent.apply(columns(half, unsent.STAGE.reads), unsent.Config(**options))
        read = pa.RecordBatch.from_arrays(
            [half["doc_id"].combine_chunks(), named["request"], *named.columns[2:]], names=list(sets.STAGE.reads)
        )
        sets.fit(iter([read]), sets.Config(**options), folder / "sets")
        nobody = pa.nulls(len(table), pa.string())
        batch = pa.RecordBatch.from_arrays(
            [table["text"].combine_chunks(), *[nobody] * (len(judge.STAGE.reads) - 1)], names=list(judge.STAGE.reads)
        )
        answers = judge.apply(batch, judge.Config(), {"takedown_sets": folder / "sets"})
        judge.metrics(batch, answers, judge.Config())

    return run


def index(folder: Path, table: pa.Table) -> Callable[[], Any]:
    stage = imported("gristmill.stages.select.index")
    config = stage.Config(source="mill")
    entries = stage.layout({}, config)["mill"]
    batch = pa.RecordBatch.from_arrays(
        [table[name].combine_chunks() for name in stage.STAGE.reads], names=list(stage.STAGE.reads)
    )

    def run() -> None:
        records = stage.emit(batch, config, entries)
        records = records.append_column("part", pa.array(np.full(records.num_rows, 7, np.uint64)))
        stage.build(pa.Table.from_batches([records]), config, entries[0], folder)

    return run


def request_lines(folder: Path, table: pa.Table) -> Callable[[], Any]:
    """A file of requests whose lines are the texts and addresses."""
    requests = imported("gristmill.stages.takedown.requests")

    def run() -> None:
        for text in (*table["text"].to_pylist(), *table["url"].to_pylist()):
            try:
                requests._recognised(f"{text[:-1]}.*", "requests.txt:1")
            except imported("gristmill.errors").UserError:
                pass

    return run


def copies_left(folder: Path, table: pa.Table) -> Callable[[], Any]:
    """As many parts as there are documents."""
    stage, exchanged = imported("gristmill.stages.dedup.copies_left"), imported("exchanged")
    parts = [table.slice(number, 1) for number in range(len(table))]
    return lambda: exchanged.run_stage(stage, stage.Config(), parts)


def batch_of(table: pa.Table, names: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([table[name].combine_chunks() for name in names], names=list(names))


def layers(table: pa.Table, stages: dict[str, tuple[Any, Any]], models: Any = None) -> pa.Table:
    """The table with the columns of these stages. Each stage has its layer's name, module and config."""
    exchanged = imported("exchanged")
    for name, (stage, config) in stages.items():
        (output,), _ = exchanged.run_stage(stage, config, [table], models)
        for column in output.column_names:
            table = table.append_column(f"{name}.{column}", output[column])
    return table


def decontaminate(folder: Path, table: pa.Table) -> Callable[[], Any]:
    """The suite contains the start of the first documents, so a shared footer is in all items and documents."""
    stage, exchanged = imported("gristmill.stages.decontaminate.decontaminate"), imported("exchanged")
    own = folder / f"suite{len(list(folder.iterdir()))}"
    own.mkdir()
    options = [text[:400] for text in table["text"].to_pylist()[:8]]
    items = [{"id": f"i{n}", "q": f"{text} day {n}", "a": f"{n} sacks of rye"} for n, text in enumerate(options)]
    (own / "b.jsonl").write_text("".join(json.dumps(one) + "\n" for one in items))
    described = "{files: b.jsonl, id: id, question: q, answer: a}"
    (own / "suite.yaml").write_text(f"suite: small\nversion: '1'\nbenchmarks:\n  b: {described}\n")
    config = stage.Config(suite=str(own))
    models, _ = exchanged.make_assets(stage, config, own)
    return lambda: exchanged.run_step(stage, config, [table], models)


SIDES = {"mill": "positive", "river": "negative"}


def quality_models(folder: Path, table: pa.Table) -> Callable[[], Any]:
    """Trains and scores all models on documents; both classes have the same words, except for one of each text."""
    sample, texts, classifier, perplexity = (
        imported(f"gristmill.stages.quality.{name}") for name in ("sample", "texts", "classifier", "perplexity")
    )
    language_model = imported("gristmill_ngram.language_model")
    both = [(f"{side} {text}", url) for side in SIDES for text, url in rows_of(table)]
    table = table_of([*both, *[("other " + one, url) for one, url in both]])  # one of each is held out
    table = table.set_column(
        table.column_names.index("source"),
        "source",
        pa.array([text.split()[text[:5] == "other"] for text in table["text"].to_pylist()]),
    )
    few = {"name": "m", "min_words": 1, "min_count": 1, "buckets": 100, "epochs": 1, "word_ngrams": 2}
    sources = {"positives": {"sources": ["mill"]}, "negatives": {"sources": ["river"]}}
    taken = {
        "quality_m_sample": (sample, sample.Config(sample_bytes=1 << 20, sides=SIDES)),
        "quality_m_text": (texts, texts.Config(name="m", sides=SIDES)),
    }
    words = language_model.Config(name="m", sources=("mill",), min_documents=1, memory=1 << 24)
    scored = perplexity.Config(models={"m": str(folder / "m.ngrams")})

    def run() -> None:
        sampled = layers(table, taken)
        both = classifier.Config(**few, **sources)
        classifier.fit([batch_of(sampled, classifier.reads(both))], both, folder / "m.bin")
        language_model.fit([batch_of(sampled, language_model.reads(words))], words, folder / "m.ngrams")
        perplexity.metrics(batch_of(table, ("text",)), perplexity.apply(batch_of(table, ("text",)), scored), scored)

    return run


def model_files(folder: Path, table: pa.Table) -> Callable[[], Any]:
    """The same models, trained on texts in files with one text per line."""
    classifier, language_model = (
        imported("gristmill.stages.quality.classifier"),
        imported("gristmill_ngram.language_model"),
    )
    files = {}
    for side in SIDES:
        rows = [{"text": f"{own}{side} {text}", "url": url} for own in ("", "other ") for text, url in rows_of(table)]
        files[side] = str(folder / f"{side}.jsonl")
        Path(files[side]).write_text("".join(json.dumps(row) + "\n" for row in rows))
    few = {"name": "m", "min_words": 1, "min_count": 1, "buckets": 100, "epochs": 1, "word_ngrams": 2}
    sides = {kind: {"files": [files[side]]} for side, kind in (("mill", "positives"), ("river", "negatives"))}
    words = {"name": "m", "files": (files["mill"],), "min_documents": 1, "memory": 1 << 24}

    def run() -> None:
        classifier.fit((), classifier.Config(**few, **sides), folder / "m.bin")
        language_model.fit((), language_model.Config(**words), folder / "m.ngrams")

    return run


def sampled_for_tokenizer() -> dict[str, tuple[Any, Any]]:
    """The layers that a tokenizer is trained on."""
    sample, text = (imported(f"gristmill.stages.tokenizer.{name}") for name in ("tokenizer_sample", "tokenizer_text"))
    domains = {"mill": "mill"}
    return {
        "tokenizer_sample": (sample, sample.Config(sample_bytes={"mill": 1 << 20}, domains=domains)),
        "tokenizer_text": (text, text.Config(domains=domains)),
    }


def tokenizer_files(folder: Path, table: pa.Table) -> Callable[[], Any]:
    """Tokenizer files whose vocabularies grow with their training texts."""
    stages = ("tokenizer", "tokenizer_file", "tokenizer_pin", "tokenizer_names")
    train, of_file, pinned, named = (imported(f"gristmill.stages.tokenizer.{name}") for name in stages)
    path = folder / "tokenizer.json"
    sampled = layers(table, sampled_for_tokenizer())
    size = sum(map(len, table["text"].to_pylist()))
    config = train.Config(vocab=512 + size // 8, min_count=1, min_pair_count=1)
    train.fit([batch_of(sampled, train.STAGE.reads)], config, path)

    def run() -> None:
        for stage, config in ((of_file, {"file": str(path)}), (pinned, {"pin": str(path)})):
            stage.check(stage.Config(**config))
            with suppress(
                imported("gristmill.errors").UserError
            ):  # no pinned tokenizer may have a token as long as a text
                stage.make(stage.Config(**config), folder / "copy.json")
        slots = named.Config(names={"<|reserved_0|>": "<|mine|>"})
        named.make(slots, folder / "named.json", {"tokenizer": path})

    return run


def tokens(folder: Path, table: pa.Table) -> Callable[[], Any]:
    """From the tokenizer's sample to the shards, with a tier for each condition, and the mixture of them."""
    tokenizer = imported("gristmill.stages.tokenizer.tokenizer")
    tokens, groups, shards = (
        imported(f"gristmill.stages.shards.{name}") for name in ("tokens", "shard_groups", "shards")
    )
    count, mix = imported("gristmill.stages.quality.count_tokens"), imported("gristmill.stages.mix.mix")
    domains = {"mill": "mill"}
    train = tokenizer.Config(vocab=600, min_count=1, min_pair_count=1)
    path = folder / "tokenizer.json"
    models = {"tokenizer": path, "shards": folder / "shards.json"}
    tiers = groups.Config(source="mill", tiers=(("A", "tokens.tokens > 9"), ("B", "else")))
    encoded = {"tokens": (tokens, tokens.Config()), "shard_groups": (groups, tiers)}
    packed = shards.Config(seq_len_tokens=64, shard_tokens=256, recipe="mill")

    def run() -> None:
        sampled = layers(table, sampled_for_tokenizer())
        tokenizer.fit([batch_of(sampled, tokenizer.STAGE.reads)], train, path)
        tokens.open_tokenizer.cache_clear()
        layers(table, {"count_tokens": (count, count.Config(tokenizer=str(path)))})
        layered = layers(table, encoded, models)
        batch = batch_of(layered, groups.reads(tiers))
        entries = shards.layout(groups.metrics(batch, groups.apply(batch, tiers), tiers), packed)["mill"]
        records = pa.Table.from_batches([shards.emit(batch_of(layered, shards.STAGE.reads), packed, entries)])
        records = records.sort_by("key")
        keys = records["key"].to_numpy()
        outputs = []
        for number, entry in enumerate(entries):
            low, high = np.searchsorted(keys, [number, number + 1])
            mine = records.slice(low, high - low).select(shards.STAGE.record_schema.names)
            metrics = shards.build(mine, packed, entry, folder, models)
            files = {name: {"hash": f"{number}"} for name in shards.FILES}
            outputs.append({"entry": entry, "files": files, "metrics": metrics})
        models["shards"].write_text(json.dumps({"outputs": outputs, "facts": shards.facts(packed, models)}))
        mixed = mix.Config(recipe="mill", sources=domains, phases=[{"name": "end", "share": 0.1}])
        mix.make(mixed, folder / "manifest.json", models)

    return run


def corpus(folder: Path, table: pa.Table) -> Callable[[], Any]:
    """Each document is dropped by a different step."""
    stage = imported("gristmill.stages.select.corpus")
    names = tuple(f"s{number}" for number in range(8))
    config = stage.Config(steps=("ingest", *names), texts=("ingest", *names))
    sizes = table["text_bytes"]
    for place, name in enumerate(names):
        reasons = [f"why{row}" if row % len(names) == place else None for row in range(len(table))]
        table = table.append_column(f"{name}.drop", pa.array(reasons, pa.string()))
        table = table.append_column(f"{name}.text_bytes", sizes)
    table = table.append_column("ingest.text_bytes", sizes).append_column("ingest.html_bytes", sizes)
    table = table.append_column("language.label", pa.array([f"l{row}" for row in range(len(table))]))
    batch = batch_of(table, (*stage.reads(config), *stage.STAGE.may_read))
    return lambda: stage.warnings(stage.metrics(batch, stage.apply(batch, config), config), config)


def generate(folder: Path, table: pa.Table) -> Callable[[], Any]:
    """Chunks, requests, the children of the answers, and their documents."""
    stage = imported("gristmill_generate.generate")
    reader, piece = imported("gristmill_generate.generated"), imported("gristmill.stages.contract").Piece
    config = stage.Config(prompts=["rephrase"], model="m", servers=["http://h/v1"], chunk_bytes=64)
    batch = batch_of(with_layers(table, list(stage.READS)), stage.READS)

    class Answers:
        is_read_only = True

        def find(self, keys):
            return {key: (key, ["An answer.", "stop", None]) for key in keys}

    def run() -> int:
        pq.write_table(pa.Table.from_batches([stage.apply(batch, config, answers=Answers())]), folder / "layer")
        return sum(1 for _ in reader.read(piece(str(folder / "layer"), "layer"), reader.Config(source="born")))

    return run


def short_texts(table: pa.Table) -> pa.ChunkedArray:
    return pa.chunked_array([[text[:200] for text in table["text"].to_pylist()]], pa.string())


def entail(folder: Path, table: pa.Table) -> Callable[[], Any]:
    """Sentences, requests, and the scores of the answers."""
    stage = imported("gristmill_generate.entail")
    config = stage.Config(model="m", servers=["http://h/v1"])
    names = ("text", "meta", "parent_text")
    table = with_layers(table, ["text", "meta"])  # a parent is in every request, and `generate` bounds its size
    table = table.set_column(table.column_names.index("parent_text"), "parent_text", short_texts(table))
    batch = batch_of(table, names)
    scores = json.dumps(dict.fromkeys(map(str, range(1, config.sentences_per_request + 1)), 0.5))

    class Answers:
        is_read_only = True

        def find(self, keys):
            return {key: (key, [scores, "stop", None]) for key in keys}

    return lambda: stage.apply(batch, config, answers=Answers())


CUSTOM: dict[str, Callable[[Path, pa.Table], Callable[[], Any]]] = {
    "takedown": takedown,
    "index": index,
    "copies_left": copies_left,
    "decontaminate": decontaminate,
    "quality_models": quality_models,
    "model_files": model_files,
    "tokens": tokens,
    "tokenizer_files": tokenizer_files,
    "corpus": corpus,
    "requests": request_lines,
    "generate": generate,
    "entail": entail,
}
COVERED = {
    "generate": ("gristmill_generate.generate", "gristmill_generate.generated"),
    "entail": ("gristmill_generate.entail",),
    "takedown": ("takedown.takedown", "takedown.takedown_match", "takedown.takedown_sets", "takedown.takedown_unsent"),
    "index": ("select.index",),
    "copies_left": ("dedup.copies_left",),
    "decontaminate": (
        "decontaminate.decontaminate",
        "decontaminate.eval_index",
        "decontaminate.eval_match",
        "decontaminate.eval_scan",
    ),
    "quality_models": (
        "quality.sample",
        "quality.texts",
        "quality.classifier",
        "quality.perplexity",
        "gristmill_ngram.language_model",
    ),
    "model_files": ("quality.classifier", "gristmill_ngram.language_model"),
    "tokenizer_files": ("tokenizer.tokenizer_file", "tokenizer.tokenizer_pin", "tokenizer.tokenizer_names"),
    "tokens": (
        "tokenizer.tokenizer_sample",
        "tokenizer.tokenizer_text",
        "tokenizer.tokenizer",
        "quality.count_tokens",
        "shards.tokens",
        "shards.shard_groups",
        "shards.shards",
        "mix.mix",
    ),
    "corpus": ("select.corpus",),
}
"""Custom runs -> the stages that they run; a step runs itself and its stages."""
