"""The copy of Primus that a run carries to where it is not installed."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest
from attrs import evolve
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from primus_core import bundle
from primus_core.bundle.start import CannotRun, installed, is_in, places, told
from primus_core.discovery import contents, scan, used
from primus_core.errors import DependencyError
from tests.carried import PLAN, witness
from tests.distributions import Install

ROOT = Path(__file__).parents[2]


def interpreters() -> list[Path]:
    """One Python of each version that an image may have, of those that this machine has, without our packages."""
    mine = [Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"]
    named = [Path(found) for version in bundle.PYTHONS if (found := shutil.which(f"python{version}"))]
    kept = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/3.*/bin/python3.??"))
    by_version = {path.name: path for path in (*named, *kept, *mine) if path.exists()}
    return [by_version[name] for version in bundle.PYTHONS if (name := f"python{version}") in by_version]


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The copy for a run with Megatron."""
    folder = tmp_path_factory.mktemp("run") / "code"
    bundle.write(folder, PLAN)
    return folder


def run(python: Path | str, code: Path, *argv: str, before: Sequence[Path] = ()) -> subprocess.CompletedProcess[str]:
    """Start a module of the copy. ``before``: folders of packages that the image has."""
    env = {"PATH": os.environ["PATH"], "HOME": str(code), "LC_ALL": "C.UTF-8"}
    env.update({"PYTHONPATH": os.pathsep.join(map(str, before))} if before else {})
    return subprocess.run(
        [python, "-S", code / "start.py", *argv], env=env, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("version", bundle.PYTHONS)
def test_every_need_on_every_python_is_there(code: Path, version: str) -> None:
    """What a copied distribution needs, by the markers that hold on a version of Python, is copied as well."""
    environment = {
        "python_version": version,
        "python_full_version": f"{version}.1",
        "sys_platform": "linux",
        "extra": "",
    }
    carried = {path.name for path in code.iterdir() if path.is_dir()}
    for name in carried:
        for requirement in map(Requirement, importlib.metadata.requires(name) or []):
            if requirement.marker is None or requirement.marker.evaluate(environment):
                assert canonicalize_name(requirement.name) in carried, f"{requirement}, which {name} needs"
    assert json.loads((code / bundle.LIST).read_text())["absent"] == []
    assert {"primus-core", "exceptiongroup", "typing-extensions", "pyyaml"} <= carried


def test_the_copy_holds_what_the_plan_uses_and_nothing_compiled(code: Path) -> None:
    """The back end and the launchers of the plan travel; the other back end, bytecode and extension modules do not."""
    carried = {path.name for path in code.iterdir() if path.is_dir()}
    assert {"primus-core", "primus-backend-megatron", "primus-launchers"} <= carried
    assert "primus-backend-torchtitan" not in carried
    names = [path.name for path in code.rglob("*")]
    assert not [name for name in names if name.endswith((".pyc", ".pth", ".so", *EXTENSION_SUFFIXES))]
    assert "__pycache__" not in names
    assert next((code / "attrs").glob("attrs-*.dist-info/licenses/*")).is_file()


def test_it_runs_on_this_python_without_any_package(code: Path) -> None:
    """A Python that has no packages at all validates an experiment with the copy, PyYAML's Python form included."""
    python = next(path for path in interpreters() if path.name.endswith(f".{sys.version_info.minor}"))
    done = run(python, code, "primus_core.cli.main", "config", "validate", str(ROOT / "examples/llama-tiny.yaml"))
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert "llama-tiny.yaml: ok" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("python", interpreters(), ids=lambda path: path.name)
def test_a_rank_runs_on_every_python(python: Path, tmp_path: Path) -> None:
    """One rank carries out a plan on each version of Python, with the copy alone."""
    carried = witness(tmp_path, "attr", "primus_core")
    done = run(python, carried.start.parent, "primus_core.rank", str(carried.plan), before=[tmp_path])
    assert done.returncode == 0, done.stdout + done.stderr
    result = carried.result
    assert result["python"] == int(python.name.partition(".")[2])
    assert result["pure"]
    assert all(file.startswith(str(carried.start.parent)) for file in result["files"].values())


def test_what_the_image_has_comes_first(code: Path, tmp_path: Path) -> None:
    """A package of the image that is of use is used; the copies come after the image's folders on the search path."""
    image = tmp_path / "image"
    (image / "attrs-99.0.dist-info").mkdir(parents=True)
    done = run(sys.executable, code, "site", before=[image])
    path = [line.strip(" ',") for line in done.stdout.splitlines() if line.startswith("    ")]
    assert path[0] == str(image)
    assert path[-1].startswith(str(code))
    assert not [entry for entry in path if entry in (str(code), str(code / "attrs"))]
    assert str(code / "cattrs") in path


def test_another_primus_in_the_image_is_not_used(code: Path, tmp_path: Path) -> None:
    """The plan runs with the Primus that made it, also where the image has another one, and one process says so."""
    image = tmp_path / "image"
    (image / "primus_core-0.0.9.dist-info").mkdir(parents=True)
    (image / "primus_core").mkdir()
    (image / "primus_core/__init__.py").write_text("raise SystemExit('the image\\'s own')")
    done = run(sys.executable, code, "primus_core.cli.main", "--version", before=[image])
    version = importlib.metadata.version("primus-core")
    assert done.returncode == 0, done.stderr
    assert version in done.stdout
    why = "the plan was made by it"
    assert done.stderr == f"note: primus-core {version} is used, not 0.0.9 of the image: {why}\n"


def test_the_copy_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """A second copy leaves nothing of the first, and no temporary folder."""
    folder = tmp_path / "submission/code"
    bundle.write(folder, PLAN)
    (folder / "left-over").write_text("")
    bundle.write(folder, PLAN)
    assert not (folder / "left-over").exists()
    assert os.listdir(tmp_path / "submission") == ["code"]


def test_a_distribution_without_files_is_told(install: Install) -> None:
    """A plugin that the plan uses, and whose code cannot be found, is an error with what to do."""
    plan = evolve(PLAN, framework="spooky")
    install("spook", "[primus.ranks]\nspooky = spook_module\n")
    with pytest.raises(DependencyError) as caught:
        bundle.collect(used(plan, scan()))
    assert caught.value.what == "the code of spook cannot be given to a container"
    assert "--no-mount-code" in caught.value.remedy


def test_a_plugin_of_somebody_else_travels_with_its_needs(install: Install, site: Path) -> None:
    """A back end of another package is copied with what it needs; what is compiled, and its needs, are the image's."""
    modules = {"shop/__init__.py": "", "shop/data.json": "{}", "shop_tools.py": "", "fast/__init__.py": ""}
    install("shop", "[primus.ranks]\nshop = shop\n", modules)
    install("tools", "", {})
    install("fast", "", {f"fast/core{EXTENSION_SUFFIXES[0]}": ""})
    _declare(site, "shop", ["tools>=1", "fast", "gone>=2; python_version < '3.12'", "never; sys_platform == 'win32'"])
    _declare(site, "fast", ["never"])
    (site / "tools-1.2.dist-info/top_level.txt").write_text("shop_tools\n")
    load = bundle.collect(used(evolve(PLAN, framework="shop"), scan()))
    assert set(load.carried["shop"].contents.files) == {"shop/__init__.py", "shop/data.json"}
    assert set(load.carried["tools"].contents.files) == {"shop_tools.py"}
    assert "fast" not in load.carried
    assert [(need.name, need.versions, need.pythons) for need in load.absent] == [("gone", ">=2", ("3.10", "3.11"))]


def _declare(site: Path, name: str, needs: Sequence[str]) -> None:
    with next(site.glob(f"{name}-*.dist-info")).joinpath("METADATA").open("a") as file:
        file.writelines(f"Requires-Dist: {need}\n" for need in needs)


def test_an_installed_package_is_found_by_its_list() -> None:
    """What an installer has listed is what travels; commands and metadata of another place do not."""
    found = contents("pluggy")
    assert found is not None
    assert found.python.startswith(">=3")
    assert all(place.startswith("pluggy/") for place in found.files)
    assert all(path.is_file() for path in found.files.values())


NEEDS = [{"name": "attrs", "versions": ">=24.2", "pythons": ["3.10", "3.14"]}]
OLD = [{"name": "group", "versions": ">=1", "pythons": ["3.10"]}]


def _listing(**needs: list[dict[str, object]]) -> dict[str, object]:
    described = {
        "core": {"version": "1.0", "python": ">=3.10", "planned": True, "needs": needs.get("core", [])},
        "attrs": {"version": "26.1", "python": ">=3.9", "planned": False, "needs": needs.get("attrs", [])},
        "group": {"version": "1.3", "python": ">=3.7,<3.14", "planned": False, "needs": []},
    }
    return {"distributions": described, "absent": needs.get("absent", [])}


def _cases() -> Iterator[object]:
    yield pytest.param({}, (3, 10, 1), ([], ["attrs", "core"]), id="nothing in the image")
    yield pytest.param({"attrs": "24.2.0"}, (3, 10, 1), ([], ["core"]), id="the image's is of use")
    yield pytest.param({"attrs": "21.4"}, (3, 10, 1), (["attrs"], ["core"]), id="the image's is too old")
    yield pytest.param({"core": "1.0"}, (3, 10, 1), (["core"], ["attrs"]), id="the image's own Primus")
    yield pytest.param({}, (3, 12, 1), ([], ["core"]), id="not needed on this Python")
    yield pytest.param({}, (3, 15, 0), ([], ["attrs", "core"]), id="a newer Python than was thought of")


@pytest.mark.parametrize(("image", "python", "expected"), [*_cases()])
def test_where_copies_go(image: dict[str, str], python: tuple[int, ...], expected: tuple[list[str], list[str]]) -> None:
    """Copies come after the image's packages, but for those that the image has in a version that is of no use."""
    assert places(_listing(core=NEEDS), image, python) == expected


def test_needs_of_needs_count() -> None:
    """A need that only a copied need has is put on the path too, whatever the image's own of that name needs."""
    assert places(_listing(core=NEEDS, attrs=OLD), {}, (3, 10, 1)) == ([], ["attrs", "core", "group"])
    assert places(_listing(core=NEEDS, attrs=OLD), {"attrs": "25"}, (3, 10, 1)) == ([], ["core"])


@pytest.mark.parametrize(
    ("listing", "python", "words"),
    [
        (_listing(), (3, 9, 2), ("Python 3.9.2 of the image cannot run core 1.0", ">=3.10", "take an image")),
        (_listing(core=[{**OLD[0], "pythons": ["3.14"]}]), (3, 14, 0), ("group 1.3", ">=3.7,<3.14", "older group")),
        (
            _listing(core=[{"name": "gone", "versions": ">=2", "pythons": ["3.10"]}], absent=[{"name": "gone"}]),
            (3, 10, 1),
            ("the image has no gone, which core needs", "not installed", "pip install 'gone>=2'"),
        ),
    ],
)
def test_what_cannot_run_is_told(listing: dict[str, object], python: tuple[int, ...], words: tuple[str, ...]) -> None:
    """A Python that is too old or too new, and a need that is nowhere, are said before anything is started."""
    with pytest.raises(CannotRun) as caught:
        places(listing, {}, python)
    assert all(word in text for word, text in zip(words, caught.value.args, strict=True))


def test_an_old_python_ends_with_1(code: Path, tmp_path: Path) -> None:
    """An image whose Python cannot run the copy ends the start with exit code 1 and one screen."""
    folder = tmp_path / "code"
    shutil.copytree(code, folder)
    listing = json.loads((folder / bundle.LIST).read_text())
    listing["distributions"]["primus-core"]["python"] = ">=3.99"
    (folder / bundle.LIST).write_text(json.dumps(listing))
    done = run(sys.executable, folder, "primus_core.cli.main", "--version")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0].startswith("error: Python 3.")
    assert [line.partition(":")[0].strip() for line in lines[1:]] == ["why", "try"]


def test_an_unusable_need_is_said() -> None:
    """Which package of the image is not used, and why, is said in one line."""
    distributions = _listing()["distributions"]
    assert isinstance(distributions, dict)
    said = list(told(["attrs"], {"attrs": "21.4"}, distributions))
    assert said == ["note: attrs 26.1 is used, not 21.4 of the image: Primus cannot use the image's\n"]


VERSIONS = ("0.9", "1", "1.0", "1.2", "1.2.0", "1.2.3", "1.10", "2.0.1", "2.13.0+cpu", "24.2.0", "3.11.7")
BOUNDS = ("", ">=1.2", ">1.2", "<2", "<=1.2", "==1.2", "==1.2.*", "!=1.2.*", "!=1.2", "~=1.2", "~=1.2.0")
RANGES = (*BOUNDS, ">=0.1,<0.2", ">=1,!=1.10,<24.2")


@pytest.mark.parametrize("versions", RANGES)
def test_ranges_of_versions_are_read_as_pip_does(versions: str) -> None:
    """A version is in a range exactly where `packaging` says so."""
    for version in VERSIONS:
        assert is_in(version, versions) == SpecifierSet(versions).contains(version), (version, versions)


def test_what_an_image_has_is_read_from_its_folders(tmp_path: Path) -> None:
    """Distributions are known by their metadata folders, those of Debian's packages too; the first of a name counts."""
    first, second = tmp_path / "first", tmp_path / "second"
    for name in ("PyYAML-6.0.1.egg-info", "typing_extensions-4.10.0.dist-info", "zope.event-5.0-py3.11.egg-info"):
        (first / name).mkdir(parents=True)
    (second / "pyyaml-5.1.dist-info").mkdir(parents=True)
    found = installed(["", str(tmp_path / "absent.zip"), str(first), str(second)])
    assert found == {"pyyaml": "6.0.1", "typing-extensions": "4.10.0", "zope-event": "5.0"}
