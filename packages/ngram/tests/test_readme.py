"""The README's recipe and commands run as printed."""

import json
import random
import re
import shlex
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_example_runs(tmp_path, say, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (recipe,) = re.findall(r"^```yaml\n(.*?)^```", README, re.M | re.S)
    Path("words.yaml").write_text(recipe)
    draw = random.Random(1)
    texts = [" ".join(draw.choices(["mill", "grain", "stone", "water", "wheel"], k=30)) for _ in range(150)]
    Path("prose.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts))
    commands = re.findall(r"^    gristmill (.*)", README, re.M)
    assert len(commands) == 3
    for command in commands:
        done = say(*shlex.split(command))
        assert done.code == 0, done.err
    assert Path("clean.arpa").read_text().startswith("\\data\\")
