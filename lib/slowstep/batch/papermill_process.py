"""Execute one notebook with papermill, as a process of its own: its exit status is the truth about the run.

papermill writes a dead kernel's notebook as if it were complete. Here every failure ends with status 1, and with a last
line that says why.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

from slowstep.environment.slow_imports import without_address_grammar
from slowstep.environment.system_errors import explained
from slowstep.text.terminal import say
from slowstep_probe.processes.tree import adopt_orphans, end_with_parent


def main(notebook: str, target: str, parameters: str, parent: str, scratch: str) -> int:
    """Run `notebook` to `target` with the JSON file `parameters`; return 0 if every cell ran, else 1.

    The run ends with the process `parent`. It deletes the folder `scratch` if that process can't do it any more.
    """
    adopt_orphans()
    end_with_parent(int(parent), scratch)
    without_address_grammar()
    import papermill
    from papermill.exceptions import PapermillExecutionError

    logging.getLogger("papermill").setLevel(logging.ERROR)
    try:
        papermill.execute_notebook(
            notebook,
            target,
            json.loads(Path(parameters).read_text(encoding="utf-8")),
            kernel_name="python3",
            progress_bar=False,
            autosave_cell_every=0,
        )
    except PapermillExecutionError as error:
        say(" ".join(f"{error.ename}: {error.evalue}".split()))
        return 1
    except OSError as error:
        with_path = error if error.filename else OSError(error.errno, error.strerror, target)
        say(f"the notebook could not be run to its end: {explained(with_path)}")
        return 1
    except BaseException as error:
        say(" ".join(f"the notebook's kernel could not go on: {type(error).__name__}: {error}".split()))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
