"""What every plugin promises, whatever it does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar

from primus_core import discovery
from primus_core.codec import to_json
from primus_core.contract import CONTRACT
from primus_core.discovery import Group
from primus_core.testing.isolated import Account, Call, account_of, load_alone
from primus_core.testing.watching import Kind

HEAVY = frozenset({"torch", "numpy", "jax", "tensorflow", "megatron", "torchtitan", "transformers"})
"""Libraries that may be missing on the host where a run is planned, or cost seconds there."""


class PluginContract:
    """The common part of the three contracts."""

    group: ClassVar[Group]
    plugin: ClassVar[str]
    """Name of the entry point."""
    heavy: ClassVar[frozenset[str]] = HEAVY
    """Top-level modules that the host side must not import; add the library of a back end of yours."""
    seconds: ClassVar[float] = 1.0
    """Longest CPU time of loading the plugin and calling its hook once."""
    forbidden: ClassVar[tuple[Kind, ...]] = ("write", "process", "network", "variable")
    """What a hook must not do."""

    def call(self) -> Call:
        """The call that the tests below make."""
        raise NotImplementedError

    def account(self, world: int = 0) -> Account:
        """What came of the call, in a fresh interpreter."""
        account = account_of(to_json(self.call()), world)
        assert not account.refusal, f"the hook refused what it should accept: {account.refusal}"
        return account

    def test_it_is_found_and_keeps_the_specification(self) -> None:
        """The plugin loads alone and by its name: no hook is misspelt, none has an unknown argument."""
        info = discovery.select(discovery.scan(), self.group, self.plugin)
        assert info.state == "ok", f"{info} is {info.state}: {info.problem}"
        load_alone(self.group, self.plugin)

    def test_it_says_which_contract_it_was_made_for(self) -> None:
        """The number stands in the module, and is not taken from the core that happens to be installed."""
        info = discovery.select(discovery.scan(), self.group, self.plugin)
        spec = discovery.find_module(info.module)
        assert spec is not None, f"{info.module} is not there"
        assert spec.origin is not None, f"{info.module} has no source"
        source = Path(spec.origin).read_text(encoding="utf-8")
        found = re.findall(r"^CONTRACT(?:: \w+)? = (\d+)$", source, re.MULTILINE)
        assert found == [str(CONTRACT)], f"{info.module} says {found}, this core has the contract {CONTRACT}"

    def test_its_host_side_imports_no_heavy_library(self) -> None:
        """It works on a login node, where no training library is installed."""
        imported = {deed.what.partition(".")[0] for deed in self.account().deeds if deed.kind == "import"}
        assert not imported & self.heavy, f"imported on the host: {sorted(imported & self.heavy)}"

    def test_its_hook_only_answers(self) -> None:
        """The hook writes nothing, starts nothing, talks to nobody, and neither reads nor sets a variable."""
        deeds = self.account().of(*self.forbidden)
        assert not deeds, f"beside answering, the hook did: {', '.join(deeds)}"

    def test_its_hook_is_quick(self) -> None:
        """A user waits for it at every command."""
        seconds = self.account().seconds
        assert seconds <= self.seconds, f"{seconds:.2f} s of CPU time, at most {self.seconds} s are allowed"
