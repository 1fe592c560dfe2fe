"""Text becomes token files, and token files are read. Rank side: needs the extra ``primus-core[data]``."""
