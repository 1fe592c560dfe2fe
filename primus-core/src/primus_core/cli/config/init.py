"""``primus config init --model M --framework F``: a commented experiment file to start from."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from primus_core import discovery, hooks
from primus_core.cli.config.asking import config_parser
from primus_core.cli.output import say
from primus_core.errors import ConfigError, ExitCode, RunError
from primus_core.explain.starter import Start, starter
from primus_core.explain.vocabulary import vocabulary
from primus_core.resolve import preset_parameters


def main(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Print or write the file; returns the exit code."""
    parser = config_parser("init", "Print a commented experiment file to start from; it is valid as it is.")
    parser.add_argument("--model", required=True, metavar="M", help="model preset: llama3.1_8B")
    parser.add_argument("--framework", default="megatron", metavar="F", help="back end; default: megatron")
    parser.add_argument("--config", default="pre_trainer", metavar="C", help="module preset; default: pre_trainer")
    parser.add_argument(
        "--output", metavar="FILE", help="write it here, where no file is yet; default: standard output"
    )
    args = parser.parse_args(argv)
    plugins = discovery.scan()
    hosts = hooks.load_host(plugins, backend=args.framework, launcher=None, preflight=False)
    config, model = _file_name(args.config), _file_name(args.model)
    presets = preset_parameters(
        config=config,
        model=model,
        env=env,
        folders=(*args.preset_path, *discovery.preset_dirs(plugins, args.framework)),
        cwd=os.getcwd(),
    )
    words = vocabulary(hosts, hosts.library_version())
    text = starter(Start(framework=args.framework, config=config, model=model, presets=presets, words=words))
    if args.output is None:
        say(text.rstrip("\n"))
    else:
        _write(args.output, text)
        say(f"wrote {args.output}; `primus config validate {args.output}` checks it")
    return ExitCode.OK


def _file_name(name: str) -> str:
    return name if name.endswith((".yaml", ".yml")) else f"{name}.yaml"


def _write(path: str, text: str) -> None:
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError("the file exists", where=path, remedy="choose another name, or remove it first") from None
    except OSError as error:
        raise RunError("cannot write the file", where=path, why=error.strerror or str(error)) from None
