"""``python -m primus_core.rank PLAN``: one rank, as two processes.

The parent (standard library only, so that it costs nothing and cannot be broken by what it watches) owns the rank's
files and console, forwards signals, and reports how the rank ended, also when it was killed. Its forked child imports
the library, applies the patches and trains.
"""
