"""Launcher ``container``: the ranks of a node in a container of podman or docker.

``primus run`` starts one program on the host (`primus_launchers.container.wrapper`), which makes the container, and in
it one (`primus_launchers.container.inside`), which starts torchrun. A scheduler starts the same program on each node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve

from primus_core.contract import host
from primus_core.errors import ConfigError
from primus_core.experiment import Value
from primus_core.outcome import Finding, Where
from primus_core.plan import Job, Process, RunPlan, Submission
from primus_launchers import direct
from primus_launchers.container.mounts import covering, holds
from primus_launchers.container.request import Request, to_argv
from primus_launchers.programs import runner_of

CONTRACT = 1
PROGRAM = "primus_launchers.container"
SECTION = "container"


@host
def launch(job: Job) -> Submission:
    """Start one program, which starts the ranks of this node in a container and removes it when they have ended.

    Raises:
        ConfigError: no image is named.
    """
    options = {**job.sections.get("direct", {}), **job.options}
    argv = wrapper_argv(job, direct.torchrun_options(evolve(job, options=options)))
    return Submission(processes=(Process(argv=argv, env=wrapper_env(job)),), carries_code=carries_code(job))


@host
def preflight_check(plan: RunPlan, where: Where) -> Sequence[Finding]:
    """What this host lacks for a container, where the run is to be on this host."""
    if plan.launcher != SECTION or where is not Where.SUBMIT:
        return ()
    from primus_launchers.container.checks import findings  # here: a scheduler's dry run does without

    return findings(request_of(plan.job, ()))


def wrapper_argv(job: Job, torchrun: Sequence[str]) -> tuple[str, ...]:
    """The command that starts a node's ranks in a container, for each node of a job.

    Args:
        torchrun: its options, without the program; where they say nothing of the node's number and the meeting point,
            torchrun takes them from ``PET_*`` variables, which the container inherits.

    Raises:
        ConfigError: no image is named.
    """
    return (job.python, "-m", PROGRAM, *to_argv(request_of(job, torchrun)))


def wrapper_env(job: Job) -> dict[str, str]:
    """The variables that the command has to find in its environment, beside the inherited ones."""
    pairs = [word.partition("=") for word in _words(_section(job), "env")]
    return {**{name: value for name, equals, value in pairs if equals}, **job.env}


def carries_code(job: Job) -> bool:
    """Whether the container runs a copy of this installation; else the image has one of its own."""
    return _section(job).get("mount_code") is not False


def request_of(job: Job, torchrun: Sequence[str]) -> Request:
    """What a job asks for on each node.

    Raises:
        ConfigError: no image is named.
    """
    section = _section(job)
    start = f"{job.run_dir}/submission/code/start.py" if carries_code(job) else ""
    return Request(
        image=_image(section),
        run_id=job.run_id,
        runner=runner_of(job.task),
        torchrun=tuple(torchrun),
        command=job.argv,
        accelerator=job.accelerator,
        code=start,
        workdir=_workdir(job),
        mounts=covering(job.mounts),
        inherit=_inherited(job, section),
        volumes=_words(section, "volume"),
        devices=_words(section, "device"),
        capabilities=_words(section, "capabilities"),
        arguments=_words(section, "arguments"),
        clean=section.get("clean") is True,
        **{name: _text(section, name) for name in _TEXTS},
        **{name: value for name in ("engine", "python") if (value := _text(section, name))},
    )


_TEXTS = ("name", "user", "network", "ipc", "cpus", "memory", "shm_size", "gpus")


def _section(job: Job) -> Mapping[str, Value]:
    return job.sections.get(SECTION, job.options)


def _image(section: Mapping[str, Value]) -> str:
    if image := _text(section, "image"):
        return image
    raise ConfigError(
        "no image is named",
        where="container.image",
        why="the ranks run in a container, which is made of an image",
        remedy="name one: --image rocm/primus:v26.3, DOCKER_IMAGE, or `container: {image: ...}`",
    )


def _inherited(job: Job, section: Mapping[str, Value]) -> tuple[str, ...]:
    named = (word.partition("=")[0] for word in _words(section, "env"))
    return tuple(sorted({*job.env, *job.secrets, *named}))


def _workdir(job: Job) -> str:
    """The folder that the ranks start in: the user's, where the container has it."""
    seen = bool(job.workdir) and any(holds(mount, job.workdir) for mount in job.mounts)
    return job.workdir if seen else job.run_dir


def _words(section: Mapping[str, Value], name: str) -> tuple[str, ...]:
    value = section.get(name)
    return tuple(map(str, value)) if isinstance(value, list | tuple) else ()


def _text(section: Mapping[str, Value], name: str) -> str:
    value = section.get(name)
    return "" if value is None else str(value)
