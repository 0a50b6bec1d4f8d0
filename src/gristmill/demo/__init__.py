"""Demo inputs made on the spot from the running Python, with planted defects and the truth about them."""

from gristmill.demo.inputs import build
from gristmill.demo.truth import Truth

__all__ = ["Truth", "build"]
