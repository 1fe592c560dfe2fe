"""``primus config schema --framework F``: a JSON Schema of experiment files, for editors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from primus_core import discovery, hooks
from primus_core.cli.config.asking import config_parser
from primus_core.cli.output import say
from primus_core.errors import ConfigError, ExitCode
from primus_core.explain.editor import experiment_schema
from primus_core.explain.vocabulary import vocabulary


def main(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Print the schema; returns the exit code."""
    about = "Print a JSON Schema (draft 2020-12) of experiment files, with which an editor completes and checks them."
    parser = config_parser("schema", about, presets=False)
    parser.add_argument("--framework", required=True, metavar="F", help="the back end whose parameters it has")
    args = parser.parse_args(argv)
    hosts = hooks.load_host(discovery.scan(), backend=args.framework, launcher=None, preflight=False)
    words = vocabulary(hosts, hosts.library_version())
    if not words.library:
        raise ConfigError(f"the back end {args.framework!r} does not describe its parameters")
    say(json.dumps(experiment_schema(args.framework, words), indent=1, ensure_ascii=False))
    return ExitCode.OK
