"""The process that ranks of benchmarks are forked from."""

from __future__ import annotations

from tests.forked.zygote import serve

if __name__ == "__main__":
    serve("primus_preflight.kernels.entry")
