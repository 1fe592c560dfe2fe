"""The patch engine on a small library that is written for each test."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

import pytest
from attrs import evolve

from primus_core.errors import DependencyError, ErrorGroup, PrimusError, RunError
from primus_core.outcome import PatchReport
from primus_core.patching import apply_patches, fingerprint, fingerprint_target, verify
from primus_core.plan import Job, Layout, PatchSpec, RunPlan, Target, Task, Translation

LIBRARY = '''
__version__ = "1.4.2+cpu"
FLAG = False

def double(x):
    """Twice."""
    return 2 * x

class Base:
    def inherited(self): return "base"

class Model(Base):
    scale = 3
    def run(self, x): return self.scale * x
    @staticmethod
    def make(): return "made"
    @classmethod
    def named(cls): return cls.__name__
    @property
    def size(self): return 1
'''

PATCHES = """
def triple(original): return lambda x: original(x) + x
def constant(original): return lambda *args: "patched"
def named(original): return lambda cls: original(cls) + "!"
def true(original): return True
def nothing(original): return None
def broken(original): raise ValueError("no such kernel")
def prop(original): return property(lambda self: original.fget(self) + 1)
"""


class Rank:
    """The part of a rank's context that the engine uses."""

    rank = local_rank = 0
    world_size = 1
    env: Mapping[str, str] = {}

    def __init__(self) -> None:
        self.records: list[tuple[str, str]] = []

    def phase(self, name: str) -> None: ...

    def metrics(self, row: Mapping[str, object]) -> None: ...

    def progress(self, what: str, done: int, total: int | None, unit: str) -> None: ...

    def log(self, level: str, event: str, **values: object) -> None:
        self.records.append((event, str(values.get("id"))))

    def notice(self, topic: str, text: str) -> None: ...

    def prepared(self, name: str) -> Mapping[str, object]:
        return {}


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A fresh library ``lib`` and the patches ``libpatches`` for it, importable for one test."""
    (tmp_path / "lib.py").write_text(LIBRARY)
    (tmp_path / "libpatches.py").write_text(PATCHES)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("lib")
    for name in ("lib", "libpatches"):
        sys.modules.pop(name, None)


def patch(name: str, factory: str, **more: object) -> PatchSpec:
    """A patch of ``lib:name`` whose fingerprint fits, unless another is given."""
    target = f"lib:{name}"
    values: dict[str, object] = {
        "id": f"{name}-patch",
        "target": target,
        "replacement": f"libpatches:{factory}",
        "reason": "the test wants it",
        **more,
    }
    if "fingerprint" not in values:
        values["fingerprint"] = (fingerprint_target(target),)
    return PatchSpec(**values)  # type: ignore[arg-type]  # the keys are those of PatchSpec


def plan(*patches: PatchSpec, allowed_drift: tuple[str, ...] = ()) -> RunPlan:
    task = Task(kind="train", entry="entry:run")
    return RunPlan(
        run_id="r1",
        run_dir="/run",
        target=Target(accelerator="cpu", library_version="1.4.2", ranks_per_node=1),
        task=task,
        translation=Translation(native={}, entry="entry:run", layout=Layout(), patches=patches),
        job=Job(run_id="r1", name="t", task=task, python=sys.executable, argv=()),
        launcher="single",
        allowed_drift=allowed_drift,
    )


def test_applies_and_undoes_a_function(library: ModuleType) -> None:
    """A patched function does the new thing inside the block and the old thing after it."""
    original = library.double
    with apply_patches(plan(patch("double", "triple")), Rank()) as applied:
        assert library.double(5) == 15
        assert [(r.id, r.state) for r in applied.results] == [("double-patch", "applied")]
    assert library.double is original


@pytest.mark.parametrize(
    ("name", "factory", "use", "before", "after"),
    [
        ("Model.run", "constant", "Model().run(2)", 6, "patched"),
        ("Model.make", "constant", "Model.make()", "made", "patched"),
        ("Model.make", "constant", "Model().make()", "made", "patched"),
        ("Model.named", "named", "Model.named()", "Model", "Model!"),
        ("Model.size", "prop", "Model().size", 1, 2),
        ("Model.inherited", "constant", "Model().inherited()", "base", "patched"),
        ("Model.scale", "true", "Model().run(2)", 6, 2),
        ("FLAG", "true", "FLAG", False, True),
    ],
)
def test_every_kind_of_attribute_is_restored_exactly(
    library: ModuleType, name: str, factory: str, use: str, before: object, after: object
) -> None:
    """Methods, static and class methods, properties, inherited ones and values are replaced and put back as stored."""
    stored = dict(vars(library.Model))
    with apply_patches(plan(patch(name, factory)), Rank()):
        assert eval(use, vars(library)) == after
        assert library.Base().inherited() == "base"
    assert eval(use, vars(library)) == before
    assert dict(vars(library.Model)) == stored


def test_creates_what_does_not_exist(library: ModuleType) -> None:
    """A patch without a fingerprint creates its target, and undo removes it."""
    with apply_patches(plan(patch("added", "true", fingerprint=())), Rank()):
        assert library.added is True
    assert not hasattr(library, "added")


def test_refuses_to_create_what_exists(library: ModuleType) -> None:
    """A patch that should create its target fails where the library has it by now."""
    with pytest.raises(RunError, match="double-patch: the target exists already"):
        apply_patches(plan(patch("double", "triple", fingerprint=())), Rank())


def test_order_follows_after(library: ModuleType) -> None:
    """The ledger is in the order of application, which `after` decides."""
    late = patch("double", "triple", after=("FLAG-patch",))
    with apply_patches(plan(late, patch("FLAG", "true")), Rank()) as applied:
        assert [result.id for result in applied.results] == ["FLAG-patch", "double-patch"]


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (("FLAG-patch",), ("double-patch",), "wait for one another"),
        (("nowhere",), (), "comes after nowhere, which is not planned"),
    ],
)
def test_contradictory_order_is_refused(
    library: ModuleType, first: tuple[str, ...], second: tuple[str, ...], message: str
) -> None:
    """A cycle or an unknown id in `after` ends the run with nothing applied."""
    with pytest.raises(DependencyError, match=message):
        apply_patches(plan(patch("double", "triple", after=first), patch("FLAG", "true", after=second)), Rank())
    assert library.FLAG is False


def test_an_id_used_twice_is_refused(library: ModuleType) -> None:
    """Two patches with one id are an error that names it."""
    with pytest.raises(DependencyError, match="used twice: same"):
        apply_patches(plan(patch("double", "triple", id="same"), patch("FLAG", "true", id="same")), Rank())


@pytest.mark.parametrize("alias", ["lib:double", "libalias:lib.double"])
def test_two_patches_on_one_target_are_refused(library: ModuleType, tmp_path: Path, alias: str) -> None:
    """Two patches on one attribute are an error, also when they spell it differently."""
    (tmp_path / "libalias.py").write_text("import lib\n")
    second = patch("double", "triple", id="second", target=alias)
    with pytest.raises(DependencyError, match="double-patch and second replace the same target"):
        apply_patches(plan(patch("double", "triple"), second), Rank())
    assert library.double(5) == 10
    sys.modules.pop("libalias", None)


@pytest.mark.parametrize(("python", "state"), [("<3", "skipped"), (">=3.10", "applied")])
def test_patches_for_other_interpreters_are_skipped(library: ModuleType, python: str, state: str) -> None:
    """A patch that this interpreter does not need is in the ledger as skipped and changes nothing."""
    with apply_patches(plan(evolve(patch("double", "triple"), python=python)), Rank()) as applied:
        assert [result.state for result in applied.results] == [state]
        assert library.double(2) == (4 if state == "skipped" else 6)


def test_other_accelerators_are_skipped(library: ModuleType) -> None:
    """A patch for another accelerator is in the ledger as skipped and changes nothing."""
    applied = apply_patches(plan(patch("double", "triple", when=("cuda", "rocm"))), Rank())
    assert [(r.state, r.detail) for r in applied.results] == [("skipped", "needed on cuda, rocm; this is cpu")]
    assert library.double(5) == 10


def test_unknown_fingerprint_stops_the_run(library: ModuleType) -> None:
    """A target whose source changed is an error with id, target, versions and the flag that allows it."""
    with pytest.raises(RunError, match=r"double-patch: the target's source") as caught:
        apply_patches(plan(patch("double", "triple", fingerprint=("0" * 64,))), Rank())
    assert caught.value.where == "lib:double"
    assert "1.4.2+cpu" in caught.value.why
    assert "--allow-patch-drift double-patch" in caught.value.remedy
    assert library.double(5) == 10


def test_allowed_drift_is_applied_and_recorded(library: ModuleType) -> None:
    """A drifted patch that the user allowed is applied, and the ledger says so."""
    drifted = plan(patch("double", "triple", fingerprint=("0" * 64,)), allowed_drift=("double-patch",))
    with apply_patches(drifted, Rank()) as applied:
        assert [result.state for result in applied.results] == ["drift-allowed"]
        assert library.double(5) == 15


@pytest.mark.parametrize(
    ("requires", "message"),
    [("attrs<1", r"attrs \d.*, but the patch is for attrs<1"), ("no-such-dist>=1", "no-such-dist is not installed")],
)
def test_version_outside_requires_stops_the_run(library: ModuleType, requires: str, message: str) -> None:
    """An absent distribution or a version out of range is a dependency error."""
    with pytest.raises(DependencyError, match=message):
        apply_patches(plan(patch("double", "triple", requires=requires)), Rank())


def test_version_within_requires_is_accepted(library: ModuleType) -> None:
    """An installed version within the range lets the patch through."""
    with apply_patches(plan(patch("double", "triple", requires="attrs>=20")), Rank()) as applied:
        assert applied.results[0].state == "applied"


@pytest.mark.parametrize(
    ("factory", "kind", "message"),
    [
        ("nothing", RunError, "libpatches:nothing returned None"),
        ("broken", RunError, "libpatches:broken failed"),
        ("absent", DependencyError, "its code libpatches:absent is missing"),
        ("__name__", DependencyError, "its code libpatches:__name__ is missing"),
    ],
)
def test_bad_factories_stop_the_run(library: ModuleType, factory: str, kind: type[PrimusError], message: str) -> None:
    """A factory that is missing, raises or returns None is an error that names the patch."""
    with pytest.raises(kind, match=f"patch double-patch: {message}"):
        apply_patches(plan(patch("double", "triple", replacement=f"libpatches:{factory}")), Rank())


@pytest.mark.parametrize("target", ["lib:gone", "lib:Gone.method", "lib"])
def test_a_target_that_does_not_exist_stops_the_run(library: ModuleType, target: str) -> None:
    """A target with known fingerprints has to exist, whatever drift is allowed."""
    spec = patch("double", "triple", target=target, fingerprint=("0" * 64,))
    with pytest.raises(RunError, match="double-patch"):
        apply_patches(plan(spec, allowed_drift=("double-patch",)), Rank())


def test_a_library_that_does_not_import_is_a_dependency_error(library: ModuleType) -> None:
    """A target in a module that is not installed names the module."""
    with pytest.raises(DependencyError, match="module no_such_library cannot be imported"):
        apply_patches(plan(patch("double", "triple", target="no_such_library:f", fingerprint=("0",))), Rank())


def test_failures_are_told_together_and_leave_nothing_applied(library: ModuleType) -> None:
    """Every independent failure is told, consequences are not, and the patches that fitted are undone."""
    specs = (
        patch("FLAG", "true"),
        patch("double", "triple", fingerprint=("0" * 64,)),
        patch("Model.run", "broken"),
        patch("Model.make", "constant", after=("double-patch",)),
    )
    with pytest.raises(ErrorGroup) as caught:
        apply_patches(plan(*specs), Rank())
    assert [error.what.split(":")[0] for error in caught.value.errors] == [
        "patch double-patch",
        "patch Model.run-patch",
    ]
    assert library.FLAG is False


def test_verify_accepts_what_is_in_force(library: ModuleType) -> None:
    """Patches that are still in place pass."""
    the_plan = plan(patch("double", "triple"), patch("Model.make", "constant"))
    with apply_patches(the_plan, Rank()) as applied:
        verify(the_plan, applied)


def test_verify_names_an_overwritten_patch(library: ModuleType) -> None:
    """A target that something else replaced afterwards is an error that names the patch."""
    the_plan = plan(patch("double", "triple"))
    with apply_patches(the_plan, Rank()) as applied:
        library.double = abs  # type: ignore[attr-defined]  # the library is written by the test
        with pytest.raises(RunError, match="double-patch was overwritten"):
            verify(the_plan, applied)


def test_verify_names_a_planned_patch_that_is_not_in_the_ledger(library: ModuleType) -> None:
    """A back end that leaves a planned patch out is caught."""
    with pytest.raises(RunError, match="double-patch was planned but not applied"):
        verify(plan(patch("double", "triple")), PatchReport())


def test_fingerprint_follows_source_and_version(library: ModuleType) -> None:
    """Python code is known by its source, builtins by name and public library version."""
    assert fingerprint(library.double, "1") == fingerprint(library.double, "2")
    assert fingerprint(library.double, "1") != fingerprint(library.Model.run, "1")
    assert fingerprint(len, "2.13.0+cpu") == fingerprint(len, "2.13.0+cu130")
    assert fingerprint(len, "2.13.0") != fingerprint(len, "2.14.0")
    assert fingerprint(len, "1") != fingerprint(abs, "1")


def test_a_plan_without_translation_has_no_patches() -> None:
    """Nothing is applied and nothing is missing where no back end translated."""
    bare = evolve(plan(), translation=None)
    assert apply_patches(bare, Rank()).results == ()


def test_each_application_is_announced_before_it_happens(library: ModuleType) -> None:
    """A factory that hangs is found in the log by the record written before it ran."""
    rank = Rank()
    with pytest.raises(RunError):
        apply_patches(plan(patch("double", "broken")), rank)
    assert rank.records == [("applying patch", "double-patch")]
