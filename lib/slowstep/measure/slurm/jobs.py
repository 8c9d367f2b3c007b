"""Jobs: how they are submitted (submitit), what the cluster says of them (squeue), and how they are cancelled."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from slowstep.measure.slurm.server import Server
from slowstep.settings.errors import SettingsError
from slowstep.settings.slurm import Slurm
from slowstep_probe.plain import shortened

ENDED_STATES = frozenset(
    ("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT", "REVOKED")
)
"""The states of Slurm that a job does not leave. PREEMPTED is none: a preempted job waits to be started again."""

PRIVATE = 0o700
"""The mode of a folder that nobody else may enter."""

SCHEDULER_SECONDS = 60.0
"""The seconds after which a command of Slurm that has not answered is given up."""


class NoNode(SettingsError):
    """The error of an investigation for which no node can be had. Its text says why, in Slurm's words if it spoke."""


class Phase(Enum):
    """The phases of a job's life that matter here."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, kw_only=True)
class JobState:
    """The state of a job, and what the cluster says of it: "PENDING (Resources)"."""

    phase: Phase
    words: str = ""


def missing(slurm: Slurm) -> str:
    """Return what this machine lacks to submit jobs, and what to do; empty if it lacks nothing."""
    if importlib.util.find_spec("submitit") is None:
        return "submitit is not installed, which submits the jobs: pip install '.[slurm]' in slowstep's clone"
    if slurm.cluster == "slurm" and not (shutil.which("sbatch") and shutil.which("srun")):
        return "this machine has no sbatch; start slowstep on a machine that submits to Slurm, or remove measure.slurm"
    return ""


class Jobs:
    """The jobs of one investigation. submitit keeps its files and the jobs' logs in `folder`.

    Nobody else may enter that folder, since a job runs what submitit has pickled there.
    """

    def __init__(self, slurm: Slurm, folder: Path, name: str):
        if why := missing(slurm):
            raise NoNode(f"measure.slurm: {why}")
        import submitit

        folder.chmod(PRIVATE)
        self.slurm, self.folder = slurm, folder
        self._known: dict[str, JobState] = {}
        self._executor = submitit.AutoExecutor(folder, cluster=slurm.cluster)
        self._executor.update_parameters(**_parameters(slurm, name))

    def submit(self, server: Server) -> Any:
        """Submit a job and return submitit's handle of it; NoNode if the cluster refuses."""
        try:
            job = self._executor.submit(server)
        except Exception as error:  # submitit has several, and all hold what sbatch wrote
            said = words_of_sbatch(str(error))
            raise NoNode(f"measure.slurm: the cluster refuses the job: {said}; change what the section asks") from None
        job._cancel_at_deletion = False
        return job

    def look(self, jobs: Iterable[Any]) -> dict[str, JobState]:
        """Return the state of each job by its number; the last known one where Slurm does not answer now."""
        jobs = list(jobs)
        if self.slurm.cluster == "local":
            return {job.job_id: _local(job) for job in jobs}
        for number, state in _queue([job.job_id for job in jobs], self._known).items():
            self._known[number] = state
        return {job.job_id: self._known.get(job.job_id, JobState(phase=Phase.WAITING)) for job in jobs}

    def cancel(self, job: Any) -> None:
        """Cancel a job. One of this machine is told so, as Slurm tells its own, and has time to end its trials."""
        with suppress(Exception):
            if self.slurm.cluster == "local" and job._process is not None:
                job._process.terminate()
            else:
                job.cancel(check=False)

    def wait(self, job: Any, patience: float) -> None:
        """Wait for the end of a job of this machine, so many seconds at most. Slurm ends its own jobs by itself."""
        if self.slurm.cluster == "local" and job._process is not None:
            with suppress(subprocess.TimeoutExpired):
                job._process.wait(patience)
                return
            with suppress(Exception):
                job.cancel(check=False)  # which kills what does not end
                job._process.wait(patience)

    def tidy(self) -> None:
        """Remove what submitit keeps beside the logs."""
        for pattern in ("*.pkl", "*_submission.sh", ".submission_file_*.sh"):
            for path in self.folder.glob(pattern):
                path.unlink(missing_ok=True)


def _parameters(slurm: Slurm, name: str) -> dict[str, Any]:
    """Return submitit's parameters of a job."""

    def given(*keys: str) -> dict[str, Any]:
        return {key: value for key in keys if (value := getattr(slurm, key)) is not None}

    common = given("timeout_min", "gpus_per_node")
    if slurm.cluster == "local":
        return common
    own = given("partition", "account", "qos", "constraint", "exclude", "nodelist", "gres")
    own |= {"srun_args": ["--cpu-bind=none"]}  # a trial may use all cores that the job has
    if slurm.exclusive:
        own |= {"exclusive": True} | ({"mem": "0"} if slurm.mem_gb is None else {})
    if slurm.additional_parameters:
        own["additional_parameters"] = slurm.additional_parameters
    return (
        common
        | given("cpus_per_task", "mem_gb")
        | {"name": f"slowstep-{name}", "nodes": 1}
        | {f"slurm_{key}": v for key, v in own.items()}
    )


def words_of_sbatch(text: str) -> str:
    """Return what sbatch said, without its name before each line."""
    lines = [line.split("error:", 1)[1].strip() for line in text.splitlines() if "sbatch: error:" in line]
    return "; ".join(dict.fromkeys(lines)) or shortened(" ".join(text.split()), 300)


def _local(job: Any) -> JobState:
    if job.state == "RUNNING":
        return JobState(phase=Phase.RUNNING, words="running")
    return JobState(phase=Phase.ENDED, words="its process has ended")


def _queue(numbers: list[str], known: dict[str, JobState]) -> dict[str, JobState]:
    """Return what squeue says of jobs; nothing if it does not answer. A job that it has forgotten has ended."""
    command = ["squeue", "--noheader", "--states=all", "--format=%i|%T|%r", f"--jobs={','.join(numbers)}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SCHEDULER_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    if done.returncode and "Invalid job id" not in done.stderr:
        return {}
    found = {}
    for line in done.stdout.splitlines():
        number, state, reason = (part.strip() for part in (*line.split("|"), "", "")[:3])
        said = state if reason in ("", "None") else f"{state} ({reason})"
        if state in ENDED_STATES:
            found[number] = JobState(phase=Phase.ENDED, words=said)
        else:
            running = state in ("RUNNING", "COMPLETING")
            found[number] = JobState(phase=Phase.RUNNING if running else Phase.WAITING, words=said)
    for number in (n for n in numbers if n in known and n not in found):
        words = f"{known[number].words}, and Slurm does not list it any more"
        ended = known[number].phase is Phase.ENDED
        found[number] = known[number] if ended else JobState(phase=Phase.ENDED, words=words)
    return found
