"""docs/suites.md documents every setting and every ready description, and its example loads."""

import re
from pathlib import Path

from gristmill.stages.decontaminate.suite.describe import Benchmark, describe, ready_names

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "suites.md").read_text()


def test_the_example_of_the_page_is_a_suite(tmp_path):
    """The example is a description that loads."""
    (text,) = re.findall(r"```yaml\n(suite:.*?)```", PAGE, re.S)
    (tmp_path / "suite.yaml").write_text(text)
    found = describe(str(tmp_path))
    assert list(found.benchmarks) == sorted(re.findall(r"^  (\w+):", text, re.M))


def test_the_page_names_every_setting_and_every_ready_description():
    """An undocumented setting cannot be found."""
    assert [name for name in Benchmark.model_fields if f"`{name}" not in PAGE] == []
    assert [name for name in ready_names() if name not in PAGE] == []
