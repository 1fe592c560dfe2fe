"""The steps of real ranks before and around their task."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from attrs import evolve

from primus_core import __version__
from primus_core.codec import to_json
from primus_core.experiment import Experiment
from primus_core.patching import fingerprint_target
from primus_core.plan import Adjusted, Layout, PatchSpec, RunPlan, Target, Task, Translation
from tests.core.rankruns import Ranks


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    return Ranks(folder=tmp_path)


def test_a_rank_without_launcher_numbers_itself(ranks: Ranks) -> None:
    """Without RANK it is the only rank, with a free port; thread settings stay, arguments and input are empty."""
    result = ranks.run("environment").report.result
    assert {name: result[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR")} == {
        "RANK": "0",
        "WORLD_SIZE": "1",
        "LOCAL_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
    }
    assert 0 < int(str(result["MASTER_PORT"])) < 65536
    assert (result["OMP_NUM_THREADS"], result["argv"], result["stdin"]) == (None, 1, "")


def test_preparation_runs_once_and_all_ranks_get_its_result(ranks: Ranks) -> None:
    """Rank 0 prepares, before torch is imported; the other waits for the file; a restart keeps it."""
    count = ranks.folder / "count"
    data = Task(kind="data", entry="rank_tasks:prepares", arguments={"count": str(count)})
    plan = ranks.plan("uses_preparation", prepare=(data,))
    other = ranks.start(plan, RANK="1", WORLD_SIZE="2")
    first = ranks.run(plan, RANK="0", WORLD_SIZE="2")
    again = ranks.run(plan, RANK="0", WORLD_SIZE="2")
    for ended in (ranks.end(plan, other, rank=1), first, again):
        assert ended.report.result == {"prepared": {"torch": False, "number": 1}}
    assert count.read_text() == "x"


def test_an_unreadable_plan_is_one_screen(tmp_path: Path) -> None:
    """A plan that this node cannot read exits 1 with path and remedy, without a traceback."""
    command = [sys.executable, "-m", "primus_core.rank", str(tmp_path / "plan.json")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=55)
    assert ended.returncode == 1
    assert "the plan cannot be read on this node" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_parent_imports_only_the_standard_library() -> None:
    """Nothing that the parent imports comes from an installed package other than primus_core."""
    code = (
        "import sys; before = set(sys.modules); import primus_core.rank.parent\n"
        "top = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(top - set(sys.stdlib_module_names) - {'primus_core'}))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"


SHOP = {
    "shoplib.py": "def price(): return 10\n",
    "shopback.py": (
        "from primus_core.contract import host\n"
        "LIBRARY, LIBRARY_VERSIONS = 'shoplib', ('1.4',)\n"
        "@host\n"
        "def translate_config(experiment, module, target): return None\n"
    ),
    "shoprank.py": (
        "import os\n"
        "from primus_core.contract import rank\n"
        "from primus_core.outcome import Finding\n"
        "from primus_core.patching import apply_patches\n"
        "@rank\n"
        "def patch_backend(plan, rank):\n"
        "    rank.phase('import')\n"
        "    import shoplib\n"
        "    return apply_patches(plan, rank)\n"
        "@rank\n"
        "def preflight_check(plan, where):\n"
        "    cause = plan.task.arguments.get('fault')\n"
        "    return [Finding(check='shop', severity='warning', summary='it may rain')] + (\n"
        "        [Finding(check='shop', severity='error', summary='closed', cause=cause)] if cause else [])\n"
    ),
    "shoppatches.py": "def double(original): return lambda: 2 * original()\ndef nothing(original): return None\n",
    "shopmeddler.py": "import shoplib\nshoplib.price = len\ndef run(plan, rank): return {}\n",
}


@pytest.fixture
def shop(ranks: Ranks, install: Callable[..., None]) -> Callable[..., RunPlan]:
    """Installs a back end for a library of one function, and makes plans that patch it."""
    points = "[primus.backends]\nshop = shopback\n[primus.ranks]\nshop = shoprank\n"
    install("shop-backend", points, SHOP, version="2.0")
    install("shoplib", "", {}, version="1.4")

    def plan(entry: str = "rank_tasks:trains_patched", *, factory: str = "double", **more: Any) -> RunPlan:
        patch = PatchSpec(
            id="dearer",
            target="shoplib:price",
            replacement=f"shoppatches:{factory}",
            reason="the test wants it",
            fingerprint=(fingerprint_target("shoplib:price"),),
        )
        on_rocm = evolve(patch, id="rocm-only", when=("rocm",))
        arguments = more.pop("arguments", {})
        changes: dict[str, Any] = {
            "task": Task(kind="train", entry=entry, arguments=arguments),
            "framework": "shop",
            "translation": Translation(native={}, entry=entry, layout=Layout(), patches=(patch, on_rocm)),
            "target": Target(accelerator="cpu", library_version="1.4", ranks_per_node=1),
            "distributions": {"primus-core": __version__, "shop-backend": "2.0", "primus-elsewhere": "9"},
        }
        return evolve(ranks.plan("unused"), **{**changes, **more})

    return plan


def test_patches_are_in_force_in_the_rank_and_in_its_helpers(ranks: Ranks, shop: Callable[..., RunPlan]) -> None:
    """A task sees the patched library, in a spawned process too; ledger, log and console say what was applied."""
    ended = ranks.run(shop())
    assert ended.report.failure is None
    assert ended.report.result == {"here": 20, "helper": 20}
    assert [(one.id, one.state) for one in ended.report.patches.results] == [
        ("dearer", "applied"),
        ("rocm-only", "skipped"),
    ]
    assert "patches     1 applied, 1 not needed here" in ended.stdout.splitlines()
    assert 'INFO primus patch id=dearer target=shoplib:price reason="the test wants it" state=applied' in ended.log(
        "info"
    )


def test_what_the_host_changed_is_recorded_once(ranks: Ranks, shop: Callable[..., RunPlan]) -> None:
    """Rank 0 records each adjustment of the translation, with what was asked, what is used and why; no other does."""
    change = Adjusted(path="price.tag", native="tag", asked="large", used="small", why="ink is dear")
    plan = shop()
    assert plan.translation is not None
    plan = evolve(plan, translation=evolve(plan.translation, adjusted=(change,)))
    first, other = (ranks.run(plan, RANK=rank, WORLD_SIZE="1") for rank in ("0", "1"))
    assert 'primus adjusted path=price.tag asked=large used=small why="ink is dear"' in first.log("info")
    assert " adjusted " not in other.log("debug")


def test_a_failing_patch_ends_the_run_before_training(ranks: Ranks, shop: Callable[..., RunPlan]) -> None:
    """A factory that returns None ends the rank with exit code 3 in phase patch, naming the patch, whatever the back
    end did before."""
    ended = ranks.run(shop(factory="nothing"))
    assert (ended.code, ended.report.phase, ended.report.result) == (3, "patch", {})
    assert "RunError: shoplib:price: patch dearer: shoppatches:nothing returned None" in ended.stdout


def test_a_trainer_that_overwrites_a_patch_does_not_train(ranks: Ranks, shop: Callable[..., RunPlan]) -> None:
    """What the import of the entry replaces is noticed just before the entry is called."""
    ended = ranks.run(shop("shopmeddler:run"))
    assert (ended.code, ended.report.phase) == (3, "import")
    assert "patch dearer was overwritten" in ended.stdout


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"distributions": {"shop-backend": "1.9"}}, "shop-backend: the plan was made for 1.9, this rank has 2.0"),
        ({"contract": 0}, "plugin contract: the plan was made for 0, this rank has 1"),
        ({"schema": 99}, "layout of the plan: the plan was made for 99, this rank has 1"),
        (
            {"target": Target(accelerator="cpu", library_version="1.3", ranks_per_node=1)},
            "library of shop: the plan was made for 1.3, this rank has 1.4",
        ),
        (
            {"target": Target(accelerator="cpu", library_version="1.4", ranks_per_node=2)},
            "number of ranks: the plan was made for 2, this rank has 1",
        ),
        (
            {"target": Target(accelerator="rocm", library_version="1.4", ranks_per_node=1)},
            r"accelerator: the plan was made for rocm, this rank has (cpu|cuda)",
        ),
    ],
)
def test_a_rank_that_differs_from_the_plan_does_not_start(
    ranks: Ranks, shop: Callable[..., RunPlan], changes: dict[str, Any], message: str
) -> None:
    """Another version, contract, accelerator or number of ranks ends the run with exit code 1 and both values."""
    ended = ranks.run(shop(**changes))
    assert (ended.code, ended.report.phase) == (1, "start")
    assert ended.report.failure is not None
    assert re.search(message, ended.report.failure.text)


@pytest.mark.parametrize(
    ("cause", "code"), [("configuration", 2), ("dependency", 1), ("unsupported", 1), ("runtime", 3)]
)
def test_an_error_of_the_node_check_ends_the_run(
    ranks: Ranks, shop: Callable[..., RunPlan], cause: str, code: int
) -> None:
    """An error finding ends the rank before preparation and patches, with the exit code of its cause."""
    ended = ranks.run(shop(arguments={"fault": cause}))
    assert (ended.code, ended.report.phase) == (code, "preflight")
    assert "closed" in ended.stdout
    assert "warning, rank 0: it may rain" in ended.stdout


def test_a_plan_that_does_not_fit_is_named_by_path(ranks: Ranks) -> None:
    """A plan with a key that this version does not know ends the run with exit code 2 and the key's path."""
    plan = ranks.plan("works")
    path = Path(plan.run_dir) / "plan.json"
    path.parent.mkdir(parents=True)
    path.write_text(to_json(plan).replace('"kind": "script",', '"kind": "script", "colour": 1,', 1))
    ended = ranks.end(plan, ranks.start_file(path))
    assert ended.code == 2
    assert ended.report.failure is not None
    assert "colour" in ended.report.failure.text


@pytest.mark.parametrize(("launcher", "told"), [("container", True), ("ssh", True), ("direct", False)])
def test_a_node_with_libraries_of_its_own_has_their_versions_checked(
    ranks: Ranks, shop: Callable[..., RunPlan], site: Path, launcher: str, told: bool
) -> None:
    """In an image, or on a host that ssh reaches; elsewhere they were looked at before the start."""
    experiment = Experiment(file="e.yaml", work_group="t", user_name="m", exp_name="e", workspace="/w", modules={})
    plan = shop(experiment=experiment, launcher=launcher)
    with (site / "shop_backend-2.0.dist-info/METADATA").open("a") as metadata:
        metadata.write("Requires-Dist: shoplib>=2; extra == 'runtime'\n")
    ended = ranks.run(plan, RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")
    assert ended.code == 0, ended.stderr
    assert ("shoplib 1.4 is outside of the supported range >=2" in ended.log("warning")) is told


@pytest.mark.parametrize(
    ("preflight", "local_rank", "wish", "ends"),
    [
        ("on", "0", "closed", True),
        ("on", "1", "closed", False),
        ("off", "0", "closed", False),
        ("on", "0", "noisy", False),
        ("strict", "0", "noisy", True),
    ],
)
def test_the_first_rank_of_a_node_has_its_node_checked(
    ranks: Ranks,
    shop: Callable[..., RunPlan],
    install: Callable[..., None],
    preflight: Literal["on", "strict", "off"],
    local_rank: str,
    wish: str,
    ends: bool,
) -> None:
    """Preflight plugins see the rank's own environment; what they find ends the run as the user wishes it."""
    code = (
        "from primus_core.contract import host\n"
        "from primus_core.outcome import Finding, Where\n"
        "@host\n"
        "def preflight_check(plan, where, env):\n"
        "    severity = {'closed': 'error', 'noisy': 'warning'}[env['NODE_IS']]\n"
        "    return [Finding(check='node', severity=severity, summary=f'{where.value} is not well', cause='runtime')]\n"
    )
    install("node-check", "[primus.preflight]\nnode = nodecheck\n", {"nodecheck.py": code})
    experiment = Experiment(file="e.yaml", work_group="t", user_name="m", exp_name="e", workspace="/w", modules={})
    plan = shop(experiment=experiment, preflight=preflight)
    ended = ranks.run(plan, RANK="0", LOCAL_RANK=local_rank, WORLD_SIZE="1", NODE_IS=wish)
    told = ended.report.failure.text if ended.report.failure else ""
    assert ("node is not well" in told) is ends
    assert (ended.report.exit_code == 3) is ends
