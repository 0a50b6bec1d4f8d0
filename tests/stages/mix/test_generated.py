"""A mixture with more generated text than the recipe allows is refused."""

from types import SimpleNamespace

import pytest

from gristmill.errors import UserError
from gristmill.stages.mix.epochs import refuse_generated
from gristmill.stages.mix.groups import MixGroup
from gristmill.stages.mix.options import MixOptions

PARENTS = {"born": ("web",)}


def group(source, documents, samples=100):
    return MixGroup(source, source, source, None, 1, documents, 64 * samples, samples, 0, ())


def check(drawn, **options):
    """A hundred samples of ten parents, and a hundred of thirty children."""
    groups = [group("web", 10), group("born", 30), group("other", 10)]
    refuse_generated(groups, [SimpleNamespace(weights=drawn)], MixOptions(**options), PARENTS, {})


def test_the_share_of_generated_tokens_is_capped():
    drawn = {"web": 200, "born": 100, "other": 100}
    check(drawn, max_generated=0.25)
    with pytest.raises(UserError, match=r"25.0% of its tokens are generated \(born\), but max_generated is 24.9%"):
        check(drawn, max_generated=0.249)
    check(drawn)


def test_repeats_of_a_parent_count_itself_and_its_children():
    """Parents twice, and three children of each once: a parent is seen five times on average."""
    drawn = {"web": 200, "born": 100, "other": 900}
    check(drawn, max_family_epochs=5)
    with pytest.raises(UserError, match=r"a document of web is seen 5.0 times on average.*max_family_epochs is 4.9"):
        check(drawn, max_family_epochs=4.9)
