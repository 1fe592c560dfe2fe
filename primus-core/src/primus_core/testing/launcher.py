"""What a launcher promises."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import pytest
from attrs import evolve, frozen

from primus_core.codec import from_json, to_json
from primus_core.discovery import Group
from primus_core.errors import ConfigError
from primus_core.experiment import Value
from primus_core.plan import Job, Submission, Task
from primus_core.testing.isolated import SECRET, Call, load_alone
from primus_core.testing.judging import variable_problems
from primus_core.testing.plugin import PluginContract
from primus_core.testing.starting import Record, Started, carry_out, recording, records
from primus_core.testing.watching import Kind

NASTY = (
    "",
    " two  blanks ",
    "'single' and \"double\"",
    "$HOME ${HOME} $(id) `id`",
    "a;b && c | d > e < f",
    "* ? [a-z] ~ {x,y} #",
    "back\\slash \\n",
    "line\nbreak\ttab",
    "-x --no-such-option=%s",
    "größer 数 🚀",
)
"""Words that a shell, a template or a decoder would change."""

_NASTY_VARIABLES = {f"NASTY_{number}": word for number, word in enumerate(NASTY)}


class LauncherContract(PluginContract):
    """Subclass it and name the launcher, which is then really used to start a script in the place of a rank."""

    group: ClassVar[Group] = "primus.launchers"
    forbidden: ClassVar[tuple[Kind, ...]] = ("read", "write", "process", "network", "variable")
    ranks: ClassVar[int] = 1
    """How many ranks the script is started as, on this host."""
    options: ClassVar[Mapping[str, Value]] = {}
    """The launcher's section of an experiment, as far as it needs one."""

    def refused(self, job: Job) -> Sequence[Job]:
        """Jobs that the launcher cannot start and has to refuse."""
        return ()

    def job(self) -> Job:
        """A job as core makes it."""
        return Job(
            run_id="20260101-000000-abcdef",
            name="contract",
            task=Task(kind="train", entry="x:y", ranks_per_node=self.ranks),
            python="/usr/bin/python3",
            argv=("-m", "primus_core.rank", "/runs/a plan's folder/plan.json"),
            env={"CONTRACT_VARIABLE": "of the job"},
            workdir="/",
            log_dir="/runs/submission",
            options=self.options,
        )

    def call(self) -> Call:
        return Call(group=self.group, plugin=self.plugin, job=self.job())

    def launch(self, job: Job) -> Submission:
        """What the launcher returns for a job, in this process."""
        return load_alone(self.group, self.plugin).launch(job)

    def start(self, status: int = 0) -> Outcome:
        """What becomes of a job whose ranks end with a status."""
        return _outcome(self.plugin, to_json(self.job()), status)

    def test_the_same_job_gives_the_same_submission(self) -> None:
        """What a dry run prints is what a run starts."""
        first, second = (self.account(world).submission for world in (0, 1))
        assert to_json(first) == to_json(second), "the submission differs from one process to another"

    def test_a_submission_is_plain_data(self) -> None:
        """Arguments and variables are texts, and the submission can be written and read back."""
        submission = self.launch(self.job())
        words = [word for process in submission.processes for word in process.argv]
        wrong = [word for word in words if not isinstance(word, str) or "\0" in word]
        wrong += [problem for process in submission.processes for problem in variable_problems(process.env)]
        assert not wrong, f"no arguments of a process: {wrong}"
        assert submission.processes, "nothing would be started"
        assert all(process.argv for process in submission.processes), "a process without a program"
        assert from_json(Submission, to_json(submission)) == submission, "the submission cannot be read back"

    def test_the_commands_end_with_the_jobs_own(self) -> None:
        """A process of this host ends with the job's arguments, unchanged: what is planned is what runs."""
        job = self.job()
        submission = self.launch(job)
        if submission.detached:
            pytest.skip("a scheduler starts the ranks")
        for process in submission.processes:
            own = process.argv[-len(job.argv) :]
            assert process.host or own == job.argv, f"the command ends with {own}, the job's is {job.argv}"

    def test_no_secret_is_in_a_submission(self) -> None:
        """Commands and files are seen by others: secrets reach the ranks by inheritance."""
        assert SECRET[1] not in to_json(self.account().submission), f"the value of {SECRET[0]} is in the submission"

    def test_every_rank_is_started_once_and_knows_its_number(self) -> None:
        """The ranks are 0, 1 ... without a gap, and each is told how many there are."""
        outcome = self.start()
        found = sorted(outcome.records)
        assert found == list(range(self.ranks)), f"ranks {found} of {self.ranks}: {outcome.started.output}"
        for number, record in outcome.records.items():
            world, local = record.env.get("WORLD_SIZE", "1"), record.env.get("LOCAL_RANK", "0")
            assert (world, local) == (str(self.ranks), str(number)), f"rank {number} has {world=} {local=}"

    def test_nasty_words_survive(self) -> None:
        """Quotes, blanks, dollars, line breaks, other scripts: byte for byte in arguments, variables and paths."""
        outcome = self.start()
        assert outcome.records, f"no rank left a record: {outcome.started.output}"
        for record in outcome.records.values():
            variables = tuple(record.env.get(name) for name in _NASTY_VARIABLES)
            assert record.argv == NASTY, f"the arguments became {record.argv}"
            assert variables == NASTY, f"the variables became {variables}"
            assert record.folder == outcome.folder, f"the path became {record.folder}"

    def test_the_jobs_variables_come_first_and_secrets_are_inherited(self) -> None:
        """A variable of the job wins over an inherited one; a secret arrives although no command has it."""
        for record in self.start().records.values():
            assert record.env.get("CONTRACT_VARIABLE") == "of the job", "the inherited variable won"
            assert record.env.get(SECRET[0]) == SECRET[1], f"{SECRET[0]} was not inherited"

    @pytest.mark.parametrize("status", [0, 3])
    def test_the_end_of_the_ranks_is_passed_on(self, status: int) -> None:
        """A submission whose ranks end well ends with 0, one whose ranks fail does not; nothing is left running."""
        started = self.start(status).started
        failed = any(started.statuses)
        assert failed == (status != 0), f"ranks ended with {status}, processes with {started.statuses}"
        assert not started.killed, f"processes were left running: {started.killed}"

    def test_what_it_cannot_start_is_refused(self) -> None:
        """A configuration error says what to do instead; nothing half-right is started."""
        jobs = self.refused(self.job())
        if not jobs:
            pytest.skip("the launcher is said to refuse no job")
        for job in jobs:
            with pytest.raises(ConfigError) as caught:
                self.launch(job)
            assert caught.value.remedy, f"no remedy: {caught.value}"


@frozen(kw_only=True)
class Outcome:
    """What became of a job that was really started."""

    folder: str
    started: Started
    records: Mapping[int, Record]


@cache
def _outcome(plugin: str, job: str, status: int) -> Outcome:
    """Carry out what the launcher returns for a job of nasty words; a secret is among the inherited variables."""
    with TemporaryDirectory() as temporary:
        folder = Path(temporary, 'it\'s $HOME; a * "path" | größer')
        nasty = from_json(Job, job)
        nasty = recording(evolve(nasty, env={**nasty.env, **_NASTY_VARIABLES}), folder, NASTY, status)
        inherited = {**os.environ, SECRET[0]: SECRET[1], "CONTRACT_VARIABLE": "inherited"}
        started = carry_out(load_alone("primus.launchers", plugin).launch(nasty), inherited, folder / "log")
        return Outcome(folder=str(folder), started=started, records=records(folder))
