"""What the container launcher asks for, and the words that podman and docker get: without either of them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping
from pathlib import Path

import pytest
from attrs import evolve

from primus_core import discovery, hooks
from primus_core.errors import ConfigError, DependencyError
from primus_core.experiment import Value
from primus_core.outcome import Finding, Where
from primus_core.plan import Job, Mount, Process, RunPlan, Submission, Target, Task
from primus_core.planning.secrets import is_secret
from primus_core.testing.launcher import NASTY
from primus_launchers import container
from primus_launchers.container import faults
from primus_launchers.container.command import Command, volume
from primus_launchers.container.engine import DOCKER, PODMAN, Engine, choose
from primus_launchers.container.mounts import covering
from primus_launchers.container.node import Caller, chosen_gpus, render_devices
from primus_launchers.container.parsing import parse
from primus_launchers.container.request import Request, to_argv
from primus_launchers.container.tables import Needs, needs_of, variables
from primus_launchers.faulttable import Fault

RUN = "/w/exp/runs/r"
PLAN = f"{RUN}/plan.json"
START = f"{RUN}/submission/code/start.py"


def job(**section: Value) -> Job:
    section = {"image": "rocm/primus:v26.3", **section}
    return Job(
        run_id="r",
        name="exp",
        task=Task(kind="train", entry="x:y", ranks_per_node=8),
        python="/venv/bin/python",
        argv=("-m", "primus_core.rank", PLAN),
        env={"NCCL_DEBUG": "WARN"},
        workdir="/home/me",
        log_dir=f"{RUN}/submission",
        options=section,
        sections={"container": section, "direct": {"master_port": 29512}},
        inside="container",
        accelerator="rocm",
        run_dir=RUN,
        secrets=("HF_TOKEN",),
        mounts=(Mount(path="/w", writable=True), Mount(path="/data")),
    )


def launch(of: Job) -> Submission:
    return hooks.load_host(discovery.scan(), backend=None, launcher="container", preflight=False).launch(of)


def words(process: Process) -> Request:
    start = process.argv.index("primus_launchers.container") + 1
    return parse(process.argv[start:], "test")


def test_one_program_on_the_host_starts_the_ranks_in_a_container() -> None:
    """The submission's one process is told image, files and names of variables, and ends with the rank's command."""
    submission = launch(job())
    (process,) = submission.processes
    asked = words(process)
    assert process.argv[:3] == ("/venv/bin/python", "-m", "primus_launchers.container")
    assert process.argv[-3:] == ("-m", "primus_core.rank", PLAN)
    assert (asked.image, asked.accelerator, asked.code) == ("rocm/primus:v26.3", "rocm", START)
    assert asked.mounts == (Mount(path="/data"), Mount(path="/w", writable=True))
    assert {"--nproc-per-node=8", "--nnodes=1", "--master-port=29512"} <= set(asked.torchrun)
    assert submission.carries_code
    assert not submission.detached


def test_values_of_variables_are_no_words() -> None:
    """The command line has names alone; values of ``--env NAME=VALUE`` are in the process's own environment."""
    (process,) = launch(job(env=["GREETING=a b", "FROM_HOST"])).processes
    assert process.env == {"GREETING": "a b", "NCCL_DEBUG": "WARN"}
    assert words(process).inherit == ("FROM_HOST", "GREETING", "HF_TOKEN", "NCCL_DEBUG")
    assert "a b" not in " ".join(process.argv)


def test_the_images_own_primus_is_used_where_that_is_asked_for() -> None:
    """Without the copy of the code nothing is brought along."""
    submission = launch(job(mount_code=False))
    assert not submission.carries_code
    assert words(submission.processes[0]).code == ""


def test_a_scheduler_gets_the_same_command_with_its_own_options_of_torchrun() -> None:
    """What starts each of several nodes says where they meet, or leaves it to variables."""
    argv = container.wrapper_argv(evolve(job(), nodes=2), ("--nnodes=2", "--nproc-per-node=8"))
    assert parse(argv[3:], "test").torchrun == ("--nnodes=2", "--nproc-per-node=8")
    assert container.wrapper_env(job(env=["A=1"])) == {"A": "1", "NCCL_DEBUG": "WARN"}


def test_a_job_without_an_image_is_refused() -> None:
    """The error says where an image is named."""
    with pytest.raises(ConfigError, match="no image is named") as caught:
        launch(job(image=None))
    assert "--image" in caught.value.remedy


@pytest.mark.parametrize("word", NASTY)
def test_a_request_survives_the_command_line(word: str) -> None:
    """Whatever stands in a path, an option or an argument arrives as it was."""
    asked = Request(
        image="i",
        run_id="r",
        command=(word, "--", word),
        torchrun=("-x", word),
        name=word,
        mounts=(Mount(path=f"/{word}", writable=True), Mount(path=f"/{word}/b")),
        volumes=(word, "--clean"),
        arguments=("--privileged", word),
        clean=True,
    )
    assert parse(to_argv(asked), "test") == asked


def test_a_mount_that_another_one_holds_is_left_out() -> None:
    """Folders are mounted once, and nothing below a writable one is read-only: it could not be removed."""
    asked = [("/w/a/checkpoints", False), ("/w", True), ("/data", False), ("/w", False), ("/data/out", True)]
    found = covering(Mount(path=path, writable=writable) for path, writable in [*asked, ("/wide/../data-b/", False)])
    assert [(one.path, one.writable) for one in found] == [
        ("/data", False),
        ("/data-b", False),
        ("/data/out", True),
        ("/w", True),
    ]


def engine(kind: str = DOCKER, *, rootless: bool = False) -> Engine:
    return Engine(path=f"/usr/bin/{kind}", kind=kind, rootless=rootless, env={})


ROOT = Caller(uid=0, gid=0, groups=(), name="root", host="node1", selinux=False)
USER = Caller(uid=1000, gid=100, groups=(44, 2000), name="me", host="node1", selinux=False)


def command(
    request: Request | None = None,
    *,
    by: Engine | None = None,
    caller: Caller = ROOT,
    needs: Needs | None = None,
    environment: Mapping[str, str] | None = None,
) -> Command:
    return Command(
        request=request or Request(image="i", run_id="r", command=("-m", "primus_core.rank", PLAN)),
        engine=by or engine(),
        needs=needs or Needs(),
        caller=caller,
        name="c",
        environment=environment or {},
        engine_variables=variables().read_by_engines,
        caches=(),
    )


def options(made: Command) -> list[str]:
    """The words before the image."""
    argv = made.argv
    return list(argv[2 : len(argv) - argv[::-1].index(made.request.image) - 1])


def asking(**changes: object) -> Request:
    return Request(**{"image": "i", "run_id": "r", "command": ("-m", "primus_core.rank", PLAN), **changes})  # type: ignore[arg-type]  # typed by attrs' own constructor


def test_the_image_runs_our_first_process_which_runs_torchrun() -> None:
    """Every module is started by the code that is brought along, or by the image's own interpreter."""
    brought = command(asking(code=START, torchrun=("--nnodes=1",))).argv
    own = command(asking(torchrun=("--nnodes=1",), python="/opt/python")).argv
    inside = ("primus_launchers.container.inside", "python3", START, "primus_launchers.torchrun", "--nnodes=1")
    assert brought[-9:] == ("i", "python3", START, *inside, START, "primus_core.rank", PLAN)[-9:]
    assert own[own.index("i") + 1 :][:3] == ("/opt/python", "-m", "primus_launchers.container.inside")
    assert own[-4:] == ("--nnodes=1", "-m", "primus_core.rank", PLAN)


def test_a_container_is_removed_labelled_and_named() -> None:
    """It goes when it ends; what belongs to Primus and to whom is written on it; no signal reaches it twice."""
    made = options(command(caller=USER))
    assert {"--rm", "--name=c", "--label=io.primus.run=r", "--label=io.primus.user=1000"} <= set(made)
    assert {"--interactive", "--sig-proxy=false", "--pull=never", "--log-driver=none"} <= set(made)
    assert {"--network=host", "--ipc=host", "--hostname=node1"} <= set(made)


def test_files_belong_to_the_calling_user() -> None:
    """root's docker gets the caller's numbers and groups; a rootless engine and root need nothing."""
    made = command(caller=USER)
    assert {"--user=1000:100", "--group-add=44", "--group-add=2000"} <= set(options(made))
    assert made.variables == {"HOME": "/tmp", "USER": "me", "LOGNAME": "me"}
    for other in (command(), command(by=engine(PODMAN, rootless=True), caller=USER)):
        assert not any("--user" in word or "--group-add" in word for word in options(other))
        assert other.variables == {}
    asked = command(asking(user="7:7"), caller=USER)
    assert "--user=7:7" in options(asked)
    assert asked.variables == {}


def test_the_callers_home_is_what_the_user_says() -> None:
    """A variable that is asked for counts more than ours."""
    assert command(caller=USER, environment={"HOME": "/w/home"}).variables["HOME"] == "/w/home"


@pytest.mark.parametrize(
    ("changes", "there", "absent"),
    [
        ({"ipc": "private"}, {"--ipc=private", "--shm-size=16g"}, set()),
        ({"shm_size": "1g"}, {"--shm-size=1g"}, {"--ipc=host"}),
        ({"ipc": "host", "shm_size": "1g"}, {"--ipc=host", "--shm-size=1g"}, set()),
        ({"arguments": ("--ipc", "none")}, {"--ipc", "none"}, {"--ipc=host"}),
        ({"network": "none", "cpus": "4", "memory": "1g"}, {"--network=none", "--cpus=4", "--memory=1g"}, set()),
        ({"arguments": ("--net=x",)}, {"--net=x"}, {"--network=host"}),
        ({"arguments": ("--hostname", "h")}, set(), {"--hostname=node1"}),
        ({"arguments": ("--pull=always", "--log-driver", "json-file")}, set(), {"--pull=never", "--log-driver=none"}),
        ({"arguments": ("--pids-limit", "9")}, set(), {"--pids-limit=-1"}),
        ({"workdir": "/w/a b"}, {"--workdir=/w/a b"}, set()),
        ({"arguments": ("-w", "/x"), "workdir": "/w"}, set(), {"--workdir=/w"}),
    ],
)
def test_what_is_asked_for_takes_the_place_of_a_default(
    changes: dict[str, object], there: set[str], absent: set[str]
) -> None:
    """No option is said twice, whether it is ours or one of the engine's own."""
    made = set(options(command(asking(**changes))))
    assert there <= made
    assert not absent & made


def test_a_limit_of_the_user_replaces_the_one_of_the_accelerator() -> None:
    """``--ulimit memlock=...`` replaces that limit, others stay; a rootless engine cannot raise any."""
    needs = needs_of("rocm")
    kept = options(
        command(asking(arguments=("--ulimit", "memlock=64:64"), devices=()), needs=evolve(needs, devices=()))
    )
    assert [word for word in kept if "memlock" in word] == ["memlock=64:64"]
    assert any(word.startswith("--ulimit=stack=") for word in kept)
    rootless = options(command(by=engine(rootless=True), needs=evolve(needs, devices=())))
    assert not any("ulimit" in word for word in rootless)


def test_files_keep_their_paths(tmp_path: Path) -> None:
    """Commas, colons and quotes of a path are part of it; a link is followed; the brought code is read-only."""
    odd = tmp_path / 'a, b:c "d"'
    odd.mkdir()
    (tmp_path / "link").symlink_to(odd)
    mounts = (Mount(path=str(odd), writable=True), Mount(path=str(tmp_path / "link")))
    made = options(command(asking(mounts=mounts, code=START)))
    quoted = str(odd).replace('"', '""')
    assert f'--mount=type=bind,"source={quoted}","target={quoted}"' in made
    assert f'--mount=type=bind,"source={quoted}",target={tmp_path}/link,readonly' in made
    assert made[-1] == f"--mount=type=bind,source={os.path.dirname(START)},target={os.path.dirname(START)},readonly"


def test_a_volume_takes_the_place_of_what_the_run_mounts_there(tmp_path: Path) -> None:
    """The same place in the container twice is refused by engines; what the user asks for counts."""
    mounts = (Mount(path=str(tmp_path), writable=True), Mount(path="/data"))
    for word in (f"{tmp_path}", f"{tmp_path}:{tmp_path}:ro"):
        made = options(command(asking(mounts=mounts, volumes=(word,))))
        mounted = [option for option in made if option.startswith("--mount=")]
        assert mounted == ["--mount=type=bind,source=/data,target=/data,readonly"], word


def test_a_volume_that_names_the_host_alone_keeps_its_path(tmp_path: Path) -> None:
    """``--volume /data`` is no anonymous volume; a folder that is not there is told, before docker makes it."""
    assert volume(str(tmp_path)) == f"{tmp_path}:{tmp_path}"
    assert volume(f"{tmp_path}:/x:ro") == f"{tmp_path}:/x:ro"
    assert volume("cache:/x") == "cache:/x"
    with pytest.raises(ConfigError, match="has no /no/such"):
        volume("/no/such:/x")


def test_rocm_gets_its_devices_groups_and_rights() -> None:
    """Device files, capabilities and seccomp are those of the data file; groups are numbers of this host."""
    needs = evolve(needs_of("rocm"), devices=("/dev/null",), groups=("root",))
    made = options(command(asking(devices=("/dev/zero",)), needs=needs))
    assert {"--device=/dev/null", "--device=/dev/zero", "--cap-add=SYS_PTRACE"} <= set(made)
    assert {"--security-opt=seccomp=unconfined", "--ulimit=memlock=-1:-1"} <= set(made)
    other = options(command(asking(capabilities=("SYS_ADMIN",)), needs=needs))
    assert [word for word in other if "cap-add" in word] == ["--cap-add=SYS_ADMIN"]


@pytest.mark.parametrize(
    ("kind", "gpus", "expected"),
    [
        (DOCKER, "", ["--gpus=all"]),
        (DOCKER, "2", ["--gpus=2"]),
        (PODMAN, "", ["--device=nvidia.com/gpu=all"]),
        (PODMAN, "2", ["--device=nvidia.com/gpu=0", "--device=nvidia.com/gpu=1"]),
        (PODMAN, "1,3", ["--device=nvidia.com/gpu=1", "--device=nvidia.com/gpu=3"]),
    ],
)
def test_nvidia_gpus_come_from_the_engine(kind: str, gpus: str, expected: list[str]) -> None:
    """docker has an option for them, podman device names."""
    needs = evolve(needs_of("cuda"), devices_where_present=())
    made = options(command(asking(gpus=gpus), by=engine(kind), needs=needs))
    assert [word for word in made if "gpu" in word] == expected


@pytest.mark.parametrize(
    ("text", "meant"),
    [("", None), ("all", None), ("4", 4), ("0,2", (0, 2)), ("device=3", (3,)), ('"device=1,2"', (1, 2))],
)
def test_gpus_are_a_number_or_numbers(text: str, meant: object) -> None:
    """As docker has it: so many, or these."""
    assert chosen_gpus(text.strip('"')) == meant


def test_gpus_that_are_not_understood_are_refused() -> None:
    """A word is neither."""
    with pytest.raises(ConfigError, match="--gpus some"):
        chosen_gpus("some")


def test_some_rocm_gpus_are_chosen_by_their_render_nodes(tmp_path: Path) -> None:
    """The kernel's driver says which device file belongs to which GPU; processors are not counted."""
    for node, (simd, minor) in enumerate([(0, 0), (304, 128), (304, 136), (304, 144)]):
        folder = tmp_path / f"sys/class/kfd/kfd/topology/nodes/{node}"
        folder.mkdir(parents=True)
        (folder / "properties").write_text(f"simd_count {simd}\ndrm_render_minor {minor}\n")
    assert render_devices("2", tmp_path) == ("/dev/dri/renderD128", "/dev/dri/renderD136")
    assert render_devices("2,0", tmp_path) == ("/dev/dri/renderD144", "/dev/dri/renderD128")
    with pytest.raises(DependencyError, match="has 3 GPUs"):
        render_devices("4", tmp_path)


def test_variables_are_inherited_by_name_and_by_prefix() -> None:
    """Those of the list, of the prefixes and those asked for; what tells of the host stays there."""
    env = {
        "PATH": "/bin",
        "HOME": "/home/me",
        "LD_LIBRARY_PATH": "/x",
        "NCCL_DEBUG": "INFO",
        "IONIC_X": "1",
        "NODE_RANK": "1",
        "HF_TOKEN": "t",
        "MINE": "m",
        "HIP_VISIBLE_DEVICES": "0,1",
    }
    found = variables().inherited(env, ["MINE", "UNSET"])
    assert set(found) == {"NCCL_DEBUG", "IONIC_X", "NODE_RANK", "HF_TOKEN", "MINE", "HIP_VISIBLE_DEVICES"}
    assert "HIP_VISIBLE_DEVICES" not in variables().inherited(env, [], all_devices=False)


def test_what_the_engine_has_to_see_is_named_to_it() -> None:
    """A variable of NVIDIA's toolkit is read before the container runs; no other one is among the words."""
    environment = {"NVIDIA_VISIBLE_DEVICES": "0", "HF_TOKEN": "t", "NCCL_DEBUG": "INFO"}
    made = options(command(environment=environment))
    assert [word for word in made if word.startswith("--env")] == ["--env=NVIDIA_VISIBLE_DEVICES"]


def test_the_tables_are_whole() -> None:
    """Each accelerator has its needs; no variable is listed twice, or has a prefix of the list as well."""
    assert [needs_of(name).gpus for name in ("cpu", "rocm", "cuda")] == [False, False, True]
    table = variables()
    named = [*table.names, *table.caches, *table.choosing_devices, *table.read_by_engines]
    assert len(named) == len(set(named))
    assert not [name for name in named if name.startswith(table.prefixes)]
    assert {name for name in table.names if is_secret(name)} == {"HF_TOKEN", "WANDB_API_KEY", "DATABRICKS_TOKEN"}


@pytest.mark.parametrize("fault", faults.known_faults(), ids=lambda fault: fault.id)
def test_each_known_fault_is_told_by_its_own_row(fault: Fault) -> None:
    """The sample of a row is what an engine said, and leads to that row alone."""
    error = faults.unstarted(asking(), "docker", "c", 125, ["Run 'docker run --help' for more", fault.sample])
    words = {"image": "i", "engine": "docker", "python": "python3", "name": "c"}
    assert (error.what, error.remedy) == (fault.what.format(**words), fault.remedy.format(**words))
    assert error.why == fault.sample
    assert error.exit_code == fault.exit_code


def test_a_fault_that_is_not_known_is_quoted() -> None:
    """The engine's own words are the reason."""
    error = faults.unstarted(asking(), "podman", "c", 126, ["Error: something new"])
    assert (error.why, error.exit_code) == ("Error: something new", 1)


def test_a_python_that_cannot_run_the_code_tells_it_itself() -> None:
    """What the brought code says of the image's Python is the error."""
    said = ["warning: x", "error: Python 3.9 is too old", "  why: Primus needs 3.10", "  try: another image"]
    error = faults.unstarted(asking(), "podman", "c", 1, deque(said))
    assert (error.what, error.why, error.remedy) == ("Python 3.9 is too old", "Primus needs 3.10", "another image")


def stand_in(folder: Path, name: str, *, info: str, status: int = 0, images: bool = False) -> None:
    """A program in the place of an engine: it answers, or does not."""
    path = folder / name
    path.write_text(
        f"#!/bin/sh\ncase $1 in info) echo '{info}'; exit {status};; image) exit {0 if images else 1};; esac\n"
    )
    path.chmod(0o755)


PODMAN_INFO = '{"host": {"security": {"rootless": true}}}'
DOCKER_INFO = '{"SecurityOptions": ["name=seccomp,profile=default"]}'


def test_the_engine_that_answers_is_used(tmp_path: Path) -> None:
    """Of two, the one that answers; of two that answer, the one that has the image; by name, that one."""
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    stand_in(tmp_path, "podman", info="", status=1)
    stand_in(tmp_path, "docker", info=DOCKER_INFO)
    found = choose("auto", "i", env)
    assert (found.kind, found.rootless) == (DOCKER, False)
    stand_in(tmp_path, "podman", info=PODMAN_INFO)
    found = choose("auto", "i", env)
    assert (found.kind, found.rootless) == (PODMAN, True)
    stand_in(tmp_path, "docker", info=DOCKER_INFO, images=True)
    assert choose("auto", "i", env).kind == DOCKER
    assert choose("podman", "i", env).kind == PODMAN
    assert choose(str(tmp_path / "docker"), "i", env).kind == DOCKER


def test_an_engine_that_does_not_answer_is_told(tmp_path: Path) -> None:
    """docker without its daemon answers with status 0 and a list of errors; the remedy is to start it."""
    stand_in(tmp_path, "docker", info='{"ServerErrors": ["Cannot connect to the Docker daemon"]}')
    with pytest.raises(DependencyError, match="does not answer") as caught:
        choose("docker", "i", {"PATH": f"{tmp_path}:/bin"})
    assert "Cannot connect" in caught.value.why
    assert "systemctl start docker" in caught.value.remedy


def findings(of: Job, launcher: str = "container", where: Where = Where.SUBMIT) -> list[Finding]:
    plan = RunPlan(
        run_id="r",
        run_dir=RUN,
        target=Target(accelerator="rocm", library_version="1", ranks_per_node=8),
        task=of.task,
        job=of,
        launcher=launcher,
    )
    return list(container.preflight_check(plan, where))


def test_what_this_host_lacks_is_found_before_the_run() -> None:
    """No engine, no device and no folder for a volume: each an error of its own, with what to do."""
    of = job(engine="/no/engine", device=["/dev/none"], volume=["/no/folder:/x"])
    found = {finding.check: finding for finding in findings(of)}
    assert set(found) == {"container.engine", "container.devices", "container.volume"}
    assert all(one.severity == "error" and one.remedy for one in found.values())
    assert {one.cause for one in found.values()} == {"dependency", "configuration"}


def test_other_hosts_are_not_judged_by_this_one() -> None:
    """A container that a scheduler starts elsewhere says nothing of the submitting host."""
    assert findings(job(engine="/no/engine"), launcher="slurm") == []
    assert findings(job(engine="/no/engine"), where=Where.FILES) == []
