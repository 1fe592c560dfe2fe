"""``primus slurm [srun|sbatch] FLAGS -- COMMAND``: the ranks on nodes that Slurm gives."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from primus_core.cli.arguments import Parser
from primus_core.cli.launchoptions import add_mode_options, words_of
from primus_core.cli.modes import Mode, asked, enter, split
from primus_core.cli.output import say
from primus_core.errors import ConfigError, ExitCode
from primus_core.experiment import Leaf
from primus_core.parameters import nearest
from primus_core.planning.slurmflags import Command, read_flags

_COMMANDS: dict[str, Command] = {"srun": "srun", "sbatch": "sbatch"}
_HELP = ("-h", "--help")


def main(argv: Sequence[str], env: Mapping[str, str], mode: Mode | None = None) -> int:
    """Give the command behind ``--`` the nodes that the flags ask for; returns the exit code."""
    before, after = split(argv)
    parser = _parser()
    if set(_HELP) & set(before):
        say(parser.format_help().rstrip("\n"))
        return ExitCode.OK
    own, rest = _own_words(parser, before)
    args = parser.parse_args(own)
    command, flags = _command(rest)
    leaves: dict[str, Leaf] = {"mode": asked(command)}
    leaves.update({name: asked(value) for name, value in read_flags(flags, command).items()})
    if args.output_script is not None:
        if command != "sbatch":
            remedy = "primus slurm sbatch --output-script FILE ..."
            raise ConfigError("--output-script is for sbatch", why="srun runs no script", remedy=remedy)
        leaves["output_script"] = asked(os.path.abspath(args.output_script))
    words = [command, *flags]
    return enter("slurm", after, env, (mode or Mode()).within("slurm", words, leaves, words_of(parser, args)))


def _parser() -> Parser:
    """Of Primus's own options; Slurm's are read by its own rules."""
    parser = Parser(
        prog="primus slurm",
        usage="primus slurm [options] [srun|sbatch] [options of srun or sbatch] -- COMMAND ...",
        description="Run a command's ranks on nodes that Slurm gives: srun waits for the run and shows it, sbatch "
        "submits a job. Without either, srun.",
        epilog="Options of srun and sbatch are written as Slurm has them (-N 4, -N4, --nodes=4), and are stronger than "
        "those of `slurm:` in an experiment or a launcher's file. `primus slurm -- --help` lists the commands. "
        "`-- container` or `-- direct` before the command says what starts the ranks on each node: a container where "
        "the user names an image, else direct.",
        allow_abbrev=False,
    )
    about = "with sbatch: write the job script there, and submit nothing"
    parser.add_argument("--output-script", metavar="FILE", help=about)
    add_mode_options(parser)
    return parser


def _own_words(parser: Parser, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words of Primus's own options, with their values, and the others."""
    own: list[str] = []
    rest: list[str] = []
    todo = list(words)
    options = parser.options
    while todo:
        word = todo.pop(0)
        name, given, _ = word.partition("=")
        if name not in options or not name.startswith("--"):
            rest.append(word)
            continue
        own.append(word)
        if not given and options[name].nargs is None and todo:
            own.append(todo.pop(0))
    return own, rest


def _command(words: Sequence[str]) -> tuple[Command, list[str]]:
    """``srun`` or ``sbatch``, and the flags behind it."""
    if not words or words[0].startswith("-"):
        return "srun", list(words)
    if words[0] in _COMMANDS:
        return _COMMANDS[words[0]], list(words[1:])
    meant = nearest(words[0], _COMMANDS)
    remedy = f"did you mean {meant}?" if meant else "srun or sbatch; a command comes after `--`"
    raise ConfigError(f"`slurm` knows no {words[0]!r}", remedy=remedy)
