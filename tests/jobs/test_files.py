"""The files of examples/jobs: shell without a fault, YAML that fits its schema, options that exist.

No cluster is asked; what was run by hand is told in docs/cluster.md.
"""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from gossip import run
from tests.jobs.kubeflow import ANCESTOR, RESERVED, SCHEMAS

ROOT = Path(__file__).parents[2]
JOBS = ROOT / "examples" / "jobs"
SCRIPTS = sorted(JOBS.glob("*.sh"))
SHELLCHECK = shutil.which("shellcheck", path=str(Path(sys.executable).parent))


@pytest.mark.skipif(SHELLCHECK is None, reason="shellcheck is not installed")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_shellcheck_finds_nothing(script):
    done = subprocess.run([SHELLCHECK, script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert script.stat().st_mode & 0o111 == 0o111  # srun and torchrun start it as it is


def trainjob() -> list[dict]:
    return list(yaml.safe_load_all((JOBS / "trainjob.yaml").read_text()))


def test_the_trainjob_fits_its_schema():
    runtime, job = trainjob()
    assert [each["kind"] for each in (runtime, job)] == ["TrainingRuntime", "TrainJob"]
    for each in (runtime, job):
        jsonschema.Draft202012Validator(SCHEMAS[each["kind"]]).validate(each)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "trainer", "numProcPerNode"), "four"),
        (("spec", "trainer", "podSpecOverrides"), []),
        (("apiVersion",), "kubeflow.org/v1"),
        (("spec", "runtimeRef", "name"), ""),
    ],
)
def test_the_schema_refuses_what_kubeflow_does(path, value):
    _, job = trainjob()
    *way, last = path
    inner = job
    for name in way:
        inner = inner[name]
    inner[last] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMAS["TrainJob"]).validate(job)


def test_the_parts_of_the_trainjob_name_each_other():
    runtime, job = trainjob()
    assert job["spec"]["runtimeRef"]["kind"] == runtime["kind"]
    assert job["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"]
    (replicated,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    assert replicated["template"]["metadata"]["labels"] == ANCESTOR
    pod = replicated["template"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert replicated["name"] == container["name"] == "node"
    assert {m["name"] for m in container["volumeMounts"]} == {v["name"] for v in pod["volumes"]}
    trainer = job["spec"]["trainer"]
    assert container["image"] == trainer["image"]
    assert not {each["name"] for each in trainer["env"]} & RESERVED
    (mounted,) = container["volumeMounts"]
    (folder,) = (each["value"] for each in trainer["env"] if each["name"] == "RUN")
    assert folder.startswith(mounted["mountPath"] + "/")
    learners = run.parse(options_of(trainer["args"])).options.gossip.learners
    assert learners % (trainer["numNodes"] * trainer["numProcPerNode"]) == 0


def options_of(words: list[str]) -> list[str]:
    """The options of gossip.run behind run.sh."""
    (at,) = (k for k, word in enumerate(words) if word.endswith("run.sh"))
    return words[at + 1 :]


@pytest.mark.parametrize("name", ["slurm.sh", "torchrun.sh"])
def test_the_options_of_a_script_are_gossip_runs(name):
    text = (JOBS / name).read_text().replace("\\\n", " ")
    (line,) = (line for line in text.splitlines() if '/run.sh" --' in line or "/run.sh --" in line)
    *options, rest = options_of([word.rstrip('"') for word in shlex.split(line)])
    assert rest == "$@"
    assert run.parse(options).options.reliability.checkpoint_every == 500


def test_elastic_nodes_of_four_processes_divide_the_learners():
    text = (JOBS / "torchrun.sh").read_text()
    least, most = map(int, re.search(r"NODES:-(\d+):(\d+)", text).groups())
    (processes,) = map(int, re.findall(r"PROCESSES:-(\d+)", text))
    (learners,) = map(int, re.findall(r"--learners (\d+)", text))
    assert [n for n in range(least, most + 1) if learners % (n * processes)] == []


def test_the_image_needs_no_host_but_the_registries():
    """No address in the Containerfile, and it takes nothing that is not in a checkout."""
    text = (JOBS / "Containerfile").read_text()
    assert not re.search(r"://|@|\bcurl\b|\bwget\b|\bgit\b|--(extra-)?index-url", text)
    instructions = [line.split() for line in text.splitlines() if re.match(r"[A-Z]+ ", line)]
    (base,) = (words[1] for words in instructions if words[0] == "FROM")
    assert "/" not in base
    for copied in (words[1:-1] for words in instructions if words[0] == "COPY"):
        assert [name for name in copied if not (ROOT / name).exists()] == []
    assert ["USER", "1000"] in instructions


@pytest.mark.parametrize("there", [False, True])
def test_a_run_begins_or_goes_on(tmp_path, there):
    """run.sh with a `python` that says what it is asked to do."""
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$@"\n')
    python.chmod(0o755)
    folder = tmp_path / "a run"
    if there:
        folder.mkdir()
        (folder / "config.toml").touch()
    done = subprocess.run(
        [JOBS / "run.sh", "--steps", "5"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "RUN": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    how = f"--resume {folder}" if there else f"--out {folder} --steps 5"
    assert done.stdout == f"-m gossip.run {how}\n"
