"""Whatever stands in files, words and variables: an experiment whose values know where they are from, or an error."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from primus_core.errors import ConfigError, ErrorGroup, PrimusError
from primus_core.experiment import Experiment, Value
from primus_core.resolve import resolve
from primus_core.yamlfile import written
from tests.core.resolving import OVERRIDES

BOUNDED = settings(
    max_examples=40, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
KEYS = st.from_regex(r"[a-z_]{1,6}", fullmatch=True)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=10)
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3))
TEXT = st.text(alphabet="ab:-[]{}&*!|>?'\"%@`,#~<.=$ \n\t01é😀", max_size=40)


def attempt(folder: Path, words: tuple[str, ...] = (), **variables: str) -> Experiment | list[PrimusError]:
    """What ``exp.yaml`` gives; nothing but configuration errors may be raised."""
    try:
        return resolve("exp.yaml", overrides=words, env=variables, preset_dirs=lambda framework: [], cwd=str(folder))
    except ErrorGroup as group:
        return list(group.errors)
    except ConfigError as error:
        return [error]


def is_told(error: PrimusError) -> bool:
    return isinstance(error, ConfigError) and bool(error.what and error.where and error.remedy)


def presets(folder: Path, trainer: bytes = b"seed: 1\n") -> None:
    (folder / "trainer.yaml").write_bytes(trainer)
    (folder / "tiny.yaml").write_text("hidden_size: 128\n")


@BOUNDED
@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=5))
def test_every_leaf_knows_its_line(tmp_path: Path, params: dict[str, Value]) -> None:
    """A parameter is from the line that its key stands on, as it was written."""
    presets(tmp_path)
    lines = [f"      {key}: {written(value)}" for key, value in params.items()]
    text = OVERRIDES + "\n".join(lines) + "\n"
    (tmp_path / "exp.yaml").write_text(text, encoding="utf-8")
    experiment = attempt(tmp_path)
    assert isinstance(experiment, Experiment)
    for path, leaf in experiment.modules["pre_trainer"].params.items():
        source = (tmp_path / leaf.origin.file).read_text(encoding="utf-8").split("\n")[leaf.origin.line - 1]
        key, *inside = path.split(".")
        if leaf.origin.file != "exp.yaml":
            assert source.startswith(f"{key}: ")
            continue
        assert source.startswith(f"      {key}: ")
        value = params[key]
        for part in inside:
            assert isinstance(value, dict)
            value = value[part]
        assert leaf.value == value
        assert leaf.origin.layer == "overrides"


@BOUNDED
@given(TEXT | st.text(max_size=30), TEXT, TEXT | st.text(st.characters(exclude_characters="\0"), max_size=20))
@example("x: ${A}", "a=${A}", "[1, ${A}]")
@example("<<: {a: !unset }", "rope={a: !unset }", "")
def test_any_text_word_and_variable(tmp_path: Path, text: str, word: str, variable: str) -> None:
    """Any text among the parameters, any word and any variable give an experiment or errors with place and remedy."""
    presets(tmp_path)
    content = f"{OVERRIDES}      x: ${{A}}\n      y: a${{A:b}}\n      {text}\n"
    (tmp_path / "exp.yaml").write_text(content, encoding="utf-8", errors="replace")
    got = attempt(tmp_path, (word, f"x={word}"), A=variable)
    assert isinstance(got, Experiment) or all(map(is_told, got))


@BOUNDED
@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_in_experiment_and_preset(tmp_path: Path, ending: bytes, preset: bytes) -> None:
    """Any bytes after an experiment and in a preset give an experiment or errors with place and remedy."""
    presets(tmp_path, preset)
    (tmp_path / "exp.yaml").write_bytes(OVERRIDES.encode() + ending)
    got = attempt(tmp_path)
    assert isinstance(got, Experiment) or all(map(is_told, got))
