"""One experiment with either back end: `--framework`, and what the commands tell of both."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from primus_core.cli.main import main
from tests.e2e.support import EXAMPLE

EXPERIMENT = """\
work_group: team
user_name: me
exp_name: first
workspace: ./output
modules:
  pre_trainer:
    framework: {framework}
    config: {config}
    model: {model}
    overrides:
"""

Run = Callable[..., "Answer"]
Write = Callable[..., str]


class Answer:
    """What one command line left behind."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def primus_main(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `primus ...` in the test's folder."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str | Path) -> Answer:
        code = main(list(map(str, words)))
        return Answer(code, *capsys.readouterr())

    return run


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes an experiment file; returns its name."""

    def to_file(
        *lines: str, framework: str = "torchtitan", config: str = "pre_trainer.yaml", model: str = "llama_tiny.yaml"
    ) -> str:
        head = EXPERIMENT.format(framework=framework, config=config, model=model)
        (tmp_path / "exp.yaml").write_text(head + "".join(f"      {line}\n" for line in lines))
        return "exp.yaml"

    return to_file


# --- --framework


@pytest.mark.parametrize("command", [("plan",), ("patches",), ("config", "show"), ("config", "translate")])
def test_the_option_is_the_override(command: tuple[str, ...], primus_main: Run, write: Write) -> None:
    """`--framework F` means what `framework=F` means, in every command that takes an experiment."""
    name = write("mock_data: true", framework="megatron")
    more = () if command[0] == "config" else ("--run-id", "same")
    by_option = primus_main(*command, name, "--framework", "torchtitan", *more)
    by_override = primus_main(*command, name, "framework=torchtitan", *more)
    assert by_option.code == 0, by_option.err
    assert "torchtitan" in by_option.out
    assert re.sub(r"master_port\D+\d+", "", by_option.out) == re.sub(r"master_port\D+\d+", "", by_override.out)


def test_a_dry_run_repeats_the_option(primus_main: Run) -> None:
    """The printed command makes the same plan."""
    done = primus_main("run", EXAMPLE, "--framework", "torchtitan", "--dry-run")
    assert done.code == 0, done.err
    assert "--framework torchtitan" in next(line for line in done.out.splitlines() if line.startswith("primus plan"))


def test_a_back_end_that_is_not_there_is_named(primus_main: Run, write: Write) -> None:
    """The nearest installed one is the remedy."""
    done = primus_main("run", write("mock_data: true"), "--framework", "torchtitn")
    assert done.code == 2
    assert "torchtitn" in done.err
    assert "torchtitan" in done.err.replace("torchtitn", "")


# --- explain


def test_explain_tells_the_key_and_value_of_both(primus_main: Run, write: Write) -> None:
    """A portable parameter is one name for the native ones of every installed back end."""
    told = primus_main("config", "explain", write("mock_data: true", "seq_length: 64"), "seq_length").out
    assert re.search(r"^  torchtitan +training.seq_len = 64$", told, re.MULTILINE)
    assert re.search(r"^  with megatron +seq_length = 64$", told, re.MULTILINE)


def test_explain_tells_another_value_of_the_other_back_end(primus_main: Run, write: Write) -> None:
    """What one takes as it is, the other may call otherwise, with its reason."""
    name = write("mock_data: true", "bf16: true", framework="megatron")
    answer = json.loads(primus_main("config", "explain", name, "bf16", "--format", "json").out)
    assert (answer["native"], answer["native_value"]) == ("bf16", True)
    (other,) = answer["elsewhere"]
    assert (other["framework"], other["fate"]) == ("torchtitan", "adjusted")
    assert (other["native"], other["native_value"]) == ("training.mixed_precision_param", "bfloat16")


def test_explain_says_where_an_experiment_is_none_for_the_other(primus_main: Run, write: Write) -> None:
    """A name that only one back end has is what the other refuses."""
    name = write("mock_data: true", "training.gc_freq: 7")
    told = primus_main("config", "explain", name, "seq_length").out
    assert re.search(r"^  with megatron +cannot train it \(unknown parameter `training.gc_freq`\)$", told, re.MULTILINE)


def test_explain_finds_a_portable_name_under_its_native_one(primus_main: Run, write: Write) -> None:
    """Whoever asks for the portable name learns of the native one that is set, and the other way round."""
    name = write("training:", "  global_batch_size: 16", "mock_data: true", "micro_batch_size: 1")
    by_portable = primus_main("config", "explain", name, "global_batch_size").out
    assert by_portable.startswith("global_batch_size: 16  (set as training.global_batch_size)")
    by_native = primus_main("config", "explain", name, "training.local_batch_size").out
    assert by_native.startswith("training.local_batch_size: 1  (set as micro_batch_size)")


# --- translate


def test_translate_accounts_for_every_parameter(primus_main: Run, write: Write) -> None:
    """Each parameter that is set has one row, with what the library gets of it or why it gets nothing."""
    name = write("mock_data: true", "bf16: true", "tokenizer_type: ByteLevelTokenizer", framework="megatron")
    told = primus_main("config", "translate", name, "--to", "torchtitan", "--format", "json")
    assert told.code == 0, told.err
    found = json.loads(told.out)
    shown = json.loads(primus_main("config", "show", name, "--format", "json", "--framework", "torchtitan").out)
    asked = [row["path"] for row in found["rows"] if row["path"]]
    assert sorted(asked) == sorted(shown["modules"]["pre_trainer"]["overrides"])
    rows = {row["path"]: row for row in found["rows"]}
    assert (rows["seq_length"]["outcome"], rows["seq_length"]["native"]) == ("mapped", "training.seq_len")
    assert (rows["bf16"]["outcome"], rows["bf16"]["used"]) == ("adjusted", "bfloat16")
    assert (rows["tokenizer_type"]["outcome"], rows["tokenizer_type"]["native"]) == ("unused", "")
    assert rows["mock_data"]["origin"] == "exp.yaml:11"
    added = {row["native"]: row for row in found["rows"] if row["outcome"] == "added"}
    assert added["model.padded_vocab_size"]["why"].startswith("vocab_size rounded up")


def test_translate_names_what_is_refused(primus_main: Run, write: Write) -> None:
    """What the back end cannot do is a row with its place and reason, and the exit code says so."""
    told = primus_main("config", "translate", write("mock_data: true", "no_such_name: 1", "lr_decay_style: WSD"))
    assert told.code == 2
    refused = told.out[told.out.index("refused: ") :].splitlines()
    assert any(line.startswith("  no_such_name: 1  # unknown parameter `no_such_name`") for line in refused)
    assert any(line.startswith("  lr_decay_style: WSD  # ") for line in refused)


def test_telling_loads_no_training_library(tmp_path: Path, write: Write) -> None:
    """Both back ends are asked on a login node: neither torch nor a training library is imported."""
    name = write("mock_data: true")
    script = (
        "import sys\n"
        "from primus_core.cli.main import main\n"
        f"assert main(['config', 'explain', {name!r}, 'seq_length']) == 0\n"
        f"assert main(['config', 'translate', {name!r}, '--to', 'megatron']) == 0\n"
        "print({'torch', 'torchtitan', 'megatron', 'numpy'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"


# --- TorchTitan's own names


def test_made_up_tokens_by_the_native_name_need_no_data(primus_main: Run, write: Write) -> None:
    """What core reads it reads under the library's names too, the former ones included."""
    for line in ("training.mock_data: true", "dataloader.mock: true", "mock_data: true"):
        planned = primus_main("plan", write(line))
        assert planned.code == 0, planned.err
        assert json.loads(planned.out)["prepare"] == []
    without = primus_main("plan", write("training.mock_data: false"))
    assert without.code == 2
    assert "neither train_data_path nor mock_data is set" in without.err


@pytest.mark.parametrize(
    "model",
    ["mamba_370M.yaml", "zebra_llama_1B.yaml", "glm5.yaml", "grok2.yaml", "lfm2_8B_A1B.yaml", "qwen3_5_35B_A3B.yaml"],
)
def test_a_model_of_another_kind_is_a_warning_and_no_run(model: str, primus_main: Run, write: Write) -> None:
    """What TorchTitan cannot build is no wrong file: a warning with place and remedy; a run of it exits with 1."""
    name = write("mock_data: true", model=model)
    judged = primus_main("config", "validate", name, "--format", "json")
    assert judged.code == 0, judged.out
    (verdict,) = json.loads(judged.out)
    told = [remark for remark in verdict["remarks"] if remark["check"] == "torchtitan.model"]
    assert told
    assert {remark["severity"] for remark in told} == {"warning"}
    assert all(remark["where"] and remark["remedy"] for remark in told)
    assert any(".yaml:" in remark["where"] for remark in told)
    assert primus_main("run", name, "--dry-run").code == 1
