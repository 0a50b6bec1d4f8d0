"""The code in docs/loader.md runs."""

import re
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from loader.small import Corpus, all_documents, write_receipt

PAGE = Path(__file__).parents[2] / "docs" / "loader.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)


def test_every_code_block_of_the_page_runs_in_order(tmp_path, monkeypatch):
    """The blocks run from top to bottom; the one for PyTorch runs if it is installed."""
    phases = [(16, {"crawl": 12, "wiki": 4}), (2000, {"crawl": 12, "wiki": 4})]
    path = Corpus({"crawl": [90, 80], "wiki": [60]}, phases).write(tmp_path / "shards")
    write_receipt(tmp_path / "takedown", path, all_documents(path)[::10])
    shutil.copytree(tmp_path / "shards", tmp_path / "new-shards")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in BLOCKS:
        if find_spec("torch") or "torch" not in block:
            exec(block, names)
    assert len(BLOCKS) == 8
    assert names["masked_tokens"] > 0
    assert any(names["seen"].values())
    assert names["sample"].number == 1000


@pytest.mark.parametrize("name", ["batch", "loader", "stats"])
def test_every_attribute_that_the_page_names_exists(name, tmp_path):
    """The page names attributes of a batch, of the loader and of its statistics."""
    from gristmill.loader import Loader

    path = Corpus({"crawl": [20]}, [(20, {"crawl": 1})]).write(tmp_path)
    with Loader(path) as loader:
        batch = next(iter(loader))
        stats = loader.stats()
    text = PAGE.read_text()
    if name == "batch":
        table = text[text.index("## What a batch holds") : text.index("Everything except tokens")]
        found = re.findall(r"`([a-z_]+)`", " ".join(line.split("|")[1] for line in table.splitlines() if "|" in line))
        assert len(found) > 15
        assert all(hasattr(batch, attribute) for attribute in found)
    elif name == "loader":
        found = set(re.findall(r"`loader\.([a-z_]+)", text))
        assert {"seek", "load_state_dict", "stats", "sources"} <= found
        assert all(hasattr(loader, attribute) for attribute in found)
    else:
        assert {"starved_batches", "starved_share", "first_seconds"} <= set(stats)
