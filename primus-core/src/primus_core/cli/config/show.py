"""``primus config show EXP``: the experiment as it is after `extends`, presets, variables and overrides."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from primus_core.cli.config.asking import Asker, add_format, add_overrides, config_parser, environment_of
from primus_core.errors import ExitCode
from primus_core.experiment import Experiment
from primus_core.explain.leaves import origins
from primus_core.explain.resolved import as_json, settled
from primus_core.planning.refusals import refuse_secrets
from primus_core.planning.secrets import without_secrets
from primus_core.yamlfile import dump_experiment


def main(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Print the resolved experiment; returns the exit code."""
    about = "Print the resolved experiment, as a file that means the same."
    parser = config_parser("show", about)
    parser.add_argument("experiment", help="experiment file (YAML)")
    add_overrides(parser)
    parser.add_argument("--origins", action="store_true", help="with the place that each value came from")
    add_format(parser)
    args = parser.parse_intermixed_args(argv)
    asker = Asker.of(args, env)
    experiment = asker.meant(args.experiment)
    refuse_secrets(experiment, {**env, **environment_of(experiment)})
    known = {module.name: asker.known(experiment, module) for module in experiment.modules.values()}
    shown = settled(without_secrets(experiment), known)
    text = _json(shown, args.origins) if args.format == "json" else dump_experiment(shown, origins=args.origins)
    asker.tell(text.rstrip("\n"), experiment)
    return ExitCode.OK


def _json(experiment: Experiment, with_origins: bool) -> str:
    content = as_json(experiment)
    if with_origins:
        content["origins"] = origins(experiment)
    return json.dumps(content, indent=2, ensure_ascii=False)
