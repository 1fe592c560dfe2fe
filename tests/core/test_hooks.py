"""The facade around the hooks: one answer, named faults, results that no order decides."""

from __future__ import annotations

import pytest

from primus_core import discovery, hooks
from primus_core.errors import ConfigError, DependencyError
from primus_core.experiment import Experiment, Leaf, Module, Origin, Value
from primus_core.outcome import Finding, Where
from primus_core.plan import Adjusted, Job, Layout, Mapped, RunPlan, Target, Task, Translation, Unused
from tests.distributions import Install

TARGET = Target(accelerator="cpu", library_version="1.0", ranks_per_node=1)
TASK = Task(kind="train", entry="x:y")
JOB = Job(run_id="r", name="n", task=TASK, python="/python", argv=("-m", "primus_core.rank", "plan.json"))
HEAD = """
from primus_core.contract import host, rank
from primus_core.errors import *
from primus_core.outcome import *
from primus_core.plan import *
"""
BACKEND = (
    HEAD
    + """
LIBRARY = "pluggy"
LIBRARY_VERSIONS = ("0.1", "0.2")
@host
def translate_config(module):
    return Translation(native={"from": module.name}, entry="x:y", layout=Layout())
@host
def preflight_check(plan, where):
    return [Finding(check="own", severity="warning", summary=where.value)]
"""
)
LAUNCHER = HEAD + "@host\ndef launch(job): return Submission(processes=(Process(argv=(job.python,)),))\n"


def module(**params: Leaf) -> Module:
    origin = Origin(file="e.yaml", line=3)
    return Module(name="pre", framework="fake", framework_origin=origin, config="c", model="m", params=params)


def experiment() -> Experiment:
    return Experiment(
        file="e.yaml", work_group="g", user_name="u", exp_name="e", workspace="/w", modules={"pre": module()}
    )


def plan(translation: Translation | None = None) -> RunPlan:
    return RunPlan(run_id="r", run_dir="/w/r", target=TARGET, task=TASK, job=JOB, launcher="l", translation=translation)


def load(*, preflight: bool = False, launcher: str | None = "l") -> hooks.HostPlugins:
    return hooks.load_host(discovery.scan(), backend="fake", launcher=launcher, preflight=preflight)


@pytest.fixture
def fakes(install: Install) -> Install:
    """Install one plugin: name, group and source."""

    def add(name: str, group: str, source: str, plugin: str) -> None:
        install(name, f"[{group}]\n{plugin} = {name.replace('-', '_')}\n", {f"{name.replace('-', '_')}.py": source})

    return add


@pytest.fixture
def pair(fakes: Install) -> Install:
    """A working back end `fake` and launcher `l`; returns the way to install more."""
    fakes("f-backend", "primus.backends", BACKEND, "fake")
    fakes("f-launcher", "primus.launchers", LAUNCHER, "l")
    return fakes


def test_the_named_back_end_and_launcher_answer(pair: Install) -> None:
    """Translation and submission are those of the selected plugins."""
    host = load()
    assert host.translate_config(experiment(), module(), TARGET).native == {"from": "pre"}
    assert host.launch(JOB).processes[0].argv == ("/python",)


def test_a_broken_plugin_that_is_not_named_never_hurts(pair: Install) -> None:
    """Other back ends and launchers are not even imported."""
    pair("f-bomb", "primus.backends", "raise SystemExit(9)", "bomb")
    pair("f-bomb2", "primus.launchers", "import nothing_like_it", "bomb2")
    assert load(preflight=True).launch(JOB).processes


def test_the_unknown_framework_is_told_with_its_line() -> None:
    """The error points to where the user wrote the framework."""
    with pytest.raises(ConfigError) as caught:
        hooks.load_host(discovery.scan(), backend="jax", launcher=None, preflight=False, backend_where="exp.yaml:9")
    assert caught.value.where == "exp.yaml:9"
    assert "megatron" in caught.value.why


@pytest.mark.parametrize(
    ("source", "what", "detail"),
    [
        ("@host\ndef translate_confg(module): pass", "unknown hook 'translate_confg'", "'translate_config' is"),
        ("@host\ndef launch(job): pass\n@host\ndef prefight(plan): pass", "unknown hook 'prefight'", "hooks are"),
        ("@host\ndef translate_config(modul): pass", "wrong arguments", "modul"),
        ("@host\ndef translate_config(module, *, accelerators): pass", "wrong arguments", "accelerators"),
        ("@rank\ndef patch_backend(plan, rank): pass", "unknown hook 'patch_backend'", "hooks are"),
        ("def translate_config(module): pass", "implements no hook", "primus_core.contract"),
        ("@host(wrapper=True)\ndef launch(job): return (yield)",
         "wraps the hook 'launch'", "its own results"),
    ],
)  # fmt: skip
def test_a_hook_that_cannot_be_called_is_refused(fakes: Install, source: str, what: str, detail: str) -> None:
    """A misspelt hook, unknown arguments, no hook or a wrapper: the error names the plugin and what is wrong."""
    fakes("f-bad", "primus.backends", HEAD + source, "fake")
    if "accelerators" in source:  # keyword-only arguments are invisible to pluggy: the call itself must tell
        host = load(launcher=None)
        with pytest.raises(DependencyError) as caught:
            host.translate_config(experiment(), module(), TARGET)
        assert detail in caught.value.why
        return
    with pytest.raises(DependencyError) as caught:
        load(launcher=None)
    assert "'fake' of f-bad 1.2" in caught.value.what
    assert what in caught.value.what
    assert detail in caught.value.why + caught.value.remedy


def test_one_misspelt_hook_does_not_spoil_a_later_plugin(pair: Install) -> None:
    """A refused preflight plugin leaves nothing registered: the other plugins answer."""
    pair("f-half", "primus.preflight", HEAD + "@host\ndef launch(job): pass\n@host\ndef lunch(job): pass", "half")
    host = load(preflight=True)
    assert host.launch(JOB).processes[0].argv == ("/python",)
    assert [finding.check for finding in host.preflight(plan()) if finding.severity == "error"] == ["half"]


def test_two_implementations_of_one_answer_are_refused(pair: Install) -> None:
    """When a second selected plugin also launches, both distributions are named."""
    pair("f-second", "primus.preflight", LAUNCHER, "second")
    with pytest.raises(DependencyError, match="f-launcher and f-second both implement launch"):
        load(preflight=True).launch(JOB)


def test_a_missing_implementation_is_refused(fakes: Install) -> None:
    """A back end that only checks cannot translate; the error lists what was loaded."""
    fakes("f-only", "primus.backends", HEAD + "@host\ndef preflight_check(plan): return ()", "fake")
    with pytest.raises(DependencyError, match="no selected plugin implements translate_config") as caught:
        load(launcher=None).translate_config(experiment(), module(), TARGET)
    assert "f-only" in caught.value.why


@pytest.mark.parametrize(
    ("body", "what", "why"),
    [
        ("return None", "returned nothing", "Translation"),
        ("return {}", "returned a dict", "Translation"),
        ("return 1 / 0", "failed in translate_config", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_wrong_answer_is_the_plugins_fault(fakes: Install, body: str, what: str, why: str) -> None:
    """Nothing, another type or an exception from a hook is told with the plugin's name."""
    fakes("f-wrong", "primus.backends", HEAD + f"@host\ndef translate_config(module): {body}", "fake")
    with pytest.raises(DependencyError) as caught:
        load(launcher=None).translate_config(experiment(), module(), TARGET)
    assert "'fake' of f-wrong" in caught.value.what
    assert what in caught.value.what
    assert why in caught.value.why


def test_what_a_plugin_tells_the_user_passes_unchanged(fakes: Install) -> None:
    """A ConfigError of a back end reaches the user as it was raised."""
    fakes(
        "f-says",
        "primus.backends",
        HEAD + "@host\ndef translate_config(): raise ConfigError('no', where='a:1')",
        "fake",
    )
    with pytest.raises(ConfigError) as caught:
        load(launcher=None).translate_config(experiment(), module(), TARGET)
    assert str(caught.value) == "a:1: no"


def test_findings_have_one_order_and_the_back_end_is_never_skipped(pair: Install) -> None:
    """Errors come first whoever reports them; without preflight plugins the back end still checks."""
    many = "@host\ndef preflight_check(plan): return [Finding(check=c, severity=s, summary='x') for c, s in {}]"
    pair("a-first", "primus.preflight", HEAD + many.format([("b", "info"), ("z", "error")]), "one")
    pair("z-last", "primus.preflight", HEAD + many.format([("a", "info"), ("y", "error")]), "two")
    installed_here = ("y", "z", "own", "a", "b")
    found = [finding.check for finding in load(preflight=True).preflight(plan())]
    assert [check for check in found if check in installed_here] == list(installed_here)
    assert load(preflight=False).preflight(plan()) == (Finding(check="own", severity="warning", summary="submit"),)
    assert load(preflight=False).preflight(plan(), Where.NODE)[0].summary == "node"


@pytest.mark.parametrize(
    ("source", "cause", "evidence"),
    [
        ("import nothing_like_it", "dependency", "nothing_like_it"),
        ("CONTRACT = 99", "dependency", "99"),
        (HEAD + "@host\ndef preflight_check(plans): pass", "dependency", "plans"),
        (HEAD + "@host\ndef preflight_check(plan): raise OSError('disk on fire')", "runtime", "disk on fire"),
        (HEAD + "@host\ndef preflight_check(plan): raise ConfigError('x', why='your fault')", "configuration", "fault"),
        (HEAD + "@host\ndef preflight_check(plan): return ['text']", "dependency", "sequence of Finding"),
        (HEAD + "@host\ndef preflight_check(plan): return 7", "dependency", "sequence of Finding"),
        (HEAD + "@host\ndef preflight_check(plan): return [Finding(check='check', severity='fatal', summary='x')]",
         "dependency", "error, warning, info"),
    ],
)  # fmt: skip
def test_a_preflight_plugin_that_fails_is_an_error_found(pair: Install, source: str, cause: str, evidence: str) -> None:
    """A check that cannot run is no reason to start: it is an error finding, and the other checks still report."""
    pair("f-check", "primus.preflight", source, "check")
    findings = load(preflight=True).preflight(plan())
    (error,) = [finding for finding in findings if finding.check == "check"]
    assert (error.severity, error.cause) == ("error", cause)
    assert evidence in error.evidence
    assert "own" in [finding.check for finding in findings]


def test_a_check_may_have_nothing_to_say(pair: Install) -> None:
    """A preflight check that returns None found nothing."""
    pair("f-mute", "primus.preflight", HEAD + "@host\ndef preflight_check(plan): pass", "mute")
    assert "mute" not in [finding.check for finding in load(preflight=True).preflight(plan())]


def test_one_module_may_serve_two_groups(install: Install) -> None:
    """A package whose back end and launcher are one module is loaded once."""
    install(
        "f-both",
        "[primus.backends]\nfake = f_both\n[primus.launchers]\nl = f_both\n",
        {"f_both.py": BACKEND + LAUNCHER},
    )
    host = load()
    assert host.translate_config(experiment(), module(), TARGET)
    assert host.launch(JOB)
    assert len(host.preflight(plan())) == 1


@pytest.mark.parametrize(
    ("declared", "asked", "version"),
    [
        ("LIBRARY = 'attrs'", "9.9", discovery.installed_version("attrs")),
        ("LIBRARY = 'not-installed'", "9.9", "9.9"),
        ("LIBRARY = 'not-installed'", None, "0.2"),
    ],
)
def test_the_library_version_is_the_installed_one_first(
    fakes: Install, declared: str, asked: Value, version: str
) -> None:
    """Installed, else asked for, else the newest that the back end knows."""
    fakes("f-lib", "primus.backends", BACKEND + declared, "fake")
    assert load(launcher=None).library_version(asked) == version


def test_no_version_at_all_is_an_error(fakes: Install) -> None:
    """A back end without a library that is installed, asked for or known cannot be translated for."""
    fakes("f-lib", "primus.backends", HEAD + "@host\ndef translate_config(): pass", "fake")
    with pytest.raises(DependencyError) as caught:
        load(launcher=None).library_version()
    assert "backend_version:" in caught.value.remedy


RANK_PLAN = plan(Translation(native={}, entry="x:y", layout=Layout()))


def test_the_rank_side_is_found_by_the_same_name(fakes: Install) -> None:
    """The rank side of a framework patches and checks."""
    source = """
@rank
def patch_backend(plan): return PatchReport(results=(PatchResult(id="p", target="t", reason="r", state="applied"),))
@rank
def preflight_check(where): return (Finding(check="gpu", severity="info", summary=where.value),)
"""
    fakes("f-rank", "primus.ranks", HEAD + source, "fake")
    side = hooks.load_rank(discovery.scan(), "fake")
    assert side.patch_backend(RANK_PLAN, rank=None).results[0].id == "p"  # type: ignore[arg-type]  # not used here
    assert side.preflight(RANK_PLAN)[0].summary == "node"
    assert side.patch_backend(plan(None), rank=None).results == ()  # type: ignore[arg-type]  # not used here


def test_planned_patches_without_a_rank_side_are_refused() -> None:
    """No patch is needed by some back ends; a planned one that nobody applies is an error."""
    from attrs import evolve

    from primus_core.plan import PatchSpec

    side = hooks.load_rank(discovery.scan(), "unheard-of")
    assert side.patch_backend(RANK_PLAN, rank=None).results == ()  # type: ignore[arg-type]  # not used here
    assert RANK_PLAN.translation
    patch = PatchSpec(id="p", target="a:b", replacement="c:d", reason="r")
    patched = evolve(RANK_PLAN, translation=evolve(RANK_PLAN.translation, patches=(patch,)))
    with pytest.raises(DependencyError, match="implements patch_backend"):
        side.patch_backend(patched, rank=None)  # type: ignore[arg-type]  # not used here


def leaf(value: Value, line: int = 5) -> Leaf:
    return Leaf(value=value, origin=Origin(file="e.yaml", line=line))


def translated(**rows: object) -> Translation:
    return Translation(native={"LR": 0.1}, entry="x:y", layout=Layout(), **rows)  # type: ignore[arg-type]  # test rows


GOOD = {
    "mapping": (Mapped(path="lr", native="LR", value=0.1),),
    "adjusted": (Adjusted(path="fused", native="FUSED", asked=True, used=False, why="cpu"),),
    "unused": (Unused(path="wandb", why="off"),),
}
PARAMS = {
    "lr": leaf(0.1),
    "fused": leaf(True),
    "wandb.project": leaf("p"),
    "text_field": leaf("t"),
    "empty": leaf({}),
    "left": Leaf(value=1, origin=Origin(file="core", layer="default")),
}


def test_a_translation_that_accounts_for_everything_passes() -> None:
    """Mapped, adjusted, unused, core's own, defaults and empty groups need no more; a group speaks for its entries."""
    hooks.check_translation(module(**PARAMS), translated(**GOOD), {"text_field"})


@pytest.mark.parametrize(
    ("params", "rows", "said"),
    [
        ({"seed": leaf(1, line=8)}, {}, "`seed` (e.yaml:8) is neither mapped, adjusted nor unused"),
        ({}, {"unused": (Unused(path="lr", why=""), *GOOD["unused"])}, "`lr` (e.yaml:5) is mapped and unused"),
        (
            {"lr": leaf(0.2)},
            {"mapping": (Mapped(path="lr", native="LR", value=0.2),)},
            "= 0.2, and the native value is 0.1",
        ),
        ({}, {"mapping": (Mapped(path="lr", native="Lr", value=0.1),)}, "`Lr`, which is not among the native values"),
        ({"lr": leaf(0.3)}, {}, "`lr` is 0.3 (e.yaml:5), and is mapped as 0.1"),
        ({"lr": leaf(None)}, {}, "`lr` is None (e.yaml:5), and is mapped as 0.1"),
        ({"lr.a": leaf(0.1)}, {}, "`lr.a` is 0.1 (e.yaml:5), and is mapped as None"),
        (
            {},
            {"adjusted": (Adjusted(path="fused", native="LR", asked=True, used=0.2, why="cpu"),)},
            "`fused` is adjusted to `LR` = 0.2, and the native value is 0.1",
        ),
    ],
)
def test_a_parameter_without_one_fate_is_the_back_ends_fault(
    params: dict[str, Leaf], rows: dict[str, object], said: str
) -> None:
    """A parameter that is lost, told twice, or promised another value than the library gets is named."""
    with pytest.raises(DependencyError, match="'fake'") as caught:
        hooks.check_translation(module(**{**PARAMS, **params}), translated(**{**GOOD, **rows}), {"text_field"})
    assert caught.value.why.splitlines() == [line for line in caught.value.why.splitlines() if line]
    assert said in caught.value.why
    assert len(caught.value.why.splitlines()) == 1


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (leaf("50"), 50),
        (leaf(50), 50.0),
        (Leaf(value=1000.0, text="1e3", origin=Origin(file="e.yaml")), 1000),
        (Leaf(value=123, text="0123", origin=Origin(file="e.yaml")), "0123"),
        (leaf("a2a"), ["a2a"]),
        (leaf([1, "2"]), [1, 2]),
        (leaf(["a", 1, True]), ["a", 1, True]),
        (leaf([]), []),
        (leaf(None), None),
        (leaf(True), True),
        (leaf({"b": 1}), {"b": 1}),
    ],
)
def test_a_value_that_was_only_typed_is_the_one_that_was_set(asked: Leaf, told: Value) -> None:
    """A mapped row has the typed value, which is no change."""
    row = Mapped(path="a", native="A", value=told)
    hooks.check_translation(
        module(a=asked), Translation(native={"A": told}, entry="x:y", layout=Layout(), mapping=(row,)), ()
    )


def test_a_group_is_mapped_with_its_entries() -> None:
    """The row of a group has the value of each entry."""
    native: dict[str, Value] = {"P": {"a": {"b": 1}, "c": "x"}}
    row = Mapped(path="p", native="P", value=native["P"])
    translation = Translation(native=native, entry="x:y", layout=Layout(), mapping=(row,))
    hooks.check_translation(module(**{"p.a.b": leaf(1), "p.c": leaf("x")}), translation, ())
    with pytest.raises(DependencyError) as caught:
        hooks.check_translation(module(**{"p.a.b": leaf(2), "p.c": leaf("x")}), translation, ())
    assert caught.value.why == "`p.a.b` is 2 (e.yaml:5), and is mapped as 1"
