"""Mistakes that users make: one screen, the right exit code, nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.support import Primus

EXPERIMENT = """\
work_group: team
user_name: ${MY_USER:me}
exp_name: exp
workspace: ./out
modules:
  pre_trainer:
    framework: megatron
    config: pre_trainer.yaml
    model: llama_tiny.yaml
    overrides:
      train_data_path: text.txt
      train_iters: 10
      lr: 1e-3
      micro_batch_size: 2
      global_batch_size: 4
"""

ADDED = "      lr: 1e-3\n"


def add(line: str) -> tuple[str, str]:
    return ADDED, f"{ADDED}      {line}\n"


FILE_CASES = {
    "required key missing": ("work_group: team\n", "", ["work_group"]),
    "unknown key": (*add("mock_date: true"), ["exp.yaml:14", "mock_date", "mock_data"]),
    "unknown section": ("    overrides:", "    override:", ["exp.yaml:10", "override", "overrides"]),
    "unknown launcher option": (
        "modules:\n",
        "direct:\n  gpus_per_nodes: 4\nmodules:\n",
        ["exp.yaml:6", "direct.gpus_per_nodes", "`direct.gpus_per_node`"],
    ),
    "no number": ("lr: 1e-3", "lr: .nan", ["exp.yaml:13", "`lr` cannot be .nan", "finite"]),
    "wrong type": ("train_iters: 10", "train_iters: fifty", ["exp.yaml:12", "train_iters", "fifty", "whole number"]),
    "undefined variable": ("${MY_USER:me}", "${MY_USER}", ["exp.yaml:2", "MY_USER"]),
    "duplicate key": (*add("lr: 2e-3"), ["exp.yaml:14", "lr", "13"]),
    "unknown framework": (
        "framework: megatron",
        "framework: megatrom",
        ["exp.yaml:7", "megatrom", "megatron", "primus-backend-"],
    ),
    "unknown preset": ("model: llama_tiny.yaml", "model: lama_tiny.yaml", ["lama_tiny.yaml", "llama_tiny.yaml"]),
    "path in a name": ("exp_name: exp", "exp_name: ../../x", ["exp.yaml:3", "exp_name", "../../x"]),
    "missing data": ("train_data_path: text.txt", "train_data_path: texts.txt", ["exp.yaml:11", "texts.txt"]),
    "empty data": ("train_data_path: text.txt", "train_data_path: empty.txt", ["exp.yaml:11", "empty.txt"]),
    "no data": ("      train_data_path: text.txt\n", "", ["train_data_path", "mock_data"]),
    "batch": ("global_batch_size: 4", "global_batch_size: 5", ["exp.yaml:15", "global_batch_size", "4 or 8"]),
    "world size": (*add("tensor_model_parallel_size: 3"), ["exp.yaml:14", "tensor_model_parallel_size"]),
    "extends itself": ("work_group: team", "extends: exp.yaml\nwork_group: team", ["exp.yaml", "extends"]),
}


def write(tmp_path: Path, old: str = "", new: str = "") -> Path:
    (tmp_path / "text.txt").write_text("some text to learn\n" * 500)
    (tmp_path / "empty.txt").touch()
    assert old in EXPERIMENT
    path = tmp_path / "exp.yaml"
    path.write_text(EXPERIMENT.replace(old, new, 1) if old else EXPERIMENT)
    return path


def check_screen(text: str, fragments: list[str]) -> None:
    assert text.startswith("error: ")
    assert "Traceback" not in text
    assert len(text.splitlines()) <= 24
    for fragment in fragments:
        assert fragment in text


@pytest.mark.parametrize("case", FILE_CASES)
def test_mistake_in_the_file(case: str, primus: Primus, tmp_path: Path) -> None:
    """A mistake in the experiment is told in one screen that names place and remedy; exit 2; nothing is written."""
    old, new, fragments = FILE_CASES[case]
    write(tmp_path, old, new)
    done = primus("run", "exp.yaml", "--nproc", "2", MY_UNSET="")
    assert done.returncode == 2, done.stderr
    check_screen(done.stderr, fragments)
    assert done.stdout == ""
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "content", "fragment"),
    [
        ("absent.yaml", None, "absent.yaml"),
        ("empty.yaml", b"", "empty"),
        ("list.yaml", b"- a\n- b\n", "list"),
        ("latin.yaml", "exp_name: caf\xe9\n".encode("latin-1"), "UTF-8"),
    ],
)
def test_no_experiment_at_all(name: str, content: bytes | None, fragment: str, primus: Primus, tmp_path: Path) -> None:
    """A file that holds no experiment is refused with its name."""
    if content is not None:
        (tmp_path / name).write_bytes(content)
    done = primus("run", name)
    assert done.returncode == 2
    check_screen(done.stderr, [name, fragment])


def test_heads_that_tensor_parallel_does_not_divide(primus: Primus, tmp_path: Path) -> None:
    """Heads that do not divide over tensor-parallel ranks are refused with both keys and the nearest legal sizes."""
    write(tmp_path, *add("tensor_model_parallel_size: 3"))
    done = primus(
        "run", "exp.yaml", "--nproc", "3", "num_attention_heads=32", "num_query_groups=32", "global_batch_size=4"
    )
    assert done.returncode == 2
    check_screen(done.stderr, ["num_attention_heads", "tensor_model_parallel_size", "exp.yaml:14"])


def test_several_mistakes_are_told_together(primus: Primus, tmp_path: Path) -> None:
    """Two independent mistakes cost one attempt, not two."""
    write(tmp_path, ADDED, "      lr: fast\n      mock_date: true\n")
    done = primus("run", "exp.yaml")
    assert done.returncode == 2
    check_screen(done.stderr, ["exp.yaml:13", "exp.yaml:14"])


def test_plugin_that_fails_to_import(primus: Primus, tmp_path: Path) -> None:
    """A named plugin that cannot be imported ends with exit 1 and its own last line; unnamed it hurts nobody."""
    package = tmp_path / "plugins"
    info = package / "broken_backend-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-backend\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[primus.backends]\nbroken = broken_backend\n")
    (package / "broken_backend.py").write_text("import a_library_that_is_missing\n")
    write(tmp_path, "framework: megatron", "framework: broken")
    done = primus("run", "exp.yaml", PYTHONPATH=str(package))
    assert done.returncode == 1
    check_screen(done.stderr, ["broken-backend", "a_library_that_is_missing"])
    write(tmp_path)
    assert primus("run", "exp.yaml", "--dry-run", PYTHONPATH=str(package)).returncode == 0


def test_unknown_argument(primus: Primus) -> None:
    """A misspelt option is refused with exit 2 and where to look."""
    done = primus("run", "exp.yaml", "--nproc", "two")
    assert done.returncode == 2
    check_screen(done.stderr, ["--nproc", "--help"])


def test_unknown_command(primus: Primus) -> None:
    """A misspelt command is answered with the nearest one."""
    done = primus("plugin")
    assert done.returncode == 2
    check_screen(done.stderr, ["'plugin'", "primus plugins"])
