"""Parameters, memory and FLOPs of a run, computed from a `primus_core.shape.ModelShape` before anything starts."""
