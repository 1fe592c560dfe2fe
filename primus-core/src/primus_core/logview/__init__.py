"""Reading what the ranks of a run logged: chosen, merged by time, also while the run goes on.

The writer's side is `primus_core.log` and `primus_core.rank.files`. Memory is bounded whatever the number of ranks and
the size of their files, and no file is held open between two reads.
"""
