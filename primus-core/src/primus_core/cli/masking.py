"""Errors without the values of secrets that only this command knows: from env files and patch scripts."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from primus_core.errors import ErrorGroup, PrimusError
from primus_core.log.redaction import Redactor
from primus_core.planning.secrets import secret_names


@contextmanager
def masking(env: Mapping[str, str]) -> Iterator[None]:
    """Mask the secrets of an environment in the error that leaves the block."""
    try:
        yield
    except PrimusError as error:
        raise _masked(error, Redactor.of_environment(secret_names(env), env)) from None


def _masked(error: PrimusError, redact: Redactor) -> PrimusError:
    if isinstance(error, ErrorGroup):
        return ErrorGroup([_masked(one, redact) for one in error.errors])
    told = copy.copy(error)
    told.what, told.where, told.why, told.remedy = map(redact, (error.what, error.where, error.why, error.remedy))
    told.args = (told.what,)
    return told.with_traceback(error.__traceback__)
