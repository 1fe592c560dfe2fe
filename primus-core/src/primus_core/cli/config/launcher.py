"""``primus config launcher [EXP]``: the options of launchers from all places, each with the place that says it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from primus_core.cli.config.asking import Asker, add_format, add_overrides, config_parser
from primus_core.cli.launching import file_sections
from primus_core.cli.prepare import launcher_sections
from primus_core.errors import ExitCode
from primus_core.experiment import Leaf, Sections
from primus_core.planning.launcheroptions import early_options, typed_sections
from primus_core.planning.secrets import named_secrets
from primus_core.yamlfile import written


def main(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Print the options; returns the exit code."""
    about = (
        "Print the options of launchers as they count: the command line, DOCKER_IMAGE, the experiment's sections, the "
        "file of --config, ~/.primus.yaml and what comes with Primus, strongest first."
    )
    parser = config_parser("launcher", about)
    parser.add_argument("experiment", nargs="?", metavar="EXP", help="experiment file (YAML), whose sections count too")
    add_overrides(parser)
    parser.add_argument("--config", dest="launcher_config", metavar="FILE", help="defaults for launchers (YAML)")
    add_format(parser)
    args = parser.parse_intermixed_args(argv)
    asker = Asker.of(args, env)
    args.mode = None
    args.sections = file_sections(args.launcher_config, env)
    experiment = asker.resolved(args.experiment) if args.experiment else None
    sections = named_secrets(launcher_sections(args, env, experiment.launchers if experiment else {}))
    early_options(args.sections)
    typed_sections({name: leaves for name, leaves in sections.items() if name != "main"})
    text = json.dumps(_data(sections), indent=2) if args.format == "json" else "\n".join(_lines(sections))
    asker.tell(text, *([experiment] if experiment else []))
    return ExitCode.OK


def _lines(sections: Sections) -> Iterator[str]:
    """The sections as a launchers' file that means the same, with the places as comments."""
    for name, leaves in sections.items():
        if not leaves:
            continue
        yield f"{name}:"
        for key, leaf in leaves.items():
            yield f"  {written(key)}: {written(leaf.value, leaf.text)}  # {_place(leaf)}"


def _place(leaf: Leaf) -> str:
    over = ", ".join(str(one.origin) for one in leaf.overrode)
    return f"{leaf.origin}{f', over {over}' if over else ''}".replace("\n", " ")


def _data(sections: Sections) -> dict[str, object]:
    return {
        name: {
            key: {"value": leaf.value, "origin": str(leaf.origin), "over": [str(one.origin) for one in leaf.overrode]}
            for key, leaf in leaves.items()
        }
        for name, leaves in sections.items()
        if leaves
    }
