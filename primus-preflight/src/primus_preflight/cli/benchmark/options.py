"""What users may ask of each suite of `primus benchmark`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

from primus_core.cli.arguments import Parser
from primus_core.cli.launchoptions import add_launch_options
from primus_preflight.benchmarks.outputs import ENDS

_DTYPES = ("bf16", "fp16", "fp32", "fp8")
_PLAIN_DTYPES = ("bf16", "fp16", "fp32")
OPS = ("all_reduce", "broadcast", "reduce_scatter", "all_gather", "alltoall")
KERNELS = ("flash", "efficient", "cudnn", "math")
ABOUT = {
    "gemm": "one product of matrices",
    "gemm-dense": "the products of a transformer's layers, forward and backward",
    "gemm-deepseek": "those of a model with latent attention and experts",
    "attention": "attention over shapes, with the kernels that torch has",
    "strided-allgather": "all-gathers in groups of every n-th rank",
    "rccl": "collectives over message sizes, with NCCL, RCCL or gloo",
}
"""The suites."""
_EPILOG = "Results are added to a file that exists. `docs/benchmarks.md` says what the columns mean."


def parser_of(suite: str) -> Parser:
    """The parser of a suite's options and of those that say where its ranks run."""
    made = Parser(prog=f"primus benchmark {suite}", description=f"Measure {ABOUT[suite]}.", epilog=_EPILOG)
    made.allow_abbrev = False
    _SUITES[suite](made)
    _add_output(made, suite)
    add_launch_options(made, defaults="--config")
    made.add_argument("--launcher", metavar="NAME", help="direct, container, slurm or single; default: direct")
    about = "what nodes have, where it does not follow from this host, the image or the scheduler's options"
    made.add_argument("--accelerator", choices=("cpu", "cuda", "rocm"), help=about)
    made.add_argument("--run-id", metavar="ID", help="name of the run; default: start time and a random part")
    made.add_argument("--skip-preflight", action="store_true", help="leave out the checks of preflight plugins")
    made.add_argument("--output", metavar="FILE", help="write the plan there and start nothing")
    made.set_defaults(allow_patch_drift=[])
    return made


def _add_output(made: argparse.ArgumentParser, suite: str) -> None:
    default = f"./{suite}_report.md"
    about = f"results: {' '.join(ENDS)}; -: Markdown on standard output; default: {default}"
    made.add_argument("--output-file", default=default, metavar="FILE", help=about)
    choice = made.add_mutually_exclusive_group()
    choice.add_argument("--append", action="store_true", help="add to a file that exists; so it is by default")
    choice.add_argument("--overwrite", action="store_true", help="replace a file that exists")


def _gemm(made: argparse.ArgumentParser) -> None:
    for name in "MNK":
        made.add_argument(f"--{name}", f"-{name}", type=int, default=4096, metavar="N", help="default: 4096")
    made.add_argument("--trans_a", action="store_true", help="A is stored transposed")
    made.add_argument("--trans_b", action="store_true", help="B is stored transposed; in fp8 it always is")
    _add_measuring(made, _DTYPES, 10.0)


def _dense(made: argparse.ArgumentParser) -> None:
    _add_model(made, seqlen=2048)
    _add_dimensions(
        made,
        ("--hidden-size", 4096),
        ("--intermediate-size", 11008),
        ("--num-attention-heads", 32),
        ("--num-key-value-heads", 32),
        ("--head-dim", 128),
        ("--vocab-size", 32000),
    )
    _add_measuring(made, _DTYPES, 3.0)


def _deepseek(made: argparse.ArgumentParser) -> None:
    _add_model(made, seqlen=4096)
    _add_dimensions(
        made,
        ("--hidden-size", 4096),
        ("--intermediate-size", 12288),
        ("--kv-lora-rank", 512),
        ("--moe-intermediate-size", 1536),
        ("--num-attention-heads", 64),
        ("--num-experts-per-tok", 6),
        ("--n-routed-experts", 128),
        ("--n-shared-experts", 2),
        ("--q-lora-rank", 0),
        ("--qk-nope-head-dim", 128),
        ("--qk-rope-head-dim", 64),
        ("--v-head-dim", 128),
        ("--vocab-size", 128256),
    )
    _add_measuring(made, _DTYPES, 3.0)


def _attention(made: argparse.ArgumentParser) -> None:
    add = made.add_argument
    add("--model", metavar="M", help="model preset whose heads count: llama3.1_8B")
    add("--batch-size", type=int, default=1, metavar="N", help="sequences; default: 1")
    add("--seqlen", default="1024,2048,4096", metavar="LIST", help="lengths of sequences; default: 1024,2048,4096")
    _add_dimensions(made, ("--num-attention-heads", 32), ("--num-key-value-heads", 32), ("--head-dim", 128))
    add("--no-causal", action="store_true", help="every position looks at all others, not at those before it alone")
    add("--kernels", metavar="LIST", help=f"of {','.join(KERNELS)}; default: those that the device has")
    _add_measuring(made, _PLAIN_DTYPES, 1.0)


def _strided(made: argparse.ArgumentParser) -> None:
    add = made.add_argument
    add("--sizes-mb", default="64,128,256", metavar="LIST", help="each rank's part, 10^6 bytes; default: 64,128,256")
    add("--stride", type=int, default=8, metavar="N", help="a group is every N-th rank; default: 8")
    add("--parallel", action="store_true", help="all groups at the same time")
    _add_repetitions(made, iters=50, warmup=10)
    add("--dtype", choices=_PLAIN_DTYPES, default="bf16", help="default: bf16")
    _add_backend(made, ("nccl", "gloo", "mpi"))


def _rccl(made: argparse.ArgumentParser) -> None:
    add = made.add_argument
    about = f"of {' '.join(OPS)}; default: all_reduce"
    add("--op", nargs="+", action="extend", choices=OPS, metavar="OP", help=about)
    add("--sizes", metavar="LIST", help="sizes of messages, such as 1K,1M; instead of a sweep")
    add("--min-bytes", default="1K", metavar="SIZE", help="least size of the sweep; default: 1K")
    add("--max-bytes", default="128M", metavar="SIZE", help="greatest one; default: 128M")
    add("--num-sizes", type=int, default=12, metavar="N", help="sizes in the sweep; default: 12")
    add("--scale", choices=("log2", "linear"), default="log2", help="equal ratios or equal steps; default: log2")
    add("--dtype", choices=_PLAIN_DTYPES, default="bf16", help="default: bf16")
    _add_repetitions(made, iters=100, warmup=20)
    _add_backend(made, ("nccl", "gloo"))
    add("--repeat", type=int, default=1, metavar="N", help="measure each size so often; default: 1")
    add("--aggregate-repeat", action="store_true", help="a row more for the medians of the repeats")
    add("--check", action="store_true", help="verify the values of one message of each size")
    add("--cluster", metavar="NAME", help="label of the rows; default: PRIMUS_CLUSTER")
    _add_tables(made)


def _add_tables(made: argparse.ArgumentParser) -> None:
    add = made.add_argument
    add("--per-rank", action="store_true", help="the figures of each rank too")
    add("--per-rank-file", metavar="FILE", help="default: the output file's name with _rank")
    add("--per-iter-trace", action="store_true", help="the time of each repetition on each rank too")
    add("--trace-file", metavar="FILE", help="default: the output file's name with _trace")
    add("--trace-limit", type=int, default=0, metavar="N", help="repetitions of each size; 0, the default: all")
    add("--trace-ops", default="", metavar="LIST", help="default: all")
    add("--trace-sizes", default="", metavar="LIST", help="default: all")


def _add_model(made: argparse.ArgumentParser, *, seqlen: int) -> None:
    about = "model preset, such as llama3.1_8B; options below change its dimensions; with them, any label"
    made.add_argument("--model", metavar="M", help=about)
    made.add_argument("--seqlen", type=int, default=seqlen, metavar="N", help=f"tokens; default: {seqlen}")
    made.add_argument("--mbs", type=int, default=1, metavar="N", help="sequences of a micro batch; default: 1")


def _add_dimensions(made: argparse.ArgumentParser, *options: tuple[str, int]) -> None:
    """Options without a default that argparse knows: it holds only where no model says another number."""
    for option, number in options:
        made.add_argument(option, type=int, metavar="N", help=f"default: the model's, else {number}")
    made.set_defaults(usual={option[2:].replace("-", "_"): number for option, number in options})


def _add_measuring(made: argparse.ArgumentParser, dtypes: tuple[str, ...], seconds: float) -> None:
    made.add_argument("--dtype", choices=dtypes, default="bf16", help="default: bf16")
    about = f"seconds for each row; default: {seconds:g}"
    made.add_argument("--duration", type=float, default=seconds, metavar="S", help=about)


def _add_repetitions(made: argparse.ArgumentParser, *, iters: int, warmup: int) -> None:
    made.add_argument("--iters", type=int, default=iters, metavar="N", help=f"measured ones; default: {iters}")
    made.add_argument("--warmup", type=int, default=warmup, metavar="N", help=f"before them; default: {warmup}")


def _add_backend(made: argparse.ArgumentParser, known: tuple[str, ...]) -> None:
    made.add_argument("--backend", choices=known, help="default: nccl (RCCL on ROCm) with devices, else gloo")


_SUITES: Mapping[str, Callable[[argparse.ArgumentParser], None]] = {
    "gemm": _gemm,
    "gemm-dense": _dense,
    "gemm-deepseek": _deepseek,
    "attention": _attention,
    "strided-allgather": _strided,
    "rccl": _rccl,
}
