"""Task keys: where requests go, and what they cost, is in no key."""

import pytest

from gristmill.stages.config_types import fields_of_output
from gristmill_generate import entail, generate

NOT_ASKED = {"servers", "serve", "api_key_env", "concurrency", "limits", "price", "budget"}


@pytest.mark.parametrize("module", [generate, entail])
def test_only_what_is_asked_is_in_the_key(module):
    """And of `budget`, `price` and the others, test_entail.py tries another value."""
    assert module.Config.model_fields.keys() - fields_of_output(module.Config.model_construct()) == NOT_ASKED
