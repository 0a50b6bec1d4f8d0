"""What docs/cutoffs.md shows can be written."""

import re
from pathlib import Path

import pytest
import yaml

from gristmill.stages.quality.keep_quality import Config, reads
from gristmill.stages.shared.expressions import parse_condition, parse_value

PAGE = Path(__file__).parents[3] / "docs" / "cutoffs.md"
BLOCKS = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.S)]


@pytest.mark.parametrize("step", [block[0]["keep_quality"] for block in BLOCKS if isinstance(block, list)])
def test_every_step_on_the_page_is_one(step):
    assert reads(Config.model_validate(step))


def test_tiers_and_weights_on_the_page_read_what_the_step_writes():
    sources = [block["crawl"] for block in BLOCKS if isinstance(block, dict)]
    conditions = [text for one in sources for text in one.get("tier", {}).values() if text != "else"]
    read = {name for text in conditions for name in parse_condition(text).columns}
    read |= {name for one in sources if "weight" in one for name in parse_value(one["weight"]).columns}
    assert read == {"keep_quality.rank", "keep_quality.bucket"}
