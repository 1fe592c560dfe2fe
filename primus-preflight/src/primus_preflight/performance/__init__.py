"""Which performance tests there are, in which order groups of nodes run them, and what their figures are.

Nothing here imports torch: the tests themselves are in `primus_preflight.workers`, which run in processes of their own.
"""
