"""The nodes of one run that the user starts one by one: they meet, agree, and end together. Standard library only."""

from primus_core.nodes.facts import Facts
from primus_core.nodes.guest import Guest
from primus_core.nodes.leader import Leader
from primus_core.nodes.place import Place, place_of

__all__ = ["Facts", "Guest", "Leader", "Place", "place_of"]
