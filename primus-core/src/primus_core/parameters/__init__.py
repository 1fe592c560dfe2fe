"""The parameters a library has: their types, and how a user's values are checked against them."""

from primus_core.parameters.checking import check, cleared, owner_of
from primus_core.parameters.coercion import coerce
from primus_core.parameters.foreign import ForeignKey, ForeignKeys, ForeignTable, load_foreign
from primus_core.parameters.messages import nearest
from primus_core.parameters.portable import portable
from primus_core.parameters.schema import Parameter, Schema, Type, load_schema, render_schema

__all__ = [
    "ForeignKey",
    "ForeignKeys",
    "ForeignTable",
    "Parameter",
    "Schema",
    "Type",
    "check",
    "cleared",
    "coerce",
    "load_foreign",
    "load_schema",
    "nearest",
    "owner_of",
    "portable",
    "render_schema",
]
