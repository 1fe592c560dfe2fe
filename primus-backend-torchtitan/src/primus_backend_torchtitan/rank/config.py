"""From the plan's native values to TorchTitan's `Trainer.Config`."""

from __future__ import annotations

import dataclasses
import importlib
import logging
from collections.abc import Callable, Mapping
from typing import Any

from torchtitan.components.optimizer import ParamGroupConfig
from torchtitan.models.utils import validate_converter_order
from torchtitan.trainer import Trainer

from primus_backend_torchtitan.architecture import DEFAULTS
from primus_backend_torchtitan.families import family_of
from primus_backend_torchtitan.host.schema import schema_for
from primus_backend_torchtitan.sections import CONVERTERS, SECTIONS
from primus_core.errors import ConfigError
from primus_core.experiment import Value

Native = Mapping[str, Value]

_OWN_OPTIMIZER = ("name", "lr", "beta1", "beta2", "eps", "weight_decay", "decay_norms")
"""What Primus adds to the optimizer's section, for the groups that it makes."""
_DOCUMENTS = ("documents", "document_positions", "mask_document_ends")
"""What evaluation does with documents: the same as training."""
_NO_DECAY = r"norm|\.bias$"
"""Parameters with one dimension, which Megatron does not decay."""


def build_config(native: Native, version: str) -> Trainer.Config:
    """TorchTitan's defaults with the given values set, through its own constructors, so that its own checks run.

    Raises:
        ConfigError: a path that this TorchTitan does not have, or a value that it does not accept.
    """
    used: set[str] = {name for name in native if name.startswith("model.") or name.endswith(".kind")}
    used |= {f"optimizer.{name}" for name in _OWN_OPTIMIZER}
    try:
        config = _merged("", _default(Trainer.Config), native, used)
        config = dataclasses.replace(config, **_made_by_primus(config, native, version))
    except (AssertionError, ValueError, TypeError) as error:
        raise refused(error) from error
    for name in native:
        if name not in used:
            raise ConfigError(f"{name} is no parameter of the installed TorchTitan", where=name)
    return config


def refused(error: Exception) -> ConfigError:
    """TorchTitan's own complaint about a configuration."""
    return ConfigError(
        "TorchTitan refuses this configuration",
        where="Trainer.Config",
        why=str(error) or type(error).__name__,
        remedy="Change the parameters that the message names.",
    )


def _merged(path: str, section: Any, native: Native, used: set[str]) -> Any:
    """A section with what is set in it; of the class that its ``kind`` chooses. None: it is switched off."""
    if path in SECTIONS:
        kind = str(native.get(f"{path}.kind", SECTIONS[path].default))
        target = SECTIONS[path].kinds[kind]
        if target is None:
            used |= {name for name in native if name.startswith(f"{path}.")}
            return None
        section = _default(find(target))
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(section):
        name, value = f"{path}.{field.name}".lstrip("."), getattr(section, field.name)
        if name in SECTIONS or (dataclasses.is_dataclass(value) and field.name != "model_spec"):
            changes[field.name] = _merged(name, value, native, used)
        elif name in native:
            used.add(name)
            changes[field.name] = native[name]
    return dataclasses.replace(section, **changes)


def _default(make: Callable[..., Any]) -> Any:
    """A section as TorchTitan has it, without its warnings of values that are not this run's."""
    logging.disable(logging.WARNING)
    try:
        return make()
    finally:
        logging.disable(logging.NOTSET)


def _made_by_primus(config: Any, native: Native, version: str) -> dict[str, Any]:
    """What no file says: the model, the groups of the optimizer, the vocabulary of the loss, evaluation data."""
    model = {**DEFAULTS, **{name[6:]: value for name, value in native.items() if name.startswith("model.")}}
    spec = find(family_of(model).builder)(model)
    for converter in _converters(model["converters"]):
        spec.model = converter.build().convert(spec.model)
    changes: dict[str, Any] = {"model_spec": spec, "optimizer": _optimizer(config.optimizer, native, version)}
    if SECTIONS["validator.dataloader"].default == native.get("validator.dataloader.kind", "primus"):
        same = {name: bool(native.get(f"dataloader.{name}")) for name in _DOCUMENTS}
        data = dataclasses.replace(config.validator.dataloader, purpose="valid", **same)
        changes["validator"] = dataclasses.replace(config.validator, dataloader=data)
    rows = spec.model.vocab_size
    if hasattr(config.loss, "loss_fn"):
        inner = dataclasses.replace(config.loss.loss_fn, global_vocab_size=rows)
        changes["loss"] = dataclasses.replace(config.loss, loss_fn=inner)
    else:
        changes["loss"] = dataclasses.replace(config.loss, global_vocab_size=rows)
    return changes


def _converters(asked: Any) -> list[Any]:
    made = []
    for entry in asked:
        fields = dict(entry)
        made.append(find(CONVERTERS[fields.pop("kind")])(**fields))
    validate_converter_order(made)
    return made


def _optimizer(section: Any, native: Native, version: str) -> Any:
    """Groups of parameters: those that were asked for, else one of all, without decay of norms and biases."""
    if section.param_groups:
        return dataclasses.replace(section, param_groups=[ParamGroupConfig(**group) for group in section.param_groups])
    values = {**schema_for(version).defaults, **native}
    asked: dict[str, Any] = {name: values[f"optimizer.{name}"] for name in _OWN_OPTIMIZER}
    options = {
        "lr": asked["lr"],
        "betas": (asked["beta1"], asked["beta2"]),
        "eps": asked["eps"],
        "weight_decay": asked["weight_decay"],
    }
    groups = [ParamGroupConfig(pattern=".*", optimizer_name=asked["name"], optimizer_kwargs=options)]
    if not asked["decay_norms"]:
        still = {**options, "weight_decay": 0.0}
        groups.insert(0, ParamGroupConfig(pattern=_NO_DECAY, optimizer_name=asked["name"], optimizer_kwargs=still))
    return dataclasses.replace(section, param_groups=groups)


def find(target: str) -> Callable[..., Any]:
    """The class that ``module:qualified.name`` names."""
    module, _, path = target.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    made: Callable[..., Any] = found
    return made
