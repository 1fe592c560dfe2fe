"""Targets, ranks, legality and secrets of a plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from primus_core.codec import to_json
from primus_core.errors import ConfigError
from primus_core.experiment import Experiment, Leaf, Module, Origin, Value
from primus_core.plan import Layout, RunPlan, Settings, Target, Translation
from primus_core.planning.accelerators import Found, find_accelerators
from primus_core.planning.job import Request
from primus_core.planning.legality import check_layout, divisors
from primus_core.planning.make import make_plan, make_target, only_module, secret_env
from primus_core.planning.secrets import is_secret, secret_names

CPU = Found(kind="cpu", count=0)


def leaf(value: Value, line: int = 1) -> Leaf:
    return Leaf(value=value, origin=Origin(file="exp.yaml", line=line))


def module(**params: Value) -> Module:
    leaves = {key: leaf(value, line) for line, (key, value) in enumerate(params.items(), start=10)}
    return Module(
        name="pre_trainer",
        framework="megatron",
        framework_origin=Origin(file="exp.yaml", line=7),
        config="c",
        model="m",
        params=leaves,
    )


def experiment(
    *modules: Module, env: dict[str, str] | None = None, direct: dict[str, Value] | None = None
) -> Experiment:
    return Experiment(
        file="exp.yaml",
        work_group="group",
        user_name="user",
        exp_name="exp",
        workspace="/w",
        modules={module.name: module for module in modules},
        env={name: leaf(value) for name, value in (env or {}).items()},
        launchers={"direct": {key: leaf(value) for key, value in (direct or {}).items()}},
    )


def plan(layout: Layout, ranks: int = 1, request: Request | None = None, **more: dict[str, str]) -> RunPlan:
    one = module(
        tensor_model_parallel_size=layout.tensor,
        micro_batch_size=layout.micro_batch_size,
        global_batch_size=layout.global_batch_size,
    )
    return make_plan(
        experiment(one, **more),  # type: ignore[arg-type]  # only env is passed on
        one,
        target=Target(accelerator="cpu", library_version="1.0", ranks_per_node=ranks),
        settings=Settings(values={"accelerator": "auto"}),
        translation=Translation(native={}, entry="m:f", layout=layout),
        prepare=(),
        request=request or Request(launcher="direct", run_id="r1"),
        distributions={"primus-core": "0.1.0"},
    )


def test_host_without_devices_is_a_cpu_host(tmp_path: Path) -> None:
    """A host without device files computes on its CPU."""
    assert find_accelerators(tmp_path) == CPU


def test_cuda_devices_are_counted(tmp_path: Path) -> None:
    """NVIDIA's numbered device files are counted, its control files are not."""
    (tmp_path / "dev").mkdir()
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / "dev" / name).touch()
    assert find_accelerators(tmp_path) == Found(kind="cuda", count=2)


def test_rocm_devices_are_counted(tmp_path: Path) -> None:
    """KFD's nodes with SIMD units are accelerators, those without are processors."""
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kfd").touch()
    for number, units in enumerate((0, 304, 304)):
        node = tmp_path / f"sys/class/kfd/kfd/topology/nodes/{number}"
        node.mkdir(parents=True)
        (node / "properties").write_text(f"cpu_cores_count 0\nsimd_count {units}\n")
    assert find_accelerators(tmp_path) == Found(kind="rocm", count=2)


@pytest.mark.parametrize(
    ("accelerator", "nproc", "direct", "found", "expected"),
    [
        ("auto", None, {}, CPU, ("cpu", 1)),
        ("auto", None, {"gpus_per_node": 2}, CPU, ("cpu", 2)),
        ("auto", 4, {"gpus_per_node": 2}, CPU, ("cpu", 4)),
        ("auto", None, {}, Found(kind="rocm", count=4), ("rocm", 4)),
        ("cuda", None, {}, CPU, ("cuda", 8)),
        ("cpu", None, {}, Found(kind="cuda", count=4), ("cpu", 1)),
    ],
)
def test_ranks_per_node(
    accelerator: str, nproc: int | None, direct: dict[str, Value], found: Found, expected: tuple[str, int]
) -> None:
    """The command line decides, then the experiment, then the devices that are there or assumed."""
    request = Request(launcher="direct", run_id="r", ranks_per_node=nproc)
    settings = Settings(values={"accelerator": accelerator})
    target = make_target(experiment(module(), direct=direct), settings, request, found, "1.0")
    assert (target.accelerator, target.ranks_per_node) == expected


@pytest.mark.parametrize("value", ["two", 0, -1, True, 1.5])
def test_a_wrong_number_of_ranks_is_named(value: Value) -> None:
    """A rank count that is no positive number is refused with its file and line."""
    request = Request(launcher="direct", run_id="r")
    with pytest.raises(ConfigError) as caught:
        make_target(
            experiment(module(), direct={"gpus_per_node": value}),
            Settings(values={"accelerator": "cpu"}),
            request,
            CPU,
            "",
        )
    assert caught.value.where == "exp.yaml:1"


@pytest.mark.parametrize(
    ("layout", "ranks"),
    [
        (Layout(), 1),
        (Layout(tensor=2), 2),
        (Layout(micro_batch_size=4, global_batch_size=16), 2),
        (Layout(tensor=2, pipeline=2, micro_batch_size=1, global_batch_size=3), 4),
    ],
)
def test_legal_layouts_pass(layout: Layout, ranks: int) -> None:
    """A layout that divides ranks and samples has no finding."""
    assert check_layout(plan(layout, ranks)) == ()


def test_world_size_finding_names_keys_and_legal_values() -> None:
    """Ranks that do not make whole replicas are refused with the key, its line and what would be legal."""
    (finding,) = check_layout(plan(Layout(tensor=3), ranks=2))
    assert finding.severity == "error"
    assert finding.exit_code == 2
    assert "tensor_model_parallel_size: 3 (exp.yaml:10)" in finding.evidence
    assert "multiple of 3" in finding.remedy
    assert "1, 2" in finding.remedy


def test_batch_finding_names_nearest_sizes() -> None:
    """A global batch that the micro batches do not fill is refused with the nearest that they do."""
    (finding,) = check_layout(plan(Layout(micro_batch_size=4, global_batch_size=18), ranks=2))
    assert "18 is not divisible by micro batch x data parallel = 4 x 2 = 8" in finding.summary
    assert finding.remedy.endswith("16 or 24")


def test_a_batch_below_one_step_has_one_nearest_size() -> None:
    """Zero is never proposed as a batch size."""
    (finding,) = check_layout(plan(Layout(micro_batch_size=4, global_batch_size=2), ranks=2))
    assert finding.remedy.endswith("size: 8")


def test_sizes_below_one_are_findings_and_not_a_crash() -> None:
    """Zero ranks in a group is refused before anything is divided by it."""
    (finding,) = check_layout(plan(Layout(tensor=0)))
    assert "tensor_model_parallel_size is 0" in finding.summary


def test_divisors() -> None:
    """Divisors are complete and ascending, also of squares and primes."""
    assert divisors(36) == [1, 2, 3, 4, 6, 9, 12, 18, 36]
    assert divisors(7) == [1, 7]


def test_several_modules_are_refused() -> None:
    """A run trains one module; an experiment with another number says so."""
    with pytest.raises(ConfigError, match="0 modules"):
        only_module(experiment())


@pytest.mark.parametrize("name", ["HF_TOKEN", "WANDB_API_KEY", "password", "AWS_SECRET"])
def test_secrets_are_known_by_name(name: str) -> None:
    """A variable whose last word says secret is one."""
    assert is_secret(name)


@pytest.mark.parametrize("name", ["TOKENIZERS_PARALLELISM", "KEYBOARD", "TOKEN_COUNT", "HF_HOME"])
def test_other_variables_are_not_secret(name: str) -> None:
    """The word elsewhere in a name does not make it secret."""
    assert not is_secret(name)


def test_plan_holds_names_of_secrets_only() -> None:
    """A secret of the file, the command line or the shell is in the plan by name, never by value."""
    request = Request(
        launcher="direct", run_id="r", env={"MY_TOKEN": "hidden-1", "A": "b"}, shell={"SHELL_KEY": "hidden-2"}
    )
    env = {"HF_TOKEN": "hidden-3", "PLAIN": "seen"}
    made = plan(Layout(), request=request, env=env)
    text = to_json(made)
    assert "hidden" not in text
    assert made.job.env == {"A": "b", "PLAIN": "seen"}
    assert made.secrets == ("HF_TOKEN", "MY_TOKEN", "SHELL_KEY")
    assert secret_env(experiment(module(), env=env), request) == {"HF_TOKEN": "hidden-3", "MY_TOKEN": "hidden-1"}


def test_secret_names_are_sorted() -> None:
    """The same environment in another order gives the same plan."""
    assert secret_names(["B_KEY", "A_KEY", "C"]) == ("A_KEY", "B_KEY")


def test_master_address_of_the_environment_reaches_the_launcher() -> None:
    """MASTER_ADDR and MASTER_PORT are options of the job."""
    shell = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29501"}
    made = plan(Layout(), request=Request(launcher="direct", run_id="r", shell=shell))
    assert made.job.options == {"master_addr": "10.0.0.1", "master_port": "29501"}


def test_variables_that_the_library_needs_give_way_to_the_user() -> None:
    """A back end's variable reaches the ranks unless the shell, the file or the command line sets it."""
    one = module()
    translation = Translation(
        native={},
        entry="m:f",
        layout=Layout(),
        environment={"FREE": "back end", "SHELL": "back end", "ASKED": "back end"},
    )
    made = make_plan(
        experiment(one, env={"ASKED": "user"}),
        one,
        target=Target(accelerator="cpu", library_version="1.0", ranks_per_node=1),
        settings=Settings(values={"accelerator": "auto"}),
        translation=translation,
        prepare=(),
        request=Request(launcher="direct", run_id="r1", shell={"SHELL": "user"}),
        distributions={},
    )
    assert made.job.env == {"FREE": "back end", "ASKED": "user"}
