"""What is wrong with an experiment is told in one go: what, where, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from primus_core.errors import ErrorGroup, ExitCode, PrimusError
from primus_core.resolve import resolve
from primus_core.screens import problem_lines
from tests.core.resolving import resolved

HEAD = "work_group: team\nuser_name: me\nexp_name: first\nworkspace: out\n"
MODULE = "modules:\n  pre_trainer:\n    framework: megatron\n    config: trainer.yaml\n    model: tiny.yaml\n"

Problems = Callable[..., list[PrimusError]]


@pytest.fixture
def problems(tmp_path: Path) -> Problems:
    """Write ``exp.yaml`` and other files, and give the errors of resolving it."""

    def run(exp: str, *overrides: str, **files: str) -> list[PrimusError]:
        files = {"trainer": "lr: 1\n", "tiny": "hidden_size: 128\n", "exp": exp, **files}
        for name, text in files.items():
            (tmp_path / f"{name}.yaml").write_text(text)
        with pytest.raises(PrimusError) as raised:
            resolve(
                "exp.yaml", overrides=overrides, env={"SET": ""}, preset_dirs=lambda framework: [], cwd=str(tmp_path)
            )
        assert raised.value.exit_code == ExitCode.USAGE
        return list(raised.value.errors) if isinstance(raised.value, ErrorGroup) else [raised.value]

    return run


def told(errors: list[PrimusError]) -> list[str]:
    assert all(error.remedy for error in errors)
    return [str(error) for error in errors]


def test_missing_keys(problems: Problems) -> None:
    """Every required key that is missing or empty is named."""
    errors = problems(
        "work_group: team\nexp_name: ${SET}\nmodules:\n  pre_trainer:\n    framework: megatron\n    model:\n"
    )
    assert told(errors) == [
        "exp.yaml: `user_name` is missing",
        "exp.yaml:2: `exp_name` is empty",
        "exp.yaml: `workspace` is missing",
        "exp.yaml: `modules.pre_trainer.config` is missing",
        "exp.yaml:6: `modules.pre_trainer.model` is empty",
    ]
    assert told(problems(HEAD)) == ["exp.yaml: `modules` is missing"]
    assert told(problems(HEAD + "modules: {}\n")) == ["exp.yaml: `modules` is missing"]


def test_unknown_keys(problems: Problems) -> None:
    """Unknown keys are named with their line and the nearest key."""
    errors = problems(HEAD + "enviroment: {}\nmodels: {}\n" + MODULE + "    override: {lr: 1}\n    zzz: 1\n")
    assert [(str(error), error.remedy) for error in errors] == [
        ("exp.yaml:5: unknown key `enviroment`", errors[0].remedy),
        ("exp.yaml:6: unknown key `models`", "did you mean `modules`?"),
        ("exp.yaml:12: unknown key `override`", "did you mean `overrides`?"),
        (
            "exp.yaml:13: unknown key `zzz`",
            "a module has the keys framework, config, model, overrides; "
            "a parameter belongs below `overrides`, as in `overrides.zzz`",
        ),
    ]


@pytest.mark.parametrize("name", ["../../x", "a/b", "..", ".", "/abs", "' x'", '"a\\nb"', "é" * 150])
@pytest.mark.parametrize("key", ["work_group", "user_name", "exp_name"])
def test_names_are_single_folders(problems: Problems, key: str, name: str) -> None:
    """A name that leaves the workspace or makes no folder is refused with its line."""
    lines = [f"{key}: {name}" if line.startswith(key) else line for line in HEAD.splitlines()]
    (error,) = problems("\n".join(lines) + "\n" + MODULE)
    assert error.what.startswith(f"`{key}` cannot be ")
    assert error.where == f"exp.yaml:{[line[:6] for line in lines].index(key[:6]) + 1}"


def test_names_on_the_command_line_and_of_modules(problems: Problems) -> None:
    """Names are checked wherever they come from."""
    (error,) = problems(HEAD + MODULE, "exp_name=../../x")
    assert str(error) == "command line: `exp_name` cannot be '../../x'"
    (error,) = problems(HEAD + MODULE.replace("pre_trainer:", "../x:"))
    assert str(error) == "exp.yaml:6: a module's name cannot be '../x'"


def test_wrong_shapes(problems: Problems) -> None:
    """A list or text where a map belongs, and the reverse, are all named."""
    errors = problems(
        "work_group: [a]\nuser_name: {a: b}\nenv: [A]\ndirect: 5\n"
        "modules:\n  one: x\n  two:\n    framework: [x]\n    overrides: [lr]\n"
    )
    assert told(errors) == [
        "exp.yaml:1: `work_group` takes text",
        "exp.yaml:2: `user_name` takes text",
        "exp.yaml:3: `env` takes a map",
        "exp.yaml:4: `direct` takes a map",
        "exp.yaml:6: `modules.one` takes a map",
        "exp.yaml:8: `framework` takes text",
        "exp.yaml:9: `modules.two.overrides` takes a map",
    ]


def test_environment_variables(problems: Problems) -> None:
    """Names that no shell knows and values that are no text are refused."""
    errors = problems(HEAD + "env: {A-B: 1, C: [1], D: {a: b}}\n" + MODULE)
    assert told(errors) == [
        "exp.yaml:5: `A-B` is no name of an environment variable",
        "exp.yaml:5: `env.C` takes text",
        "exp.yaml:5: `env.D` takes text",
    ]


def test_unset_variables(problems: Problems) -> None:
    """Every unset variable is named with file, line and a way out; broken references are too."""
    errors = problems(
        HEAD + MODULE + "    overrides:\n      a: x/${NOPE}\n      b: ['${NADA}']\n      c: ${1X}\n      d: ${A:b\n"
    )
    assert told(errors)[:2] == [
        "exp.yaml:11: the environment variable NOPE is not set",
        "exp.yaml:12: the environment variable NADA is not set",
    ]
    assert errors[0].why == "`x/${NOPE}` needs it"
    assert "${NOPE:default}" in errors[0].remedy
    assert [error.what for error in errors[2:]] == [
        "`${1X}`: a `${` that is no reference",
        "`${A:b`: a brace is not closed",
    ]


def test_unset_variables_of_presets(problems: Problems) -> None:
    """A variable that a preset needs is named with the preset's line."""
    assert told(problems(HEAD + MODULE, tiny="a: 1\nb: ${NOPE}\n")) == [
        "tiny.yaml:2: the environment variable NOPE is not set"
    ]


def test_extends_in_a_circle(problems: Problems) -> None:
    """A circle of extends is shown as a chain, from the line that closes it."""
    (error,) = problems("extends: a.yaml\n", a="extends: [b.yaml]\n", b="env: {}\nextends: ./a.yaml\n")
    assert told([error]) == ["b.yaml:2: `extends` goes in a circle"]
    assert error.why == "a.yaml -> b.yaml -> a.yaml"
    (error,) = problems("extends: exp.yaml\n")
    assert error.why == "exp.yaml -> exp.yaml"


def test_extends_of_presets_in_a_circle(problems: Problems) -> None:
    """Presets may not extend each other in a circle either."""
    (error,) = problems(HEAD + MODULE, tiny="extends: small.yaml\n", small="extends: tiny.yaml\n")
    assert error.why == "tiny.yaml -> small.yaml -> tiny.yaml"


def test_extends_that_lead_nowhere(problems: Problems) -> None:
    """A missing base and a base that is no name are errors of the line that names it."""
    (error,) = problems("work_group: x\nextends:\n  - nope.yaml\n")
    assert str(error) == "exp.yaml:3: `extends` names a file that does not exist: nope.yaml"
    (error,) = problems("extends: {a: b}\n")
    assert str(error) == "exp.yaml:1: `extends` takes a file name or a list of them"


def test_a_flood_of_extends(problems: Problems) -> None:
    """Bases that multiply are refused before they take long."""
    files = {f"f{i}": f"extends: [f{i + 1}.yaml, f{i + 1}.yaml]\n" for i in range(40)}
    (error,) = problems("extends: f0.yaml\n", **files, f40="env: {}\n")
    assert error.what == "more than 100 files"


def test_missing_presets(problems: Problems) -> None:
    """Missing presets are told together, with where they were searched and the nearest name."""
    errors = problems(HEAD + MODULE.replace("trainer.yaml", "trainr.yaml").replace("tiny.yaml", "Tiny2.yaml"))
    assert told(errors) == [
        "exp.yaml:8: there is no preset `trainr.yaml`",
        "exp.yaml:9: there is no preset `Tiny2.yaml`",
    ]
    assert errors[0].remedy == "did you mean `trainer.yaml`?"
    assert errors[0].why.startswith("looked in:\n")


def test_an_experiment_is_no_preset(problems: Problems) -> None:
    """A preset's name that means an experiment is answered so, and neither it nor a broken file is recommended."""
    other, broken = HEAD + MODULE, "lr: [\n"
    exp = HEAD + MODULE.replace("tiny.yaml", "quux.yaml")
    (error,) = problems(exp, quux=other, quuz=broken)
    assert told([error]) == ["exp.yaml:9: there is no preset `quux.yaml`"]
    assert error.why.startswith("quux.yaml is an experiment\nlooked in:\n")
    assert error.remedy == "name one of: tiny.yaml, trainer.yaml"


def test_parameters_in_two_spellings(problems: Problems) -> None:
    """A parameter that is set both dotted and nested is refused with both lines."""
    (error,) = problems(HEAD + MODULE + "    overrides:\n      a: {b: 1}\n      a.b: 2\n")
    assert str(error) == "exp.yaml:12: `a.b` is written twice"
    assert error.why == "it is set on line 11 and again on line 12"


@pytest.mark.parametrize(
    ("word", "what"),
    [
        ("lr", "`lr` is no override"),
        ("=5", "`=5` is no override"),
        ("a..b=5", "`a..b=5` is no override"),
        ("a" + ".a" * 2000 + "=5", "is no override"),
        ("lr=[1,", "`lr`: not valid YAML"),
        ("env=5", "`env` takes a map"),
        ("modules.pre_trainer.override=5", "unknown key `override`"),
        ("modules.pre_trainr.model=x", "unknown key `modules.pre_trainr`"),
        ("exp_name=[a]", "`exp_name` takes text"),
        ("exp_name=", "`exp_name` is empty"),
        ("model=nope.yaml", "there is no preset `nope.yaml`"),
    ],
)
def test_wrong_words_of_the_command_line(problems: Problems, word: str, what: str) -> None:
    """A word that is no override, or sets what cannot be set, is an error of the command line."""
    (error,) = problems(HEAD + MODULE, word)
    assert what in error.what
    assert error.where == "command line"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing experiment and a folder are errors that name them."""
    for name, what in {"nope.yaml": "the file does not exist", ".": "not a regular file"}.items():
        with pytest.raises(PrimusError, match=what) as raised:
            resolve(name, env={}, preset_dirs=lambda framework: [], cwd=str(tmp_path))
        assert raised.value.where == name
        assert raised.value.exit_code == ExitCode.USAGE


def test_deeply_nested_parameters(problems: Problems) -> None:
    """Dots that nest deeper than any library does are refused."""
    (error,) = problems(HEAD + MODULE + f"    overrides:\n      a{'.a' * 400}: 1\n")
    assert error.what.endswith("has too many dots")


@pytest.mark.parametrize("name", ["pretrainer", "pre-trainer", "PreTrainer", "pre_train", "sft_trainr", "posttrainer"])
def test_a_misspelled_module_is_refused(problems: Problems, name: str) -> None:
    """A name that nearly is one which commands look for is refused with its line and that name."""
    (error,) = problems(HEAD + MODULE.replace("pre_trainer:", f"{name}:"))
    assert str(error) == f"exp.yaml:6: unknown key `modules.{name}`"
    assert error.remedy.startswith("did you mean `modules.")


@pytest.mark.parametrize("name", ["trainer", "my_trainer", "pre_trainer_2", "größe"])
def test_a_module_may_have_any_other_name(tmp_path: Path, name: str) -> None:
    """Names of one's own are no mistakes."""
    exp = HEAD + MODULE.replace("pre_trainer:", f"{name}:")
    assert list(resolved(tmp_path, exp).modules) == [name]


def test_a_key_that_cannot_be_read(problems: Problems) -> None:
    """A key with a line break or a blank that is none is refused where it stands, in files and on the command line."""
    for key, shown in {'"l\\nr"': "'\\n'", "lr\u00a0": "'\\xa0'", "l\u200br": "'\\u200b'"}.items():
        (error,) = problems(HEAD + MODULE + f"    overrides:\n      {key}: 1\n")
        assert str(error) == f"exp.yaml:11: a key has a character that cannot be seen: {shown}"
    (error,) = problems(HEAD + MODULE, "l\nr=1")
    assert error.what == "`l\nr=1` is no override"


@pytest.mark.parametrize(("path", "folder"), [("e\udcff.yaml", ""), ("exp.yaml", "\udcff")])
def test_a_path_of_other_bytes(tmp_path: Path, path: str, folder: str) -> None:
    """A path that no plan can hold is refused."""
    with pytest.raises(PrimusError, match="a path is not UTF-8 text") as raised:
        resolve(path, env={}, preset_dirs=lambda framework: [], cwd=str(tmp_path / folder))
    assert "\\udcff" in raised.value.where


def test_an_error_is_never_more_than_a_screen(problems: Problems) -> None:
    """A value of thousands of characters is cut where an error shows it."""
    lines = problem_lines(problems(HEAD.replace("first", "x" * 5000) + MODULE))
    assert max(map(len, lines)) < 500
    assert lines[0].startswith("error: `exp_name` cannot be 'xxx")
    assert lines[0].endswith("x...")


def test_a_group_with_errors_only(problems: Problems) -> None:
    """A map of which every entry is refused leaves nothing that could clash."""
    deep = f"a{'.a' * 400}"
    errors = problems(
        HEAD + MODULE + f"    overrides:\n      x: {{y: 5}}\n      x.y: {{{deep}: 1}}\n      z.b: 1\n      z: 2\n"
    )
    assert [error.what[-19:] for error in errors] == ["` has too many dots", "z` is written twice"]
