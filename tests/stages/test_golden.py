"""A change of a stage's output comes with a new VERSION: fixed inputs, and the hash of what every stage makes of them.

After a change that is meant: raise VERSION, then `python tests/stages/test_golden.py` writes golden.json anew.
"""

import dataclasses
import hashlib
import importlib
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.stages import READERS, STEPS
from gristmill.stages.contract import Piece
from gristmill.stages.resolve import libraries_of, reads_of, version_of

GOLDEN = Path(__file__).with_name("golden.json")
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
    if format_name == "parquet":
        sink = io.BytesIO()
        pq.write_table(pa.table({"text": TEXTS, "n": list(range(len(TEXTS)))}), sink)
        return "in.parquet", sink.getvalue()
    if format_name == "text":
        return "in.md", b"---\ntitle: The mill\n---\n# The mill\n\n" + TEXTS[0].encode()
    if format_name == "code":
        return "in.py", b"# SPDX-License-Identifier: MIT\n" + TEXTS[3].encode()
    return "in.warc", b"".join(warc_records())


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


def column(name):
    """A fixed column of any name that a step may read."""
    rows = len(TEXTS)
    known = {
        "text": pa.array(TEXTS),
        "html": pa.array([None if text is None else PAGE.format(n=n, text=text) for n, text in enumerate(TEXTS)]),
        "doc_id": pa.array([bytes([n] * 16) for n in range(rows)], pa.binary(16)),
        "url": pa.array([f"https://www.example.org/{n}" for n in range(rows)]),
    }
    return known.get(name)


def digest_of(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str, ensure_ascii=True).encode()).hexdigest()[:16]


def read_output(module, format_name, folder):
    name, content = input_bytes(format_name)
    (folder / name).write_bytes(content)
    records = module.read(Piece(str(folder / name), name), module.Config())
    return digest_of([dataclasses.asdict(record) for record in records])


def map_output(module):
    config = module.Config()
    names = reads_of(module, config)
    columns = [column(name) for name in names]
    if any(found is None for found in columns):
        columns = [pa.nulls(len(TEXTS), pa.string()) if found is None else found for found in columns]
    return digest_of(module.apply(pa.RecordBatch.from_arrays(columns, names=list(names)), config).to_pylist())


def outputs(folder):
    found = {}
    for format_name, module_name in {**READERS, **{step: STEPS[step] for step in TEXT_STEPS}}.items():
        module = importlib.import_module(module_name)
        made = read_output(module, format_name, folder) if hasattr(module, "read") else map_output(module)
        libraries = {name: version_of(name) for name in libraries_of(module, module.Config())}
        found[format_name] = {"version": module.VERSION, "libraries": libraries, "output": made}
    return found


TEXT_STEPS = [step for step in ("extract", "signals", "language", "code_signals", "lines") if step in STEPS]
"""Steps that read nothing but documents."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return outputs(tmp_path_factory.mktemp("golden"))


@pytest.mark.parametrize("name", [*READERS, *TEXT_STEPS])
def test_a_changed_output_has_a_new_version(name, made):
    """The hash of a stage's output changes only together with its VERSION (or a library's)."""
    golden, now = json.loads(GOLDEN.read_text())[name], made[name]
    if golden["version"] == now["version"] and golden["libraries"] == now["libraries"]:
        assert now["output"] == golden["output"], f"the output of {name} changed: raise its VERSION"
    else:
        pytest.fail(f"{name}: golden.json is of {golden}, now {now}: run python tests/stages/test_golden.py")


if __name__ == "__main__":
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        GOLDEN.write_text(json.dumps(outputs(Path(folder)), indent=1) + "\n")
