"""The peaks of the device: in the run's own arithmetic, and in those that are tried."""

from __future__ import annotations

from collections.abc import Callable

from slowstep.environment.machine import Machine
from slowstep.factors import CATALOGUE, plan_all
from slowstep.investigation import record_specs
from slowstep.investigation.record_specs import RecordSpec
from slowstep.investigation.results import Measured
from slowstep.judgement.devices import MARGIN, Peak, peak_of
from slowstep.judgement.projection import devices
from slowstep.judgement.run_facts import RunFacts, flops_of
from slowstep.records import ComparisonRecord, TrialRecord
from slowstep.settings import Settings
from slowstep.settings.run import DTYPES

PRECISION = CATALOGUE["precision"]
"""The factor whose levels multiply matrices in another precision. They are bounded by the peak in that precision."""

OF_ARITHMETIC = ("precision", "tf32", "weights", "double_precision")
"""The factors that change a run's arithmetic, and with it the peak of the device that counts for the run."""


class Peaks:
    """The peaks of the device that a run trains on: by its data sheet if its name is known, else as they were measured.

    `read` returns the record of a spec; None if it was not measured.
    """

    def __init__(
        self, settings: Settings, machine: Machine, device: str, read: Callable[[RecordSpec[Peak]], Peak | None]
    ):
        self._settings, self._machine, self._read = settings, machine, read
        self._data_sheet = peak_of(machine.gpu) if device == "cuda" else None

    def spec(self) -> RecordSpec[Peak] | None:
        """Return the spec of the peak in the run's own arithmetic; None where a data sheet tells it."""
        return None if self._data_sheet else record_specs.peak(computed_in(self._settings))

    def specs_of_tried(self, noise: ComparisonRecord) -> dict[str, RecordSpec[Peak]]:
        """Return the specs of the peaks in the precisions that are tried, by PyTorch's names of them.

        They bound a run whose FLOPs are known.
        """
        blocks = noise.blocks
        if self._data_sheet or not blocks or flops_of(blocks, noise.baseline.observed) is None:
            return {}
        every = plan_all(self._settings, self._machine)
        tried = [level.value for c in every if not c.untestable for f, level in c.levels if f is PRECISION]
        return {DTYPES[value]: record_specs.peak(DTYPES[value]) for value in tried}

    @property
    def own(self) -> Peak | None:
        """The peak in the run's own arithmetic; None if it was not measured."""
        spec = self.spec()
        return self._read(spec) if spec else self._data_sheet

    def flops(self, trial: TrialRecord) -> float | None:
        """Return the FLOP/s that nothing exceeds on all devices of the run; None if that is not known."""
        return self.own.most * devices(trial, self._settings.on_nodes) if self.own else None

    def flops_of_tried(self, noise: ComparisonRecord) -> dict[str, float]:
        """Return the same in each precision that is tried, by PyTorch's name of it, as far as it was measured."""
        return {
            dtype: peak.most * devices(noise.baseline, self._settings.on_nodes)
            for dtype, spec in self.specs_of_tried(noise).items()
            if (peak := self._read(spec))
        }

    def flops_of_change(self, change: Measured, facts: RunFacts) -> float | None:
        """Return the FLOP/s that nothing exceeds on the devices of a changed run, in its own arithmetic.

        `facts` are those of the baseline. None if that is not known.
        """
        of_arithmetic = [(f, level) for f, level in change.contrast.levels if f.name in OF_ARITHMETIC]
        dtype = next((DTYPES[level.value] for f, level in of_arithmetic if f is PRECISION), "")
        same = not of_arithmetic or self._data_sheet is not None  # a data sheet's is that of the fastest arithmetic
        peak = facts.peak_flops if same else facts.other_peaks.get(dtype)
        of_change = devices(change.record.treatment, change.contrast.treatment.settings.on_nodes)
        return peak and peak * of_change / devices(change.record.baseline, self._settings.on_nodes)

    def product_rate(self, settings: Settings, most: float | None) -> float | None:
        """Return the FLOP/s that large products reach on the host (`RunFacts.product_rate`), from the most they may."""
        of_peak, threads = self.own and self.own.threads, settings.run["process.num_threads"]
        alone = settings.ranks <= 1 and of_peak is not None and (threads is None or threads >= of_peak)
        return most / MARGIN if most and alone else None


def computed_in(s: Settings) -> str:
    """Return the arithmetic of the matrix products, as PyTorch names it."""
    if s.training("bf16") or s.training("fp16"):
        return "bfloat16" if s.training("bf16") else "float16"
    four_bit = (s.quantization or {}).get("bnb_4bit_compute_dtype")
    return str(four_bit) if four_bit else s.model.dtype
