"""What a plugin implements.

Beside it a plugin uses the types of `plan`, `outcome` and `experiment`, the errors of `errors`, and the helpers of
`parameters`, `planning.settings` and `patching`. They change as this does: by addition, within one `CONTRACT` number.
"""

from primus_core.contract.markers import CONTRACT, host, rank
from primus_core.contract.specs import HostSpec, RankContext, RankSpec, Store

__all__ = ["CONTRACT", "HostSpec", "RankContext", "RankSpec", "Store", "host", "rank"]
