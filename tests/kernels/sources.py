"""The kernels of the core and of all packages."""

from pathlib import Path

ROOT = Path(__file__).parents[2]


def kernel_files() -> dict[str, Path]:
    """The file of each kernel by the name of its module."""
    folders = [ROOT / "src", *ROOT.glob("packages/*/src")]
    return {
        ".".join(path.relative_to(folder).with_suffix("").parts): path
        for folder in folders
        for path in sorted(folder.glob("gristmill*/kernels/**/*.py"))
    }
