"""The fixtures of the tests of commands."""

from cli.conftest import copy_of, everything, routes, say, shared_projects_are_read_only  # noqa: F401
