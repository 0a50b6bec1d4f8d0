"""The fixtures of the tests of commands."""

from cli.conftest import say  # noqa: F401
