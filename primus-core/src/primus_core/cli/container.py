"""``primus container [options] -- COMMAND``: the ranks in a container of podman or docker."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from primus_core.cli.arguments import Parser
from primus_core.cli.launchoptions import add_mode_options, words_of
from primus_core.cli.modes import Mode, asked, enter, split
from primus_core.errors import ConfigError
from primus_core.experiment import Leaf

_TEXTS = {
    "--image": ("NAME", "image of the container; default: DOCKER_IMAGE, else what the files say"),
    "--name": ("NAME", "name of the container; default: one that no other has"),
    "--user": ("USER", "user of its processes; default: the one who calls"),
    "--network": ("NET", "its network; default: the host's"),
    "--ipc": ("MODE", "its IPC namespace; default: the host's"),
    "--cpus": ("N", "most CPUs that it uses"),
    "--memory": ("SIZE", "most memory that it uses, as 128G"),
    "--shm-size": ("SIZE", "size of its /dev/shm, as 16G"),
    "--gpus": ("N", "its GPUs, for a runtime that has --gpus"),
    "--engine": ("NAME", "podman, docker, or the path of one; default: the one that answers"),
    "--python": ("PATH", "interpreter in the image; default: python3"),
}


def main(argv: Sequence[str], env: Mapping[str, str], mode: Mode | None = None) -> int:
    """Give the command behind ``--`` the options of the container; returns the exit code."""
    before, after = split(argv)
    parser = _parser()
    args, others = cast("tuple[argparse.Namespace, list[str]]", parser.parse_known_args(before))
    if others and not others[0].startswith("-"):
        raise ConfigError(
            f"{others[0]!r} belongs to no option of the container",
            why="a command comes after `--`",
            remedy="primus container ... -- train pretrain --config exp.yaml",
        )
    leaves = dict(_leaves(args, others))
    words = [*_words(args), *others]
    return enter("container", after, env, (mode or Mode()).within("container", words, leaves, words_of(parser, args)))


def _parser() -> Parser:
    parser = Parser(
        prog="primus container",
        usage="primus container [options] -- COMMAND ...",
        description="Run a command's ranks in a container of podman or docker on this host. The files that the run "
        "needs are in it under the same paths, and this installation of Primus, unless the image shall have its own.",
        epilog="Any other option is one of `podman run` or `docker run`, and goes there as it is. "
        "`primus container -- --help` lists the commands; `primus config launcher` shows what files set.",
        allow_abbrev=False,
    )
    group = parser.add_argument_group("the container")
    for option, (metavar, about) in _TEXTS.items():
        group.add_argument(option, metavar=metavar, dest=_dest(option), help=about)
    about = "have this path of the host in the container too, :ro to read only; repeatable"
    group.add_argument(
        "--volume", "-v", action="append", metavar="HOST[:CONTAINER[:ro]]", dest="section_volume", help=about
    )
    about = "device files beside those of the accelerator; repeatable"
    group.add_argument("--device", action="append", metavar="PATH", dest="section_device", help=about)
    about = "first remove the containers that earlier runs of Primus left, and no others"
    group.add_argument("--clean", action="store_true", default=None, dest="section_clean", help=about)
    about = "run the Primus of the image, not this one"
    group.add_argument("--no-mount-code", action="store_false", default=None, dest="section_mount_code", help=about)
    add_mode_options(parser)
    return parser


def _dest(option: str) -> str:
    return f"section_{option.removeprefix('--').replace('-', '_')}"


def _leaves(args: argparse.Namespace, others: Sequence[str]) -> Iterator[tuple[str, Leaf]]:
    for name, value in vars(args).items():
        if name.startswith("section_") and value is not None:
            yield name.removeprefix("section_"), asked(value)
    if others:
        yield "arguments", asked(list(others))


def _words(args: argparse.Namespace) -> Iterator[str]:
    """The options of the container again, for a command that is shown."""
    for name, value in vars(args).items():
        option = f"--{name.removeprefix('section_').replace('_', '-')}"
        if not name.startswith("section_") or value is None:
            continue
        if isinstance(value, bool):
            yield option if value else f"--no-{option.removeprefix('--')}"
        else:
            yield from (f"{option}={one}" for one in (value if isinstance(value, list) else [value]))
