"""Packages from the documentation, installed as pip would: their modules and entry points, on sys.path."""

import re
import sys
import tomllib
from contextlib import contextmanager
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
FILE = re.compile(r"^`([\w./]+\.(?:py|toml))`:\n\n```\w+\n(.*?)^```", re.M | re.S)


@contextmanager
def installed_from(page, site, monkeypatch):
    """Install the package of a documentation page into a new folder; its modules are unloaded afterwards."""
    files = dict(FILE.findall((DOCS / page).read_text()))
    project = tomllib.loads(files.pop("pyproject.toml"))["project"]
    write_metadata(site, project["name"], project["version"], project["entry-points"])
    for name, text in files.items():
        (site / name).parent.mkdir(exist_ok=True)
        (site / name).write_text(text)
    monkeypatch.syspath_prepend(site)
    try:
        yield site
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == project["name"]]:
            del sys.modules[name]


def write_metadata(site, name, version, groups):
    """Write the metadata that pip puts next to the modules of a package."""
    about = site / f"{name}-{version}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in group_points.items())
        for group, group_points in groups.items()
    ]
    (about / "entry_points.txt").write_text("\n".join(lines))
