"""Three healthy plugins, and what can be wrong with them."""

from __future__ import annotations

from primus_core.testing import BackendContract, LauncherContract, PreflightContract
from primus_core.testing.plugin import PluginContract

HEAD = """\
import os, random, subprocess, sys, time
from attrs import evolve
from primus_core.contract import host, rank
from primus_core.errors import *
from primus_core.outcome import *
from primus_core.parameters import Parameter, Schema, check
from primus_core.plan import *
from primus_core import shape
CONTRACT = 1
"""

BACKEND = (
    HEAD
    + """
LIBRARY_VERSIONS = ("1.0",)
TYPES = {"train_iters": "int", "lr": "float", "mock_data": "bool"}
SCHEMA = Schema(
    library="toy", version="1.0", parameters={name: Parameter(name=name, type=kind) for name, kind in TYPES.items()}
)

@host
def translate_config(experiment, module):
    values, errors = check(module.params, SCHEMA)
    raise_all(errors)
    rows = tuple(Mapped(path=name, native=name, value=value) for name, value in values.items())
    translation = Translation(native=values, entry=f"{__name__}:run", layout=Layout(), mapping=rows)
    pass
    return translation

@host
def preflight_check(plan, where):
    return ()

@host
def model_shape(plan):
    layer = shape.Block(parameters=(shape.Parameter(name="weight", shape=(2, 2), dtype="fp32"),))
    return shape.ModelShape(
        groups={}, blocks={"layer": layer}, stages=(((shape.Run(block="layer"),),),),
        sharding=shape.Sharding(scheme="replicated", gradient="fp32", main=None, moments=()),
        schedule=shape.Schedule(name="none", micro_batches=1), tokens=1, samples=1, sequence=1,
    )

def run(plan, rank):
    return {}

def factory(original):
    return original
"""
)

LAUNCHER = (
    HEAD
    + """
@host
def launch(job):
    if job.nodes > 1:
        raise ConfigError("one node", remedy="ask for one")
    argv, env = (job.python, *job.argv), dict(job.env)
    pass
    return Submission(processes=(Process(argv=argv, env=env),))
"""
)

PREFLIGHT = (
    HEAD
    + """
@host
def preflight_check(plan, where):
    finding = Finding(check="toy.check", severity="warning", summary="a sentence")
    pass
    return [finding]
"""
)

RANK_SIDE = "# the rank side\n"
"""What follows it in the source of a back end is the module of its rank side."""

RANK = """\
from primus_core.contract import rank

@rank
def patch_backend(plan, rank):
    return None
"""

SIDES: dict[type[PluginContract], str] = {
    BackendContract: BACKEND + RANK_SIDE + RANK,
    LauncherContract: LAUNCHER,
    PreflightContract: PREFLIGHT,
}
"""A healthy plugin for each contract; `pass` is where it goes wrong."""

PATCH = "PatchSpec(id='one', target='a:b', replacement=f'{__name__}:factory', reason='r')"
WRITE = "open(os.path.join(os.path.dirname(__file__), 'left'), 'w').close()"
SHELL = "argv = ('sh', '-c', {!r}, 'sh', *argv)"
RAISE = "raise_all(errors)"
SLOW = "end = time.process_time() + 1.2\n    while time.process_time() < end: pass"

Case = tuple[type[PluginContract], str, str, str, str, str]
"""A contract, what is wrong, a text of the healthy plugin, what stands there instead, the test that fails, and why."""


def backend(case: str, code: str, test: str, told: str) -> Case:
    return BackendContract, case, "    pass\n", f"    {code}\n", test, told


def translated(case: str, change: str, test: str, told: str) -> Case:
    return backend(case, f"translation = evolve(translation, {change})", test, told)


def launcher(case: str, code: str, test: str, told: str) -> Case:
    return LauncherContract, case, "    pass\n", f"    {code}\n", test, told


def check(case: str, code: str, test: str, told: str) -> Case:
    return PreflightContract, case, "    pass\n", f"    {code}\n", test, told


FATE = "every_parameter_has_one_fate"
SAME = "the_same_experiment_gives_the_same_translation"
ONLY = "its_hook_only_answers"
HEAVY = "its_host_side_imports_no_heavy_library"
QUICK = "its_hook_is_quick"
PLAIN = "a_translation_survives_the_plan_file"
PATCHES = "the_patches_can_be_planned_together"
START = "the_experiment_may_start"
SHAPE = "the_shape_can_be_projected"
MISSPELT = "a_misspelt_key_is_refused_with_its_place"
UNKNOWN = "an_unknown_key_is_refused"
TYPE = "a_value_of_the_wrong_type_is_refused_with_its_place"
LOADS = "it_is_found_and_keeps_the_specification"
NUMBER = "it_says_which_contract_it_was_made_for"
NASTY = "nasty_words_survive"
INHERIT = "the_jobs_variables_come_first_and_secrets_are_inherited"
END = "the_end_of_the_ranks_is_passed_on"
REFUSE = "what_it_cannot_start_is_refused"
ANSWERS = "it_answers_about_every_plan"
TOLD = "its_findings_can_be_told"

CASES = [
    translated("a row is missing", "mapping=rows[1:]", FATE, "does not account for every parameter"),
    backend("another value than was set", "values['lr'] = 0.2", FATE, "does not account for every parameter"),
    translated("depends on the process", "environment={'PID': str(os.getpid())}", SAME, "the translation differs"),
    translated("depends on hashes", "environment={'SET': ' '.join(set('abcdefgh'))}", SAME, "the translation differs"),
    backend("reads a variable", "os.environ.get('HOME')", ONLY, "variable HOME"),
    backend("asks for a variable", "os.getenv('HOME')", ONLY, "variable HOME"),
    backend("reads all variables", "dict(os.environ)", ONLY, "variable all of them"),
    backend("sets a variable", "os.environ['LEFT'] = '1'", ONLY, "variable os.putenv"),
    backend("writes a file", WRITE, ONLY, "write "),
    backend("makes a folder", "os.makedirs(experiment.folder, exist_ok=True)", ONLY, "write os.mkdir"),
    backend("starts a process", "subprocess.run(['true'])", ONLY, "process subprocess.Popen"),
    backend("imports numpy", "import numpy", HEAVY, "['numpy']"),
    backend("tries to import jax", "try: import jax\n    except ImportError: pass", HEAVY, "['jax']"),
    backend("takes its time", SLOW, QUICK, "s of CPU time, at most 1.0 s"),
    backend("a tuple among the values", "values['t'] = (1, 2)", PLAIN, "native.t is a tuple"),
    backend("a set among the values", "values['t'] = {1, 2}", PLAIN, "native.t is a set"),
    backend("no number among the values", "values['t'] = [float('nan')]", PLAIN, "native.t[0] is nan"),
    backend(
        "copies a secret", "values['e'] = [leaf.value for leaf in experiment.env.values()]",
        "no_secret_is_in_a_translation", "is in the translation",
    ),
    translated("no entry", "entry='train'", "the_entry_is_there", "is not `module:function`"),
    translated("a lost entry", "entry=f'{__name__}:gone'", "the_entry_is_there", "has no function 'gone'"),
    translated("a lost module", "entry='gone_for_good:run'", "the_entry_is_there", "gone_for_good is not there"),
    translated("one id twice", f"patches=({PATCH}, evolve({PATCH}, target='c:d'))", PATCHES, "one"),
    translated("one target twice", f"patches=({PATCH}, evolve({PATCH}, id='two'))", PATCHES, "replace the same target"),
    translated("after an unknown patch", f"patches=(evolve({PATCH}, after=('zero',)),)", PATCHES, "zero"),
    translated("a patch for no version", f"patches=(evolve({PATCH}, requires='a>>2'),)", PATCHES, "no version range"),
    translated("a patch without a reason", f"patches=(evolve({PATCH}, reason=''),)", PATCHES, "it says no reason"),
    translated(
        "a lost replacement", f"patches=(evolve({PATCH}, replacement=f'{{__name__}}:gone'),)",
        "the_replacements_are_there", "has no attribute 'gone'",
    ),
    translated("a variable without a name", "environment={'': 'x'}", "the_environment_can_be_set", "the variable ''"),
    translated("a layout that does not fit", "layout=Layout(tensor=2)", START, "1 rank cannot hold"),
    (BackendContract, "an error found", "return ()",
     "return [Finding(check='toy', severity='error', summary='not so', remedy='none')]", START, "not so"),
    (BackendContract, "a lost block", 'Run(block="layer")', 'Run(block="other")', SHAPE, "there is no block other"),
    (BackendContract, "tensors of no size", "(2, 2)", "(2, 0)", SHAPE, "block layer: weight: sizes (2, 0)"),
    (BackendContract, "a stage too many", "groups={}", "groups={'pipeline': 2}", SHAPE, "1 stages on 2 pipeline ranks"),
    (BackendContract, "unknown keys pass", RAISE, "", UNKNOWN, "DID NOT RAISE"),
    (BackendContract, "wrong types pass", RAISE, "", TYPE, "DID NOT RAISE"),
    (BackendContract, "an error without a place", RAISE, "if errors: raise ConfigError('no')", MISSPELT,
     "no error names contract.yaml:4321"),
    (BackendContract, "no nearest name", RAISE, "if errors: raise ConfigError('no', where=errors[0].where)", MISSPELT,
     "names the nearest parameter, train_iters"),
    (BackendContract, "no contract", "CONTRACT = 1\n", "", NUMBER, "says []"),
    (BackendContract, "core's contract", "CONTRACT = 1\n", "from primus_core.contract import CONTRACT\n", NUMBER,
     "says []"),
    (BackendContract, "an older contract", "CONTRACT = 1\n", "CONTRACT = 0\n", LOADS, "another contract"),
    (BackendContract, "a misspelt hook", "def preflight_check", "def prefight_check", LOADS, "'prefight_check'"),
    (BackendContract, "a wrong argument", "preflight_check(plan", "preflight_check(plans", LOADS, "wrong arguments"),
    (BackendContract, "a misspelt hook in the rank", "def patch_backend", "def patch_back_end",
     "the_rank_side_keeps_the_specification", "'patch_back_end'"),
    launcher("a shell line", "argv = ('sh', '-c', ' '.join(argv))", NASTY, "no rank left a record"),
    launcher("no variables", "env = {}", NASTY, "the variables became (None"),
    launcher("a word less", "argv = argv[:-1]", NASTY, "the arguments became"),
    launcher("a quoted shell line", "import shlex; argv = ('sh', '-c', shlex.join(argv))",
             "the_commands_end_with_the_jobs_own", "the command ends with"),
    launcher("a number among the words", "argv = (1, *argv)", "a_submission_is_plain_data", "no arguments"),
    launcher("inherited first", "del env['CONTRACT_VARIABLE']", INHERIT, "the inherited variable won"),
    launcher("a clean environment", "argv = ('env', '-i', *(f'{k}={v}' for k, v in env.items()), *argv)", INHERIT,
             "was not inherited"),
    launcher("starts it itself", "subprocess.run(['true'])", ONLY, "process subprocess.Popen"),
    launcher("reads a file", "open('/etc/hostname').read()", ONLY, "read /etc/hostname"),
    launcher("another one each time", "env['PORT'] = str(random.random())", "the_same_job_gives_the_same_submission",
             "the submission differs"),
    launcher("writes secrets down", "env.update(os.environ)", "no_secret_is_in_a_submission", "is in the submission"),
    launcher("miscounts", "env['WORLD_SIZE'] = '2'", "every_rank_is_started_once_and_knows_its_number", "world='2'"),
    launcher("calls failure success", SHELL.format('"$@"; exit 0'), f"{END}[3]", "ended with 3, processes with (0,)"),
    launcher("calls success failure", SHELL.format('"$@"; exit 1'), f"{END}[0]", "ended with 0, processes with (1,)"),
    launcher("leaves a process", SHELL.format('sleep 60 & exec "$@"'), f"{END}[0]", "were left running"),
    (LauncherContract, "starts what it cannot", "job.nodes > 1", "job.nodes > 9", REFUSE, "DID NOT RAISE"),
    (LauncherContract, "a remedy is missing", ', remedy="ask for one"', "", REFUSE, "no remedy"),
    check("needs an experiment", "plan.experiment.workspace", ANSWERS, "AttributeError"),
    check("returns text", "finding = 'text'", ANSWERS, "a sequence of Finding"),
    check("no such severity", "finding = evolve(finding, severity='fatal')", ANSWERS, "severity"),
    check("writes a file", WRITE, ONLY, "write "),
    check("takes its time", SLOW, QUICK, "s of CPU time, at most 1.0 s"),
    check("two lines", "finding = evolve(finding, summary='a\\nb')", TOLD, "is not one line"),
    check("no name", "finding = evolve(finding, check='Toy Check')", TOLD, "no name of a check"),
    check("an error without a remedy", "finding = evolve(finding, severity='error')", TOLD, "without a remedy"),
    check("shows variables", "finding = evolve(finding, evidence=str(dict(os.environ)))", "no_finding_holds_a_secret",
          "is in toy.check"),
]  # fmt: skip
