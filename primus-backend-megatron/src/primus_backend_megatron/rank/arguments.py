"""From the plan's native values to Megatron's `argparse.Namespace`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from primus_core.errors import ConfigError
from primus_core.experiment import Value


def build_namespace(native: Mapping[str, Value]) -> argparse.Namespace:
    """Megatron's defaults with the given values set, not yet validated.

    Megatron takes the rank and the number of ranks from the environment here.

    Raises:
        ConfigError: a name that this Megatron does not know, or a value that it does not accept.
    """
    from megatron.training import arguments

    parsers: list[argparse.ArgumentParser] = []

    def keep(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
        parsers.append(parser)
        return parser

    with _no_command_line():
        args: argparse.Namespace = arguments.parse_args(extra_args_provider=keep)
    actions = _actions(parsers[0])
    for name, value in native.items():
        setattr(args, name, _accepted(name, value, actions.get(name), args))
    # Megatron notes this before our values are in.
    args._is_global_batch_size_explicitly_specified = args.global_batch_size is not None
    # A causal mask needs no tensor: every attention implementation has it built in.
    args.create_attention_mask_in_dataloader = bool(args.reset_attention_mask)
    if args.multi_latent_attention:
        _name_for_latent_attention(args)
    return args


def _name_for_latent_attention(args: argparse.Namespace) -> None:
    """The command line's numbers of YaRN reach other attention only; latent attention has other names for them."""
    for option in ("yarn_original_max_position_embeddings", "yarn_beta_fast", "yarn_beta_slow"):
        if getattr(args, option) is not None:
            setattr(args, option.removeprefix("yarn_"), getattr(args, option))


def validate(args: argparse.Namespace) -> None:
    """Let Megatron check the values and derive others from them.

    Raises:
        ConfigError: Megatron refuses them; with its own words.
    """
    from megatron.training.arguments import validate_args

    try:
        validate_args(args, {})
    except (AssertionError, ValueError, RuntimeError) as error:
        raise ConfigError(
            "Megatron refuses this configuration",
            where="validate_args",
            why=str(error) or _source_line(error),
            remedy="Change the parameters that the message names.",
        ) from error


@contextmanager
def _no_command_line() -> Iterator[None]:
    """Hide our own arguments from a parser that reads `sys.argv`."""
    argv = sys.argv
    sys.argv = argv[:1]
    try:
        yield
    finally:
        sys.argv = argv


def _actions(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """The first action of each destination: the one that takes a value where there are several."""
    found: dict[str, argparse.Action] = {}
    for action in parser._actions:
        found.setdefault(action.dest, action)
    return found


def _accepted(name: str, value: Value, action: argparse.Action | None, args: argparse.Namespace) -> Any:
    """The value as Megatron's own parser would store it: enumerations and special types are made from text."""
    if action is None and not hasattr(args, name):
        raise ConfigError(f"{name} is no parameter of the installed Megatron", where=name)
    if isinstance(value, list):
        return [_accepted(name, item, action, args) for item in value]
    convert = action.type if action else None
    if not isinstance(value, str) or not callable(convert):
        return value
    try:
        return convert(value)
    except (ValueError, TypeError, KeyError, AssertionError, argparse.ArgumentTypeError) as error:
        raise ConfigError(f"{name}: {value!r} is not accepted", where=name, why=str(error)) from error


def _source_line(error: BaseException) -> str:
    """The text of the assertion itself, for those that have no message."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    return (frames[-1].line or type(error).__name__) if frames else type(error).__name__
