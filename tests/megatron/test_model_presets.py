"""Published models, as the portable presets say them, on Megatron."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from primus_backend_megatron.host.foreign import foreign_keys
from primus_backend_megatron.host.schema import schema_for
from primus_core import discovery
from primus_core.pipeline import Judged, Scope, judge
from primus_core.planning.accelerators import Found
from primus_core.planning.job import Request
from primus_core.resolve import resolve
from tests.core.published import HYBRIDS, PROXIES, PUBLISHED

NOT_BUILT = {
    "grok2": ["router_logit_softcapping", "final_logit_softcapping"],
    "lfm2_8B_A1B": ["lfm_layer_types"],
    "mamba_370M": ["hybrid_layer_pattern"],
    "qwen3_5_35B_A3B": ["flash-linear-attention"],
    **{model: ["is_hybrid_model"] for model in HYBRIDS if model != "mamba_370M"},
}
"""Models that the installation cannot train, and what they ask of it."""

LACKING = {"qwen3_5_35B_A3B"}
"""Of these, the ones that Megatron trains where a package is installed."""

EXPERIMENT = """\
work_group: team
user_name: me
exp_name: test
workspace: out
modules:
  pre_trainer: {framework: megatron, config: pre_trainer.yaml, model: MODEL, overrides: {mock_data: true}}
"""


@cache
def plugins() -> discovery.Plugins:
    return discovery.scan()


def judged(model: str, folder: Path) -> Judged:
    """A model on one node of eight GPUs."""
    (folder / "exp.yaml").write_text(EXPERIMENT.replace("MODEL", model))
    experiment = resolve(
        "exp.yaml",
        env={},
        preset_dirs=lambda framework: discovery.preset_dirs(plugins(), framework),
        cwd=str(folder),
    )
    request = Request(launcher="single", run_id="test", ranks_per_node=8, cwd=str(folder))
    found = Found(kind="rocm", count=8)
    return judge(
        experiment, plugins(), Scope(request=request, found=found, launcher=False, preflight=False, files=False)
    )


@pytest.mark.parametrize("preset", sorted(PUBLISHED.keys() | HYBRIDS | PROXIES))
def test_megatron_trains_a_published_model_or_says_what_it_needs(preset: str, tmp_path: Path) -> None:
    """Megatron knows every parameter of a preset; what it cannot build is named, and what a package would build."""
    known = schema_for("0.19.2").parameters.keys() | foreign_keys().keys()
    found = judged(f"{preset}.yaml", tmp_path)
    assert {name for name, leaf in found.module.params.items() if leaf.origin.layer == "model"} <= known
    assert found.errors == ()
    errors = [one for one in found.findings if one.severity == "error"]
    wanted = "dependency" if preset in LACKING else "unsupported"
    assert {one.cause for one in errors} <= {wanted}
    told = "\n".join(f"{one.summary} {one.evidence} {one.remedy}" for one in errors)
    assert bool(errors) == (preset in NOT_BUILT)
    assert [name for name in NOT_BUILT.get(preset, ()) if name not in told] == []
