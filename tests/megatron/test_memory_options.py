"""No parameter that changes memory is ignored without a word: the figure follows it, a note tells it, or it is
refused."""

from __future__ import annotations

import re

import pytest

from primus_backend_megatron import host
from primus_backend_megatron.host.schema import schema_for
from primus_core.errors import PrimusError
from primus_core.projection.project import project
from tests.megatron.experiments import VERSION, plan_of
from tests.megatron.options import SWITCHES, Switch
from tests.megatron.options_quiet import BESIDE, NO_MEMORY
from tests.megatron.truth.live_cases import DENSE, Params

_NAMES = re.compile(
    "recompute|offload|fp8|fp4|fusion|fused|dispatcher|cuda_graph|attention|capacity|grad|precision|dtype|cpu|buffer|cache"
)
"""Of what changes memory in Megatron, as far as names tell."""


def _told(params: Params) -> tuple[int, tuple[str, ...]] | str:
    """The bytes of the heaviest rank of eight GPUs and the notes below them, or why it is refused."""
    try:
        shape = host.model_shape(plan_of(params, ranks=8, accelerator="cuda"))
    except PrimusError as error:
        return str(error)
    assert shape is not None
    projection = project(shape)
    return projection.heaviest.bytes, projection.notes


def _notes(params: Params) -> str:
    """Those below the figures."""
    told = _told(params)
    assert not isinstance(told, str), told
    return " ".join(told[1])


@pytest.mark.parametrize("switch", SWITCHES, ids=lambda switch: f"{switch.name}={switch.value}")
def test_is_not_ignored(switch: Switch) -> None:
    """It changes the figure or what is told of it."""
    assert not isinstance(_told(switch.before), str)
    assert _told(switch.before) != _told(switch.after)


def test_nothing_is_told_of_defaults() -> None:
    """A plain model has no notes but for what it asks for."""
    told = _told({**DENSE, "global_batch_size": 16, "gradient_accumulation_fusion": False})
    assert told[1] == ()


@pytest.mark.parametrize("name", BESIDE)
def test_what_others_act_with_is_told_or_refused(name: str) -> None:
    """Parameters that act only beside it need no note of their own."""
    switches = [switch for switch in SWITCHES if switch.name == name]
    assert switches
    for before, after in ((_told(switch.before), _told(switch.after)) for switch in switches):
        assert isinstance(after, str) or set(after[1]) - set(before[1])


def test_every_parameter_of_such_a_name_is_known() -> None:
    """A new one of Megatron's is followed, told or refused, or has a reason why it changes nothing; none has both."""
    named = {name for name in schema_for(VERSION).parameters if _NAMES.search(name)}
    switched = {switch.name for switch in SWITCHES}
    quiet = [name for group in (*BESIDE.values(), *NO_MEMORY.values()) for name in group]
    assert len(quiet) == len(set(quiet))
    assert switched & set(quiet) == set()
    assert set(quiet) <= named
    assert named - switched - set(quiet) == set()


def test_each_dispatcher_has_its_own_note() -> None:
    """Tokens that all ranks gather, and buffers of DeepEP, which are none of PyTorch's."""
    switches = [switch for switch in SWITCHES if switch.name == "moe_token_dispatcher_type"]
    told = {switch.value: _notes(switch.after) for switch in switches}
    assert "all gathered" in told["allgather"]
    assert "DeepEP" not in told["allgather"]
    assert "DeepEP" in told["flex"]
    assert "all gathered" not in told["flex"]


@pytest.mark.parametrize(("optimizer", "told"), [("adam", False), ("sgd", False), ("muon", True), ("soap", True)])
def test_an_optimizer_that_whole_matrices_are_dealt_out_for_is_told_of(optimizer: str, told: bool) -> None:
    """Ranks that share the work of those beside Adam and SGD have no equal shares."""
    params = {**DENSE, "global_batch_size": 16, "optimizer": optimizer}
    assert ("deals out whole matrices" in _notes({**params, "use_distributed_optimizer": True})) == told
    assert "deals out whole matrices" not in _notes({**params, "use_distributed_optimizer": False})


def test_padding_of_the_vocabulary_is_told() -> None:
    """By its rows, and by the parameters that it costs; one that needs none is not."""
    params = {**DENSE, "global_batch_size": 16, "vocab_size": 1000, "make_vocab_size_divisible_by": 128}
    tied, apart = (
        f"padded to 1,024 rows: {24 * int(str(DENSE['hidden_size'])) * tables:,} of the parameters" for tables in (1, 2)
    )
    assert tied in _notes({**params, "untie_embeddings_and_output_weights": False})
    assert apart in _notes({**params, "untie_embeddings_and_output_weights": True})
    assert "padded" not in _notes({**params, "vocab_size": 1024})
