"""A program waits for its processes in each way that it is asked for; each way is printed once its rank has run.

It is no rank, and goes on until it waits: it starts a thread, sets a value, and feeds the rank.
"""

import json
import multiprocessing as mp
import queue
import sys
import threading
import time
from multiprocessing import connection
from time import sleep
from types import SimpleNamespace

from slowstep_probe.places import PROGRAMS
from slowstep_probe.ranks.processes import RankAmongProcesses

PROGRAMS.add(__file__)
RANKS = json.dumps({"__main__.other": [0], "__main__.train": [1]})


def other(it):
    raise AssertionError("it runs elsewhere")


def train(it):
    assert it.fed.get() == "batch"
    assert it.shared["value"] == 1
    it.ran.append(it.kind)
    for put in (it.said.put, it.plain.put, it.theirs.send, it.far.put, it.near.put):
        put("done")
    it.ready.set()
    it.work.get()
    it.work.task_done()
    if it.kind == "sentinels":
        sys.exit(0)


def looks(it):
    while it.processes[0].is_alive():
        time.sleep(0.1)


def sleeps(it):
    while not it.ready.is_set():
        time.sleep(1)


def sleeps_by_name(it):
    while not it.ready.is_set():
        sleep(1)


def has_a_thread(it):
    one = threading.Thread(target=it.near.get)
    one.start()
    one.join()


WAYS = {
    "join": lambda it: [one.join() for one in it.processes],
    "is_alive": looks,
    "sentinels": lambda it: connection.wait([one.sentinel for one in it.processes]),
    "event": lambda it: it.ready.wait(),
    "queue": lambda it: it.said.get(),
    "simple queue": lambda it: it.plain.get(),
    "pipe": lambda it: it.ours.recv(),
    "queue of a manager": lambda it: it.far.get(),
    "thread": has_a_thread,
    "joinable queue": lambda it: it.work.join(),
    "sleep by its own name": sleeps_by_name,
    "sleep": sleeps,
    "thread that started them": lambda it: it.starts.join(),
}


def start(ranks, it):
    for one in it.processes:
        ranks.start(type(one).start, one)
    it.started.set()
    if threading.current_thread() is not threading.main_thread():
        it.processes[1].join()


def main():
    manager = mp.Manager()
    for kind, wait in WAYS.items():
        ours, theirs = mp.Pipe()
        it = SimpleNamespace(kind=kind, ran=[], ours=ours, theirs=theirs, near=queue.Queue())
        it.said, it.fed, it.plain, it.ready = mp.Queue(), mp.Queue(), mp.SimpleQueue(), mp.Event()
        it.started = threading.Event()
        it.shared, it.far, it.work = manager.dict(), manager.Queue(), mp.JoinableQueue()
        it.processes = [mp.get_context("fork").Process(target=target, args=(it,)) for target in (other, train)]
        ranks = RankAmongProcesses(RANKS, local=1, size=2)
        it.starts = threading.Thread(target=start, args=(ranks, it))
        if kind == "thread that started them":
            it.starts.start()
            it.started.wait()
        else:
            start(ranks, it)
        threading.Thread(target=int).start()
        it.work.put(1)
        it.shared["value"] = len(it.shared) + 1
        assert it.shared.get("value") == 1
        assert not it.ready.wait(0)
        assert not it.ours.poll()
        assert "started" in repr(it.processes[1])
        it.fed.put("batch")
        assert not it.ran or it.starts.ident
        wait(it)
        assert it.ran == [kind]
        assert not any(one.is_alive() for one in it.processes)
        for one in it.processes:
            one.close()
        print(kind, flush=True)


if __name__ == "__main__":
    sys.exit(main())
