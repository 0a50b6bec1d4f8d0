"""The wheels are complete: installed outside the repository, they work from `init` to the loader."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from tests.laws import test_tutorial

import gristmill
from gristmill.installed import PACKAGES as TABLE

ROOT = Path(__file__).parents[2]
PACKAGES = [f"packages/{path.parent.name}" for path in sorted(ROOT.glob("packages/*/pyproject.toml"))]
SOURCES = {"gristmill": ROOT / "src" / "gristmill"} | {
    name: ROOT / plugin / "src" / name for plugin in PACKAGES for name in (f"gristmill_{Path(plugin).name}",)
}
RECIPE = """
recipe: few
seed: 1
store: ./store
sources: {notes: {kind: text, read: {format: jsonl, paths: [notes.jsonl]}, domain: text, tier: A}}
steps: [exact_dedup]
tokenizer: {train: {vocab: 512, sample_bytes: {text: 10KB}, held_out_share: 0.1}}
shards: {seq_len_tokens: 64}
mix: {tokens: 1k, domains: {text: 1}, max_epochs: 50}
"""
TRAINER = """
import json, pathlib, sys
import gristmill
from gristmill.loader import Loader
(manifest,) = pathlib.Path("store").rglob("manifest.json")
loader = Loader(manifest, batch_samples=4)
print(json.dumps([gristmill.__file__, next(iter(loader)).tokens.shape]))
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """All wheels by package name, built as `make wheel` builds them, from a copy without other files."""
    copy, out = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("dist")
    generated = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    shutil.copytree(ROOT / "src", copy / "src", ignore=generated)
    shutil.copytree(ROOT / "packages", copy / "packages", ignore=generated)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", out)
    run(copy, sys.executable, "-m", "pip", "wheel", *options, ".", *(f"./{plugin}" for plugin in PACKAGES))
    return {path.name.split("-")[0]: path for path in out.glob("*.whl")}


@pytest.fixture(scope="module")
def program(wheels, tmp_path_factory):
    """The `bin` folder of a new environment with all wheels."""
    return installed(tmp_path_factory.mktemp("environment"), wheels.values())


def installed(folder, wheels):
    """The `bin` folder of a new environment with these wheels, followed by the libraries of this one."""
    run(folder, sys.executable, "-m", "venv", "--without-pip", ".")
    python = folder / "bin" / "python"
    options = ("--quiet", "--no-deps", "--no-index", "--no-compile")
    run(folder, sys.executable, "-m", "pip", "--python", python, "install", *options, *wheels)
    (site,) = (folder / "lib").glob("python*/site-packages")
    # Links, without the packages of the repository and without .pth files, which lead to it.
    libraries = [path for path in sys.path if path.endswith("site-packages") or Path(path, "orjson").is_dir()]
    for path in libraries:
        for one in Path(path).iterdir():
            if "gristmill" not in one.name and one.suffix != ".pth" and not (site / one.name).exists():
                (site / one.name).symlink_to(one)
    return folder / "bin"


def run(folder, *words):
    """The output of a program, run outside the repository."""
    ended = ended_with(folder, *words)
    assert ended.returncode == 0, f"{words}\n{ended.stdout[-2000:]}\n{ended.stderr[-4000:]}"
    return ended.stdout


def ended_with(folder, *words):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run([*map(str, words)], cwd=folder, env=environment, capture_output=True, text=True)


def test_the_metadata_of_all_packages_agree():
    """All packages have one version and the same keywords; classifiers name the Pythons that pip may install it on."""
    project, *packages = (
        tomllib.loads((ROOT / name / "pyproject.toml").read_text())["project"] for name in (".", *PACKAGES)
    )
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (cited["version"], cited["license"]) == (gristmill.__version__, project["license"])
    assert cited["keywords"] == project["keywords"]
    assert {one["requires-python"] for one in (project, *packages)} == {">=3.11,<3.14"}
    named = [line.rpartition(" ")[2] for line in project["classifiers"] if "Python :: 3" in line]
    assert named == ["3.11", "3.12", "3.13"]


@pytest.mark.slow
def test_every_file_of_the_package_is_in_its_wheel(wheels):
    """The wheel contains modules and data, and installs nothing outside the package."""
    assert wheels.keys() == SOURCES.keys()
    for name, folder in SOURCES.items():
        files = {path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
        with zipfile.ZipFile(wheels[name]) as wheel:
            packed = {file for file in wheel.namelist() if ".dist-info/" not in file}
        assert packed == {str(path.relative_to(folder.parent)) for path in files}


@pytest.mark.slow
def test_installed_wheels_work_from_init_to_the_loader(program, tmp_path):
    """The commands of the wheels run in a folder outside the repository."""
    init_to_loader(program, tmp_path)
    assert "extractor show" in run(tmp_path, program / "gristmill", "extractor", "show", "--help")


@pytest.fixture(scope="module")
def core(wheels, tmp_path_factory):
    """The `bin` folder of a new environment with the wheel of the core alone."""
    return installed(tmp_path_factory.mktemp("core"), [wheels["gristmill"]])


@pytest.mark.slow
def test_the_wheel_of_the_core_works_alone(core, tmp_path):
    """The packages are additions: nothing of the core needs one."""
    init_to_loader(core, tmp_path)


@pytest.mark.slow
def test_the_tutorial_prints_what_its_page_shows_without_any_package(core, tmp_path, monkeypatch):
    """From an empty folder, each command exits with code 0, without a warning, and prints the output on the page."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{core}:{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", test_tutorial.WIDTH)

    def typed(line):
        ended = ended_with(tmp_path, *shlex.split(line))
        assert ended.returncode == 0, f"{line}\n{ended.stderr}"
        assert "WARNING" not in ended.stderr, f"{line}\n{ended.stderr}"
        return ended.stdout

    page = test_tutorial.PAGE.read_text()
    assert page.count("\n$ ") > 10
    assert test_tutorial.replay(page, typed) == page, "write it again: python tests/laws/test_tutorial.py"


@pytest.mark.slow
def test_the_demo_needs_no_package(core, tmp_path):
    """It finds what it planted; a recipe or a command that needs a package gets one message that names it."""
    for folder in ("demo", "recipes"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("inputs", "store", "audit"))
    run(tmp_path, core / "python", "-m", "demo", "build", "demo/inputs", "--scale", "0.03")
    gristmill_core = core / "gristmill"
    assert "kept" in run(tmp_path, gristmill_core, "run", "recipes/demo.yaml", "--workers", "1")
    run(tmp_path, core / "python", "-m", "demo", "score", "recipes/demo.yaml", "demo/inputs")
    assert "Commands from other packages" not in run(tmp_path, gristmill_core, "--help")
    source = "recipe: r\nstore: ./s\nsources:\n  docs: {kind: text, domain: d, %s}\nsteps: []\n"
    (tmp_path / "pages.yaml").write_text(source % "read: {format: pdf, paths: [a.pdf]}")
    (tmp_path / "born.yaml").write_text(source % "generate: {parents: docs}")
    for package, words in {
        "pdf": ("plan", "pages.yaml"),
        "generate": ("plan", "born.yaml"),
        "ablate": ("ablate", "pages.yaml"),
        "ray": ("run", "recipes/demo.yaml", "--executor", "ray"),
    }.items():
        ended = ended_with(tmp_path, gristmill_core, *words)
        assert (ended.returncode, ended.stdout) == (2, ""), ended
        assert f"the package gristmill-{package}" in ended.stderr
        assert "Traceback" not in ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_works_beside_the_core_alone(wheels, tmp_path, package):
    """Everything that it registers, without the packages that it does not require."""
    project = tomllib.loads((ROOT / package / "pyproject.toml").read_text())["project"]
    required = [name.split("==")[0].replace("-", "_") for name in project["dependencies"] if "gristmill" in name]
    (tmp_path / "environment").mkdir()
    own = [wheels[name] for name in (f"gristmill_{Path(package).name}", *required)]
    program = installed(tmp_path / "environment", own)
    for group, points in project["entry-points"].items():
        for name in points:
            [needed] = [packages.split() for packages, names in TABLE[group].items() if name in names.split()]
            if len(needed) > 1:
                ended = ended_with(tmp_path, program / "gristmill", "steps", name)
                assert (ended.returncode, f"gristmill-{needed[0]} and" in ended.stderr) == (2, True)
            elif group == "gristmill.commands":
                run(tmp_path, program / "gristmill", *name.split("."), "--help")
            elif group in ("gristmill.formats", "gristmill.steps"):
                run(tmp_path, program / "gristmill", "steps", name)
            else:
                load = f"from importlib.metadata import entry_points as e; e(group={group!r})[{name!r}].load()"
                run(tmp_path, program / "python", "-c", load)


def init_to_loader(program, tmp_path):
    command = program / "gristmill"
    run(tmp_path, command, "init", "starter.yaml")
    assert "recipe: my-corpus" in (tmp_path / "starter.yaml").read_text()
    texts = [f"The miller counts sack {number} of {number * 7}, and writes it down." for number in range(200)]
    (tmp_path / "notes.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    (tmp_path / "few.yaml").write_text(RECIPE)
    assert "kept 200" in run(tmp_path, command, "run", "few.yaml", "--workers", "1")
    where, shape = json.loads(run(tmp_path, program / "python", "-c", TRAINER))
    assert Path(where).is_relative_to(program.parent)
    assert shape == [4, 64]
