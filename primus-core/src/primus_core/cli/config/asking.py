"""What the commands of `primus config` share: options, and how an experiment is judged."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping

from attrs import evolve, frozen

from primus_core import discovery
from primus_core.cli.arguments import Parser, add_framework
from primus_core.cli.output import say
from primus_core.cli.prepare import default_launcher, resolved
from primus_core.errors import ConfigError, PrimusError, raise_all
from primus_core.experiment import Experiment, Module
from primus_core.explain.resolved import Known
from primus_core.explain.vocabulary import Vocabulary, vocabulary
from primus_core.log.redaction import Redactor
from primus_core.pipeline import Judged, Scope, judge
from primus_core.planning.accelerators import find_accelerators
from primus_core.planning.assumed import meant, names_cpu
from primus_core.planning.job import Request
from primus_core.planning.secrets import secret_names
from primus_core.planning.sections import put_together
from primus_core.planning.settings import core_schema
from primus_core.resolve import user_sections, with_sections


def config_parser(command: str, description: str, *, presets: bool = True) -> Parser:
    """The parser of a command; ``presets``: it reads some."""
    parser = Parser(prog=f"primus config {command}", description=description, allow_abbrev=False)
    if presets:
        shown = "look for presets here too"
        parser.add_argument("--preset-path", action="append", default=[], metavar="DIR", help=shown)
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    parser.set_defaults(framework=None, accelerator=None, nproc=None, nodes=None)
    return parser


def add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")


def add_overrides(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="set a parameter, as `primus run` would")
    add_framework(parser)


def add_hardware(parser: argparse.ArgumentParser) -> None:
    """What to judge for; without it, what the experiment implies."""
    group = parser.add_argument_group(
        "hardware to judge for",
        "Without these: the accelerator that the experiment names or this host has, else a GPU (cuda), 8 on each node, "
        "and the smallest number of nodes that holds the layout and divides the batch.",
    )
    group.add_argument("--accelerator", choices=("cpu", "cuda", "rocm"), help="what the ranks compute on")
    group.add_argument("--nproc", type=int, metavar="N", help="ranks on each node")
    group.add_argument("--nodes", type=int, metavar="N", help="nodes")


@frozen(kw_only=True)
class Asker:
    """Answers questions about experiments with the options of one command line."""

    args: argparse.Namespace
    shell: Mapping[str, str]
    plugins: discovery.Plugins

    @classmethod
    def of(cls, args: argparse.Namespace, shell: Mapping[str, str]) -> Asker:
        for option in ("nproc", "nodes"):
            number = getattr(args, option)
            if number is not None and number < 1:
                raise ConfigError(f"--{option} {number}", remedy="give 1 or more")
        return cls(args=args, shell=shell, plugins=discovery.scan())

    def resolved(self, path: str) -> Experiment:
        """The experiment of a file, under the overrides."""
        return resolved(path, self.args, self.shell, self.plugins)

    def meant(self, path: str) -> Experiment:
        """The same with the user's own defaults for launchers, where there are any."""
        experiment = self.resolved(path)
        own = user_sections(self.shell)
        if not own:
            return experiment
        both = put_together([own, experiment.launchers], os.getcwd(), self.shell.get("HOME", ""))
        return with_sections(experiment, both)

    def with_framework(self, framework: str) -> Asker:
        """As if the experiments named another back end."""
        return evolve(self, args=argparse.Namespace(**{**vars(self.args), "framework": framework}))

    def judged(self, path: str, *, files: bool = False, strict: bool = False) -> Judged:
        """The experiment of a file, with everything that is wrong with it.

        Raises:
            PrimusError: it cannot be resolved, or its back end cannot be loaded.
        """
        experiment = self.meant(path)
        return judge(experiment, self.plugins, self._scope(experiment, files=files, strict=strict))

    def known(self, experiment: Experiment, module: Module) -> Known:
        """What its back end knows of a module; nothing where the back end cannot be loaded."""
        try:
            alone = evolve(experiment, modules={module.name: module})
            judged = judge(alone, self.plugins, self._scope(alone, files=False, strict=False))
            return Known.of(self.words(judged), judged.translation)
        except PrimusError:
            return Known(words=Vocabulary(parameters=core_schema().parameters))

    def words(self, judged: Judged) -> Vocabulary:
        """The names that the experiment's back end knows."""
        version = judged.target.library_version if judged.target else judged.hosts.library_version()
        return vocabulary(judged.hosts, version)

    def tell(self, text: str, *experiments: Experiment) -> None:
        """Print to standard output, without the values of secrets."""
        for env in (self.shell, *map(environment_of, experiments)):
            text = Redactor.of_environment(secret_names(env), env)(text)
        say(text)

    def _scope(self, experiment: Experiment, *, files: bool, strict: bool) -> Scope:
        on_cpu = self.args.accelerator == "cpu" if self.args.accelerator else names_cpu(experiment)
        return Scope(
            request=Request(
                launcher=default_launcher(plugin.name for plugin in self.plugins.of("primus.launchers")),
                run_id="config",
                ranks_per_node=self.args.nproc,
                shell=self.shell,
                cwd=os.getcwd(),
            ),
            found=meant(find_accelerators()),
            accelerator=self.args.accelerator,
            nodes=self.args.nodes or (1 if on_cpu else None),
            launcher=False,
            preflight=False,
            files=files,
            strict=strict,
        )


def environment_of(experiment: Experiment) -> dict[str, str]:
    """What the experiment's ``env:`` sets, secrets included."""
    return {name: str(leaf.value) for name, leaf in experiment.env.items() if leaf.value is not None}


def without_errors(judged: Judged) -> Judged:
    """A judged experiment that has a translation and settings of the right type.

    Raises:
        PrimusError: it has none; what the checks of a plan found does not matter here.
    """
    raise_all(judged.errors)
    return judged
