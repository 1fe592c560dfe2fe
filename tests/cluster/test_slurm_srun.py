"""Ranks that `primus slurm srun` starts on the nodes of a real Slurm."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from primus_core.errors import ConfigError
from primus_core.planning.slurmflags import Command, options
from primus_launchers.slurm.nodelist import expand
from tests.cluster.jobs import Account
from tests.e2e.support import EXAMPLE, QUICK, ends_apart, environment
from tests.golden import check
from tests.testbed.containers import Engine
from tests.testbed.images import Image
from tests.testbed.slurm import Slurm, primus

pytestmark = pytest.mark.cluster

LONG = 240
"""Seconds in which a busy machine has started ranks on two nodes."""
ALL_END = 45.0
"""Seconds until nothing is left, on a machine that is three times as slow as an idle one."""
SMALL = (*QUICK, "accelerator=cpu")
NASTY = ("two  blanks", "", "a'b\"c", "$HOME `id` \\n", "line\nbreak", "ä€", "--nodes=9", "*", "-- --")

PROGRAM = """\
import json, os, signal, sys, time
folder, what, *words = sys.argv[1:]
rank = os.environ["RANK"]
def got(number, frame):
    open(f"{folder}/got-{number}-{rank}", "w").close()
signal.signal(signal.SIGUSR1, got)
if what == "deaf":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
names = ("NNODES", "NODE_RANK", "GPUS_PER_NODE", "MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_ID", "GREETING", "A_TOKEN")
told = {
    **{name: os.environ.get(name) for name in names}, "host": os.uname().nodename, "words": words,
    "cpus": len(os.sched_getaffinity(0)), "bound": [name for name in os.environ if "CPU_BIND" in name],
}
with open(f"{folder}/up-{rank}.tmp", "w") as file:
    json.dump(told, file)
os.rename(file.name, f"{folder}/up-{rank}")
if what == "fails" and rank == "1":
    while not os.path.exists(f"{folder}/up-0"):
        time.sleep(0.05)
    print("a plain word of rank 1", flush=True)
    sys.exit(3)
end = time.monotonic() + (0 if what == "ends" else 600)
while time.monotonic() < end:
    time.sleep(0.05)
"""


class User(Account):
    """Somebody who starts ranks and waits for them."""

    def start(self, *words: str | Path, command: str = "srun", **env: str) -> subprocess.Popen[str]:
        variables = environment(self.workspace, **env)
        return self.slurm.start(primus("slurm", command, *words), env=variables, cwd=self.folder)

    def script(self, what: str, *words: str, flags: tuple[str, ...] = (), **env: str) -> subprocess.Popen[str]:
        """A program as each rank of two nodes; see `PROGRAM`."""
        path = self.folder / "program.py"
        path.write_text(PROGRAM)
        given = flags or ("-N2", "--gpus-per-node=1")
        return self.start(*given, "--", "direct", "--script", path, "--", self.folder, what, *words, **env)

    def wait_for(self, *names: str) -> None:
        self.slurm.wait(lambda: all((self.folder / name).exists() for name in names), f"{names}", LONG)

    def told(self, ranks: int) -> list[dict[str, object]]:
        return [json.loads((self.folder / f"up-{rank}").read_text()) for rank in range(ranks)]

    def end(self, process: subprocess.Popen[str], seconds: float = LONG) -> tuple[int, str]:
        out, err = process.communicate(timeout=seconds)
        return process.returncode, out + err


@pytest.fixture
def user(slurm: Slurm, tmp_path: Path) -> Iterator[User]:
    """Leaves no job, and no process on any node."""
    yield User(slurm, tmp_path)
    slurm.restore()
    slurm.wait(lambda: not left(slurm), "the end of all processes")


def left(slurm: Slurm) -> list[str]:
    """What runs on the nodes beside Slurm itself."""
    return [one for name in slurm.nodes for one in slurm.hosts.processes(name) if "/slurm" not in one.split()[0]]


def all_end(slurm: Slurm) -> None:
    """No job is left and nothing of one runs, soon."""
    slurm.wait(lambda: not slurm.ask("squeue", "-h") and not left(slurm), "the end of all", ALL_END)


def test_every_rank_knows_its_place(user: User) -> None:
    """Two ranks on each of two nodes: numbers, meeting point, variables and arguments as they were given, and both
    CPUs of the node although Slurm's default gives the task, and so all its ranks, the same one."""
    flags = ("--nodes", "2", "--gres=gpu:2", "-t", "00:10:00")
    env = {"GREETING": "a b\n'$x'", "A_TOKEN": "s3cr3t", "SLURM_CPU_BIND": "map_cpu:0"}
    code, text = user.end(user.script("ends", *NASTY, flags=flags, **env))
    assert code == 0, text
    told = user.told(4)
    assert [one["host"] for one in told] == ["node1", "node1", "node2", "node2"]
    assert [one["NODE_RANK"] for one in told] == ["0", "0", "1", "1"]
    for one in told:
        assert (one["NNODES"], one["GPUS_PER_NODE"], one["MASTER_ADDR"]) == ("2", "2", "node1")
        assert (one["GREETING"], one["A_TOKEN"], one["words"]) == (env["GREETING"], "s3cr3t", list(NASTY))
        assert (one["cpus"], one["bound"]) == (2, [])
        assert 20000 <= int(str(one["MASTER_PORT"])) < 30000
    assert len({one["MASTER_PORT"] for one in told}) == 1
    assert "s3cr3t" not in text + "".join(
        file.read_text(errors="replace") for file in user.workspace.rglob("*") if file.is_file()
    )


def test_a_rank_that_fails_ends_the_job(user: User) -> None:
    """Its exit code is the command's; the screen names it, its node and its last words; all end within 15 s."""
    code, text = user.end(user.script("fails"))
    all_end(user.slurm)
    assert code == 3, text
    (run,) = user.workspace.glob("*/*/*/runs/latest")
    assert ends_apart(run, 2) < 15
    check(text, "slurm-rank-fails", replace={r"job \d+ runs": "job <JOB> runs"})


def test_signals_reach_the_ranks(user: User) -> None:
    """SIGUSR1 comes to every rank as it is, and ends nothing; one Ctrl-C ends all of them."""
    process = user.script("waits")
    user.wait_for("up-0", "up-1")
    user.slurm.hosts.signal(process, signal.SIGUSR1)
    user.wait_for(*(f"got-{int(signal.SIGUSR1)}-{rank}" for rank in (0, 1)))
    user.slurm.hosts.signal(process, signal.SIGINT)
    code, text = user.end(process, ALL_END * 2)
    all_end(user.slurm)
    assert code == 130, text
    assert "SIGINT" in text


def test_a_second_ctrl_c_leaves_nothing_on_the_nodes(user: User) -> None:
    """What it kills on this host, srun among it, can tell nobody: the nodes find out, and give themselves back."""
    process = user.script("deaf")
    user.wait_for("up-0", "up-1")
    user.slurm.hosts.signal(process, signal.SIGINT)
    time.sleep(0.5)
    user.slurm.hosts.signal(process, signal.SIGINT)
    code, text = user.end(process, ALL_END * 2)
    all_end(user.slurm)
    assert code == 130, text


def test_waiting_for_nodes_can_be_interrupted(user: User) -> None:
    """A job that waits is told of, and one Ctrl-C takes it back."""
    process = user.script("waits", flags=("-N2", "--gpus-per-node=1", "--begin=now+600"))
    user.slurm.wait(lambda: "PENDING" in user.slurm.ask("squeue", "-ho", "%T"), "a job that waits", LONG)
    user.slurm.hosts.signal(process, signal.SIGINT)
    code, text = user.end(process, ALL_END * 2)
    all_end(user.slurm)
    assert code == 130, text
    assert "waits for its nodes" in text


def test_a_file_names_nodes_that_are_left_out(user: User) -> None:
    """Such as a preflight leaves; Slurm reads it, where the user typed its name."""
    (user.folder / "failing.txt").write_text("node1\n")
    code, text = user.end(user.script("ends", flags=("-N2", "--gpus-per-node=1", "--exclude=./failing.txt")))
    assert code == 0, text
    assert [one["host"] for one in user.told(2)] == ["node2", "node3"]


@pytest.mark.parametrize(
    ("flags", "told", "code"),
    [
        (("-N2", "-p", "nope"), "the cluster has no such partition", 2),
        (("-N2", "--gpus-per-node=9"), "no nodes of the cluster have what the job asks for", 2),
        (("-N2", "--ntasks-per-node=8"), "--ntasks-per-node=8 on 2 nodes", 2),
        (("-N1-2",), "--nodes=1-2", 2),
    ],
)
def test_what_slurm_cannot_give(user: User, flags: tuple[str, ...], told: str, code: int) -> None:
    """It is told in a screen with a remedy, and nothing is left in the queue."""
    ended, text = user.end(user.script("ends", flags=flags))
    assert (ended, told in text) == (code, True), text
    assert "try:" in text


def test_a_node_that_does_not_see_the_run_is_named(user: User) -> None:
    """Nothing is started anywhere."""
    user.workspace.mkdir()
    user.slurm.hosts.hide("node2", user.workspace)
    code, text = user.end(user.script("ends"))
    user.slurm.hosts.check("node2", ["umount", user.workspace])
    assert code == 3, text
    assert "node2 does not see the run directory" in text
    assert not list(user.folder.glob("up-*"))


def test_a_cancelled_job_is_told(user: User) -> None:
    """`scancel` reaches the ranks as SIGTERM; the screen says what happened."""
    process = user.script("waits")
    user.wait_for("up-0", "up-1")
    job = str(user.told(1)[0]["SLURM_JOB_ID"])
    user.slurm.ask("scancel", job)
    code, text = user.end(process, ALL_END * 3)
    all_end(user.slurm)
    assert code != 0, text


@pytest.mark.parametrize("framework", ["megatron", "torchtitan"])
def test_training_on_two_nodes_has_the_losses_of_one(user: User, framework: str) -> None:
    """The nodes give the same losses, iteration by iteration, as two ranks on one host."""
    words = ("--framework", framework, *SMALL)
    alone = User(user.slurm, user.folder / "alone")
    alone.folder.mkdir()
    argv = primus("run", EXAMPLE, "--nproc", "2", *words)
    one = user.slurm.start(argv, env=environment(alone.workspace), cwd=alone.folder)
    train = ("train", "pretrain", "--config", EXAMPLE, *words)
    code, text = user.end(user.start("-N2", "--gpus-per-node=1", "--", *train))
    assert code == 0, text
    assert user.end(one)[0] == 0
    assert sorted(user.losses()) == [1, 2, 3, 4]
    assert user.losses() == pytest.approx(alone.losses(), rel=1e-5)


def test_a_training_that_is_stopped_saves(user: User) -> None:
    """SIGTERM to the command: both nodes finish their iteration, save and end well."""
    words = (*SMALL, "train_iters=2000", "save_interval=1000", "--skip-preflight")
    process = user.start("-N2", "--gpus-per-node=1", "--", "train", "pretrain", "--config", EXAMPLE, *words)
    user.slurm.wait(lambda: len(user.losses()) > 2, "three iterations", LONG)
    user.slurm.hosts.signal(process, signal.SIGTERM)
    code, text = user.end(process)
    all_end(user.slurm)
    assert code == 0, text
    assert "SIGTERM" in text
    assert list(user.workspace.glob("*/*/*/checkpoints/*")), text


@pytest.mark.parametrize(("command", "flags"), [("srun", ()), ("sbatch", ("--wait",))])
def test_containers_on_the_nodes(
    command: str, flags: tuple[str, ...], user: User, podman: Engine, plain_image: Image
) -> None:
    """Slurm starts a container on each node, in which the ranks meet; the program's arguments arrive byte for byte."""
    podman.add(plain_image)
    podman.check("tag", plain_image.name, "primus-test/plain:cpu")
    inside = User(user.slurm, user.folder / "out")
    inside.folder.mkdir()
    path = user.folder / "program.py"
    path.write_text(PROGRAM)
    process = user.start(
        *("-N2", "--gpus-per-node=1", *flags, "--"),
        *("container", "--image", "primus-test/plain:cpu", "--engine", "podman"),
        *("--volume", plain_image.libraries, "--volume", inside.folder, "--env", "GREETING", "--", "direct"),
        *("--script", path, "--", inside.folder, "ends", *NASTY),
        command=command,
        **podman.env,
        GREETING="a b\n'$x'",
    )
    code, text = user.end(process)
    all_end(user.slurm)
    assert code == 0, text
    told = inside.told(2)
    assert [one["NODE_RANK"] for one in told] == ["0", "1"]
    assert [one["host"] for one in told] == ["node1", "node2"]
    assert all((one["words"], one["GREETING"]) == (list(NASTY), "a b\n'$x'") for one in told)


@pytest.mark.parametrize("command", ["srun", "sbatch"])
def test_the_table_knows_the_installed_slurm(slurm: Slurm, command: Command) -> None:
    """Each option in Slurm's own help is in the table, with its letter."""
    table = options()
    for letter, name in re.findall(r"^ +(?:-(\w),? +)?--([a-z][a-z0-9-]+)", slurm.ask(command, "--help"), re.MULTILINE):
        if name not in ("help", "usage", "version"):
            assert name in table, name
            assert (table[name].is_of(command), table[name].short) == (True, letter), name


def test_node_lists_are_expanded_as_slurm_does(slurm: Slurm) -> None:
    """Thousands of generated lists give the names that scontrol gives; a wrong name of a list makes all of it wrong."""
    odd = ("a[1-65536]", "a[1-65537]", "[1-3]", "a,,b", ",a", "a,", "a[3-1]", "a[]", "a[1,]", "a[1-2][3-4]", "a[-1]")
    lists = [*odd, *_lists(random.Random(7), 2000)]
    each = 'while read -r one; do echo "$one:"; scontrol show hostnames "$one" 2>/dev/null; done'
    out, _ = slurm.start(["bash", "-c", each]).communicate("".join(f"{one}\n" for one in lists), timeout=LONG)
    answers = re.split(r"^(.*):\n", out, flags=re.MULTILINE)[1:]
    assert answers[::2] == lists
    for text, names in zip(lists, answers[1::2], strict=True):
        expanded = _expanded(text)
        assert (text, names.split()) == (text, expanded) or (not expanded and _has_several(text))


def _has_several(text: str) -> bool:
    """Where one name of several is wrong, scontrol leaves that one out, and a job would get fewer nodes than named."""
    return "," in re.sub(r"\[.*?\]", "", text)


def _expanded(text: str) -> list[str]:
    """For a wrong one scontrol prints no name."""
    try:
        return list(expand(text))
    except ConfigError:
        return []


def _lists(chance: random.Random, count: int) -> Iterator[str]:
    for _ in range(count):
        yield ",".join(_word(chance) for _ in range(chance.choice([1, 1, 2, 3])))


def _word(chance: random.Random) -> str:
    parts = []
    for _ in range(chance.choice([1, 1, 1, 2, 2, 3])):
        ranges = ",".join(_range(chance) for _ in range(chance.choice([1, 1, 2, 3])))
        parts.append(chance.choice(["n", "gpu", "a-b", "r0", "x9-", "h1a"]) + f"[{ranges}]" * (chance.random() < 0.8))
    return "".join(parts) + chance.choice(["", "", "", "", "", "", "-ib"])


def _range(chance: random.Random) -> str:
    low = chance.randrange(0, 10 ** chance.choice([1, 2, 3]))
    width = chance.choice([1, 1, 2, 4])
    high = low + chance.randrange(-1, 12) if chance.random() < 0.6 else None
    return f"{low:0{width}d}" + ("" if high is None else f"-{max(high, 0):0{chance.choice([1, width])}d}")
