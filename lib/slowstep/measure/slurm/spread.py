"""Tasks spread over jobs: each job gets the next task as soon as it is free, and what it answers is handed on.

The opinions here, and why:

- A task is one verb, or a group of comparisons of one baseline. It is done by one job on one node. So both arms of a
  comparison, and the blocks of the baseline that a group shares, are of one node.
- What a requeued job had not answered is asked again from its beginning, with none of the pairs that it had. The new
  start may be on another node, where the same arms have another offset, and no pair tells how large that is.
- A job that ends for good fails the task that it had, and no other. So does an error while comparisons are measured.
- Time in which no job could measure counts for no deadline.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from slowstep.measure.measurer import ComparisonRequest, OnPairsOf
from slowstep.measure.slurm.failures import failed_answer, failed_comparison
from slowstep.measure.slurm.job_pool import JobPool, NodeJob
from slowstep.measure.slurm.jobs import NoNode
from slowstep.measure.slurm.messages import MailboxAnswer, Request
from slowstep.measure.slurm.server import COMPARE

POLL_SECONDS = 0.1
"""The seconds between two looks into the mailboxes."""


@dataclass(eq=False, kw_only=True)
class Task:
    """A verb with its arguments, or comparisons that are still open, by the number under which they were asked."""

    verb: str = COMPARE
    arguments: tuple[Any, ...] = ()
    open: dict[int, ComparisonRequest] = field(default_factory=dict)


@dataclass(kw_only=True)
class _Asked:
    """A task that a start of a job was asked to do."""

    task: Task
    start: str
    name: str
    """The beginning of the names of its messages."""
    numbers: list[int]
    """The numbers of the comparisons, by their place in the request."""
    seen: set[str] = field(default_factory=set)


class Spread:
    """Tasks under way. `wide` lets all jobs of the pool work, and else only the main one."""

    def __init__(self, jobs: JobPool, tasks: Sequence[Task], deadline: float, on_pairs: OnPairsOf, wide: bool):
        self.jobs, self.waiting, self.deadline, self.on_pairs = jobs, list(tasks), deadline, on_pairs
        self.places = len(tasks) if wide else 1
        self.asked: dict[NodeJob, _Asked] = {}
        self._waited_before = jobs.waited

    def run(self) -> Iterator[tuple[int, Any]]:
        """Yield the number and the record of each comparison as it is decided; of a verb 0 and what it answers.

        NoNode if no job can be had at all. RuntimeError for an error of the measurer on the node, but for comparisons,
        whose records say so.
        """
        then = time.monotonic()
        try:
            while self.waiting or self.asked:
                self._submit_jobs()
                self.jobs.refresh()
                yield from self._ends()
                self._hand_out()
                for job in list(self.asked):
                    yield from self._answers(job)
                now = time.monotonic()
                if not any(job.ready for job in self.asked):
                    self.jobs.waited += now - then
                then = now
                if self.waiting or self.asked:
                    time.sleep(POLL_SECONDS)
        finally:
            for job in self.asked.keys() & set(self.jobs.members):  # nobody waits for what it measures
                self.jobs.dismiss(job)

    def _submit_jobs(self) -> None:
        """Submit as many jobs as there are tasks for. One that is refused matters only if there is none at all."""
        try:
            self.jobs.fill(min(self.places, len(self.waiting) + len(self.asked)))
        except NoNode:
            if not self.jobs.members:
                raise
            self.jobs.most = len(self.jobs.members)

    def _ends(self) -> Iterator[tuple[int, Any]]:
        """Let jobs go that have ended. The task of one that failed is answered by its failure."""
        for job in self.asked.keys() - set(self.jobs.members):  # sent away, since it was requeued to an unlike node
            self.waiting.insert(0, self.asked.pop(job).task)
        for job in [job for job in self.jobs.members if job.ended]:
            yield from self._answers(job)  # what it said before its end
            asked, idle = self.asked.pop(job, None), job.left
            self.jobs.dismiss(job)
            if asked is not None and idle:
                self.waiting.insert(0, asked.task)
            elif asked is not None:
                yield from self._failed(asked.task, job, job.why())
            elif not idle and job.start is None:
                why = f"{job.why()}; {_place_of_log(job, self.jobs)}"
                if not self.jobs.members:
                    raise NoNode(f"measure.slurm: {why}")
                self.jobs.do_without(why)

    def _failed(self, task: Task, job: NodeJob, why: str) -> Iterator[tuple[int, Any]]:
        """Yield the records of what a task had not answered when it failed."""
        if task.verb == COMPARE:
            for number, request in task.open.items():
                yield number, failed_comparison(request, job, why)
        else:
            yield 0, failed_answer(task.verb, task.arguments, job, why)

    def _hand_out(self) -> None:
        """Give free jobs the next tasks, and ask a job that has started anew once more."""
        team = self.jobs.members if self.places > 1 else self.jobs.members[:1]
        for job in [job for job in team if job.ready]:
            asked = self.asked.get(job)
            if asked is None and self.waiting:
                self._ask(job, self.waiting.pop(0))
            elif asked is not None and asked.start != job.start.name:
                for number in asked.task.open:
                    self.on_pairs(number, [])
                self._ask(job, asked.task)

    def _ask(self, job: NodeJob, task: Task) -> None:
        numbers = list(task.open)
        arguments = task.arguments if task.verb != COMPARE else ([task.open[number] for number in numbers],)
        left = self.deadline + self.jobs.waited - self._waited_before - time.monotonic()
        job.asked += 1
        name = f"{job.start.name}.{job.asked:04d}"
        self.asked[job] = _Asked(task=task, start=job.start.name, name=name, numbers=numbers)
        job.box.put(f"{name}.request", Request(verb=task.verb, arguments=arguments, left=left))

    def _answers(self, job: NodeJob) -> Iterator[tuple[int, Any]]:
        """Yield what a job has answered since the last look."""
        asked = self.asked.get(job)
        if asked is None:
            return
        names = [n.removeprefix(f"{asked.name}.") for n in job.box.names() if n.startswith(f"{asked.name}.")]
        for name in (name for name in names if name.startswith("told.")):
            number = asked.numbers[int(name.removeprefix("told."))]
            if number in asked.task.open and (pairs := job.box.take(f"{asked.name}.{name}")) is not None:
                self._hand_on(asked, name, number, pairs)
        for name in (name for name in names if name.startswith("part.") and name not in asked.seen):
            if (part := job.box.take(f"{asked.name}.{name}")) is None:
                continue
            asked.seen.add(name)
            job.spent[asked.start] = part.spent
            number = asked.numbers[part.place]
            del asked.task.open[number]
            yield number, part.record
        # parts were listed with the answer or before it, and must all be read by then
        if "answer" in names and all(n in asked.seen for n in names if n.startswith("part.")):
            answer: MailboxAnswer | None = job.box.take(f"{asked.name}.answer")
            if answer is None:
                return
            del self.asked[job]
            job.spent[asked.start] = answer.spent
            why = answer.error and f"{answer.error} (on node {job.start.node})"
            if why and asked.task.verb == COMPARE:
                yield from self._failed(asked.task, job, why)
            elif why:
                raise RuntimeError(why)
            elif asked.task.verb != COMPARE:
                yield 0, answer.value

    def _hand_on(self, asked: _Asked, name: str, number: int, pairs: Sequence[Any]) -> None:
        """Hand on the pairs so far, if they were not handed on yet."""
        mark = f"{name}:{len(pairs)}"
        if mark not in asked.seen:
            asked.seen.add(mark)
            self.on_pairs(number, pairs)


def _place_of_log(job: NodeJob, jobs: JobPool) -> str:
    return f"its log is {job.log}" if job.log.is_file() else jobs.not_shared


def in_groups(requests: Sequence[ComparisonRequest], groups: int) -> list[Task]:
    """Return comparisons in so many groups as there are nodes. They go round, so the most promising are apart."""
    numbered = dict(enumerate(requests))
    every = [{n: r for n, r in numbered.items() if n % groups == group} for group in range(groups)]
    return [Task(open=group) for group in every if group]
