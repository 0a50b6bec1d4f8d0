"""What a sink cannot write is an error of the recipe."""

import json

import numpy as np
import pytest

import gristmill
from gristmill.errors import UserError
from gristmill.tokenizer.files import write_json
from gristmill.tokenizer.model import Tokenizer

RECIPE = """recipe: cases
store: ./store
sources:
  web: {kind: web, domain: {column: license}, read: {format: jsonl, paths: [a.jsonl], fields: {license: l}}}
steps: []
tokenizer: {file: tokenizer.json}
shards: {seq_len_tokens: 64}
"""


def test_domains_that_differ_in_case_are_refused_with_file_and_line(tmp_path):
    """The column has them, so only the run can know."""
    empty = np.zeros(0, np.int32)
    write_json(Tokenizer.from_merges("gristmill", empty, empty), tmp_path)
    rows = [{"text": f"Rye is a grass {hint}", "l": hint} for hint in ("en", "En")]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    recipe = tmp_path / "r.yaml"
    recipe.write_text(RECIPE)
    with pytest.raises(UserError, match=r"r\.yaml:7: the groups web\+En and web\+en differ in case only"):
        gristmill.open(recipe).run(executor="inline")
