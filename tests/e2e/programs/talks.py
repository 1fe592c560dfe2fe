"""A program whose disk becomes full: rank 0 fills it, then every rank goes on and has much to say to its log."""

import logging
import os
import sys
import time

ballast, filled = sys.argv[1:]
if os.environ["RANK"] == "0":
    with open(ballast, "wb", buffering=0) as file:
        try:
            while file.write(b"x" * (1 << 20)):
                pass
        except OSError:
            logging.getLogger("talks").info("the disk is full")
    os.mkdir(filled)
while not os.path.exists(filled):
    time.sleep(0.05)
for line in range(2000):
    logging.getLogger("talks").info("line %d", line)
