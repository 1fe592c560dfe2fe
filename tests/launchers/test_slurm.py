"""What the launcher for Slurm asks core to start, and what it makes of Slurm's words; no Slurm is needed."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping

import pytest
from attrs import evolve

from primus_core.errors import ConfigError
from primus_core.experiment import Value
from primus_core.outcome import Where
from primus_core.plan import Job, RunPlan, Target, Task
from primus_launchers import slurm
from primus_launchers.faulttable import Fault
from primus_launchers.slurm import binding, checks, faults
from primus_launchers.slurm.frames import Joiner, Line, encode
from primus_launchers.slurm.nodelist import expand
from primus_launchers.slurm.place import Place


def job(nodes: int = 2, ranks: int = 8, **options: Value) -> Job:
    return Job(
        run_id="20260101-000000-abcdef",
        name="my exp",
        task=Task(kind="train", entry="x:y", ranks_per_node=ranks),
        python="/env/bin/python",
        argv=("-m", "primus_core.rank", "/w/plan with space.json"),
        env={"NCCL_DEBUG": "WARN"},
        secrets=("HF_TOKEN",),
        nodes=nodes,
        workdir="/home/me",
        log_dir="/w/submission",
        run_dir="/w",
        options=options,
    )


def parts(of: Job) -> tuple[list[str], list[str], list[str], list[str]]:
    """The words of the program beside srun, of srun, of the program on a node, and of what that one starts."""
    (process,) = slurm.launch(of).processes
    words = list(process.argv)
    start, srun = words.index("--"), words.index("/env/bin/python", 1)
    inner = words.index("--", srun)
    return words[:start], words[start + 1 : srun], words[srun:inner], words[inner + 1 :]


def test_srun_starts_one_program_on_each_node() -> None:
    """It starts torchrun, which learns its number and the meeting point there; secrets are told by name."""
    step, srun, node, inner = parts(job(**{"gpus-per-node": "8", "time": "04:00:00", "exclusive": True}))
    assert step[:3] == ["/env/bin/python", "-m", "primus_launchers.slurm.step"]
    assert {"--nodes=2", "--inherit=HF_TOKEN,NCCL_DEBUG", "--submission=/w/submission", "--workdir=/home/me"} < set(
        step
    )
    assert srun[:4] == ["srun", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1"]
    assert {"--gpus-per-node=8", "--time=04:00:00", "--exclusive", "--kill-on-bad-exit=1"} < set(srun)
    assert {"--export=ALL", "--cpu-bind=none", "--job-name=my-exp", "--chdir=/home/me"} < set(srun)
    assert node == ["/env/bin/python", "-m", "primus_launchers.slurm.node", "--nproc=8"]
    assert inner[:3] == ["/env/bin/python", "-m", "primus_launchers.torchrun"]
    assert {"--nproc-per-node=8", "--nnodes=2", "--max-restarts=0"} < set(inner)
    assert inner[-3:] == ["-m", "primus_core.rank", "/w/plan with space.json"]
    assert not any(word.startswith(("--node-rank", "--master", "--rdzv")) for word in inner)


def test_the_user_s_flags_replace_ours() -> None:
    """None is doubled, also of those that we set where nothing is said."""
    given = {"cpu-bind": "cores", "export": "NONE", "job-name": "mine", "kill-on-bad-exit": "0", "nodes": "2"}
    _, srun, node, _ = parts(job(**given))
    names = [word.partition("=")[0] for word in srun]
    assert len(names) == len(set(names))
    assert {"--cpu-bind=cores", "--export=NONE", "--job-name=mine", "--kill-on-bad-exit=0"} < set(srun)
    assert "--bound" in node


@pytest.mark.parametrize("flags", [{"ntasks-per-node": "8"}, {"ntasks": 16}])
def test_tasks_are_not_ranks(flags: dict[str, Value]) -> None:
    """One task starts all ranks of a node: another number of tasks is refused, with what is meant instead."""
    with pytest.raises(ConfigError, match="on 2 nodes") as caught:
        slurm.launch(job(**flags))
    assert "--gpus-per-node" in caught.value.remedy


def test_one_task_on_each_node_may_be_said() -> None:
    """It is what happens anyway."""
    _, srun, _, _ = parts(job(**{"ntasks-per-node": 1, "ntasks": "2"}))
    assert [word for word in srun if word.startswith("--ntasks")] == ["--ntasks=2", "--ntasks-per-node=1"]


def test_inside_of_a_job_the_step_asks_for_no_nodes() -> None:
    """The flags of the job are not repeated; those that only srun knows come to their use."""
    options: Mapping[str, Value] = {
        "mode": "sbatch", "partition": "gpu", "time": "1:00", "gpus-per-node": 8, "label": True, "signal": "USR1@60",
        "ntasks-per-node": 8, "unheard-of": 1,
    }  # fmt: skip
    submission = slurm.launch(evolve(job(**options), allocated=True))
    words = submission.processes[0].argv
    srun = words[words.index("srun") : words.index("/env/bin/python", words.index("srun"))]
    assert {"--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--label", "--export=ALL"} < set(srun)
    assert not {"--partition=gpu", "--time=1:00", "--gpus-per-node=8", "--unheard-of=1", "--job-name=my-exp"} & set(
        srun
    )
    assert not submission.detached
    assert submission.requeue_argv


def test_a_container_is_started_on_each_node() -> None:
    """The program on the node starts the wrapper of the launcher `container`, whose torchrun has no fixed place."""
    inside = evolve(job(), inside="container", sections={"container": {"image": "rocm/primus:v1", "env": ["A=b"]}})
    _, _, _, inner = parts(inside)
    assert inner[:3] == ["/env/bin/python", "-m", "primus_launchers.container"]
    assert "--image=rocm/primus:v1" in inner
    assert any(word.endswith("--nnodes=2") for word in inner)
    assert not any("--node-rank" in word or "--master" in word for word in inner)
    submission = slurm.launch(inside)
    assert submission.carries_code
    assert submission.processes[0].env["A"] == "b"


def test_a_meeting_point_may_be_given() -> None:
    """`master_addr` and `master_port` of the section or the environment."""
    step, _, _, _ = parts(job(master_addr="10.0.0.7", master_port="29512", lost_seconds=60))
    assert {"--master-addr=10.0.0.7", "--master-port=29512", "--lost-seconds=60"} < set(step)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node1", ["node1"]),
        ("gpu[01-03,07]", ["gpu01", "gpu02", "gpu03", "gpu07"]),
        ("a,b[001,003],c", ["a", "b001", "b003", "c"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("r[1-2]n[1-2]m[1-2]", ["r1n1m1", "r1n1m2", "r2n1m1", "r2n1m2", "r1n2m1", "r1n2m2", "r2n2m1", "r2n2m2"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
        ("n[098-101]", ["n098", "n099", "n100", "n101"]),
        ("a,,b,", ["a", "b"]),
        ("a-b[1],a-b[1]", ["a-b1", "a-b1"]),
        ("", []),
    ],
)
def test_node_lists(text: str, names: list[str]) -> None:
    """As `scontrol show hostnames` prints them: also the odd order of three lists of numbers."""
    assert list(expand(text)) == names


@pytest.mark.parametrize("text", ["a[1-2", "a]", "a[3-1]", "a[]", "a[1,]", "a[x]", "a[1-2]x", "a[1-70000]", "a[[1]]"])
def test_wrong_node_lists(text: str) -> None:
    """They are refused; for these scontrol prints no name that could be meant."""
    with pytest.raises(ConfigError, match="no list of hosts"):
        expand(text)


def test_long_lines_of_several_nodes_stay_whole() -> None:
    """However the pieces of two nodes mix, each line is joined again; each piece is short enough for Slurm."""
    lines = [
        Line(node, stream, bytes(chance.randrange(256) for _ in range(size)).replace(b"\n", b"?"))
        for chance in [random.Random(5)]
        for size in (0, 1, 899, 900, 901, 5000)
        for node, stream in ((0, "out"), (11, "err"))
    ]
    queues = [[piece for line in lines if line.node == node for piece in _pieces(line)] for node in (0, 11)]
    joiner, found = Joiner(), []
    chance = random.Random(6)
    while any(queues):
        queue = chance.choice([one for one in queues if one])
        piece = queue.pop(0)
        assert len(piece) < 1000
        found += list(joiner.feed(piece))
    assert [one for one in found if isinstance(one, Line) and one.node == 0] == lines[::2]
    assert [one for one in found if isinstance(one, Line) and one.node == 11] == lines[1::2]


def _pieces(line: Line) -> list[bytes]:
    return encode(line).split(b"\n")[:-1]


def test_words_of_slurm_pass_between_the_lines_of_nodes() -> None:
    """They have no mark, or stand unfinished before one."""
    joiner = Joiner()
    assert list(joiner.feed(b"srun: job 7 queued")) == [b"srun: job 7 queued"]
    assert list(joiner.feed(b"slurmd: " + encode(Line(1, "out", b"x")).rstrip(b"\n"))) == [
        b"slurmd: ",
        Line(1, "out", b"x"),
    ]


@pytest.mark.parametrize("fault", faults.known_faults(), ids=lambda fault: fault.id)
def test_what_slurm_says_is_told_with_a_remedy(fault: Fault) -> None:
    """Each known fault is found in what Slurm says of it, and no earlier row takes it for another."""
    error = faults.unstarted(1, ["srun: job 7 queued and waiting for resources", fault.sample])
    assert (error.what, error.remedy, error.exit_code) == (fault.what, fault.remedy, fault.exit_code)
    assert error.why


def test_the_first_word_counts() -> None:
    """What Slurm ends because of a loss is no cancelling."""
    said = ["srun: error: node2: task 1: Killed", "slurmstepd-node1: error: *** STEP 5.0 ON node1 CANCELLED AT x ***"]
    assert "was killed" in faults.lost(["node2"], 1, said).what
    assert faults.lost(["node2"], 1, []).what == "node2 is lost"
    assert faults.tells_of_loss(said[0])
    assert not faults.tells_of_loss(said[1])


SLURM = {"SLURM_NODEID": "1", "SLURM_JOB_NODELIST": "n[1-4]", "SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0"}


def test_a_node_knows_its_place() -> None:
    """Its number and the first host are those of the step, which may have a part of the job's nodes."""
    place = Place.of({**SLURM, "SLURM_STEP_NODELIST": "n[3-4]", "SLURMD_NODENAME": "n4"})
    assert (place.number, place.first, place.host, place.job) == (1, "n3", "n4", "4711")


def test_the_port_follows_from_the_job_and_is_free() -> None:
    """Two steps of one job have different ones; one that somebody has is passed over."""
    place = Place.of(SLURM)
    with place.listen(0) as first, place.listen(0) as second:
        ports = [one.getsockname()[1] for one in (first, second)]
    assert all(20000 <= port < 30000 for port in ports)
    assert ports[0] != ports[1]


def test_a_first_host_without_an_address_is_told_by_number() -> None:
    """Where the name is not known, the address on the way to the submitting host is taken."""
    place = Place.of({**SLURM, "SLURM_JOB_NODELIST": "no-such-host-[1-2]"})
    assert place.address({"SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1"}) == "127.0.0.1"
    assert Place.of({**SLURM, "SLURM_JOB_NODELIST": "localhost"}).address({}) == "localhost"


def test_a_binding_to_one_core_is_undone() -> None:
    """Where ranks outnumber CPUs, and only there."""
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert binding.widen(1, {"SLURM_NODEID": "0"}) == ""
        assert os.sched_getaffinity(0) == {min(before)}
        assert "CPU" in binding.widen(2, {"SLURM_NODEID": "0"})
        assert len(os.sched_getaffinity(0)) == len(before)
    finally:
        os.sched_setaffinity(0, before)


def test_a_host_without_slurm_is_told(tmp_path: object) -> None:
    """The finding names the program; a plan for another launcher hears nothing of it."""
    (finding,) = checks.programs({"srun": "starts the ranks"}, path=str(tmp_path))
    assert (finding.severity, finding.cause) == ("error", "dependency")
    assert "srun" in finding.summary
    plan = RunPlan(
        run_id="r",
        run_dir="/w",
        target=Target(accelerator="cpu", library_version="1", ranks_per_node=1),
        task=job().task,
        job=job(),
        launcher="direct",
    )
    assert slurm.preflight_check(plan, Where.SUBMIT) == ()
