"""Slurm jobs are described in a recipe or in a profile, with the same fields; none of them changes a key."""

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
    with pytest.raises(UserError) as message:
        write()
    return str(message.value)


def test_a_recipe_says_how_to_request_jobs(project):
    project.write_recipe(top=CLUSTER)
    cluster = load(project.recipe).cluster
    assert cluster.jobs == 64
    assert cluster.cpus == 4
    assert cluster.sbatch["time"] == "4:00:00"
    assert cluster.alone == {"mem": "64G"}


@pytest.mark.parametrize("name", ACTS)
def test_only_a_profile_names_programs_files_and_machines(project, tmp_path, name):
    """Law 10: a recipe is data, and may come from anyone."""
    project.write_recipe(top=f"cluster:\n  {ACTS[name]}\n")
    message = mistakes(lambda: load(project.recipe))
    assert f":5: cluster.{name} may name a program, a file or a machine" in message
    assert message.endswith("run with profile=FILE.")
    profile = tmp_path / "cluster.yaml"
    profile.write_text(f"{ACTS[name]}\n")
    assert load_profile(str(profile)) != ClusterFields()


def test_fields_of_a_profile_are_refused_before_they_are_checked(project):
    project.write_recipe(top="cluster: {setup: module load python, sbatch: [output]}\n")
    message = mistakes(lambda: load(project.recipe))
    assert "cluster.setup may name a program" in message
    assert "list" not in message


def test_no_key_contains_cluster_fields(project):
    """Where work runs changes no byte, so a run on a cluster finds everything that a run without one made."""
    project.write_inputs(files=1, records=30)
    first = project.run()
    project.write_recipe(top=CLUSTER)
    again = project.run()
    assert project.executed(first)
    assert not project.executed(again)
    assert project.parts(again) == project.parts(first)
    assert load(project.recipe).cluster != ClusterFields()


def test_a_profile_replaces_the_recipes_cluster(project, tmp_path):
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
def test_mistakes_are_reported_with_their_line(project, tmp_path, text, line, words):
    """In a profile; in a recipe the same, after `cluster`."""
    profile = tmp_path / "cluster.yaml"
    profile.write_text(text)
    message = mistakes(lambda: load_profile(str(profile)))
    assert message.startswith(f"{profile}:{line}: ")
    for word in words:
        assert word in message
    if text.startswith(("jobs", "sbatch")):
        indented = "".join(f"  {row}\n" for row in text.splitlines())
        project.write_recipe(top=f"cluster:\n{indented}")
        message = mistakes(lambda: load(project.recipe))
        assert f":{line + 4}: cluster." in message


def test_a_profile_without_end_is_read_to_its_bound():
    assert "/dev/zero: the file is larger than 4 MiB, so it is not a profile" in mistakes(
        lambda: load_profile("/dev/zero")
    )


def test_a_profile_that_is_not_there_is_one_message(tmp_path):
    message = mistakes(lambda: load_profile(str(tmp_path / "none.yaml")))
    assert "none.yaml: there is no such file" in message
