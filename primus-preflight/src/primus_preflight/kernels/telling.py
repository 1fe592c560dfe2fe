"""One line on a measurement, for the console."""

from __future__ import annotations

from primus_preflight.benchmarks.rows import Row, text_of

_NAMES = ("operation", "kernel", "op", "phase")


def line_of(row: Row) -> str:
    """``mlp up forward 4096 x 14336 x 4096 bf16: 512.3 TFLOP/s, 940.1 us``."""
    what = " ".join(filter(None, (text_of(row.get(name)) for name in _NAMES)))
    return f"{what} {_size(row)} {row['dtype']}: {_figure(row)}".replace("  ", " ").strip()


def _size(row: Row) -> str:
    if "m" in row:
        return f"{row['m']} x {row['n']} x {row['k']}"
    if "seqlen" in row:
        return f"{row['batch']} x {row['heads']} x {row['seqlen']} x {row['head_dim']}"
    return f"{row['bytes']} bytes" if "bytes" in row else f"all-gather of {row['size_mb']} MB, ranks {row['group']}"


def _figure(row: Row) -> str:
    if row["status"] != "ok":
        return f"{row['status']}: {row['error']}"
    rate = f"{text_of(row['tflops'])} TFLOP/s" if "tflops" in row else f"bus {text_of(row['busbw_gbs'])} GB/s"
    return f"{rate}, {text_of(row['median_us'])} us"
