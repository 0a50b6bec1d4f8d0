"""Ready descriptions read public benchmarks in every form in which they are published."""

import pytest
from tests.stages.decontaminate.published import PUBLISHED, A

from gristmill.stages.decontaminate.suite import read_with_counts
from gristmill.stages.decontaminate.suite_ready import ready, ready_names


@pytest.mark.parametrize(
    ("like", "form", "name", "content", "wanted"), PUBLISHED, ids=[f"{one[0]}-{one[1]}-{one[2]}" for one in PUBLISHED]
)
def test_a_published_file_gives_its_item(tmp_path, like, form, name, content, wanted):
    """Question, answer, choices, code and context as the paper means them, by the form that is meant for the file."""
    content, answers = content if isinstance(content, tuple) else (content, None)
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    more = ""
    if answers is not None:
        (tmp_path / "labels.lst").write_bytes(answers)
        more = ", answer_file: labels.lst"
    (tmp_path / "suite.yaml").write_text(
        f"suite: s\nversion: 1\nbenchmarks: {{b: {{files: {name}, like: {like}{more}}}}}\n"
    )
    suite, counts = read_with_counts(str(tmp_path))
    (item,) = suite.items
    wanted = wanted or {**A, "question": "Which stone\ngrinds?", "choices": ("the bed", "the runner", "c", "d")}
    found = {role: getattr(item, role) for role in (*wanted, "question", "answer", "choices", "code", "context")}
    assert found == {"answer": "", "choices": (), "code": (), "context": "", **wanted}
    assert counts["b"].forms == (form,)


def test_every_form_that_is_listed_is_tried_above():
    """A form without an example could be a slip that nobody sees."""
    listed = {(name, form.name) for name in ready_names() for form in ready(name).forms}
    assert listed == {one[:2] for one in PUBLISHED}
