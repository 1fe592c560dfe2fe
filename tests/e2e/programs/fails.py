"""A program of two or more ranks that agree in every step, until the last one fails in the way that is asked for."""

import datetime
import os
import signal
import sys

import torch
from torch import distributed


def raises() -> None:
    try:
        {}["tokens"]
    except KeyError as error:
        raise ValueError("a batch without tokens") from error


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def leaves_hard() -> None:
    os._exit(7)


def crashes() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def fills_memory() -> None:
    """Touch one page after the other, as a leak does."""
    held = []
    while True:
        held.append(b"x" * (1 << 24))


def fills_disk() -> None:
    with open("/dev/full", "wb") as file:
        file.write(b"x")


def lacks_module() -> None:
    __import__("flash_attention_of_nobody")


def main(fault: str) -> None:
    distributed.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    last = distributed.get_rank() == distributed.get_world_size() - 1
    for step in range(100):
        if step == 3 and fault == "ends_early":
            distributed.destroy_process_group()
            sys.exit(0)
        if step == 3 and last:
            print(f"step {step} goes wrong")
            globals()[fault]()
        distributed.all_reduce(torch.ones(4))


main(sys.argv[1])
