"""The command line as `python -m slowstep.cli`."""

import sys

from slowstep.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
