"""Starts the ranks of a program as subprocesses, one or several, as `deepspeed.launcher.launch` does."""

import os
import subprocess
import sys

ranks, *program = sys.argv[1:]
address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29541", "WORLD_SIZE": ranks}
started = [
    subprocess.Popen([sys.executable, "-u", *program], env={**os.environ, **address, "RANK": r, "LOCAL_RANK": r})
    for r in map(str, range(int(ranks)))
]
sys.exit(max(process.wait() for process in started))
