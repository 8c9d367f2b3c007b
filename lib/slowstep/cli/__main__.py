"""The command line as `python -m slowstep.cli`."""

import sys

from slowstep.cli.main import main

sys.exit(main())
