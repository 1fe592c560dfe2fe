"""Every installed plugin keeps the contract."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from primus_core import discovery, hooks
from primus_core.contract import CONTRACT
from primus_core.discovery import PluginInfo
from primus_core.parameters import portable

PLUGINS = tuple(discovery.scan())
HOST_SIDE = tuple(info for info in PLUGINS if info.group in ("primus.backends", "primus.launchers", "primus.preflight"))
HEAVY = ("torch", "megatron", "torchtitan", "numpy")
EXAMPLE = Path(__file__).parents[2] / "examples/llama-tiny.yaml"
ids = str


def test_there_is_something_to_hold_to_the_contract() -> None:
    """The plugins of this repository are installed."""
    assert {info.name for info in HOST_SIDE} >= {"megatron", "torchtitan", "single", "direct", "host"}


@pytest.mark.parametrize("info", PLUGINS, ids=ids)
def test_a_plugin_is_whole(info: PluginInfo) -> None:
    """Its entry point can be read, its module is there, and nobody else claims its name."""
    assert (info.state, info.problem) == ("ok", "")


@pytest.mark.parametrize("info", HOST_SIDE, ids=ids)
def test_the_hooks_of_a_plugin_match_their_specification(info: PluginInfo) -> None:
    """Alone and by its name it loads: no hook is misspelt, none has an unknown argument."""
    alone = discovery.Plugins((info,))
    host = hooks.load_host(
        alone,
        backend=info.name if info.group == "primus.backends" else None,
        launcher=info.name if info.group == "primus.launchers" else None,
        preflight=info.group == "primus.preflight",
    )
    assert host.unusable == ()


@pytest.mark.parametrize("info", [info for info in PLUGINS if info.group == "primus.ranks"], ids=ids)
def test_the_rank_side_of_a_back_end_matches_its_specification(info: PluginInfo) -> None:
    """It loads by the name of a back end that is installed."""
    hooks.load_rank(discovery.Plugins((info,)), info.name)
    assert info.name in [host.name for host in PLUGINS if host.group == "primus.backends"]


@pytest.mark.parametrize("info", HOST_SIDE, ids=ids)
def test_a_plugin_says_which_contract_it_was_made_for(info: PluginInfo) -> None:
    """The number is written in the module, not taken from the core that happens to be installed."""
    spec = discovery.find_module(info.module)
    assert spec is not None
    assert spec.origin is not None
    with open(spec.origin) as file:
        assert f"CONTRACT = {CONTRACT}\n" in file.read()


@pytest.mark.parametrize("info", HOST_SIDE, ids=ids)
def test_the_host_side_imports_no_heavy_library(info: PluginInfo) -> None:
    """It loads where torch, Megatron, TorchTitan and numpy cannot be imported."""
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({HEAVY!r}))\n"
        "from primus_core import discovery\n"
        f"discovery.load(discovery.select(discovery.scan(), {info.group!r}, {info.name!r}))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("info", [info for info in HOST_SIDE if info.group == "primus.backends"], ids=ids)
def test_a_back_end_has_a_row_for_each_portable_parameter(info: PluginInfo) -> None:
    """Each portable name leads to one that the library has, or is said to lead nowhere; no row is of another name."""
    hosts = hooks.load_host(discovery.Plugins((info,)), backend=info.name, launcher=None, preflight=False)
    rows = hosts.portable_keys()
    assert set(rows) == set(portable())
    schema = hosts.schema(hosts.library_version())
    assert schema is not None
    assert {native for native in rows.values() if native} <= set(schema.parameters)


@pytest.mark.parametrize("info", [info for info in HOST_SIDE if info.group == "primus.backends"], ids=ids)
def test_a_login_node_needs_no_training_library(info: PluginInfo) -> None:
    """Help, the translation to a back end and its checks load neither torch nor any library of training."""
    commands = [["--help"], ["config", "translate", str(EXAMPLE), "--to", info.name]]
    commands += [["config", "validate", str(EXAMPLE), "--framework", info.name, "--accelerator", "cpu"]]
    program = (
        "import sys\nfrom primus_core.cli.main import main\n"
        f"codes = [int(main(words)) for words in {commands!r}]\n"
        f"print(codes, sorted(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr == "[0, 0, 0] []\n", done.stdout
