"""A row of a report as a run: its settings, its figures by quantity, its phases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from slowstep.audit.figures import Figure, exact
from slowstep.audit.model_parallel import names_a_way
from slowstep.audit.relations import Solved
from slowstep.factors import CATALOGUE
from slowstep.settings import Settings
from slowstep.settings.reported import Told
from slowstep.text.sentences import listed

SAY = "say it by the name, or for a column in `columns` (as an override: reported.columns.Speed=s/it)"

QUESTIONS = {
    **dict.fromkeys(("speed", "it"), "is it seconds a step (seconds_per_step) or steps a second (steps_per_second)?"),
    "rate": "is it steps, samples or tokens a second (steps_per_second, samples_per_second, tokens_per_second)?",
    "sps": "is it samples a second (samples_per_second), or steps of an environment, which are none of training?",
    "throughput": "is it samples or tokens a second (samples_per_second, tokens_per_second)?",
    **dict.fromkeys(
        ("time", "duration"),
        "is it of a step, an epoch or the whole job (seconds_per_step, seconds_per_epoch, hours)?",
    ),
    "epoch": "is it the seconds of an epoch (seconds_per_epoch) or the number of epochs (epochs)?",
    **dict.fromkeys(
        ("batch", "batch_size"),
        "is it the batch of a device (a setting, per_device_train_batch_size) or all samples of an optimizer step "
        "(samples_per_step)?",
    ),
    **dict.fromkeys(
        ("memory", "mem", "vram"),
        "is it what the tensors take (memory_allocated_gib), what PyTorch holds (memory_reserved_gib) or what the "
        "driver shows (memory_used_gib)?",
    ),
}
"""Names that could mean several things, each with the question to answer."""

BESIDE = {
    "memory_allocated_gib": "GiB allocated",
    "memory_reserved_gib": "GiB reserved",
    "memory_used_gib": "GiB in use",
    "utilisation": "% device busy",
    "mfu": "% MFU",
    "hfu": "% HFU",
    "tflops_per_device": "TFLOP/s a device",
    "speed_up": "times as fast",
    "scaling_efficiency": "% of linear scaling",
    "time_left": "% of the time",
}
"""Figures that have no relation to the others, each with its name in tables."""

TEXT = ("finetune", "plain_loop")
"""Workloads whose samples are texts."""

STATED = ("speed_up", "scaling_efficiency", "time_left")
"""Ratios to another row, which a table states beside what it measured."""

SHARES = ("mfu", "hfu", "scaling_efficiency")
"""Percentages. One that is written as a share, up to 1 and without a sign, is turned into a percentage."""

TIMED = ("seconds", "minutes", "hours", "steps_per_second", "samples_per_second", "tokens_per_second")
"""The first letters of the figures that can't be 0 or less."""


@dataclass(frozen=True, kw_only=True)
class ReportedRun(Told):
    """A row whose settings and figures were read. `step_word` is empty where figures are by step."""

    settings: Settings
    given: Mapping[str, Figure]
    solved: Solved
    repeats: Mapping[str, list[float]]
    """Figures that were measured several times."""
    phases: Mapping[str, Figure]
    """Seconds a step, by phase."""
    elsewhere: bool
    """True if a part of the weights may lie elsewhere: by DeepSpeed's settings, or by what a trial leaves out."""
    from_file: bool
    """True if the row is from a file that a run left. Such a file counts no devices."""
    length: int | None
    """The most tokens of a sample; None where samples are no texts, or where their length is not known."""
    says_batch: bool
    """True if its batch is given, or is the default of a parameter file that says how the run was trained."""
    copies: Figure | None = exact(1)
    """The copies of the model, each with a batch of its own; None if it is split over devices, and into how many parts
    is not known."""

    @property
    def measured(self) -> bool:
        """Return whether its figures were measured on a training that ran."""
        return not self.projected and not self.out_of_memory

    @property
    def devices(self) -> Figure:
        """Return the number of devices that it was trained on; one if that is not given, and does not follow."""
        return self.solved.known.get("devices", exact(1))

    @property
    def open_figures(self) -> list[str]:
        """Return the figures of which one is wrong, as they contradict each other."""
        return [*self.solved.without]

    def without(self, quantity: str) -> ReportedRun:
        """Return the run by what is known without a figure; the run itself if that one contradicts no other."""
        known = self.solved.without.get(quantity)
        return self if known is None else replace(self, solved=Solved(known, ()))

    @property
    def assumes_samples(self) -> bool:
        """Return whether the samples of a step follow from its batch as if nothing were accumulated."""
        said = self.given.keys() & {"samples_per_step", "samples_per_second", "samples_per_second_per_device"}
        return self.says_batch and not said and "gradient_accumulation_steps" not in self.settings.training_arguments

    @property
    def counts_text(self) -> bool:
        """Return whether its tokens are those of the samples themselves, without padding."""
        each = self.given.get("tokens_per_sample")
        full = each and self.length and each.meets(exact(self.length))
        return (
            self.without_padding
            or self.packed
            or bool(each and not (full and self.settings.dataset.padding == "max_length"))
        )

    @property
    def tokens_of_a_sample(self) -> Figure | None:
        """Return the tokens of a sample, if they were counted or if packing fills it; else None."""
        each = self.solved.known.get("tokens_per_sample")
        return exact(self.length) if self.packed and self.length and not each else each

    @property
    def packed(self) -> bool:
        """Return whether a sample is packed from several samples of the data set."""
        return self.settings.workload in TEXT and self.settings.dataset.padding == "packing"

    @property
    def tokens_at_full_length(self) -> Figure | None:
        """Return the tokens a second as they are given, or as they would be if each sample had the full length."""
        known = self.solved.known
        if "tokens_per_second" in known:
            return known["tokens_per_second"]
        samples = known.get("samples_per_second")
        return samples * self.length if samples and self.length else None


def same_devices(a: ReportedRun, b: ReportedRun) -> bool:
    """Return whether two runs may have been trained on as many devices."""
    return a.devices.meets(b.devices)


def unknown_differences(a: ReportedRun, b: ReportedRun, beside: str | None = None) -> str:
    """Return the columns in which two rows differ and that are no settings here, with their words; else an empty text.

    The column that is called as the factor `beside` is left out. Other names than those of factors were not read.
    """
    both = ((name, a.unknown[name], b.unknown[name]) for name in a.unknown if name in b.unknown and name != beside)
    differ = [(name, f"{name} ({before}, {after})") for name, before, after in both if before != after]
    differ.sort(key=lambda one: one[0] not in CATALOGUE)
    text = listed([words for _, words in differ], " and ")
    unread = sum(name not in CATALOGUE and not names_a_way(name) for name, _ in differ)
    return f"{text}, which {'were' if unread > 1 else 'was'} not read" if unread else text


def batches(a: ReportedRun, b: ReportedRun) -> list[Figure | None]:
    """Return the samples a step of both runs; None for one where they are not known."""
    return [r.solved.known.get("samples_per_step") for r in (a, b)]


def described(settings: Settings) -> bool:
    """Return whether the parameter file says how the run was trained. Then settings that it leaves out are defaults.

    A table or a log by itself says nothing about what it leaves out.
    """
    return bool(settings.training_arguments)
