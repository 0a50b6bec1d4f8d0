"""Demo inputs generated from the running Python, with planted defects and the truth about them."""

from demo.inputs import build
from demo.truth import Truth

__all__ = ["Truth", "build"]
