"""Plans survive the process boundary."""

from __future__ import annotations

import pytest

from primus_core.codec import from_json, to_json
from primus_core.errors import ConfigError
from primus_core.experiment import Experiment, Leaf, Module, Origin, Value
from primus_core.outcome import Failure, PatchReport, PatchResult, RankReport
from primus_core.plan import Job, Layout, Mapped, ModelSizes, PatchSpec, RunPlan, Settings, Target, Task, Translation

VALUES: list[Value] = [
    None,
    True,
    0,
    -1.5,
    "no",
    "",
    "0123",
    "a\nb'\"$;*|",
    "Grüße 你好",
    [1, "a", None, [2.5]],
    {"a": {"b": [False]}, "": 1},
]


def plan(value: Value) -> RunPlan:
    origin = Origin(file="exp.yaml", line=3, column=7, layer="overrides")
    leaf = Leaf(value=value, origin=origin, overrode=(Leaf(value=1, origin=origin),))
    module = Module(
        name="pre_trainer",
        framework="megatron",
        framework_origin=origin,
        config="pre_trainer.yaml",
        model="m.yaml",
        params={"key": leaf},
    )
    experiment = Experiment(
        file="exp.yaml",
        work_group="g",
        user_name="u",
        exp_name="e",
        workspace="/w",
        modules={"pre_trainer": module},
        launchers={"direct": {"gpus_per_node": leaf}},
    )
    task = Task(kind="train", entry="m:f", arguments={"a": value})
    spec = PatchSpec(id="p", target="m:t", replacement="m:r", reason="why", fingerprint=("ab",), when=("cpu",))
    shape = ModelSizes(
        layers=1, hidden=2, ffn_hidden=3, heads=1, query_groups=1, head_size=2, sequence=4, vocabulary=5,
        gated_mlp=True, tied_embeddings=False,
    )  # fmt: skip
    translation = Translation(
        native={"key": value},
        entry="m:f",
        layout=Layout(tensor=2),
        mapping=(Mapped(path="key", native="key", value=value),),
        patches=(spec,),
        model=shape,
    )
    return RunPlan(
        run_id="r",
        run_dir="/w/runs/r",
        target=Target(accelerator="cpu", library_version="1", ranks_per_node=2),
        task=task,
        prepare=(task,),
        experiment=experiment,
        settings=Settings(values={"a": value}),
        translation=translation,
        job=Job(run_id="r", name="e", task=task, python="/py", argv=("-m", "x"), options={"o": value}),
        launcher="single",
    )


def test_what_is_no_record_is_not_written() -> None:
    """A set has no order, so that its text would not always be the same."""
    with pytest.raises(TypeError, match="a set is nothing that JSON has"):
        to_json({"a": {1, 2}})


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_plan_round_trip(value: Value) -> None:
    """Any value of an experiment comes back from JSON with its value and type."""
    original = plan(value)
    restored = from_json(RunPlan, to_json(original))
    assert restored == original
    assert repr(restored) == repr(original)


def test_report_round_trip() -> None:
    """A rank's report comes back whole."""
    report = RankReport(
        run_id="r",
        rank=1,
        host="h",
        phase="train",
        iteration=3,
        failure=Failure(type="E", text="t"),
        last_lines=("a", "b"),
        patches=PatchReport(results=(PatchResult(id="p", target="t", reason="r", state="applied"),)),
        result={"loss": 1.5},
    )
    assert from_json(RankReport, to_json(report)) == report


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("{", "line 1"),
        ("[]", "$"),
        (to_json(plan(1)).replace('"world', '"x').replace('"cpu"', '"tpu"', 1), "$.target"),
        (to_json(plan(1)).replace('"run_id"', '"run_di"', 1), "run_di"),
    ],
)
def test_broken_plan_is_named(text: str, part: str) -> None:
    """A plan that is cut, mistyped or of another layout is refused with the place in it."""
    with pytest.raises(ConfigError) as caught:
        from_json(RunPlan, text, source="plan.json")
    assert part in caught.value.why
    assert caught.value.where == "plan.json"
