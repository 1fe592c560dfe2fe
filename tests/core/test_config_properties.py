"""What holds for every experiment: a resolved file means the same, and every value has an origin."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from primus_core import discovery
from primus_core.errors import PrimusError
from primus_core.experiment import Experiment, Leaf
from primus_core.explain.explanation import explain
from primus_core.explain.leaves import leaves
from primus_core.explain.vocabulary import Vocabulary, vocabulary
from primus_core.pipeline import Judged, Scope, judge
from primus_core.planning.accelerators import Found
from primus_core.planning.job import Request
from primus_core.resolve import resolve
from primus_core.yamlfile import dump_experiment, written

HEAD = "work_group: team\nuser_name: me\nexp_name: {name}\nworkspace: out\n"
MODULE = "modules:\n  trainer:\n    framework: {framework}\n    config: {config}\n    model: {model}\n    overrides:\n"
PRESETS = {"how.yaml": "lr: 1\nrope: {base: 2, scale: 3}\nflag: true\n", "what.yaml": "width: 128\nrope: {kind: x}\n"}

VARIABLES = {"TEXT": "a b", "NUMBER": "0123", "LIST": "[1, 1e5, 'x']", "EMPTY": ""}
TRICKY = (
    *(
        "True",
        "'True'",
        "0123",
        "'0123'",
        "1e5",
        "'1e5'",
        "null",
        "'null'",
        "~",
        "''",
        "no",
        "12:00:00",
        "0x1F",
        ".inf",
    ),
    *("-.5", "1.0e-8", "${NUMBER}", "x-${TEXT}", "${LIST}", "${EMPTY}", "'$${TEXT}'", "a$b", "'$$${X}'", "'{}'"),
)
SCALARS = st.one_of(
    st.sampled_from(TRICKY),
    st.text(max_size=12).map(written),
    st.integers().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(map(_inside, items))}]"),
        st.dictionaries(st.text(min_size=1, max_size=4), inner, max_size=3).map(
            lambda entries: f"{{{', '.join(f'{written(key)}: {_inside(one)}' for key, one in entries.items())}}}"
        ),
    ),
    max_leaves=6,
)
NAMES = st.one_of(
    st.sampled_from(["lr", "rope", "rope.base", "width", "flag", "new", "a.b"]),
    st.text("abc_-", min_size=1, max_size=6),
)


def _inside(text: str) -> str:
    """Braces of a reference need quotes between brackets."""
    return f'"{text}"' if text.startswith(("$", "x-$")) else text


def load(folder: Path, text: str) -> Experiment:
    (folder / "exp.yaml").write_text(text, encoding="utf-8")
    return resolve("exp.yaml", env=VARIABLES, preset_dirs=lambda framework: (), cwd=str(folder))


def meaning(experiment: Experiment) -> object:
    """Everything but the places."""
    module = experiment.modules["trainer"]
    sections = (module.params, experiment.env, *(experiment.launchers[name] for name in sorted(experiment.launchers)))
    words = [getattr(experiment, name) for name in ("work_group", "user_name", "exp_name", "workspace")]
    return repr([words, module.framework, module.config, module.model, sorted(module.unset), *map(plain, sections)])


def plain(section: Mapping[str, Leaf]) -> list[tuple[str, Any, Any]]:
    return [(key, leaf.value, leaf.text) for key, leaf in sorted(section.items())]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("experiments")
    for name, text in PRESETS.items():
        (made / name).write_text(text)
    return made


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(parameters=st.dictionaries(NAMES, st.one_of(VALUES, st.just("!unset")), max_size=6), data=st.data())
def test_a_resolved_file_resolves_to_the_same(folder: Path, parameters: dict[str, str], data: st.DataObject) -> None:
    """Load, show, load: the same values, types and notations, and nothing that was taken away comes back."""
    env = data.draw(st.dictionaries(st.from_regex(r"[A-Z_][A-Z0-9_]{0,5}", fullmatch=True), SCALARS, max_size=2))
    known = {"lr", "rope", "rope.base", "width", "flag"}
    lines = [
        f"      {written(key)}: {value}\n" for key, value in parameters.items() if value != "!unset" or key in known
    ]
    text = HEAD.format(name="first") + "".join(["env:\n", *(f"  {name}: {value}\n" for name, value in env.items())])
    text += MODULE.format(framework="any", config="how.yaml", model="what.yaml") + "".join(lines)
    try:
        first = load(folder, text)
    except PrimusError:  # generated names clash; what is refused is tested elsewhere
        return
    for origins in (False, True):
        assert meaning(load(folder, dump_experiment(first, origins=origins))) == meaning(first)


@cache
def _judged() -> tuple[Judged, Vocabulary]:
    """A tiny experiment of the Megatron back end."""
    root = Path(__file__).parents[2]
    plugins = discovery.scan()
    experiment = resolve(
        "examples/llama-tiny.yaml",
        overrides=["env.NCCL_DEBUG=INFO", "stderr_sink_level=ERROR"],
        env={},
        preset_dirs=lambda framework: discovery.preset_dirs(plugins, framework),
        cwd=str(root),
    )
    return _judge(experiment, plugins)


def _judge(experiment: Experiment, plugins: discovery.Plugins) -> tuple[Judged, Vocabulary]:
    request = Request(launcher="single", run_id="x")
    scope = Scope(request=request, found=Found(kind="cuda", count=8), launcher=False, preflight=False, files=False)
    judged = judge(experiment, plugins, scope)
    return judged, vocabulary(judged.hosts, judged.hosts.library_version())


PARAMETERS = sorted(name for name in _judged()[1].parameters if "." not in name)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(names=st.lists(st.sampled_from(PARAMETERS), max_size=20, unique=True))
def test_every_value_is_explained(names: list[str]) -> None:
    """Every leaf of an experiment has an origin, by its path; every parameter of the library has an explanation."""
    (judged, words), plugins = _judged(), discovery.scan()
    module = judged.module
    added = {name: evolve(module.params["lr"], value=words.parameters[name].default, text=None) for name in names}
    changed = evolve(module, params={**module.params, **{k: v for k, v in added.items() if k not in module.params}})
    judged, words = _judge(evolve(judged.experiment, modules={module.name: changed}), plugins)
    for path, leaf in leaves(judged.experiment).items():
        told = explain(judged, words, path)
        assert told.set_by is not None, path
        assert told.set_by.origin == str(leaf.origin), path
        assert told.path == path
        assert told.fate != "unset"
    for name in names:
        assert explain(judged, words, name).parameter is not None
