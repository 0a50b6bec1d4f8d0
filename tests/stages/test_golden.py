"""A change of a stage's output comes with a new VERSION: fixed inputs, and the hash of what every stage makes of them.

After an intended change: raise VERSION, and write golden.json again:
`PYTHONPATH=tests:packages/generate/tests:packages/pdf/tests python tests/stages/test_golden.py`
"""

import hashlib
import importlib
import io
import json
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from model_server import completion, serving
from pdf_files import column as column_of_pdf
from pdf_files import pdf
from pdf_files import text as pdf_text

from exchanged import run_step, stages_of
from golden_evals import decontaminate_outputs
from golden_quality import model_outputs
from gristmill.engine.schedule.task_cache import ENGINE
from gristmill.recipe.stage_module import known_formats, known_steps
from gristmill.schema import Record
from gristmill.stages.contract import Piece, version_of
from gristmill.stages.mix import mix
from gristmill.stages.scrub import safety, safety_hashes
from gristmill.stages.select import index
from gristmill.stages.shards import shard_groups, shards, tokens
from gristmill.stages.takedown import takedown, takedown_match, takedown_sets, takedown_unsent
from gristmill.stages.tokenizer import tokenizer, tokenizer_sample
from gristmill.store.answers import AnswerLog
from gristmill.store.parquet import PartWriter
from gristmill.store.store import Store
from gristmill.tokenizer.files import write_json
from gristmill.tokenizer.model import Tokenizer
from gristmill_generate import entail, generate, generated
from gristmill_generate.settings import ready_path

GOLDEN = Path(__file__).with_name("golden.json")
INTERPRETER = "unicode"
"""The one library that comes with Python, and changes with its version."""
TEXTS = [
    "The mill stands by the river. It grinds corn, rye and wheat for the village; nobody remembers who built it.\n\n"
    "Visitors may climb to the top floor, where the hopper is. The stones weigh a ton each.",
    "Die Mühle steht am Fluss und mahlt Korn für das ganze Dorf. Niemand weiß mehr, wer sie gebaut hat.",
    "水車は川のそばにあり、村のために穀物をひいている。誰が建てたのかは、もう誰も覚えていない。",
    "def grind(grain):\n    return [half for kernel in grain for half in kernel.split()]\n" * 5,
    "Buy now! Buy now! Buy now! Click here... Click here...\n• one\n• two\n• three\nuse of cookies\n",
    "",
    None,
]
PAGE = "<html lang='en'><head><title>Mill {n}</title></head><body><nav>Home | About</nav><p>{text}</p></body></html>"


def input_bytes(format_name):
    lines = [json.dumps({"text": text, "id": n}).encode() for n, text in enumerate(TEXTS)] + [b"{broken"]
    if format_name == "jsonl":
        return "in.jsonl", b"\n".join(lines)
    if format_name == "json":
        return "in.json", b"[" + b",\n".join(lines) + b"]"
    if format_name == "csv":
        rows = "".join(f'{n},"{(text or "").replace(chr(34), chr(34) * 2)}"\r\n' for n, text in enumerate(TEXTS))
        return "in.csv", f"n,text\r\n{rows}8,too,many\r\n".encode()
    if format_name == "parquet":
        sink = io.BytesIO()
        pq.write_table(pa.table({"text": TEXTS, "n": list(range(len(TEXTS)))}), sink)
        return "in.parquet", sink.getvalue()
    if format_name == "text":
        return "in.md", b"---\ntitle: The mill\n---\n# The mill\n\n" + TEXTS[0].encode()
    if format_name == "html":
        return "in.html", PAGE.format(n=0, text=TEXTS[1]).encode("iso-8859-1")
    if format_name == "pdf":
        left, right = (column_of_pdf(x, 700, 8, first=first)[0] for x, first in ((60, 0), (320, 90)))
        return "in.pdf", pdf([pdf_text(60, 760, "The mill", 16, "B"), *left, *right])
    if format_name == "jats":
        return "in.xml", f"<article><body><p>{TEXTS[0]}</p><p>10<sup>6</sup></p></body></article>".encode()
    if format_name in ("epub", "office"):
        return zipped(format_name)
    if format_name == "mediawiki":
        pages = "".join(
            f"<page><title>{n}</title><id>{n}</id><text>{text}</text></page>" for n, text in enumerate(TEXTS)
        )
        return "in.xml", f"<mediawiki>{pages}</mediawiki>".encode()
    if format_name == "subtitles":
        return "in.srt", f"1\n00:00:01,000 --> 00:00:02,000\n{TEXTS[0]}\n".encode()
    if format_name == "latex":
        return "in.tex", f"\\documentclass{{a}}\\title{{Mill}}\\begin{{document}}{TEXTS[0]} $a^2$".encode()
    if format_name == "notebook":
        cells = [{"cell_type": "code", "source": TEXTS[3], "outputs": [{"text": TEXTS[1]}]}]
        return "in.ipynb", json.dumps({"cells": [{"cell_type": "markdown", "source": TEXTS[0]}, *cells]}).encode()
    if format_name == "stack_exchange":
        posts = "".join(
            f'<row Id="{n}" PostTypeId="{1 + n % 2}" ParentId="{n - 1}" CreationDate="2018-05-0{n + 1}" Body="x" />\n'
            for n in range(len(TEXTS))
        )
        return "Posts.xml", f"<posts>\n{posts}</posts>".encode()
    if format_name == "mbox":
        begin = "From a@b Mon Nov  9 21:54:11 1999\nMessage-ID: <"
        return "in.mbox", "".join(f"{begin}{n}>\n\n{text}\n> q\n\n" for n, text in enumerate(TEXTS)).encode()
    if format_name == "code":
        return "in.py", b"# SPDX-License-Identifier: MIT\n" + TEXTS[3].encode()
    return "in.warc", b"".join(warc_records())


def zipped(format_name):
    package = '<package><item id="a" href="a.xhtml" media-type="text/html"/><itemref idref="a"/></package>'
    books = {
        "META-INF/container.xml": '<rootfile full-path="a.opf"/>',
        "a.opf": package,
        "a.xhtml": f"<html><body><h1>Mill</h1><p>{TEXTS[0]}</p></body></html>",
    }
    texts = {"word/document.xml": f"<document><p><r><t>{TEXTS[0]}</t></r></p></document>"}
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as file:
        for name, content in (books if format_name == "epub" else texts).items():
            file.writestr(name, content)
    return f"in.{'epub' if format_name == 'epub' else 'docx'}", sink.getvalue()


def warc_records():
    for n, text in enumerate(TEXTS):
        body = PAGE.format(n=n, text=text).encode()
        http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n" + body
        head = (
            f"WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:{n}>\r\n"
            f"WARC-Date: 2026-01-0{n + 1}T00:00:00Z\r\n"
            f"WARC-Target-URI: https://example.org/{n}\r\nContent-Type: application/http; msgtype=response\r\n"
            f"Content-Length: {len(http)}\r\n\r\n"
        )
        yield head.encode() + http + b"\r\n\r\n"


ROBOTS = "User-agent: CCBot\nDisallow: /3\n"


@cache
def layer(step):
    """The output of a measuring step for the fixed texts."""
    module = importlib.import_module(known_steps()[step])
    names = module.STAGE.reads_of(module.Config())
    return module.apply(
        pa.RecordBatch.from_arrays([column(name) for name in names], names=list(names)), module.Config()
    )


def column(name):
    """A fixed column for any name that a step may read."""
    rows = len(TEXTS)
    step, _, own = name.rpartition(".")
    if step in known_steps():
        return layer(step).column(own)
    known = {
        "text": pa.array(TEXTS),
        "text_bytes": pa.array([len((text or "").encode()) for text in TEXTS], pa.int64()),
        "html": pa.array([None if text is None else PAGE.format(n=n, text=text) for n, text in enumerate(TEXTS)]),
        "doc_id": pa.array([bytes([n] * 16) for n in range(rows)], pa.binary(16)),
        "url": pa.array([f"https://www.example.org/{n if n else 'robots.txt'}" for n in range(rows)]),
        "locator": pa.array([f"mill/{n}.py" for n in range(rows)]),
        "language_hint": pa.array(["python"] * rows),
        "license": pa.array(["MIT", "GPL-3.0-only OR MIT", "Apache-2.0", None, "MIT AND ISC", "x", "MIT"]),
        "timestamp": pa.array([0] * rows, pa.timestamp("us", tz="UTC")),
        "ingest.text": pa.array([ROBOTS, *TEXTS[1:]]),
        "parent_text": pa.array([*TEXTS[1:], TEXTS[0]]),
        "ingest.drop": pa.array(["robots_txt", *[None] * (rows - 1)]),
    }
    return known.get(name, pa.nulls(rows, pa.string()))


def digest_of(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str, ensure_ascii=True).encode()).hexdigest()[:16]


def read_output(module, format_name, folder):
    name, content = input_bytes(format_name)
    (folder / name).write_bytes(content)
    records = module.read(Piece(str(folder / name), name), module.Config())
    # `fields` is counted but never written, so no part changes with it; nor with what only the reader of generated
    # documents sets.
    output = [name for name in Record.__slots__ if name not in ("fields", "doc_id", "snapshot", "more")]
    return digest_of([{name: getattr(record, name) for name in output} for record in records])


COPIES = [
    TEXTS[0],
    TEXTS[0] + " Come and see.",
    *TEXTS[1:4],
    "  " + TEXTS[1],
    *[f"{TEXTS[0]}\n{n} bags" for n in range(9)],
]
"""Texts with copies, for the steps that look for them."""


def dedup_output(module, config):
    rows = len(COPIES)
    table = pa.table(
        {
            "text": pa.array(COPIES),
            "text_bytes": pa.array([len(text.encode()) for text in COPIES], pa.int64()),
            "doc_id": pa.array([hashlib.md5(bytes([n])).digest() for n in range(rows)], pa.binary(16)),
            "source": pa.array(["mill"] * rows),
            "snapshot": pa.array([None, *["2026"] * (rows - 1)]),
            "timestamp": pa.array([0] * rows, pa.timestamp("us", tz="UTC")),
            "url": pa.array([f"https://www.Example.org/{n % 4}/?utm_source=x#top" for n in range(rows)]),
            "meta": pa.array([None, *(json.dumps({"thread": n // 3, "post": n}) for n in range(1, rows))]),
            "title": pa.array(["Mill"] * rows),
            "license": pa.array(["MIT", None, "ISC"] * (rows // 3)),
        }
    )
    layers, counts = run_step(module, config, [table.slice(0, 4).combine_chunks(), table.slice(4).combine_chunks()])
    return digest_of([*(layer.to_pylist() for layer in layers), counts])


PERSONAL = [
    "Write to miller@mill.org or call +44 20 7946 0018, from 45.33.32.156; visa 4012 8888 8888 1881.",
    "IBAN DE89 3704 0044 0532 0130 00, CPF 529.982.247-25, BTC 1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",
    "postgres://mill:gr1nd3r@db:5432 and ghp_0123456789abcdefghijABCDEFGHIJ012345, version 1.2.3.4 "
    "at 91.198.174.195, a.b%40mill.org, a.b @ mill.org",
]
"""For the step that finds personal data; none of it is real."""


def quality_output(module, config):
    """The output of a step with its rankings, for the fixed columns."""
    columns = {
        name: column(name)
        for stage, part, _ in stages_of(module, config)
        for name in (*stage.STAGE.reads_of(part), *stage.STAGE.may_read_of(part))
        if not name.startswith("quality_")
    }
    columns["source"] = pa.array(["mill"] * len(TEXTS))
    table = pa.table(columns)
    layers, counts = run_step(module, config, [table.slice(0, 4).combine_chunks(), table.slice(4).combine_chunks()])
    return digest_of([*(layer.to_pylist() for layer in layers), counts])


def step_output(module, config):
    if module.__name__.endswith("keep_quality"):
        return quality_output(module, config)
    if ".dedup." in module.__name__ or module.__name__.endswith(".threads"):
        return dedup_output(module, config)
    batch = fixed_batch(module, config)
    if hasattr(module, "apply"):
        return digest_of(module.apply(batch, config).to_pylist())
    records = pa.Table.from_batches([module.emit(batch, config)])
    records = records.append_column("part", pa.array([7] * records.num_rows, pa.uint64()))
    return digest_of(module.reduce(records.sort_by([("key", "ascending"), ("row", "ascending")]), config).to_pylist())


def fixed_batch(module, config, layers=None):
    """The input of a stage from the fixed texts, and from the layers of its step's prerequisites."""
    names = (*module.STAGE.reads_of(config), *module.STAGE.may_read_of(config))
    made = {f"{layer}.{name}": made[name] for layer, made in (layers or {}).items() for name in made.schema.names}
    columns = {name: made.get(name, column(name)) for name in names}
    if module.__name__.endswith("scrub.scrub"):
        columns["text"] = pa.array([*PERSONAL, *TEXTS[len(PERSONAL) :]])
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(names))


def safety_outputs(folder):
    """For a list with one of the fixed texts."""
    (folder / "digests").write_text(hashlib.sha256(TEXTS[1].encode()).hexdigest())
    config = safety.Config(hashes=str(folder / "digests"), max_blocked_share=0.1)
    layers, found = {}, {}
    for name, module in SAFETY.items():
        own = config if module is safety else module.STAGE.config_within(config)
        layers[name] = module.apply(fixed_batch(module, own, layers), own)
        libraries = module.STAGE.libraries_of(None)
        made = digest_of(layers[name].to_pylist())
        found[name] = {"version": module.STAGE.version, "libraries": libraries, "output": made}
    return found


CONFIGS = {
    "heuristics": {"rules": ["gopher_repetition", "gopher_quality", "c4", "fineweb", "code"]},
    "keep_language": {"keep": {"en": 0.5}},
    "gate": {"allow_licenses": ["MIT"]},
    "robots": {"agent": "CCBot"},
    "quality": {"models": {"toxic": {"file": str(Path(__file__).parent / "quality" / "toxic.bin"), "label": "toxic"}}},
    "near_dedup": {"verify_jaccard": 0.5, "bands": 40, "rows": 3},
    "substring_dedup": {"min_bytes": 60},
    "keep_quality": {
        "score": {"rank_mean": ["signals.words", "-signals.digit_chars"]},
        "keep_best": 0.6,
        "floors": {"language": 0.1},
        "buckets": 4,
        "by": "bytes",
    },
}
"""For steps that do nothing without a config, or nothing to such short texts."""


def outputs(folder):
    found = {}
    (folder / "bytes").mkdir()
    write_json(Tokenizer.from_merges("gristmill", np.zeros(0, np.int32), np.zeros(0, np.int32)), folder / "bytes")
    CONFIGS["count_tokens"] = {"tokenizer": str(folder / "bytes" / "tokenizer.json")}
    found |= model_outputs(folder, COPIES, digest_of)
    CONFIGS["perplexity"] = {"models": {"mill": str(GOLDEN.parent / "quality" / "mill.arpa")}}
    for name, module_name in {**known_formats(), **known_steps()}.items():
        if name in SAFETY or name in ("decontaminate", "entail"):
            continue
        module = importlib.import_module(module_name)
        config = module.Config.model_validate(CONFIGS.get(name, {}))
        made = read_output(module, name, folder) if hasattr(module, "read") else step_output(module, config)
        libraries = module.STAGE.libraries_of(config)
        found[name] = {"version": module.STAGE.version, "libraries": libraries, "output": made}
    found[TOKENIZER] = {"version": tokenizer.STAGE.version, "libraries": {}, "output": tokenizer_bytes(folder)}
    found[SAMPLE] = {"version": tokenizer_sample.STAGE.version, "libraries": {}, "output": sample_output()}
    found |= shard_outputs(folder)
    found |= takedown_outputs(folder)
    found |= generate_outputs(folder)
    found |= safety_outputs(folder)
    found |= decontaminate_outputs(folder / "evals", TEXTS, digest_of)
    found[INDEX] = {
        "version": index.STAGE.version,
        "libraries": index.STAGE.libraries_of(None),
        "output": index_bytes(folder),
    }
    found[PART] = {"version": ENGINE, "libraries": {"pyarrow": version_of("pyarrow")}, "output": part_bytes(folder)}
    return found


PART, TOKENIZER, SAMPLE, INDEX = "the bytes of a part", "tokenizer", "tokenizer_sample", "index"
GENERATES = ("generate", "generated")
BATCH_OF_TAKEDOWNS = ["doc_id", "url", "*.locator.0", "*.text"]
TAKEDOWNS = ("takedown_match", "takedown_unsent", "takedown_sets", "takedown")
SAFETY = {"safety_hashes": safety_hashes, "safety": safety}
EVALS = ("eval_index", "eval_scan", "eval_match")
SHARDS = {"tokens": tokens, "shard_groups": shard_groups, "shards": shards, "mix": mix}
MODELS = ("quality_sample", "quality_text", "classifier")


def tokenizer_bytes(folder):
    """The file of a tokenizer trained on the fixed texts."""
    texts = [text for text in TEXTS if text] * 3
    columns = [pa.array(texts), pa.array(["web"] * len(texts)), pa.array(["train"] * len(texts))]
    batch = pa.RecordBatch.from_arrays(columns, names=list(tokenizer.READS))
    tokenizer.fit([batch], tokenizer.Config(vocab=700), folder / "tokenizer.json")
    return hashlib.sha256((folder / "tokenizer.json").read_bytes()).hexdigest()[:16]


def shard_outputs(folder):
    """From the fixed texts to a manifest, with the tokenizer that was trained on them."""
    models = {"tokenizer": folder / "tokenizer.json"}
    batch = pa.RecordBatch.from_arrays([pa.array(COPIES)], names=["text"])
    encoded = tokens.apply(batch, tokens.Config(), models)
    doc_ids = pa.array([hashlib.md5(bytes([n])).digest() for n in range(len(COPIES))], pa.binary(16))
    sizes = pa.array([len(text) for text in COPIES])
    config = shard_groups.Config(
        source="mill",
        tiers=(("A", "text_bytes > 120"), ("B", "else")),
        weight="text_bytes / 100",
        weight_levels=(1, 2),
    )
    columns = {"text_bytes": sizes, "doc_id": doc_ids, "tokens.tokens": encoded["tokens"]}
    read = [columns[name] for name in shard_groups.STAGE.reads_of(config)]
    batch = pa.RecordBatch.from_arrays(read, names=[*columns])
    grouped = shard_groups.apply(batch, config)
    counts = shard_groups.metrics(batch, grouped, config)
    write = shards.Config(seq_len_tokens=64, shard_tokens=200, seed=3, recipe="golden")
    entries = shards.layout(counts, write)["mill"]
    locators = pa.array([f"mill/{n}" for n in range(len(COPIES))])
    batch = pa.RecordBatch.from_arrays([doc_ids, locators, encoded["ids"], grouped["group"]], names=[*shards.READS])
    records = pa.Table.from_batches([shards.emit(batch, write, entries)])
    files, outputs = [], []
    for number, entry in enumerate(entries):
        mine = records.filter(pa.array([key == number for key in records["key"].to_pylist()])).drop_columns(["key"])
        metrics = shards.build(mine, write, entry, folder, models)
        made = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in shards.files(write)}
        files.append(made)
        outputs.append(
            {"entry": entry, "files": {name: {"hash": one} for name, one in made.items()}, "metrics": metrics}
        )
    catalogue = folder / "catalogue.json"
    catalogue.write_text(json.dumps({"facts": shards.facts(write, models), "outputs": outputs}))
    config_of_mix = mix.Config(recipe="golden", sources={"mill": "web"}, tiers={"A": 2, "B": 1}, tokens=900)
    mix.make(config_of_mix, folder / "manifest.json", {**models, "shards": catalogue})
    found = {
        "tokens": [encoded.to_pylist(), tokens.Config()],
        "shard_groups": [[grouped.to_pylist(), counts], config],
        "shards": [files, write],
        "mix": [json.loads((folder / "manifest.json").read_text())["hash"], config_of_mix],
    }
    return {
        name: {
            "version": SHARDS[name].STAGE.version,
            "libraries": SHARDS[name].STAGE.libraries_of(used),
            "output": digest_of(output),
        }
        for name, (output, used) in found.items()
    }


def generate_outputs(folder):
    """For the fixed texts, cut in chunks, with a plain and a structured prompt, and a real server that answers with
    their words, and now and then with something unusable.
    """

    def say(body, _):
        said = body["messages"][-1]["content"].split("\n\n")[-1]
        kind = len(said) % 4
        if kind == 0:
            return completion("cut", "length")
        if said.startswith('{"source"'):
            return json.dumps({number: len(one) % 10 / 10 for number, one in json.loads(said)["sentences"].items()})
        return said.upper() if kind % 2 else json.dumps({"items": [{"question": said, "answer": said.upper()}]})

    prompts = [ready_path("rephrase"), ready_path("question_answer")]
    batch = fixed_batch(generate, given := generate.Config(prompts=prompts, model="m", servers=["http://golden/v1"]))
    with serving(say) as server:
        config = given.model_copy(update={"servers": (server.address,), "chunk_bytes": 120, "samples": 2})
        log = AnswerLog(Store(str(folder / "answers")), generate.scope_of(config))
        made = generate.apply(batch, config, answers=log)
        log.close()
        judged = entail_output(folder, entail.Config(model="m", servers=[server.address], sentences_per_request=2))
    reasons = set(made["children"].flatten().field("drop").to_pylist())
    assert reasons == {None, "answer_truncated", "malformed_answer"}
    pq.write_table(pa.Table.from_batches([made]), folder / "children.parquet")
    piece = Piece(str(folder / "children.parquet"), "children.parquet")
    output = [name for name in Record.__slots__ if name != "fields"]
    read = [
        {name: getattr(record, name) for name in output}
        for record in generated.read(piece, generated.Config(source="born"))
    ]
    found = {generate: [made.to_pylist(), generate.metrics(batch, made, config)], generated: read, entail: judged}
    return {
        module.__name__.rpartition(".")[2]: {
            "version": module.STAGE.version,
            "libraries": module.STAGE.libraries_of(None),
            "output": digest_of(value),
        }
        for module, value in found.items()
    }


def entail_output(folder, config):
    """For the fixed texts, each with the next one as its parent."""
    columns = [pa.array(TEXTS), pa.nulls(len(TEXTS), pa.string()), pa.array([*TEXTS[1:], TEXTS[0]])]
    batch = pa.RecordBatch.from_arrays(columns, names=["text", "meta", "parent_text"])
    log = AnswerLog(Store(str(folder / "answers")), entail.scope_of(config))
    made = entail.apply(batch, config, answers=log)
    log.close()
    assert {"answer_truncated", None} == set(made["fault"].to_pylist())
    assert max(made["unsupported"].drop_null().to_pylist()) > 1
    return [made.to_pylist(), entail.metrics(batch, made, config)]


def takedown_outputs(folder):
    """For a request that names one of the fixed texts, which has copies, and one that brings its own text."""
    (folder / "one.txt").write_text(TEXTS[3])
    requests = "- id: a\n  urls: [https://example.org/0]\n- id: b\n  texts: [one.txt]\n"
    (folder / "requests.yaml").write_text(requests)
    given = {"requests": (str(folder / "requests.yaml"),), "names": ("",)}
    doc_ids = pa.array([hashlib.md5(bytes([n])).digest() for n in range(len(COPIES))], pa.binary(16))
    urls = pa.array([f"https://example.org/{n}" for n in range(len(COPIES))])
    locators = pa.nulls(len(COPIES), pa.string())
    batch = pa.RecordBatch.from_arrays([doc_ids, urls, locators, pa.array(COPIES)], names=BATCH_OF_TAKEDOWNS)
    named = takedown_match.apply(batch, takedown_match.Config(**given))
    read = pa.RecordBatch.from_arrays([doc_ids, named["request"], *named.columns[2:]], names=[*takedown_sets.READS])
    texts = takedown_sets.Config(**given, texts=(str(folder / "one.txt"),))
    takedown_sets.fit(iter([read]), texts, folder / "sets.parquet")
    columns = [pa.array(COPIES), named["request"], named["named_by"], doc_ids]
    judged = pa.RecordBatch.from_arrays(columns, names=[*takedown.READS])
    answers = takedown.apply(judged, takedown.Config(), {"takedown_sets": folder / "sets.parquet"})
    unsent = takedown_unsent.Config(**given, texts=(str(folder / "one.txt"),))
    outputs = {
        takedown_match: named.to_pylist(),
        takedown_unsent: takedown_unsent.apply(batch, unsent).to_pylist(),
        takedown_sets: pq.read_table(folder / "sets.parquet").to_pylist(),
        takedown: answers.to_pylist(),
    }
    return {
        module.__name__.rpartition(".")[2]: {
            "version": module.STAGE.version,
            "libraries": module.STAGE.libraries_of(None),
            "output": digest_of(output),
        }
        for module, output in outputs.items()
    }


def index_bytes(folder):
    """The file of an index of the fixed texts, one of them dropped, with URLs for most."""
    rows = len(COPIES)
    columns = [
        pa.array([hashlib.md5(bytes([n])).digest() for n in range(rows)], pa.binary(16)),
        pa.array([None, "https://www.example.co.uk/a?b=1"] + ["http://EXAMPLE.org:80/x"] * (rows - 2)),
        pa.array(COPIES),
        pa.array(["too_short"] + [None] * (rows - 1), pa.string()),
    ]
    config = index.Config(source="mill")
    entries = index.layout({}, config)["mill"]
    records = index.emit(pa.RecordBatch.from_arrays(columns, names=[*index.READS]), config, entries)
    records = records.append_column("part", pa.array([7] * records.num_rows, pa.uint64()))
    index.build(pa.Table.from_batches([records]), config, entries[0], folder)
    return hashlib.sha256((folder / index.FILE).read_bytes()).hexdigest()[:16]


def sample_output():
    config = tokenizer_sample.Config(sample_bytes={"web": 900}, held_out_share=0.2, domains={"mill": "web"})
    rows = len(COPIES)
    table = pa.table(
        {
            "text_bytes": pa.array([len(text.encode()) for text in COPIES], pa.int64()),
            "doc_id": pa.array([hashlib.md5(bytes([n])).digest() for n in range(rows)], pa.binary(16)),
            "source": pa.array(["mill"] * rows),
        }
    )
    layers, counts = run_step(tokenizer_sample, config, [table])
    return digest_of([layers[0].to_pylist(), counts])


def part_bytes(folder):
    """The engine's file for a fixed layer: a change of it raises ENGINE."""
    writer = PartWriter(pa.schema([("text", pa.string()), ("n", pa.int32()), ("failed", pa.list_(pa.string()))]))
    columns = [pa.array(TEXTS), pa.array(range(len(TEXTS)), pa.int32()), pa.array([["a", "b"], [], None] + [["a"]] * 4)]
    writer.write(pa.RecordBatch.from_arrays(columns, schema=writer.schema))
    return writer.close(Store(str(folder / "store")), "mark").hash[:16]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return outputs(tmp_path_factory.mktemp("golden"))


@pytest.mark.parametrize(
    "name",
    [
        *sorted({*known_formats(), *known_steps(), *SAFETY}),
        PART,
        TOKENIZER,
        SAMPLE,
        INDEX,
        *MODELS,
        *SHARDS,
        *GENERATES,
        *TAKEDOWNS,
        *EVALS,
    ],
)
def test_a_changed_output_has_a_new_version(name, made):
    """The hash of a stage's output changes only together with its VERSION (or a library's)."""
    golden, now = json.loads(GOLDEN.read_text())[name], made[name]
    other = {library for library, version in now["libraries"].items() if golden["libraries"].get(library) != version}
    if golden["version"] != now["version"] or other - {INTERPRETER}:
        pytest.fail(
            f"{name}: golden.json is of {golden}, now {now}: raise VERSION, and print it as CONTRIBUTING.md says"
        )
    if other and now["output"] != golden["output"]:
        pytest.skip(f"the hashes are of Unicode {golden['libraries'][INTERPRETER]}, this Python has another")
    assert now["output"] == golden["output"], f"the output of {name} changed: raise its VERSION"


if __name__ == "__main__":
    from tempfile import TemporaryDirectory

    before = json.loads(GOLDEN.read_text())
    with TemporaryDirectory() as folder:
        after = outputs(Path(folder))
    after["ocr"]["libraries"] = after["ocr"]["libraries"] or before["ocr"]["libraries"]  # an extra may be missing
    GOLDEN.write_text(json.dumps(after, indent=1) + "\n")
