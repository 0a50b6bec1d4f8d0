"""The outputs of the decontaminate stages for fixed texts, for tests/stages/test_golden.py."""

import hashlib
import json

import pyarrow as pa

from exchanged import make_assets, run_stage, stages_of
from gristmill.stages.decontaminate import decontaminate


def decontaminate_outputs(folder, fixed, digest_of):
    """The outputs for the fixed texts, with a suite of some of them."""
    folder.mkdir()
    items = [
        {"q": fixed[0].split("\n")[0], "a": "the miller of the village"},
        {"q": "Who is it that grinds the corn?", "a": "the mill"},
        {"q": fixed[1].replace("Dorf", "Land"), "a": ""},
    ]
    (folder / "suite.yaml").write_text(
        "suite: golden\nversion: '1'\nbenchmarks:\n  mill: {files: mill.jsonl, question: q, answer: a}\n"
        "  code: {files: code.jsonl, question: q, code: c}\n"
    )
    lines = [json.dumps(item) for item in items]
    code = fixed[3].split("\n")[:2]
    (folder / "code.jsonl").write_text(
        json.dumps({"q": "Halve all of the kernels of the grain.", "c": "\n".join(code)})
    )
    (folder / "mill.jsonl").write_text("\n".join(lines))
    config = decontaminate.Config(suite=str(folder), coverage=0.5)
    models, _ = make_assets(decontaminate, config, folder)
    texts = [*fixed, fixed[3].replace("grain", "g").replace("kernel", "k"), f"Ask: {items[1]['q']} The mill."]
    ids = pa.array([bytes([n] * 16) for n in range(len(texts))])
    table = pa.table({"text": pa.array(texts), "doc_id": ids, "source": pa.array(["s"] * len(texts))})
    found = {}
    for module, part, name in stages_of(decontaminate, config):
        if module.STAGE.kind == "asset":
            output = hashlib.sha256(models[name].read_bytes()).hexdigest()
        else:
            layers, counts = run_stage(module, part, [table], models)
            output = [layers[0].to_pylist(), counts]
            for column_name in layers[0].column_names:
                table = table.append_column(f"{name}.{column_name}", layers[0].column(column_name))
        libraries = module.STAGE.libraries_of(part)
        found[name] = {"version": module.STAGE.version, "libraries": libraries, "output": digest_of(output)}
    flagged = [{one["rule"] for one in found or ()} for found in table["decontaminate.evidence"].to_pylist()]
    assert [bool(rules) for rules in flagged] == [True, True, False, True, *[False] * 3, False, True]
    assert set().union(*flagged) == {"ngram", "exact", "fuzzy"}
    return found
