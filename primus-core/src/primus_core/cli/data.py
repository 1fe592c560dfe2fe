"""``primus data inspect PREFIX`` and ``primus data tokenize INPUT... --output PREFIX``."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import cast

from primus_core.cli.arguments import Parser
from primus_core.cli.output import complain, say
from primus_core.errors import ConfigError, DependencyError, ExitCode, PrimusError, raise_all
from primus_core.experiment import Leaf, Origin
from primus_core.log.console import progress_line
from primus_core.planning.datasources import Source, find_sources
from primus_core.planning.datatokenizers import TokenizerChoice, choose_tokenizer
from primus_core.planning.datatokens import INSPECT, TOKENIZE, TokenFacts, Tokenized, TokenizeRequest
from primus_core.quantities import text_size


def main(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Inspect or make token files; returns the exit code."""
    args = _parser().parse_args(argv)
    command: Callable[[argparse.Namespace, Mapping[str, str]], None] = args.command
    command(args, env)
    return ExitCode.OK


def _parser() -> Parser:
    common = Parser(add_help=False)
    common.add_argument("--debug", action="store_true", help="show tracebacks")
    parser = Parser(prog="primus data", description="Look at token files, or make them.", parents=[common])
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    look = commands.add_parser("inspect", parents=[common], allow_abbrev=False, help="tell what a token file holds")
    look.add_argument("prefix", metavar="PREFIX", help="path without .bin and .idx, a folder or a glob")
    look.add_argument("--tokenizer-type", metavar="T", help="decode a sample with it; default: what made the file")
    look.set_defaults(command=_inspect)
    about = "make a token file of text, JSONL or Parquet"
    make = commands.add_parser("tokenize", parents=[common], allow_abbrev=False, help=about)
    make.add_argument("input", nargs="+", metavar="INPUT", help="file, folder or glob")
    make.add_argument("--output", required=True, metavar="PREFIX", help="path without .bin and .idx")
    make.add_argument("--tokenizer-type", required=True, metavar="T", help="for example HuggingFaceTokenizer")
    make.add_argument("--text-field", default="text", metavar="F", help="JSONL field or Parquet column; default: text")
    make.add_argument("--force", action="store_true", help="replace what is there")
    make.set_defaults(command=_tokenize)
    for command in (look, make):
        command.add_argument("--tokenizer-model", metavar="M", help="its file, folder or hub id")
    return parser


def _inspect(args: argparse.Namespace, env: Mapping[str, str]) -> None:
    sources = find_sources(args.prefix, os.getcwd(), "")
    indexed = [source.files[0] for source in sources if source.kind == "indexed"]
    if not indexed:
        remedy = f"`primus data tokenize {args.prefix} --output PREFIX --tokenizer-type T` makes some of it"
        raise ConfigError(f"{args.prefix} is no token file", remedy=remedy)
    if args.tokenizer_model and not args.tokenizer_type:
        raise ConfigError("--tokenizer-model without --tokenizer-type", remedy="give both")
    choice = _tokenizer(args) if args.tokenizer_type else None
    inspect = cast("Callable[[str, TokenizerChoice | None, Mapping[str, str]], TokenFacts]", _load(INSPECT))
    say("\n\n".join(_table(inspect(prefix, choice, env)) for prefix in indexed))


def _table(facts: TokenFacts) -> str:
    sampled = ", of a sample" if facts.is_sampled else ""
    sample = facts.why_no_sample if facts.sample is None else json.dumps(facts.sample, ensure_ascii=False)
    rows = {
        "file": f"{facts.prefix}.bin, {text_size(facts.bytes)}",
        "documents": f"{facts.documents:,}",
        "tokens": f"{facts.tokens:,} ({facts.dtype})",
        "longest": f"{facts.longest:,} tokens",
        "shortest": f"{facts.shortest:,} tokens",
        "largest": f"token {facts.largest_token:,}{sampled}" if facts.tokens else "no token",
        "tokenizer": facts.tokenizer or "not known",
        "sample": sample,
    }
    return "\n".join(f"{name:<12}{text}" for name, text in rows.items())


def _tokenize(args: argparse.Namespace, env: Mapping[str, str]) -> None:
    request = TokenizeRequest(
        sources=_sources(args),
        tokenizer=_tokenizer(args),
        text_field=args.text_field,
        prefix=_prefix(args.output),
        force=args.force,
    )
    tokenize = cast("Callable[[TokenizeRequest, Mapping[str, str], _Terminal], Tokenized]", _load(TOKENIZE))
    started = time.monotonic()
    with _Terminal(env) as terminal:
        made = tokenize(request, env, terminal)
    files = "1 file" if made.files == 1 else f"{made.files:,} files"
    text = f"{text_size(made.text_bytes)} of text in {files} -> {made.tokens:,} tokens of {made.documents:,} documents"
    say(f"{text}, {time.monotonic() - started:.1f} s\n{request.prefix}.bin, .idx and .meta.json")


def _sources(args: argparse.Namespace) -> tuple[Source, ...]:
    found: list[Source] = []
    errors: list[PrimusError] = []
    for entry in args.input:
        try:
            found += find_sources(entry, os.getcwd(), "", args.text_field)
        except ConfigError as error:
            errors.append(error)
    raise_all(errors)
    indexed = [source.files[0] for source in found if source.kind == "indexed"]
    if indexed:
        raise ConfigError(f"{indexed[0]} is tokenized already", remedy="name text, JSONL or Parquet")
    return tuple(found)


def _prefix(output: str) -> str:
    path = os.path.abspath(output)
    if output.endswith("/") or os.path.isdir(path):
        raise ConfigError(f"--output {output} is a folder", remedy=f"name the file too: {os.path.join(output, 'NAME')}")
    return path[:-4] if path.endswith((".bin", ".idx")) else path


def _tokenizer(args: argparse.Namespace) -> TokenizerChoice:
    given = {"tokenizer_type": args.tokenizer_type, "tokenizer_model": args.tokenizer_model}
    leaves = {
        name: Leaf(value=value, origin=Origin(file=f"--{name.replace('_', '-')}"))
        for name, value in given.items()
        if value is not None
    }
    return choose_tokenizer(leaves, os.getcwd(), has_text=True)


def _load(entry: str) -> object:
    """Code that needs the extra ``[data]``, by its name: no other command waits for its libraries."""
    module, _, name = entry.partition(":")
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        remedy = 'pip install "primus-core[data]"'
        raise DependencyError(f"the library {error.name} is missing", why=str(error), remedy=remedy) from error


class _Terminal:
    """Shows how far a tokenization is, in one line of a terminal, and its warnings."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._is_live = sys.stderr.isatty()
        self._width = 0

    def progress(self, what: str, done: int, total: int | None, unit: str) -> None:
        if self._is_live:
            text = progress_line({"what": what, "done": done, "total": total, "unit": unit})
            complain(f"\r{text:<{self._width}}", self._env)
            self._width = len(text)

    def log(self, level: str, event: str, **values: object) -> None:
        self._clear()
        details = ", ".join(f"{name} {value}" for name, value in values.items())
        complain(f"{level}: {event} ({details})\n", self._env)

    def _clear(self) -> None:
        if self._width:
            complain(f"\r{'':<{self._width}}\r", self._env)
        self._width = 0

    def __enter__(self) -> _Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()
