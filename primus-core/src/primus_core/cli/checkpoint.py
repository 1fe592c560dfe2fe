"""``primus checkpoint export RUN --to hf --output DIR``, ``primus checkpoint list RUN`` and ``... verify RUN``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from primus_core import discovery
from primus_core.checkpoints.contents import faults
from primus_core.checkpoints.dcp import read_metadata
from primus_core.checkpoints.faults import Unreadable
from primus_core.checkpoints.folders import MARKER
from primus_core.checkpoints.safetensors import DTYPES
from primus_core.checkpoints.sidecar import read_sidecar
from primus_core.checkpoints.steps import list_steps
from primus_core.cli.arguments import Parser
from primus_core.cli.output import complain, say
from primus_core.codec import to_json
from primus_core.compare.runs import find_run
from primus_core.errors import ConfigError, DependencyError, ExitCode, RunError
from primus_core.plan import Process, RunPlan
from primus_core.quantities import text_size
from primus_core.weights.architecture import Dense, NotDense
from primus_core.weights.export import WRITER, Request, Shard, new_folder, shards_of, write_descriptions
from primus_core.weights.runs import Origin
from primus_core.weights.table import Codec

_GIB = 1 << 30


def main(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """List or verify the checkpoints of a run, or export one; returns the exit code."""
    args = _parser().parse_args(argv)
    if args.command == "list":
        _list(args)
    elif args.command == "verify":
        return _verify(args)
    else:
        _export(args, env)
    return ExitCode.OK


def _parser() -> Parser:
    common = Parser(add_help=False)
    common.add_argument("run", metavar="RUN", help="folder of a run, or of an experiment: its latest run")
    common.add_argument("--debug", action="store_true", help="show tracebacks")
    parser = Parser(prog="primus checkpoint", description="Look at the checkpoints of a run, or take one elsewhere.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, dest="command")
    commands.add_parser("list", parents=[common], allow_abbrev=False, help="the whole checkpoints of a run")
    verify = commands.add_parser("verify", parents=[common], allow_abbrev=False, help="compare sizes and checksums")
    verify.add_argument("--step", type=int, metavar="N", help="one checkpoint; default: all whole ones")
    export = commands.add_parser("export", parents=[common], allow_abbrev=False, help="write a Hugging Face folder")
    export.add_argument("--to", required=True, choices=["hf"], help="hf: safetensors, config.json, tokenizer")
    export.add_argument("--output", required=True, metavar="DIR", help="a folder that does not exist")
    export.add_argument("--step", type=int, metavar="N", help="which checkpoint; default: the one written last")
    export.add_argument("--dtype", choices=list(DTYPES), help="convert the weights; default: as they were saved")
    export.add_argument("--shard-size", type=float, default=5.0, metavar="GIB", help="of a file at most; default: 5")
    return parser


def _list(args: argparse.Namespace) -> None:
    run = _run(args.run)
    steps = _codec(run.plan).checkpoints(_folder(run))
    if not steps:
        say(f"no whole checkpoint in {_folder(run)}")
    for step, path in sorted(steps.items()):
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        written = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(path.stat().st_mtime))
        say(f"{step:>10}  {written} UTC  {text_size(size):>10}  {path}")


def _verify(args: argparse.Namespace) -> int:
    """Read every file of the checkpoints, several at a time."""
    run = _run(args.run)
    steps = dict(_codec(run.plan).checkpoints(_folder(run)))
    chosen = steps if args.step is None and steps else {args.step: _checkpoint(steps, args.step, run)}
    damaged = 0
    for step, path in sorted(chosen.items()):
        told = _verified(path)
        damaged += told.startswith("damaged")
        say(f"{step:>10}  {told}  {path}")
    return ExitCode.RUNTIME if damaged else ExitCode.OK


def _verified(folder: Path) -> str:
    from concurrent.futures import ThreadPoolExecutor

    try:
        sidecar = read_sidecar(folder / MARKER)
    except Unreadable as unreadable:
        return f"damaged: {MARKER} is {unreadable}"
    if sidecar is None or not any(stored.sha256 for stored in sidecar.files.values()):
        return "no checksums are known"
    with ThreadPoolExecutor() as pool:
        looked = pool.map(lambda name: list(faults(folder, sidecar.files, [name], sums=True)), sidecar.files)
        found = [fault for some in looked for fault in some]
    size = text_size(sum(stored.size for stored in sidecar.files.values()))
    return f"damaged: {'; '.join(found)}" if found else f"sound, {size} in {len(sidecar.files)} files"


def _export(args: argparse.Namespace, env: Mapping[str, str]) -> None:
    if args.shard_size <= 0:
        raise ConfigError(f"--shard-size {args.shard_size:g}", remedy="a size above 0, in GiB")
    run, output = _run(args.run), Path(os.path.abspath(args.output))
    codec, started = _codec(run.plan), time.monotonic()
    model = _model(codec, run.plan)
    checkpoint = _checkpoint(codec.checkpoints(_folder(run)), args.step, run)
    with new_folder(output) as folder:
        shards = _shards(codec, model, checkpoint, args)
        _write(Request(checkpoint=str(checkpoint), output=str(folder), shards=shards), run, env)
        write_descriptions(folder, model, shards, run.special_tokens(), run.tokenizer())
    size = text_size(sum(part.bytes for shard in shards for part in shard.parts))
    files = f"{len(shards)} file{'s' * (len(shards) != 1)}"
    say(f"{checkpoint} -> {output}\n{size} in {files}, {time.monotonic() - started:.1f} s")


def _run(path: str) -> Origin:
    found = find_run(path)
    return Origin(folder=found.rundir.path, plan=found.plan)


def _codec(plan: RunPlan) -> Codec:
    if plan.framework is None or plan.translation is None:
        raise ConfigError("the run trained nothing: it has no checkpoints", where=plan.run_dir)
    plugins = discovery.scan()
    return cast(Codec, discovery.load(discovery.select(plugins, "primus.checkpoints", plan.framework)))


def _folder(run: Origin) -> str:
    return run.checkpoints(_codec(run.plan).folder(run.plan))


def _model(codec: Codec, plan: RunPlan) -> Dense:
    try:
        return codec.model(plan)
    except NotDense as other:
        told = ", ".join(f"{name}: {value}" for name, value in other.parameters.items())
        raise ConfigError(
            "the weights of this model cannot be written as a Hugging Face folder",
            where=plan.run_dir,
            why=f"dense Llama and Qwen models can be, with {other.words}; this one has {told}",
        ) from None


def _checkpoint(steps: Mapping[int, Path], step: int | None, run: Origin) -> Path:
    if not steps:
        raise ConfigError("there is no whole checkpoint", where=_folder(run), remedy="set `save_interval` in the run")
    if step is None:
        return list(steps.values())[-1]
    if step not in steps:
        why = f"whole checkpoints: {list_steps(list(steps))}"
        raise ConfigError(f"there is no whole checkpoint of step {step}", where=_folder(run), why=why)
    return steps[step]


def _shards(codec: Codec, model: Dense, checkpoint: Path, args: argparse.Namespace) -> tuple[Shard, ...]:
    try:
        tensors = read_metadata(checkpoint).tensors
        return shards_of(codec.kept(model, tensors), tensors, model, args.dtype, int(args.shard_size * _GIB))
    except Unreadable as fault:
        remedy = "checkpoints of whole tensors can be exported: Megatron's torch_dist, TorchTitan's"
        what = "the checkpoint cannot be read"
        raise RunError(what, where=str(checkpoint), why=str(fault), remedy=remedy) from None
    except KeyError as missing:
        remedy = "the run's folder holds checkpoints of another model: name their run"
        what = f"the checkpoint has no tensor {missing.args[0]}"
        raise RunError(what, where=str(checkpoint), remedy=remedy) from None


def _write(request: Request, run: Origin, env: Mapping[str, str]) -> None:
    """In a process of its own, which has torch: in the Python that the run used, where that is here."""
    from primus_core.submit.child import run_child

    total = sum(part.bytes for shard in request.shards for part in shard.parts)
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        file.write(to_json(request))
        file.flush()
        process = Process(argv=(run.python(sys.executable), "-m", WRITER, file.name))
        ended = run_child(process, env, lambda line: _tell(line, total, env))
    if ended.status == 0:
        return
    last = ended.errors.strip().splitlines()[-1:] or [f"exit status {ended.status}"]
    if last[0].startswith("ModuleNotFoundError"):
        remedy = f'pip install "primus-backend-{run.plan.framework}[runtime]", or export where it is installed'
        raise DependencyError("a library that reads checkpoints is missing", why=last[0], remedy=remedy)
    raise RunError("the weights could not be written", where=request.checkpoint, why=last[0])


def _tell(line: str, total: int, env: Mapping[str, str]) -> None:
    if sys.stderr.isatty() and line.isdecimal():
        end = "\n" if int(line) == total else ""
        complain(f"\rwriting  {text_size(int(line))} of {text_size(total)}  {int(line) * 100 // total} %{end}", env)
