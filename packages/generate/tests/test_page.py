"""docs/generate.md is true: its files and its commands, as printed."""

import re
import shlex
import sys
from pathlib import Path
from typing import get_args

import pytest

from gristmill.cli.main import main
from gristmill_generate import generate
from gristmill_generate.connection import LOST
from gristmill_generate.settings import Ready

PAGE = (Path(__file__).parents[3] / "docs" / "generate.md").read_text()


@pytest.mark.slow
def test_the_example_does_what_it_says(tmp_path, monkeypatch, capfd):
    """The stand-in is started and stopped by the run, and every document gets a child for each prompt."""
    for name, text in re.findall(r"^`([\w./]+)`:\n\n```\w+\n(.*?)^```", PAGE, re.M | re.S):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text.replace("[python,", f"[{sys.executable},"))
    monkeypatch.chdir(tmp_path)
    shown = []
    for line in re.findall(r"^    (gristmill .*)$", PAGE, re.M):
        monkeypatch.setattr(sys, "argv", shlex.split(line))
        with pytest.raises(SystemExit) as ended:
            main()
        output = capfd.readouterr()
        assert not ended.value.code, output.err
        shown.append(" ".join(output.out.split()))
    assert len(shown) == 4
    assert "about 4 requests, 4 not answered before: " in shown[1]
    assert "THE MILLER OPENS THE SLUICE AT SIX, AND 40 LITRES A SECOND TURN THE WHEEL." in shown[3]


def test_the_page_names_every_ready_prompt_and_reason():
    code = "".join(path.read_text() for path in Path(generate.__file__).parent.glob("*.py"))
    reasons = {
        *re.findall(r'FailedRequest\(\s*"(\w+)"', code),
        *re.findall(r'None, "(\w+)",', code),
        "server_error",
        "request_rejected",
        LOST,
        generate.TAKEN_DOWN,
    }
    assert len(reasons) == 13
    assert [name for name in (*get_args(Ready), *reasons) if f"`{name}`" not in PAGE] == []
