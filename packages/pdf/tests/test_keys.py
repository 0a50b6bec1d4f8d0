"""Task keys of OCR: where requests go, and what they cost, is in no key."""

from gristmill.stages.config_types import fields_of_output
from gristmill_pdf.ocr.ocr import Config


def test_only_what_is_asked_is_in_the_key():
    """And the settings of the reader are all in its key."""
    fields = Config.model_fields.keys() - fields_of_output(Config.model_construct())
    assert fields == {"servers", "serve", "api_key_env", "concurrency", "limits", "price", "budget"}
