"""The commands of `primus config`, called as functions; one process where only that can tell."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from primus_core.cli.arguments import run_parser
from primus_core.cli.main import main
from primus_core.cli.prepare import prepare
from primus_core.plan import Layout
from primus_core.planning.nodes import nodes_for
from primus_core.yamlfile import dump_experiment
from tests.e2e.support import EXAMPLE, ROOT, Primus

Config = Callable[..., "Answer"]
SECRET = "hidden-from-everybody"

EXPERIMENT = """\
work_group: team
user_name: me
exp_name: first
workspace: ./output
modules:
  pre_trainer:
    framework: megatron
    config: pre_trainer.yaml
    model: llama_tiny.yaml
    overrides:
      mock_data: true
      train_iters: 10
      micro_batch_size: 1
      seq_length: 64
"""


class Answer:
    """What one command line left behind."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Config:
    """Runs `primus config ...` in the test's folder."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str | Path) -> Answer:
        code = main(["config", *map(str, words)])
        return Answer(code, *capsys.readouterr())

    return run


@pytest.fixture
def experiment(tmp_path: Path) -> Callable[..., str]:
    """Writes an experiment file with more parameters; returns its name."""

    def write(name: str = "exp.yaml", *parameters: str, top: str = "") -> str:
        lines = "".join(f"      {line}\n" for line in parameters)
        (tmp_path / name).write_text(top + EXPERIMENT + lines)
        return name

    return write


# --- show


def test_show_prints_a_file_that_means_the_same(config: Config, tmp_path: Path) -> None:
    """What `config show` prints differs from its source in nothing that has a meaning."""
    shown = config("show", EXAMPLE)
    assert shown.code == 0, shown.err
    assert "#" not in shown.out
    (tmp_path / "again.yaml").write_text(shown.out)
    assert config("show", "again.yaml").out == shown.out
    assert config("diff", EXAMPLE, "again.yaml").out == ""


def test_show_keeps_types(config: Config, experiment: Callable[..., str], tmp_path: Path) -> None:
    """Text that looks like another type, numbers in unusual notations and null come back as they are."""
    values = {
        "tokenizer_model": "'True'",
        "tensorboard_dir": "'0123'",
        "wandb_project": "1e5",
        "lr": "1e-5",
        "global_batch_size": "null",
        "app_tag_run_name": "'$${HOME} is kept'",
        "wandb_exp_name": '"two\\nlines # and \\u00fc"',
    }
    name = experiment("exp.yaml", *(f"{key}: {value}" for key, value in values.items()))
    (tmp_path / "again.yaml").write_text(config("show", name).out)
    assert config("diff", name, "again.yaml").out == ""
    kept = {
        line.partition(":")[0].strip(): line.partition(": ")[2]
        for line in config("show", "again.yaml").out.splitlines()
    }
    assert kept["tokenizer_model"] == '"True"'
    assert kept["tensorboard_dir"] == '"0123"'
    assert (kept["wandb_project"], kept["lr"], kept["global_batch_size"]) == ("1e5", "1e-5", "null")
    assert kept["app_tag_run_name"] == '"$${HOME} is kept"'


def test_show_settles_what_the_shell_spelled(
    config: Config, experiment: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable that is `off` is a bool for a bool parameter: the shown file says `false`, which means the same."""
    monkeypatch.setenv("X", "off")
    name = experiment("exp.yaml", "bf16: ${X}", "app_tag_run_name: ${X}")
    shown = config("show", name).out
    assert "bf16: false\n" in shown
    assert "app_tag_run_name: off\n" in shown
    (tmp_path / "again.yaml").write_text(shown)
    monkeypatch.delenv("X")
    assert config("show", "again.yaml").out == shown


def test_the_launchers_of_the_users_home_count(
    config: Config, experiment: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """~/.primus.yaml is shown where the experiment leaves an option open, and what is wrong in it is told."""
    monkeypatch.setenv("HOME", str(tmp_path))
    own = tmp_path / ".primus.yaml"
    own.write_text("slurm: {partition: gpu, time: 1:00}\nmain: {debug: false}\n")
    path = experiment(top="slurm: {partition: mine}\n")
    shown = config("show", path, "--origins").out
    assert f"# {own}:1 (default)" in next(line for line in shown.splitlines() if "1:00" in line), shown
    assert "partition: mine" in shown
    assert config("validate", path).code == 0
    own.write_text("direct: {numa: 7}\nslurm: {time: 1:00}\n")
    wrong = config("validate", path)
    assert wrong.code == 2
    assert f"{own}:1" in wrong.out
    assert "numa" in wrong.out


def test_show_needs_no_back_end(config: Config, experiment: Callable[..., str], tmp_path: Path) -> None:
    """An experiment whose back end is not installed is resolved and shown; so is one of several modules."""
    name = experiment()
    text = (tmp_path / name).read_text()
    module = text.partition("modules:\n")[2]
    second = module.replace("pre_trainer:", "second:").replace("framework: megatron", "framework: other")
    (tmp_path / name).write_text(text + second)
    shown = config("show", name)
    assert shown.code == 0, shown.err
    assert "framework: other\n" in shown.out


def test_show_leaves_out_what_another_name_overrides(
    config: Config, experiment: Callable[..., str], tmp_path: Path
) -> None:
    """A preset's value under the library's name loses against an alias; in one file the two would contradict."""
    name = experiment("exp.yaml", "norm_epsilon: 1e-6")
    shown = config("show", name).out
    assert "layernorm_epsilon" not in shown
    (tmp_path / "again.yaml").write_text(shown)
    answer = config("diff", name, "again.yaml")
    assert (answer.code, answer.out) == (0, ""), answer.err


def test_show_keeps_out_what_was_taken_away(config: Config, experiment: Callable[..., str], tmp_path: Path) -> None:
    """A preset's parameter that the user unset does not come back with the resolved file."""
    name = experiment("exp.yaml", "clip_grad: !unset")
    shown = config("show", name, "--origins").out
    assert "clip_grad: !unset  # exp.yaml:15 (overrides)" in shown
    (tmp_path / "again.yaml").write_text(shown)
    assert config("diff", name, "again.yaml").out == ""
    told = config("explain", "again.yaml", "clip_grad").out
    assert "nobody set it" in told
    assert "taken away" in told


def test_show_names_the_origin_of_each_value(config: Config, experiment: Callable[..., str]) -> None:
    """With --origins each value has its file, line and layer; as JSON they are a map by path."""
    name = experiment()
    assert "      train_iters: 10  # exp.yaml:12 (overrides)\n" in config("show", name, "--origins").out
    assert "      train_iters: 20  # command line\n" in config("show", name, "train_iters=20", "--origins").out
    told = json.loads(config("show", name, "--origins", "--format", "json", "lr=.inf").out, parse_constant=pytest.fail)
    assert told["modules"]["pre_trainer"]["overrides"]["lr"] == ".inf"
    assert told["modules"]["pre_trainer"]["overrides"]["train_iters"] == 10
    assert told["origins"]["modules.pre_trainer.overrides.train_iters"] == {"at": "exp.yaml:12", "layer": "overrides"}
    assert told["origins"]["exp_name"] == {"at": "exp.yaml:3", "layer": "file"}


def test_secrets_are_shown_by_name(
    config: Config, experiment: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The value of a secret variable of `env:` is in no output, also not as what was overridden."""
    monkeypatch.setenv("B_TOKEN", SECRET)
    name = experiment("exp.yaml", top=f"env:\n  A_KEY: {SECRET}-a\n  B_TOKEN: ${{B_TOKEN}}\n  C_KEY: null\n")
    told = [
        config("show", name, "env.A_KEY=another-secret", "--origins"),
        config("show", name, "--format", "json"),
        config("explain", name, "env.A_KEY", "env.A_KEY=another-secret"),
        config("explain", name, "env.B_TOKEN"),
        config("diff", name, experiment("other.yaml")),
        config("validate", experiment("leak.yaml", f"log_backups: {SECRET}-a", top=f"env: {{A_KEY: {SECRET}-a}}\n")),
    ]
    for answer in told:
        assert SECRET not in answer.out + answer.err
        assert "another-secret" not in answer.out + answer.err
    assert [answer.code for answer in told] == [0, 0, 0, 0, 1, 2]
    assert "A_KEY: ${A_KEY}" in told[0].out
    assert "C_KEY: null" in told[0].out


def test_show_refuses_a_secret_in_a_parameter(
    config: Config, experiment: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A parameter or a name that holds the value of a secret is named, its value is not."""
    monkeypatch.setenv("A_TOKEN", SECRET)
    name = experiment("exp.yaml", "wandb_project: x-${A_TOKEN}")
    (tmp_path / name).write_text((tmp_path / name).read_text().replace("first", "${A_TOKEN}"))
    for answer in (config("show", name), config("explain", name, "wandb_project"), config("validate", name)):
        assert SECRET not in answer.out + answer.err
    answer = config("show", name)
    assert answer.code == 2
    assert "`wandb_project` holds the value of A_TOKEN" in answer.err
    assert "`exp_name` holds the value of A_TOKEN" in answer.err
    assert config("validate", name).code == 2


# --- explain


def test_explain_tells_everything_about_a_value(config: Config, experiment: Callable[..., str]) -> None:
    """Value, place, what it overrode, the variable that it came from, the library's name, type, default and help."""
    name = experiment("exp.yaml", "norm_epsilon: ${EPS:1e-6}")
    told = config("explain", name, "norm_epsilon").out
    assert told.startswith("norm_epsilon: 1e-06\n")
    for line in (
        "set at      exp.yaml:15 (overrides)",
        "from        ${EPS} (not set: its default)",
        "megatron    layernorm_epsilon = 1e-06",
    ):
        assert f"  {line}\n" in told
    told = config("explain", name, "lr", "lr=2e-3").out
    assert "  set at      command line\n" in told
    assert "  overrode    3" in told
    assert "(preset)" in told
    assert "  type        float" in told
    assert "  help        " in told


def test_explain_finds_a_value_under_its_other_name(config: Config, experiment: Callable[..., str]) -> None:
    """A parameter that the experiment sets by another name is found under each of them."""
    name = experiment("exp.yaml", "norm_epsilon: 1e-6", "layernorm_epsilon: !unset")
    told = config("explain", name, "layernorm_epsilon").out
    assert told.startswith("layernorm_epsilon: 1e-06  (set as norm_epsilon)\n  set at      exp.yaml:15 (overrides)\n")
    told = config("explain", experiment("other.yaml"), "norm_epsilon").out
    assert told.startswith("norm_epsilon: 1e-05  (set as layernorm_epsilon)\n")


def test_explain_tells_why_a_value_is_not_used_as_it_is(config: Config, experiment: Callable[..., str]) -> None:
    """An adjusted value has the value that the library gets and the reason; an unused one its reason."""
    name = experiment(
        "exp.yaml", "tokenizer_type: SentencePieceTokenizer", "enable_primus_turbo: true", "async_save: null"
    )
    told = config("explain", name, "tokenizer_type").out
    assert "  megatron    tokenizer_type = NullTokenizer\n" in told
    assert "  adjusted    made-up tokens need no tokenizer\n" in told
    assert "  unused      " in config("explain", name, "enable_primus_turbo").out
    assert "default" in config("explain", name, "async_save").out


def test_explain_knows_what_nobody_set(config: Config, experiment: Callable[..., str]) -> None:
    """For a parameter that nobody set: its default, its choices, and where it would be set."""
    told = config("explain", experiment(), "recompute_granularity").out
    assert told.startswith("recompute_granularity: null  (nobody set it)\n")
    assert "  to set it   modules.pre_trainer.overrides.recompute_granularity in exp.yaml\n" in told
    assert "  choices     full, selective\n" in told


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("modules.pre_trainer.overrides.train_iters", "set at      exp.yaml:12 (overrides)"),
        ("modules.pre_trainer.model", "set at      exp.yaml:9 (file)"),
        ("model", "set at      exp.yaml:9 (file)"),
        ("exp_name", "set at      exp.yaml:3 (file)"),
        ("stderr_sink_level", "read by     Primus itself"),
        ("direct.gpus_per_node", "to set it   direct.gpus_per_node in exp.yaml"),
    ],
)
def test_explain_takes_paths(key: str, line: str, config: Config, experiment: Callable[..., str]) -> None:
    """A value is named by its path in the file, or by its parameter's name; core's own parameters too."""
    answer = config("explain", experiment(), key, "stderr_sink_level=ERROR")
    assert answer.code == 0, answer.err
    assert f"  {line}\n" in answer.out


def test_explain_names_the_nearest_key(config: Config, experiment: Callable[..., str]) -> None:
    """An unknown key is a wrong argument, with the name that was meant."""
    answer = config("explain", experiment(), "micro_bach_size")
    assert answer.code == 2
    assert "did you mean `micro_batch_size`?" in answer.err


def test_explain_works_on_an_experiment_with_errors(config: Config, experiment: Callable[..., str]) -> None:
    """Where the experiment is wrong elsewhere, a value's origin is told, and that its fate is not known."""
    answer = config("explain", experiment("exp.yaml", "tensor_model_paralel_size: 2"), "train_iters")
    assert answer.code == 0, answer.err
    assert "exp.yaml:12" in answer.out
    assert "the experiment has errors" in answer.out


# --- diff


def test_diff_compares_meaning(config: Config, experiment: Callable[..., str]) -> None:
    """Order, notation, another spelling of a name, and a default that is written out make no difference."""
    one = experiment("one.yaml", "norm_epsilon: 1e-6", "lr: 0.001", "min_lr: 0", "adam_eps: 1.0e-8")
    other = experiment("other.yaml", "lr: 1e-3", "layernorm_epsilon: 0.000001", "recompute_granularity: null")
    answer = config("diff", one, other)
    assert (answer.code, answer.out, answer.err) == (0, "", "")


def test_diff_tells_both_values_and_their_places(config: Config, experiment: Callable[..., str]) -> None:
    """What differs is told with both values and places, and the exit code is that of `diff`."""
    one = experiment("one.yaml", "lr: 1e-3", "tokenizer_type: SentencePieceTokenizer", top="env: {A: x}\n")
    answer = config("diff", one, experiment("two.yaml", "lr: 2e-3"))
    assert answer.code == 1
    assert "lr\n- 0.001  # one.yaml:16\n+ 0.002  # two.yaml:15\n" in answer.out
    assert "env.A\n- x  # one.yaml:1\n+ null  # not set\n" in answer.out
    assert "- SentencePieceTokenizer (used: NullTokenizer)" in answer.out
    found = json.loads(config("diff", one, "two.yaml", "--format", "json").out)
    assert {row["name"] for row in found} >= {"lr", "env.A", "tokenizer_type"}


def test_diff_needs_two_sound_experiments(config: Config, experiment: Callable[..., str]) -> None:
    """An experiment with an error has no meaning to compare: exit code 2, unlike a difference."""
    answer = config("diff", experiment(), experiment("two.yaml", "lr: fast"))
    assert answer.code == 2
    assert "`lr`" in answer.err


# --- validate


def test_validate_tells_all_problems_of_all_files(
    config: Config, experiment: Callable[..., str], tmp_path: Path
) -> None:
    """Every problem of every file has its file and line, then each file has one line; one error makes exit code 2."""
    good = experiment("good.yaml")
    bad = experiment("bad.yaml", "lr: fast", "tensor_model_paralel_size: 2", "bf16: maybe")
    (tmp_path / "broken.yaml").write_text("work_group: [\n")
    answer = config("validate", good, bad, "broken.yaml", "absent.yaml")
    assert answer.code == 2
    for place in ("bad.yaml:15: error: `lr`", "bad.yaml:16: error: unknown", "bad.yaml:17: error: `bf16`"):
        assert place in answer.out
    assert "did you mean `tensor_model_parallel_size`?" in answer.out
    assert answer.out.splitlines()[-4].startswith("good.yaml: ok for 8 ranks on 1 node (cuda), megatron ")
    assert [line.partition(" for ")[0] for line in answer.out.splitlines()[-3:]] == [
        "bad.yaml: 3 errors",
        "broken.yaml: 1 error",
        "absent.yaml: 1 error",
    ]
    assert config("validate", good).code == 0


def test_validate_goes_on_after_an_error(config: Config, experiment: Callable[..., str]) -> None:
    """Errors of launchers' options, core's parameters, the library's and secrets' are told together, each once."""
    top = "env: {A_KEY: hidden-secret}\ndirect: {gpus_per_node: many}\n"
    name = experiment("bad.yaml", "log_backups: few", "lr: fast", "wandb_project: hidden-secret", top=top)
    lines = [line for line in config("validate", name).out.splitlines() if ": error: " in line]
    assert [line.partition(": error: ")[0] for line in lines] == [
        "bad.yaml:2",
        *(f"bad.yaml:{n}" for n in (17, 18, 19)),
    ]


def test_validate_as_json(config: Config, experiment: Callable[..., str]) -> None:
    """The same verdicts can be read by a program."""
    (verdict,) = json.loads(config("validate", experiment("bad.yaml", "lr: fast"), "--format", "json").out)
    assert verdict["file"] == "bad.yaml"
    assert verdict["remarks"][0]["where"] == "bad.yaml:15"
    assert verdict["remarks"][0]["severity"] == "error"


def test_validate_judges_for_the_hardware_of_the_experiment(config: Config, experiment: Callable[..., str]) -> None:
    """Without a device here: GPUs, 8 on a node, as many nodes as the layout needs; options say otherwise."""
    name = experiment("exp.yaml", "tensor_model_parallel_size: 4", "pipeline_model_parallel_size: 4", "num_layers: 4")
    assert "for 16 ranks on 2 nodes (cuda)" in config("validate", name).out
    assert "for 16 ranks on 4 nodes (rocm)" in config("validate", name, "--accelerator", "rocm", "--nproc", "4").out
    answer = config("validate", name, "--nodes", "1")
    assert answer.code == 2
    assert "exp.yaml:15: error: 8 ranks cannot hold whole replicas of 16 ranks each" in answer.out
    assert "for 1 rank on 1 node (cpu)" in config("validate", experiment("cpu.yaml", "accelerator: cpu")).out
    assert config("validate", name, "--nodes", "0").code == 2


@pytest.mark.parametrize(
    ("layout", "nodes"),
    [
        (Layout(), 1),
        (Layout(tensor=8, pipeline=2), 2),
        (Layout(tensor=2, expert=8, expert_tensor=2, pipeline=3), 6),
        (Layout(global_batch_size=16, tensor=8), 1),
        (Layout(global_batch_size=12, micro_batch_size=2), 1),
        (Layout(global_batch_size=24, micro_batch_size=1, pipeline=3), 3),
        (Layout(tensor=0), 1),
    ],
)
def test_the_smallest_number_of_nodes(layout: Layout, nodes: int) -> None:
    """The ranks hold whole replicas and groups of experts, and divide the batch where any number does."""
    assert nodes_for(layout, 8) == nodes


def test_settings_without_effect_are_one_warning(
    config: Config, experiment: Callable[..., str], tmp_path: Path
) -> None:
    """All of them are named in one warning, which `--strict` makes an error, in `validate` and in a run."""
    name = experiment("exp.yaml", "enable_primus_turbo: true", "use_turbo_attention: true")
    answer = config("validate", name)
    assert answer.code == 0, answer.out
    assert "exp.yaml:15: warning: 2 parameters have no effect here\n" in answer.out
    assert "enable_primus_turbo (line 15), use_turbo_attention (line 16)" in answer.out
    strict = config("validate", name, "--strict")
    assert strict.code == 2
    assert "error: 2 parameters have no effect here" in strict.out
    assert main(["plan", str(tmp_path / name), "--strict", "--output", str(tmp_path / "plan.json")]) == 2
    assert not (tmp_path / "plan.json").exists()


def test_validate_opens_data_only_when_asked(config: Config, experiment: Callable[..., str], tmp_path: Path) -> None:
    """Data that is not here is no error of a file that may run elsewhere, unless `--files` asks."""
    name = experiment("exp.yaml", "train_data_path: nowhere.jsonl", "tokenizer_type: ByteLevelTokenizer")
    (tmp_path / name).write_text((tmp_path / name).read_text().replace("mock_data: true", "mock_data: false"))
    answer = config("validate", name)
    assert answer.code == 0, answer.out
    answer = config("validate", name, "--files")
    assert answer.code == 2
    assert "nowhere.jsonl" in answer.out


def test_a_model_that_cannot_be_built_here_is_a_warning(config: Config, experiment: Callable[..., str]) -> None:
    """The file may be right for another installation; a plan of it is refused as a missing dependency."""
    name = experiment("exp.yaml", "hybrid_layer_pattern: MMMM")
    answer = config("validate", name)
    assert answer.code == 0, answer.out
    assert "exp.yaml:15: warning: " in answer.out
    assert "hybrid_layer_pattern" in answer.out.partition("exp.yaml: 1 warning")[0]
    assert main(["plan", name]) == 1


# --- init and the front door


@pytest.mark.parametrize("model", ["llama3.1_8B", "llama_tiny.yaml", "qwen3_moe_tiny"])
def test_a_starter_file_is_valid_and_never_overwritten(model: str, config: Config, tmp_path: Path) -> None:
    """What `config init` writes passes `config validate` without a warning, and no file is replaced."""
    assert config("init", "--model", model, "--output", "new.yaml").code == 0
    text = (tmp_path / "new.yaml").read_text()
    assert "# Largest learning rate." in text
    answer = config("validate", "new.yaml")
    assert answer.out.startswith("new.yaml: ok for "), answer.out
    again = config("init", "--model", model, "--output", "new.yaml")
    assert again.code == 2
    assert (tmp_path / "new.yaml").read_text() == text
    assert config("init", "--model", model).out == text


def test_what_a_starter_file_shows_holds_without_it(config: Config, tmp_path: Path) -> None:
    """Removing the marks before the parameters that have a value changes nothing."""
    text = config("init", "--model", "llama3.1_8B").out
    (tmp_path / "one.yaml").write_text(text)
    shown = [
        line
        for line in text.splitlines()
        if not line.startswith(("      # train_data", "      # valid", "      # split", "      # load"))
    ]
    active = [line.replace("# ", "", 1) if _is_parameter(line) else line for line in shown]
    assert len([line for line in shown if _is_parameter(line)]) > 15
    (tmp_path / "two.yaml").write_text("\n".join(active) + "\n")
    assert config("diff", "one.yaml", "two.yaml").out == ""


def _is_parameter(line: str) -> bool:
    word = line.removeprefix("      # ").partition(": ")[0]
    return line.startswith("      # ") and word.replace("_", "").isalnum() and word == word.lower()


def test_an_unknown_model_is_named(config: Config) -> None:
    """A preset that does not exist is a wrong argument, with the nearest name."""
    answer = config("init", "--model", "lama3.1_8B")
    assert answer.code == 2
    assert "llama3.1_8B" in answer.err


@pytest.mark.parametrize(
    "words",
    [
        ("shwo", "x.yaml"),
        (),
        ("show",),
        ("validate",),
        ("explain", "x.yaml"),
        ("schema", "--framework", "megatron", "--preset-path", "."),
        ("translate", str(EXAMPLE), "--to", "megatron", "--framework", "torchtitan"),
    ],
)
def test_wrong_words(words: tuple[str, ...], config: Config) -> None:
    """A command that does not exist, lacks an argument, or has one that it does not heed, ends with a remedy."""
    answer = config(*words)
    assert answer.code == 2
    assert "try:" in answer.err


def test_help_needs_no_plugin(primus: Primus) -> None:
    """`primus config --help` lists the commands; it and a command's help load neither YAML nor a back end."""
    done = primus("config", "--help", PYTHONPROFILEIMPORTTIME="1")
    assert done.returncode == 0
    for name in ("show", "explain", "translate", "diff", "validate", "schema", "init"):
        assert f"\n  {name} " in done.stdout
    for module in ("yaml", "pluggy", "cattrs", "primus_core.discovery", "primus_core.parameters"):
        assert not any(line.endswith(f" {module}") for line in done.stderr.splitlines()), module


def test_examples_are_valid(config: Config) -> None:
    """The examples of a first visit pass, without a warning."""
    files = sorted((ROOT / "examples").glob("*.yaml"))
    answer = config("validate", *files)
    assert [": ok for " in line for line in answer.out.splitlines()] == [True] * len(files), answer.out


def test_readme_shows_real_output(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """What README shows of `primus config` is what it prints."""
    monkeypatch.chdir(ROOT)
    section = (ROOT / "README.md").read_text().partition("## Know what a file means\n\n```\n")[2].partition("```")[0]
    shown = [part.partition("\n")[::2] for part in section.split("$ primus config ")[1:]]
    assert len(shown) == 2
    for command, output in shown:
        words, _, wanted = command.partition(" | grep ")
        lines = config(*shlex.split(words)).out.splitlines()
        assert [line for line in lines if wanted in line] == output.splitlines(), command


def test_a_run_keeps_a_file_that_means_the_same(
    experiment: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a run writes beside its plan needs neither the variables nor the command line that it was started with."""
    monkeypatch.chdir(tmp_path)
    name = experiment("exp.yaml", "bf16: ${X}", "norm_epsilon: 1e-6")
    words = [name, "--launcher", "single", "--nproc", "1", "lr=2e-3"]
    prepared = prepare(run_parser("primus run", "").parse_intermixed_args(words), {"X": "off"})
    assert prepared.resolved is not None
    (tmp_path / "again.yaml").write_text(dump_experiment(prepared.resolved))
    again = prepare(run_parser("primus run", "").parse_intermixed_args(["again.yaml", *words[1:-1]]), {})
    assert again.plan.translation is not None
    assert prepared.plan.translation is not None
    assert again.plan.translation.native == prepared.plan.translation.native
    assert again.plan.translation.native["bf16"] is False
