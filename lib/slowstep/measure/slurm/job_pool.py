"""The jobs of an investigation as home sees them: those that wait, those that can be asked, and those that ended."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from slowstep.measure.slurm.jobs import PRIVATE, Jobs, JobState, NoNode, Phase
from slowstep.measure.slurm.mailbox import END, Heartbeat, Mailbox
from slowstep.measure.slurm.messages import JobStart, Spent
from slowstep.measure.slurm.own_folders import close_to_others
from slowstep.measure.slurm.server import Server
from slowstep.processes import signals
from slowstep.records import Environment
from slowstep.settings.schema import Budget
from slowstep.settings.slurm import Slurm
from slowstep_probe.processes.log import last_words, log_tail
from slowstep_probe.processes.scratch import folder_prefix, remove_abandoned_folders

LOOK_SECONDS = {"slurm": (2.0, 30.0), "local": (0.2, 0.2)}
"""The least and the most seconds between two questions to the cluster. Where nothing changes they become more."""

UNSEEN_SECONDS = 120.0
"""The seconds that a job runs without any file of it being seen, after which its folder counts as not shared."""

IDLE_SECONDS, IDLE_FIRST_SECONDS = 300.0, 1800.0
"""The seconds without a request after which a job gives its node back; the second is for the first job."""

ALIKE = 0.05
"""The share by which the memory of alike nodes may differ."""

END_SECONDS = 15.0
"""The seconds that a job on this machine may take to end."""


@dataclass(eq=False, kw_only=True)
class NodeJob:
    """One job, and the start of it that can be asked."""

    job: Any
    box: Mailbox
    log: Path
    """What the job wrote to its stream of errors."""
    state: JobState = JobState(phase=Phase.WAITING)
    start: JobStart | None = None
    running_since: float | None = None
    asked: int = 0
    """The number of requests so far."""
    spent: dict[str, Spent] = field(default_factory=dict)
    """What each start of the job has spent."""

    @property
    def ready(self) -> bool:
        """Return whether it can be asked now."""
        return self.start is not None and self.state.phase is Phase.RUNNING

    @property
    def ended(self) -> bool:
        """Return whether it will never be ready again."""
        return self.state.phase is Phase.ENDED

    @property
    def left(self) -> bool:
        """Return whether it ended by itself, since it was asked nothing."""
        return self.start is not None and f"left.{self.start.name}" in self.box.names()

    def why(self) -> str:
        """Return why it ended, in a clause, with its last words."""
        where = f" on {self.start.node}" if self.start else ""
        # srun speaks last, and says no more than that the job has ended
        words = last_words("\n".join(x for x in log_tail(self.log).splitlines() if not x.startswith("srun:")))
        said = f"; its last line was: {words}" if words else ""
        return f"job {self.job.job_id}{where} ended: {self.state.words}{said}"


class JobPool:
    """All jobs of one investigation. The first that is ready is its main one: absolute figures come from its node."""

    def __init__(
        self, slurm: Slurm, budget: Budget, folder: Path, known: Environment | None, say: Callable[[str], None]
    ):
        self.slurm, self.budget, self.say = slurm, budget, say
        self.logs = (folder / "records" / "logs").resolve()
        submitted = self.logs / "slurm"
        submitted.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        others_could_write = [close_to_others(one, folder) for one in (folder, self.logs, submitted)]
        self.jobs = Jobs(slurm, submitted, folder.name)
        if any(others_could_write):
            self.jobs.tidy()  # a job would run what somebody else has left there under its number
        remove_abandoned_folders(folder)
        self.root = Path(tempfile.mkdtemp(prefix=folder_prefix("mail"), dir=folder)).resolve()
        self.members: list[NodeJob] = []
        self.dismissed: list[NodeJob] = []
        """Jobs that have ended, or were sent away."""
        self.environment = known
        self.most = slurm.nodes
        """The most jobs at the same time; fewer than asked for once a job could not begin or met an unlike node."""
        self.waited = 0.0
        self._heartbeat = Heartbeat(self.root)
        self._looked, self._pause, self._told = 0.0, 0.0, dict[str, str]()

    @property
    def spent(self) -> Spent:
        """What all jobs have spent."""
        every = [one for member in (*self.members, *self.dismissed) for one in member.spent.values()]
        return Spent(measured_seconds=sum(s.measured_seconds for s in every), steps=sum(s.steps for s in every))

    def fill(self, number: int) -> None:
        """Submit jobs until there are so many, `most` at most; NoNode if the cluster refuses."""
        while len(self.members) < max(1, min(number, self.most)):
            box = Mailbox(self.root / f"{len(self.members) + len(self.dismissed)}")
            box.open()
            idle = IDLE_SECONDS if self.members else IDLE_FIRST_SECONDS
            server = Server(mailbox=box.folder, budget=self.budget, logs=self.logs, idle_seconds=idle)
            with signals.held():  # a job that was submitted is known, and will be cancelled
                job = self.jobs.submit(server)
                self.members.append(NodeJob(job=job, box=box, log=Path(job.paths.stderr)))
            self._looked = self._pause = 0.0

    def refresh(self) -> None:
        """Look at all jobs: their state, and whether they have started anew. Unlike nodes are sent away."""
        now = time.monotonic()
        if self.members and now - self._looked >= self._pause:
            states = self.jobs.look([member.job for member in self.members])
            least, most = LOOK_SECONDS[self.slurm.cluster]
            changed = any(member.state != states[member.job.job_id] for member in self.members)
            self._looked, self._pause = now, least if changed else min(most, max(least, 1.2 * self._pause))
            for member in self.members:
                member.state = states[member.job.job_id]
                self._announce(member)
        for member in list(self.members):
            starts = [name for name in member.box.names() if name.startswith("start.")]
            newest = max(starts, key=lambda name: int(name.rsplit("-", 1)[1]), default=None)
            if newest and (member.start is None or f"start.{member.start.name}" != newest):
                member.start = member.box.take(newest)
                self._meet(member)
            self._seen_at_all(member, now)

    def dismiss(self, member: NodeJob) -> None:
        """Cancel a job, or let go one that has ended."""
        self.members.remove(member)
        self.dismissed.append(member)
        if not member.ended:
            member.box.end()
            self.jobs.cancel(member.job)
            self.jobs.wait(member.job, END_SECONDS)

    def do_without(self, why: str) -> None:
        """Go on with one job less than was asked for, and say why."""
        self.most = max(1, self.most - 1)
        self.say(why)

    def close(self) -> None:
        """End all jobs, and remove what they were asked through."""
        self._heartbeat.stop()
        (self.root / END).touch()
        for member in self.members:
            self.jobs.cancel(member.job)
        for member in self.members:
            self.jobs.wait(member.job, END_SECONDS)
        self.dismissed += self.members
        self.members = []
        shutil.rmtree(self.root, ignore_errors=True)
        self.jobs.tidy()

    def _announce(self, member: NodeJob) -> None:
        """Say that a job waits, and why, once for each reason."""
        number, words = member.job.job_id, member.state.words
        if member.state.phase is Phase.WAITING and words and self._told.get(number) != words:
            self._told[number] = words
            self.say(f"waiting for a node: job {number} is {words}")

    def _meet(self, member: NodeJob) -> None:
        """Take a node's environment for that of the investigation, or send away a job whose node is another machine."""
        start = member.start
        if start is None:
            return
        if self.environment is None:
            self.environment = start.environment
        if unlike := differences(self.environment, start.environment):
            why = f"node {start.node} differs from those that measured before in {unlike}"
            remedy = "choose alike nodes (measure.slurm.constraint, partition), or give the investigation another name"
            if len(self.members) == 1:
                raise NoNode(f"measure.slurm: {why}; {remedy}")
            self.do_without(f"{why}, and is not used; {remedy}")
            self.dismiss(member)
        else:
            self.say(f"job {member.job.job_id} measures on node {start.node}")

    def _seen_at_all(self, member: NodeJob, now: float) -> None:
        """Do without a job that runs and leaves nothing in its folder, as if it had another; NoNode if it is alone."""
        if member not in self.members:
            return  # its node is another machine
        if member.state.phase is not Phase.RUNNING or member.start is not None:
            member.running_since = None
            return
        member.running_since = member.running_since or now
        if now - member.running_since > UNSEEN_SECONDS and not member.log.exists():
            why = f"job {member.job.job_id} has run for {UNSEEN_SECONDS:.0f} s, and "
            if len(self.members) == 1:
                raise NoNode(why + self.not_shared)
            self.do_without(
                f"{why}left nothing in {self.root.parent}, which its node does not see, it seems: it is not used; "
                "keep its node out by measure.slurm.exclude"
            )
            self.dismiss(member)

    @property
    def not_shared(self) -> str:
        """The words for a folder that nodes do not see."""
        folder = self.root.parent
        return f"it left nothing in {folder}: that folder is not shared with the nodes; give one that is by --outputs"


def differences(one: Environment, other: Environment) -> str:
    """Return in what the environments of two nodes differ; empty if a run is as fast on one as on the other."""
    machines = [{name: v for name, v in e.machine.items() if name != "tools"} for e in (one, other)]
    for name in ("memory", "gpu_memory"):
        sizes = [machine.get(name) for machine in machines]
        if all(sizes) and abs(sizes[0] - sizes[1]) <= ALIKE * max(sizes):
            machines[1][name] = sizes[0]
    found = [f"{n} ({was}, {machines[1].get(n)})" for n, was in machines[0].items() if was != machines[1].get(n)]
    if replace(one, machine={}, files=[]).determinants != replace(other, machine={}, files=[]).determinants:
        found.append("the versions of its packages")
    return ", ".join(found)
