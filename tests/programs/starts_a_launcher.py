"""Starts a launcher as a subprocess, as the command `deepspeed` does: `starts_a_launcher.py RANKS PROGRAM …`."""

import subprocess
import sys

sys.exit(subprocess.Popen([sys.executable, "-u", "-m", "deepspeed.launcher.launch", *sys.argv[1:]]).wait())
