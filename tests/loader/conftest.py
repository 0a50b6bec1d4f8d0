"""A small corpus on disk."""

from pathlib import Path

import pytest

from loader.small import two_phases


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    return two_phases().write(tmp_path / "shards")


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same manifest for tests that change nothing."""
    return two_phases().write(tmp_path_factory.mktemp("corpus"))
