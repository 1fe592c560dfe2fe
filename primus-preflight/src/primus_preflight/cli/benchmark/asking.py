"""From a suite's options to the arguments of its task."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence

from primus_core.errors import ConfigError
from primus_core.experiment import Value
from primus_preflight.benchmarks.outputs import STDOUT, beside, check_output
from primus_preflight.benchmarks.products import Product, products_of
from primus_preflight.benchmarks.rows import Kind
from primus_preflight.benchmarks.sizes import parse_bytes, parse_list, sweep
from primus_preflight.cli.benchmark.models import model_of
from primus_preflight.cli.benchmark.options import KERNELS

Arguments = dict[str, Value]
_FP8_MULTIPLE = 16


def arguments_of(suite: str, args: argparse.Namespace, env: Mapping[str, str]) -> Arguments:
    """What the ranks have to know.

    Raises:
        ConfigError: an option has no meaning, or a file of results could not be written.
    """
    for name in ("M", "N", "K", "seqlen", "mbs", "batch_size", "iters", "stride", "repeat"):
        _at_least(args, name, 1)
    _at_least(args, "warmup", 0)
    _at_least(args, "trace_limit", 0)
    if getattr(args, "duration", 1) <= 0:
        raise ConfigError(f"--duration {args.duration:g}", why="it is a time in seconds", remedy="give more than 0")
    return {"suite": suite, "dtype": args.dtype, **_SUITES[suite](args, env), **_outputs(suite, args)}


def _at_least(args: argparse.Namespace, name: str, least: int) -> None:
    value = getattr(args, name, None)
    if isinstance(value, int) and value < least:
        raise ConfigError(f"--{name.replace('_', '-')} {value}", remedy=f"give {least} or more")


def _gemm(args: argparse.Namespace, env: Mapping[str, str]) -> Arguments:
    fp8 = args.dtype == "fp8"
    if fp8 and args.trans_a:
        why = "tensor cores multiply fp8 in one layout, A as it is and B transposed"
        raise ConfigError("--trans_a with --dtype fp8", why=why, remedy="leave --trans_a out")
    product = Product(m=args.M, n=args.N, k=args.K, trans_a=args.trans_a, trans_b=args.trans_b or fp8)
    return _products([product], args)


def _model(args: argparse.Namespace, env: Mapping[str, str]) -> Arguments:
    products = products_of(model_of(args, env), args.mbs * args.seqlen)
    return {"label": args.model, **_products(products, args)}


def _products(products: Sequence[Product], args: argparse.Namespace) -> Arguments:
    if args.dtype == "fp8":
        bad = next((one for one in products if any(side % _FP8_MULTIPLE for side in (one.m, one.n, one.k))), None)
        if bad:
            what = f"{bad.operation} {bad.m} x {bad.n} x {bad.k} in fp8"
            remedy = f"give multiples of {_FP8_MULTIPLE}, or another --dtype"
            raise ConfigError(what, why=f"fp8 needs multiples of {_FP8_MULTIPLE}", remedy=remedy)
    return {"products": [one.as_value() for one in products], "seconds": args.duration}


def _attention(args: argparse.Namespace, env: Mapping[str, str]) -> Arguments:
    model = model_of(args, env)
    lengths = [_whole(word, "--seqlen") for word in parse_list(args.seqlen, "--seqlen")]
    if model.heads % model.kv_heads:
        why = "heads of keys and values are shared by equal numbers of queries' heads"
        raise ConfigError(f"{model.kv_heads} heads of keys for {model.heads} of queries", why=why)
    shapes: list[Value] = [
        {
            "batch": args.batch_size,
            "seqlen": length,
            "heads": model.heads,
            "kv_heads": model.kv_heads,
            "head_dim": model.head_dim + model.qk_rope_head_dim,
            "causal": not args.no_causal,
        }
        for length in lengths
    ]
    kernels: list[Value] = [*_named(args.kernels, KERNELS, "--kernels")] if args.kernels else []
    return {"label": args.model, "shapes": shapes, "kernels": kernels, "seconds": args.duration}


def _strided(args: argparse.Namespace, env: Mapping[str, str]) -> Arguments:
    sizes: list[Value] = [_megabytes(word) for word in parse_list(args.sizes_mb, "--sizes-mb")]
    names = ("stride", "parallel", "iters", "warmup", "backend")
    return {"sizes_mb": sizes, **{name: getattr(args, name) for name in names}}


def _rccl(args: argparse.Namespace, env: Mapping[str, str]) -> Arguments:
    sizes = _sizes(args)
    ops = [*dict.fromkeys(args.op or ["all_reduce"])]
    names = ("iters", "warmup", "repeat", "check", "per_rank", "backend")
    return {
        "label": args.cluster or env.get("PRIMUS_CLUSTER") or None,
        "ops": [*ops],
        "sizes": [*sizes],
        "aggregate": args.aggregate_repeat,
        "trace": _trace(args, ops, sizes) if args.per_iter_trace else None,
        **{name: getattr(args, name) for name in names},
    }


def _trace(args: argparse.Namespace, ops: Sequence[str], sizes: Sequence[int]) -> Value:
    """Of which measurements the time of each repetition is wanted; nothing named: of all.

    Raises:
        ConfigError: one is named that is not measured.
    """
    named = _named(args.trace_ops, ops, "--trace-ops") if args.trace_ops else []
    words = parse_list(args.trace_sizes, "--trace-sizes") if args.trace_sizes else []
    traced = [parse_bytes(word, "--trace-sizes") for word in words]
    if others := [size for size in traced if size not in sizes]:
        remedy = f"choose from {', '.join(map(str, sizes))}"
        raise ConfigError(f"a message of {others[0]} bytes is not measured", where="--trace-sizes", remedy=remedy)
    return {"ops": [*named], "sizes": [*traced], "limit": args.trace_limit}


def _sizes(args: argparse.Namespace) -> list[int]:
    if args.sizes:
        return [parse_bytes(word, "--sizes") for word in parse_list(args.sizes, "--sizes")]
    least, most = parse_bytes(args.min_bytes, "--min-bytes"), parse_bytes(args.max_bytes, "--max-bytes")
    return sweep(least, most, args.num_sizes, args.scale)


def _whole(word: str, option: str) -> int:
    if not word.isascii() or not word.isdecimal() or int(word) < 1:
        raise ConfigError(f"{word!r} is no number of 1 or more", where=option)
    return int(word)


def _megabytes(word: str) -> float:
    try:
        size = float(word)
    except ValueError:
        size = 0.0
    if not 0 < size < float("inf"):
        raise ConfigError(f"{word!r} is no size in MB", where="--sizes-mb", remedy="--sizes-mb 64,128")
    return size


def _named(text: str, known: Sequence[str], option: str) -> list[str]:
    names = parse_list(text, option)
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(f"there is no {unknown[0]!r}", where=option, remedy=f"choose from {', '.join(known)}")
    return names


def _outputs(suite: str, args: argparse.Namespace) -> Arguments:
    """The files by the table that goes there, absolute."""
    results: str = args.output_file
    named: dict[Kind, str | None] = {"results": results}
    default = results if results != STDOUT else f"./{suite}_report.md"
    if getattr(args, "per_rank", False):
        named["ranks"] = args.per_rank_file or beside(default, "rank")
    if getattr(args, "per_iter_trace", False):
        named["trace"] = args.trace_file or beside(default, "trace")
    paths = {kind: path if path == STDOUT else os.path.abspath(path) for kind, path in named.items() if path}
    for kind, path in paths.items():
        if path != STDOUT:
            check_output(path, suite, kind, overwrite=args.overwrite)
    return {"outputs": dict(paths), "overwrite": args.overwrite}


_SUITES: Mapping[str, Callable[[argparse.Namespace, Mapping[str, str]], Arguments]] = {
    "gemm": _gemm,
    "gemm-dense": _model,
    "gemm-deepseek": _model,
    "attention": _attention,
    "strided-allgather": _strided,
    "rccl": _rccl,
}
