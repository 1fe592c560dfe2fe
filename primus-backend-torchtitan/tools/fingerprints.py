"""Record what the patched code looks like in the installed torch and TorchTitan.

    python tools/fingerprints.py          # add the installed versions' fingerprints to patch_fingerprints.json
    python tools/fingerprints.py --only   # forget all others

Hashes of other versions stay, so that one plan serves several. A target that does not exist has none.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from primus_backend_torchtitan import patch_plan
from primus_core.patching import fingerprint_target
from primus_core.patching.replacements import load_factory, make_replacement
from primus_core.patching.targets import locate
from primus_core.plan import PatchSpec, Target

FILE = Path(patch_plan.__file__).with_name("patch_fingerprints.json")


def found(spec: PatchSpec) -> str | None:
    """The fingerprint of a target; the patch is then applied, since later targets may need it to be imported."""
    location = locate(spec.target)
    seen = fingerprint_target(spec.target, spec.requires) if location.exists else None
    original = location.original if location.exists else None
    location.put(location.wrap(make_replacement(spec, load_factory(spec), original)))
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="store_true", help="forget the fingerprints of other versions")
    known: dict[str, list[str]] = {} if parser.parse_args().only or not FILE.exists() else json.loads(FILE.read_text())
    for spec in patch_plan.plan_patches(Target(accelerator="cpu", library_version="", ranks_per_node=1)):
        seen = found(spec)
        if seen:
            known[spec.target] = sorted({*known.get(spec.target, ()), seen})
    FILE.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n")
    print(f"{len(known)} targets in {FILE}")


if __name__ == "__main__":
    main()
