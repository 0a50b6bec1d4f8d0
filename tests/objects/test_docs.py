"""docs/object-stores.md is correct: its commands run as printed, and its numbers are those of the code."""

import re
import shlex
import sys
from pathlib import Path

import pytest
from tests.objects.conftest import make_bucket

from gristmill.cli.main import main
from gristmill.objects import bucket, patience, requests
from sharded import Corpus

PAGE = (Path(__file__).parents[2] / "docs" / "object-stores.md").read_text()


@pytest.mark.usefixtures("in_this_process")
def test_every_command_of_the_page_runs(s3_server, use_s3, project, monkeypatch, capfd):
    """In order, on a bucket of that name."""
    use_s3(s3_server.address)
    make_bucket(s3_server.address, "our-bucket")
    Corpus(project).recipe()
    project.recipe.write_text(project.recipe.read_text().replace("recipe: small", "recipe: web"))
    monkeypatch.chdir(project.folder)
    lines = "\n".join(re.findall(r"```sh\n(.*?)```", PAGE, re.S)).splitlines()
    assert len(lines) == 4
    for line in lines:
        monkeypatch.setattr(sys, "argv", shlex.split(line))
        with pytest.raises(SystemExit) as ended:
            main()
        said = capfd.readouterr()
        assert (ended.value.code or 0) == 0, f"{line}: {said.err}"
        if " status " in line:
            assert "per task" in said.out
            assert "USD" in said.out


def test_the_numbers_of_the_page_are_those_of_the_code():
    """Prices, sizes and waits."""
    page = " ".join(PAGE.split())
    assert f"{requests.USD_PER_THOUSAND_WRITES} USD for 1,000 writes" in page
    assert f"{requests.USD_PER_THOUSAND_READS} for 1,000 reads" in page
    assert requests.PRICES in page
    assert (
        f"Objects over {bucket.SINGLE_BYTES >> 20} MiB are uploaded in parts of {bucket.PIECE_BYTES >> 20} MiB" in page
    )
    assert f"from {2 * patience.WAIT_SECONDS} to {patience.LONGEST_SECONDS:.0f} s" in page
    assert (patience.TRIES, patience.FIRST_TRIES) == (10, 3)
