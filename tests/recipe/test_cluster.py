"""Jobs of Slurm are described in a recipe or in a profile, by the same fields; nothing of it changes a key."""

import pytest

from gristmill.errors import UserError
from gristmill.recipe.load import load
from gristmill.recipe.sections.cluster import ClusterFields, load_profile

CLUSTER = """cluster:
  jobs: 64
  sbatch: {partition: cpu, time: 4:00:00, mem: 8G, cpus-per-task: 4, exclusive: true}
  alone: {mem: 64G}
"""
ACTS = {
    "setup": "setup: [module load python, source venv/bin/activate]",
    "python": "python: /shared/venv/bin/python",
    "sbatch.output": "sbatch: {output: /home/miller/.bashrc}",
    "host": "host: login1-ib",
    "port": "port: 6000",
    "alone.chdir": "alone: {chdir: /shared}",
    "sbatch.outp": "sbatch: {outp: /home/miller/.bashrc}",
    "sbatch.mail-user": "sbatch: {mail-user: miller@example.org}",
}


def mistakes(write):
    with pytest.raises(UserError) as told:
        write()
    return str(told.value)


def test_a_recipe_says_how_jobs_are_asked_for(project):
    project.write_recipe(top=CLUSTER)
    cluster = load(project.recipe).cluster
    assert cluster.jobs == 64
    assert cluster.cpus == 4
    assert cluster.sbatch["time"] == "4:00:00"
    assert cluster.alone == {"mem": "64G"}


@pytest.mark.parametrize("name", ACTS)
def test_only_a_profile_names_programs_files_and_machines(project, tmp_path, name):
    """Law 10: a recipe is data, and may come from anybody."""
    project.write_recipe(top=f"cluster:\n  {ACTS[name]}\n")
    told = mistakes(lambda: load(project.recipe))
    assert f":5: cluster.{name} may name a program, a file or a machine" in told
    assert told.endswith("run with profile=FILE.")
    profile = tmp_path / "cluster.yaml"
    profile.write_text(f"{ACTS[name]}\n")
    assert load_profile(str(profile)) != ClusterFields()


def test_what_only_a_profile_may_have_is_not_corrected_first(project):
    project.write_recipe(top="cluster: {setup: module load python, sbatch: [output]}\n")
    told = mistakes(lambda: load(project.recipe))
    assert "cluster.setup may name a program" in told
    assert "list" not in told


def test_nothing_of_it_is_in_a_key(project):
    """Where work is done changes no byte, so a run on a cluster finds all that one without it made."""
    project.write_inputs(files=1, records=30)
    first = project.run()
    project.write_recipe(top=CLUSTER)
    again = project.run()
    assert project.executed(first)
    assert not project.executed(again)
    assert project.parts(again) == project.parts(first)
    assert load(project.recipe).cluster != ClusterFields()


def test_a_profile_stands_in_place_of_the_recipes(project, tmp_path):
    project.write_recipe(top=CLUSTER)
    profile = tmp_path / "cluster.yaml"
    profile.write_text("jobs: 3\nsbatch:\n  account: grain\n")
    assert load(project.recipe, profile=str(profile)).cluster == ClusterFields(jobs=3, sbatch={"account": "grain"})


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("jobs: 3\nsbatsh: {}\n", 2, ["sbatsh is not a field", "Did you mean sbatch?"]),
        ("jobs: none\n", 1, ["jobs: 'none' is not a count"]),
        ("jobs: 3\nsbatch:\n  array: 0-9\n", 3, ["array cannot be set", "jobs says how many"]),
        ("jobs: 2\nsbatch: {wra: touch here}\n", 2, ["wra cannot be set", "under setup of a profile"]),
        ("sbatch: {--mem: 4G}\n", 1, ["without leading dashes"]),
        ("sbatch: {cpus-per-task: many}\n", 1, ["cpus-per-task is 'many'", "Write 1 or more"]),
        ("sbatch: {export: NONE}\n", 1, ["export NAME=value` under setup"]),
        ("host: http://login1\n", 1, ["is not a host name or an IPv4 address"]),
        ("- jobs: 3\n", 1, ["a profile is a mapping", "Fields: jobs, sbatch"]),
        ("", 1, ["a profile is a mapping"]),
    ],
)
def test_mistakes_are_told_with_their_line(project, tmp_path, text, line, words):
    """In a profile; in a recipe the same, behind `cluster`."""
    profile = tmp_path / "cluster.yaml"
    profile.write_text(text)
    told = mistakes(lambda: load_profile(str(profile)))
    assert told.startswith(f"{profile}:{line}: ")
    for word in words:
        assert word in told
    if text.startswith(("jobs", "sbatch")):
        indented = "".join(f"  {row}\n" for row in text.splitlines())
        project.write_recipe(top=f"cluster:\n{indented}")
        told = mistakes(lambda: load(project.recipe))
        assert f":{line + 4}: cluster." in told


def test_a_profile_without_end_is_read_to_its_bound():
    assert "/dev/zero: the file is larger than 4 MiB, so it is not a profile" in mistakes(
        lambda: load_profile("/dev/zero")
    )


def test_a_profile_that_is_not_there_is_one_message(tmp_path):
    told = mistakes(lambda: load_profile(str(tmp_path / "none.yaml")))
    assert "none.yaml: there is no such file" in told
