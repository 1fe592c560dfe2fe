"""``primus patches exp.yaml``: what a run would change in the library's code, and why; starts and writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from primus_core.cli.arguments import run_parser
from primus_core.cli.launching import with_launcher_file
from primus_core.cli.output import say
from primus_core.cli.prepare import prepare
from primus_core.cli.run import warn
from primus_core.codec import to_json
from primus_core.errors import ExitCode
from primus_core.plan import PatchSpec, RunPlan


def main(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Print the planned patches in the order of application; returns the exit code."""
    parser = run_parser("primus patches", "List what a run would patch in the library's code, and why.")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    args = parser.parse_intermixed_args(argv)
    prepared = prepare(with_launcher_file(args, env), env, starts=False)
    warn(prepared)
    plan = prepared.plan
    patches = plan.translation.patches if plan.translation else ()
    say(to_json(patches).rstrip() if args.format == "json" else "\n".join(_lines(plan, patches)))
    return ExitCode.OK


def _lines(plan: RunPlan, patches: Sequence[PatchSpec]) -> Iterator[str]:
    count = f"{len(patches)} patch{'es' * (len(patches) != 1)}"
    yield f"{count} for {plan.framework} {plan.target.library_version} on {plan.target.accelerator}"
    for patch in patches:
        yield ""
        yield patch.id
        for name, text in _facts(patch, plan):
            yield f"  {name:<10}{text}"


def _facts(patch: PatchSpec, plan: RunPlan) -> Iterator[tuple[str, str]]:
    yield "target", patch.target
    yield "reason", patch.reason
    yield "requires", patch.requires or "any version"
    yield "when", _when(patch)
    if patch.id in plan.allowed_drift:
        yield "drift", "allowed"


def _when(patch: PatchSpec) -> str:
    python = f"Python {patch.python}" if patch.python else ""
    return ", ".join(filter(None, (" or ".join(patch.when), python, patch.condition))) or "always"
