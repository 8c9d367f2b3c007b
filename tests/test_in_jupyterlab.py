"""What a notebook in JupyterLab meets that a batch does not: somebody who reads between cells, and mistypes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell

from slowstep.batch.execute_notebook import execute
from slowstep.batch.forked_kernel import private_sockets
from slowstep.investigation import open_investigation
from slowstep.investigation.clock import CellClock
from slowstep.investigation.opening import _watch
from slowstep.measure.progress import Progress
from slowstep.settings import SettingsError

KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
PARAMS = Path(__file__).parents[1] / "params"


class Events:
    """The events of IPython that a clock of cells is told."""

    def __init__(self) -> None:
        self.told: dict[str, Callable[..., None]] = {}

    def register(self, name: str, tell: Callable[..., None]) -> None:
        self.told[name] = tell


def test_the_time_between_cells_is_not_spent() -> None:
    """Whoever reads for an hour between two cells of a notebook has as many minutes left as before."""
    now = [0.0]
    clock = CellClock(events := Events(), now=lambda: now[0])
    seen = []
    for event, at in (
        ("pre_run_cell", 1.0),
        ("post_run_cell", 3.0),
        ("pre_run_cell", 3603.0),
        ("post_run_cell", 3604.0),
    ):
        now[0] = at
        events.told[event](None)
        seen.append(clock())
    now[0] = 9000.0

    assert [1.0, 3.0, 3.0, 4.0] == seen
    assert 4.0 == clock()


def test_a_mistyped_file_is_answered_in_a_notebook_as_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Notebooks do not stand beside params/. The nearest file there is named, and no line of the library is shown."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError) as told:
        open_investigation("quikc.yaml")

    (line,) = told.value._render_traceback_()

    assert line.endswith(f"there is no such file. Did you mean '{PARAMS / 'quick.yaml'}'?")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"params": None}, "params: expected the name of a parameter file, found nothing (null)."),
        ({"params": ""}, "params: expected the name of a parameter file, found '' (a text)."),
        ({"outputs": None}, 'outputs: expected the name of a folder, or "", found nothing (null).'),
        ({"overrides": [("seed", 1)]}, "overrides: expected texts such as \"budget.minutes=5\", found ('seed', 1)"),
        ({"overrides": "budget.minute=5"}, "budget.minute: no such key. Did you mean 'minutes'?"),
        ({"params": str(PARAMS.parent / "tests"), "overrides": ["seed=1"]}, "records are only read"),
    ],
)
def test_a_parameter_that_can_not_be_meant_is_answered_as_a_sentence(given: dict, said: str) -> None:
    """Whoever edits the parameters cell may write one override without its list, or none at all."""
    with pytest.raises(SettingsError) as told:
        open_investigation(**{"params": "smoke.yaml"} | given)

    assert said in str(told.value)


def test_the_bar_of_progress_goes_when_its_cell_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bar that moved on below a finished cell would look like work; the next cell that measures has its own."""
    shell, shown = InteractiveShell.instance(), []
    monkeypatch.setattr("IPython.display.display", lambda bundle, **_: shown.append(Shown(bundle)) or shown[-1])
    show = _watch()
    for _ in range(2):
        show(Progress(notebook="00_baseline", comparison="A/A", pair=0, of=5, began=0.0))
        shell.events.trigger("post_run_cell", None)
    InteractiveShell.clear_instance()

    assert ["", ""] == [one.bundle["text/html"] for one in shown]


class Shown:
    """What a cell shows."""

    def __init__(self, bundle: dict[str, str]):
        self.bundle = bundle

    def update(self, bundle: dict[str, str], raw: bool) -> None:
        self.bundle = bundle


def test_a_batch_tells_an_error_for_its_reader_by_its_sentence(tmp_path: Path) -> None:
    """Its class, here one that stands for a missing key, is a name of the code."""
    parameters = nbformat.v4.new_code_cell("", metadata={"tags": ["parameters"]})
    raising = nbformat.v4.new_code_cell("from slowstep.nodes.key import NoKey\nraise NoKey('the key is missing')")
    notebook = tmp_path / "asks.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[parameters, raising], metadata=KERNEL), notebook)

    with private_sockets() as sockets:
        assert "the key is missing" == execute(str(notebook), str(tmp_path / "ran.ipynb"), {}, sockets)
