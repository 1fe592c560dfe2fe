"""Options of launchers from several places: what counts, by which name, and what a run is planned for by them."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from primus_core.cli.launching import file_sections
from primus_core.cli.modes import Mode, asked
from primus_core.cli.prepare import launcher_sections, placed
from primus_core.errors import ConfigError
from primus_core.experiment import Leaf, Origin, Sections, Value
from primus_core.plan import Accelerator
from primus_core.planning.accelerators import Found
from primus_core.planning.assumed import meant_by
from primus_core.planning.job import Request
from primus_core.planning.launcheroptions import early_options, typed_options, typed_sections
from primus_core.planning.ranks import ranks_per_node, scheduled_nodes
from primus_core.planning.secrets import named_secrets
from primus_core.planning.sections import put_together
from primus_core.resolve import read_launcher_file

CPU = Found(kind="cpu", count=0)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def of_file(name: str, **sections: dict[str, Value]) -> Sections:
    """Sections whose options stand in line 1 of a file."""
    origin = Origin(file=name, line=1)
    return {
        section: {key: Leaf(value=value, origin=origin) for key, value in options.items()}
        for section, options in sections.items()
    }


def merged(*layers: Sections, cwd: str = "/here") -> dict[str, dict[str, Value]]:
    return {
        section: {key: leaf.value for key, leaf in leaves.items()}
        for section, leaves in put_together(layers, cwd, "/home/me").items()
    }


def test_the_order_of_the_places(home: Path, tmp_path: Path) -> None:
    """Modes > container.image=X > DOCKER_IMAGE > experiment > --config > ~/.primus.yaml > what comes with Primus."""
    (home / ".primus.yaml").write_text("container: {image: of-home, memory: 1G, cpus: 1, user: me}\n")
    named = tmp_path / "named.yaml"
    named.write_text("container: {image: of-config, memory: 2G, cpus: 2}\n")
    env = {"HOME": str(home)}
    experiment = of_file("exp.yaml", container={"image": "of-experiment", "memory": "3G"})
    overridden = {"container": {**experiment["container"], "image": asked("of-override")}}
    mode = Mode(sections={"container": {"image": asked("of-mode")}})

    def image(sections: Sections, mode: Mode | None = None, **more: str) -> Value:
        args = argparse.Namespace(mode=mode, sections=file_sections(str(named), env))
        return launcher_sections(args, {**env, **more}, sections)["container"]["image"].value

    assert file_sections(None, {})["container"]["image"].value == "rocm/primus:v26.3"
    assert file_sections(None, env)["container"]["image"].value == "of-home"
    assert image({}) == "of-config"
    assert image(experiment) == "of-experiment"
    assert image(experiment, DOCKER_IMAGE="of-variable") == "of-variable"
    assert image(overridden, DOCKER_IMAGE="of-variable") == "of-override"
    assert image(overridden, mode, DOCKER_IMAGE="of-variable") == "of-mode"
    args = argparse.Namespace(mode=mode, sections=file_sections(str(named), env))
    container = launcher_sections(args, env, experiment)["container"]
    assert {key: str(leaf.origin) for key, leaf in container.items()} == {
        "image": "command line",
        "memory": "exp.yaml:1",
        "cpus": f"{named}:1",
        "user": f"{home}/.primus.yaml:1",
    }
    over = [str(leaf.origin) for leaf in container["image"].overrode]
    assert over == ["exp.yaml:1", f"{named}:1", f"{home}/.primus.yaml:1", "launcher_defaults.yaml:9"]


def test_an_option_of_the_container_has_one_name() -> None:
    """The reference's `container.options.shm-size` and `devices` are the same as `container.shm_size` and `device`."""
    weaker = of_file("a", container={"options.shm-size": "8G", "options.devices": ["/dev/kfd"], "options.ulimit": "x"})
    stronger = of_file("b", container={"shm_size": "16G"})
    assert merged(weaker, stronger) == {
        "container": {"shm_size": "16G", "device": ["/dev/kfd"], "options.ulimit": "x"},
    }


def test_one_file_that_says_an_option_twice_is_refused() -> None:
    """Which of both counts nobody could tell."""
    with pytest.raises(
        ConfigError, match=r"`container.volume` and `container.options.volumes` are one option"
    ) as caught:
        merged(of_file("a.yaml", container={"volume": ["/a"], "options.volumes": ["/b"]}))
    assert caught.value.where == "a.yaml:1"


def test_the_command_line_adds_to_lists() -> None:
    """--volume of the command line comes on top of the files' volumes; of two files the stronger one counts alone."""
    files = (of_file("a", container={"volume": ["/a"]}), of_file("b", container={"volume": ["/b"]}))
    assert merged(*files)["container"]["volume"] == ["/b"]
    assert merged(*files, {"container": {"volume": asked(["/c:/d:ro"])}})["container"]["volume"] == ["/b", "/c:/d:ro"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("/data:/x", "/data:/x"),
        ("sub/data:/x:ro", "/here/conf/sub/data:/x:ro"),
        ("./data", "/here/conf/data"),
        ("../data:/x", "/here/data:/x"),
        ("~/data:/x", "/home/me/data:/x"),
        ("cache:/x", "cache:/x"),
    ],
)
def test_volumes_of_a_file_are_relative_to_it(written: str, meant: str) -> None:
    """A word that is no path stays the name of a volume of the runtime."""
    assert merged(of_file("conf/a.yaml", container={"volume": [written]}))["container"]["volume"] == [meant]


def test_other_options_below_options_are_the_runtimes() -> None:
    """They become words of `podman run`; a misspelt option beside them is refused with the one that is meant."""
    options: dict[str, Value] = {"options.ulimit": ["nofile=1", "core=0"], "options.privileged": True, "image": "x"}
    typed = typed_options("container", put_together([of_file("a", container=options)], "/")["container"])
    assert typed == {"image": "x", "arguments": ["--ulimit=nofile=1", "--ulimit=core=0", "--privileged"]}
    with pytest.raises(ConfigError, match=r"unknown parameter `container\.imge`") as caught:
        typed_options("container", of_file("a.yaml", container={"imge": "x"})["container"])
    assert caught.value.remedy == "did you mean `container.image`?"


def test_options_of_slurm_are_put_together_as_slurm_means_them() -> None:
    """`gpus_per_node` of a file gives way to --gres of the command line; numbers and times stay text."""
    leaf = Leaf(value=4.0, origin=Origin(file="a", line=1), text="4.0")
    files = {"slurm": {"N": leaf, "gpus_per_node": leaf, "time": Leaf(value=1e5, origin=leaf.origin, text="1e5")}}
    both = put_together([files, {"slurm": {"gres": asked("gpu:2"), "nodes": asked("2")}}], "/")
    assert typed_sections(both)["slurm"] == {"nodes": "2", "time": "1e5", "gres": "gpu:2"}


def test_a_secret_of_a_launchers_file_is_in_no_plan() -> None:
    """`container.env: [A_TOKEN=x]` sets the variable; what is kept of it is the name, also of what was overridden."""
    layers = [of_file(name, container={"env": ["A_TOKEN=hush", "B=c", "HF_HOME"]}) for name in "ab"]
    request = Request(launcher="container", run_id="r", shell={})
    request, sections = placed(request, None, put_together(layers, "/"))
    assert request.launcher_env == {"A_TOKEN": "hush", "B": "c"}
    kept = named_secrets(sections)["container"]["env"]
    assert (kept.value, kept.overrode[0].value) == (["A_TOKEN", "B=c", "HF_HOME"],) * 2


@pytest.mark.parametrize(
    ("sections", "said", "inside"),
    [
        ({}, "", "direct"),
        ({"image": Leaf(value="x", origin=Origin(file="launcher_defaults.yaml"))}, "", "direct"),
        ({"image": Leaf(value="x", origin=Origin(file="exp.yaml"))}, "", "container"),
        ({"image": Leaf(value="x", origin=Origin(file="exp.yaml"))}, "direct", "direct"),
        ({}, "container", "container"),
    ],
)
def test_what_slurm_starts_on_each_node(sections: dict[str, Leaf], said: str, inside: str) -> None:
    """A container where the user names an image, the one that comes with Primus left aside, or as the words say."""
    request, read = placed(Request(launcher="slurm", run_id="r"), Mode(inside=said), {"container": sections})
    assert request.inside == inside
    assert ("container" in read) == (inside == "container")


@pytest.mark.parametrize(
    ("launcher", "inside", "image", "flags", "kind"),
    [
        ("container", "direct", "rocm/primus:v26.3", {}, "rocm"),
        ("container", "direct", "nvcr.io/nvidia/pytorch:25.01", {}, "cuda"),
        ("container", "direct", "registry/mine:1", {}, "cuda"),
        ("slurm", "container", "registry/mi300x-base", {}, "rocm"),
        ("slurm", "direct", "rocm/primus:v26.3", {}, "cuda"),
        ("slurm", "direct", "", {"gres": "gpu:mi355x:8"}, "rocm"),
        ("slurm", "direct", "", {"gpus-per-node": "h100:8"}, "cuda"),
        ("slurm", "container", "mine", {"constraint": "MI300X"}, "rocm"),
    ],
)
def test_accelerator_auto_never_means_the_login_node(
    launcher: str, inside: str, image: str, flags: dict[str, Value], kind: Accelerator
) -> None:
    """The image, then what Slurm is asked for, tell whose GPUs they are."""
    typed = {"container": {"image": image}, "slurm": flags}
    assert meant_by(launcher, inside, typed, CPU) == Found(kind=kind, count=0)


def test_a_container_of_this_host_has_its_devices() -> None:
    """As many ranks as devices, where they are of the image's kind."""
    typed: dict[str, dict[str, Value]] = {"container": {"image": "rocm/primus"}}
    here = Found(kind="rocm", count=4)
    assert meant_by("container", "direct", typed, here).count == 4
    assert meant_by("slurm", "container", typed, here).count == 0


def test_the_nodes_of_a_job() -> None:
    """--nodes, else those of the job that this shell is in, else one; a list of names alone is not enough."""
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "3"}
    assert scheduled_nodes({"nodes": "2"}, job) == 2
    assert scheduled_nodes({}, job) == 3
    assert scheduled_nodes({}, {"SLURM_JOB_NUM_NODES": "3"}) == 1
    with pytest.raises(ConfigError, match="--nodelist without --nodes"):
        scheduled_nodes({"nodelist": "a,b"}, {})
    with pytest.raises(ConfigError, match="--nodes=2-4"):
        scheduled_nodes({"nodes": "2-4"}, {})


@pytest.mark.parametrize(
    ("asked_for", "flags", "env", "direct", "ranks"),
    [
        (3, {"gres": "gpu:2"}, {"GPUS_PER_NODE": "5"}, 7, 3),
        (None, {"gres": "gpu:2"}, {"GPUS_PER_NODE": "5"}, 7, 2),
        (None, {"gpus": "8", "nodes": "2"}, {}, 7, 4),
        (None, {"nodes": "2"}, {"GPUS_PER_NODE": "5"}, 7, 5),
        (None, {"nodes": "2"}, {}, 7, 7),
        (None, {"nodes": "2"}, {}, None, 8),
    ],
)
def test_the_ranks_of_a_node_under_slurm(
    asked_for: int | None, flags: dict[str, Value], env: dict[str, str], direct: int | None, ranks: int
) -> None:
    """--nproc, the GPUs that Slurm is asked for, GPUS_PER_NODE, `direct.gpus_per_node`, else eight."""
    typed: dict[str, dict[str, Value]] = {"slurm": flags, "direct": {"gpus_per_node": direct}}
    found = Found(kind="cuda", count=0)
    assert ranks_per_node(asked_for, "slurm", typed, env=env, kind="cuda", found=found, origins={}) == ranks


def test_the_file_of_the_docs_is_one(tmp_path: Path) -> None:
    """Every option of the sample in docs/launchers.md is known and of its type."""
    page = (Path(__file__).parents[2] / "docs/launchers.md").read_text()
    (tmp_path / "l.yaml").write_text(page.partition("```yaml\n")[2].partition("```")[0])
    sections = put_together([read_launcher_file("l.yaml", {}, str(tmp_path))], "/docs")
    assert early_options(sections) == {"debug": False, "dry_run": False}
    typed = typed_sections({name: leaves for name, leaves in sections.items() if name != "main"})
    assert typed["container"]["volume"] == ["/data", "/docs/models:/models:ro"]
    assert typed["container"]["arguments"] == ["--ulimit=nofile=65536"]
    assert typed["slurm"] == {"partition": "gpu", "nodes": "2", "time": "4:00:00"}
