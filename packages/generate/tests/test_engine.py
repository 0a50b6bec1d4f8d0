"""A real engine with a tiny model of random weights: `transformers serve`. `make test-engine` installs and runs it.

The text is noise; the protocol is real: chat templates, usage, finish_reason, the health check, starting and stopping.
"""

import os
import subprocess
from pathlib import Path

import pytest
from conftest import Project

from gristmill.store.parquet import PartReader

ENGINE = os.environ.get("ENGINE", "")
MODEL = """
import sys
from tokenizers import Tokenizer, models, pre_tokenizers, decoders
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
vocab = {token: number for number, token in enumerate(["<pad>", "<s>", "</s>", *alphabet])}
tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>")
fast.chat_template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\\n{% endfor %}assistant:"
fast.save_pretrained(sys.argv[1])
config = LlamaConfig(vocab_size=len(vocab), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                     num_attention_heads=2, max_position_embeddings=2048, bos_token_id=1, eos_token_id=2,
                     pad_token_id=0)
LlamaForCausalLM(config).save_pretrained(sys.argv[1])
"""


@pytest.mark.skipif(not ENGINE, reason="make test-engine installs the engine")
def test_a_real_engine_is_started_asked_and_stopped(tmp_path):
    """Every document gets an answer, whole or cut off at max_tokens; a second run starts no engine."""
    python = str(Path(ENGINE).with_name("python"))
    model = tmp_path / "model"
    subprocess.run([python, "-c", MODEL, str(model)], check=True)
    project = Project(tmp_path)
    project.write_inputs(files=1, records=5)
    project.recipe.write_text(
        "recipe: engine\nstore: ./store\nsources:\n"
        "  notes: {kind: text, read: {format: jsonl, paths: ['in/*.jsonl']}}\n"
        f"  born: {{kind: generated, generate: {{parents: notes, prompts: [rephrase], model: '{model}',\n"
        "         concurrency: 2, sampling: {max_tokens: 8},\n"
        f"         serve: {{command: ['{ENGINE}', serve, --port, '{{port}}', --device, cpu], ready_s: 600}}}}}}\n"
        "steps: {text: [], generated: [], all: []}\n"
    )
    run = project.run()
    parts = [PartReader(run.store, one.part) for one in run.documents["born"]]
    rows = [row for part in parts for row in part.read_group(0, ["text", "drop", "detail"]).to_pylist()]
    assert len(rows) == 5
    assert {row["drop"] for row in rows} <= {None, "answer_truncated", "empty_answer"}
    assert project.executed(project.run()) == {}
