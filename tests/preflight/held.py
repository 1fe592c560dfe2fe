"""A process that SIGKILL does not end: another one traces it, and does not let its parent have its end."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
import time

from primus_preflight.meeting.wire import Wire

_ALLOW_TRACER, _ANYBODY = 0x59616D61, -1
_SEIZE = 0x4206
_SECONDS = 60
"""Then the tracer ends whatever the test does."""
_TRACER = f"""\
import ctypes, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
print(libc.ptrace({_SEIZE}, int(sys.argv[1]), None, None), flush=True)
time.sleep({_SECONDS})
"""


def held() -> subprocess.Popen[str]:
    """Have this process held; returns the tracer, which is not of its process group."""
    ctypes.CDLL(None).prctl(_ALLOW_TRACER, ctypes.c_ulong(_ANYBODY), 0, 0, 0)
    argv = [sys.executable, "-c", _TRACER, str(os.getpid())]
    tracer = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert tracer.stdout
    assert tracer.stdout.readline() == "0\n"
    return tracer


def serve(connection: socket.socket, device: int | None) -> None:
    """In the place of `primus_preflight.workers.serving.serve`: a worker that is held, and tells its tracer's number as
    its port."""
    Wire(connection).send({"port": held().pid})
    time.sleep(_SECONDS)
