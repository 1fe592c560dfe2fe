"""``primus plugins``: what is installed and in which state; imports none of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from primus_core import discovery
from primus_core.cli.arguments import Parser
from primus_core.cli.output import say
from primus_core.errors import ExitCode

_HEADER = ("NAME", "KIND", "DISTRIBUTION", "VERSION", "STATE")


def main(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Print a table, one plugin a row."""
    parser = Parser(prog="primus plugins", description="List the installed plugins without importing them.")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    parser.parse_args(argv)
    rows = [_HEADER, *map(_row, discovery.scan().all)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER) - 1)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        say("  ".join([*cells, row[-1]]))
    return ExitCode.OK


def _row(plugin: discovery.PluginInfo) -> tuple[str, ...]:
    kind = plugin.group.removeprefix("primus.").removesuffix("s")
    state = f"{plugin.state}: {plugin.problem}" if plugin.problem else plugin.state
    return plugin.name, kind, plugin.distribution, plugin.version, state
