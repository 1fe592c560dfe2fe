"""Record what the code that a back end patches looks like in the installed libraries.

    python tools/fingerprints.py megatron          # add the installed versions' to its patch_fingerprints.json
    python tools/fingerprints.py megatron --only   # forget all others

Hashes of other versions stay, so that one plan serves several. A target that does not exist has none.
"""

from __future__ import annotations

import argparse
import json
from importlib import import_module
from pathlib import Path

from primus_core.patching import fingerprint_target
from primus_core.patching.replacements import load_factory, make_replacement
from primus_core.patching.targets import locate
from primus_core.plan import PatchSpec, Target
from primus_core.planning.patchrows import FINGERPRINTS


def found(spec: PatchSpec) -> str | None:
    """The fingerprint of a target; the patch is then applied, since later targets may need it to be imported."""
    location = locate(spec.target)
    seen = fingerprint_target(spec.target, spec.requires) if location.exists else None
    original = location.original if location.exists else None
    location.put(location.wrap(make_replacement(spec, load_factory(spec), original)))
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("framework", choices=("megatron", "torchtitan"))
    parser.add_argument("--only", action="store_true", help="forget the fingerprints of other versions")
    args = parser.parse_args()
    patch_plan = import_module(f"primus_backend_{args.framework}.patch_plan")
    file = Path(str(patch_plan.__file__)).with_name(FINGERPRINTS)
    known: dict[str, list[str]] = {} if args.only or not file.exists() else json.loads(file.read_text())
    for spec in patch_plan.plan_patches(Target(accelerator="cpu", library_version="", ranks_per_node=1)):
        seen = found(spec)
        if seen:
            known[spec.target] = sorted({*known.get(spec.target, ()), seen})
    file.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n")
    print(f"{len(known)} targets in {file}")


if __name__ == "__main__":
    main()
