"""docs/tutorial.md is true: its files, its commands, and all their output (test_wheel.py runs them).

Run as a program, this file updates the command output in the page: python tests/laws/test_tutorial.py.
"""

import contextlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"(?:^(Add to )?`([\w.]+)`:\n\n)?^```(\w+)\n(.*?)^```$", re.M | re.S)
WIDTH = "80"
HASH = re.compile(r"\b[0-9a-f]{12,64}\b")
"""Hashes of versions, models and shards: they change with every VERSION of a stage, as the page says."""


def replay(page: str, typed: Callable[[str], str]) -> str:
    """The page after writing every file and running every command in the current folder."""

    def block(found: re.Match[str]) -> str:
        added, name, language, text = found.groups()
        if name:
            Path(name).write_text((Path(name).read_text() if added else "") + text)
        if language != "console":
            return found[0]
        blocks = []
        for command, printed in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.M):
            output = "".join(f"{line.rstrip()}\n" for line in typed(command).rstrip("\n").split("\n"))
            blocks.append(f"$ {command}\n{printed if agree(printed, output) else output}")
        return f"```console\n{''.join(blocks)}```"

    return BLOCK.sub(block, page)


def agree(printed: str, output: str) -> bool:
    """Whether two outputs are equal except for hashes; after a last line `...` anything may follow."""
    printed, output = HASH.sub("HASH", printed), HASH.sub("HASH", output)
    if printed.endswith("\n...\n"):
        return output.startswith(printed.removesuffix("...\n"))
    return printed == output


def test_output_agrees_up_to_hashes_and_the_last_dots():
    """Outputs may differ in hashes and after the last dots, and in nothing else."""
    assert agree("version 0123456789ab\n", "version ba9876543210\n")
    assert agree("one\n...\n", "one\ntwo\n")
    assert not agree("one\n", "two\n")
    assert not agree("one\n", "one\ntwo\n")
    assert not agree("two\n...\n", "one\ntwo\n")


def _typed_in_a_shell(line: str) -> str:
    environment = {**os.environ, "COLUMNS": WIDTH, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(shlex.split(line), env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        PAGE.write_text(replay(PAGE.read_text(), _typed_in_a_shell))
