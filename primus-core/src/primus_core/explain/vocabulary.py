"""Every name that an experiment of one back end may use, with what is known about it."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, field, frozen

from primus_core.hooks import HostPlugins
from primus_core.parameters import Parameter, owner_of, portable
from primus_core.parameters.foreign import ForeignKey, ForeignKeys
from primus_core.planning.launcheroptions import launcher_schema
from primus_core.planning.settings import core_schema


@frozen(kw_only=True)
class Vocabulary:
    """Parameters by name: the library's, core's own and portable ones, and those of other products."""

    library: str = ""
    """Name and version; empty where the back end tells nothing about its parameters."""
    parameters: Mapping[str, Parameter] = field(factory=dict)
    """What may stand under ``overrides``; names may be dotted."""
    foreign: ForeignKeys = field(factory=dict)
    natives: Mapping[str, str] = field(factory=dict)
    """The library's name of each portable parameter."""
    options: Mapping[str, Parameter] = field(factory=dict)
    """Options of launchers: ``direct.gpus_per_node``."""

    def parameter(self, path: str) -> Parameter | None:
        """The parameter that a path names; of an alias, the one that it stands for."""
        alias = self.foreign_key(path)
        name = alias.native if alias and alias.native else path
        return self.parameters.get(name) or self.options.get(name)

    def native(self, path: str) -> str:
        """The library's name of a parameter that has another one too; else the name itself."""
        foreign = self.foreign_key(path)
        return self.natives.get(path) or (foreign.native if foreign else "") or path

    def foreign_key(self, path: str) -> ForeignKey | None:
        name = None if path in self.parameters else owner_of(path, self.foreign)
        return self.foreign[name] if name else None


def vocabulary(hosts: HostPlugins, version: str) -> Vocabulary:
    """The names that the back end's own module and core declare for a version of the library."""
    schema = hosts.schema(version)
    native = schema.parameters if schema else {}
    return Vocabulary(
        library=str(schema) if schema else "",
        parameters={**(portable() if schema else {}), **_described(native), **core_schema().parameters},
        foreign=hosts.foreign_keys(),
        natives=hosts.portable_keys(),
        options=launcher_schema().parameters,
    )


def _described(native: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """The library's parameters; portable ones in core's words, which are the same for every library."""
    known = portable()
    return {name: evolve(one, help=known[name].help) if name in known else one for name, one in native.items()}
