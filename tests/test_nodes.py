"""How nodes find each other: the key, who is sent away and why, where ranks stand, and which node is slower."""

from __future__ import annotations

import math
import os
import resource
import shutil
import socket
import stat
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from family import wait
from slowstep.cli.join import address, found_key
from slowstep.environment.machine import this_machine
from slowstep.factors import CATALOGUE, Meaning, comparison_family
from slowstep.judgement.intervals import Interval
from slowstep.judgement.nodes import slow_nodes
from slowstep.judgement.ranks import node_of_rank
from slowstep.judgement.suspects import Suspect
from slowstep.judgement.verdict import Outcome, Verdict
from slowstep.launch.far_nodes import spread
from slowstep.launch.node_of_session import OwnNode
from slowstep.nodes import greeting
from slowstep.nodes.greeting import NotGreeted, Unanswered, connect
from slowstep.nodes.hello import Hello
from slowstep.nodes.key import NoKey, made_key, read_key
from slowstep.nodes.listener import AT_ONCE, GREETING
from slowstep.nodes.listening import Listening
from slowstep.nodes.member import NodeFailed
from slowstep.nodes.session import Session
from slowstep.records import Node
from slowstep.records.unlike_nodes import unlike
from slowstep.report.prose import conclusion
from slowstep.settings import Settings, SettingsError
from slowstep.settings.command import Command
from slowstep.settings.convert import to_plain
from slowstep.settings.schema import Nodes
from slowstep.wording.causes import causes
from slowstep_probe.processes.wire import Wire, pair
from slowstep_probe.ranks.gathering import handed_over
from slowstep_probe.ranks.rank import Group

HERE = "127.0.0.1"
HELLO = Hello(
    kit="1", host="a", processes=2, launcher="torchrun", launched=["/a/train.py", "--lr", "1"], nodes=2, node=0
)
OTHER = replace(HELLO, host="b", node=1, launched=["/b/train.py", "--lr", "1"])


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A session of two nodes that listens at a free port."""
    with socket.socket() as one:
        one.bind((HERE, 0))
        port = one.getsockname()[1]
    found = Session(HELLO, Listening(port=port, key_file=str(tmp_path / "key"), seconds=0.3))
    yield found
    found.close()


def key_of(tmp_path: Path) -> bytes:
    return read_key(str(tmp_path / "key"))


def join(session: Session, tmp_path: Path, hello: Hello = OTHER) -> tuple[Wire, dict]:
    """The connection of a node that says this of itself, and what it is answered."""
    wire = connect(HERE, session.port, key_of(tmp_path))
    wire.send({"hello": to_plain(hello)})
    return wire, wire.receive(5)


# -- the key --


def test_a_key_is_made_once_and_nobody_else_may_read_it(tmp_path: Path) -> None:
    """It is random, and one that others may read is refused."""
    path = tmp_path / "folder" / "key"
    made = made_key(str(path))

    assert made == read_key(str(path)) == made_key(str(path))
    assert made != made_key(str(tmp_path / "another"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    with pytest.raises(SettingsError, match="others may read this key"):
        read_key(str(path))


def test_a_node_that_comes_first_waits_for_the_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Jobs start on all nodes at the same time, and the key of a common home folder is made by one of them."""
    path = str(tmp_path / "key")
    made: list[bytes] = []
    later = threading.Timer(1.0, lambda: made.append(made_key(path)))
    later.start()
    found = found_key(path, time.monotonic() + 60)
    later.join()

    assert made == [found]
    assert "waiting for the key" in capsys.readouterr().out
    with pytest.raises(NoKey, match="there is no key"):
        found_key(str(tmp_path / "never"), time.monotonic())


def test_a_key_that_is_missing_or_too_short_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to do about it."""
    with pytest.raises(SettingsError, match="there is no key; copy that file"):
        read_key(str(tmp_path / "key"))
    (tmp_path / "empty").touch(mode=0o600)
    with pytest.raises(SettingsError, match="the key is empty; remove the file"):
        made_key(str(tmp_path / "empty"))
    monkeypatch.setenv("SLOWSTEP_KEY", "short")
    with pytest.raises(SettingsError, match="SLOWSTEP_KEY: a key has at least 16 characters"):
        read_key()


# -- who may join --


def test_a_node_joins_and_opens_connections_for_launches(session: Session, tmp_path: Path) -> None:
    """What is sent over such a connection arrives, and so does the order."""
    wire, told = join(session, tmp_path)
    session.gather()

    def opens() -> None:
        order = wire.receive(5)
        line = connect(HERE, session.port, key_of(tmp_path))
        line.send({"launch": order["launch"], "node": 1})
        line.send(line.receive(5) | {"did": order["do"]})

    threading.Thread(target=opens, daemon=True).start()
    (line,) = session.lines("launch-1", {1: {"do": "train"}})
    line.send({"port": 5})

    assert told == {"node": 1, "host": "a"}
    assert line.receive(5) == {"port": 5, "did": "train"}
    assert session.on_nodes == [2, 2]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kit": "2"}, "slowstep 2 is installed there, and 1 on a"),
        ({"launched": ["/b/train.py", "--lr", "2"]}, "another command was given on b"),
        ({"nodes": 3}, "another command was given on b"),
        ({"node": 0}, "b is node 0 by its command, and so is a"),
        ({"node": 2}, "b is node 2 by its command, of 2 nodes"),
    ],
)
def test_a_node_that_does_not_belong_is_sent_away_with_a_reason(
    change: dict, said: str, session: Session, tmp_path: Path
) -> None:
    """And the session goes on waiting for the right one."""
    _, told = join(session, tmp_path, replace(OTHER, **change))

    assert said in told["refused"]
    with pytest.raises(SettingsError, match=r"not all have joined within 0 s \(joined: none\)"):
        session.gather()
    assert join(session, tmp_path)[1]["node"] == 1


def test_a_second_node_of_one_number_is_sent_away(session: Session, tmp_path: Path) -> None:
    """As long as the first one is there; when it has left, another can take its place."""
    first, _ = join(session, tmp_path)
    assert "node 1 is b already" in join(session, tmp_path, replace(OTHER, host="c"))[1]["refused"]
    first.close()

    assert join(session, tmp_path, replace(OTHER, host="c"))[1]["node"] == 1


def test_strangers_are_sent_away_and_nobody_waits_for_them(session: Session, tmp_path: Path) -> None:
    """Neither for one that says nothing, nor for one with another key or another language."""
    silent = socket.create_connection((HERE, session.port))
    talking = socket.create_connection((HERE, session.port))
    talking.sendall(b"GET / HTTP/1.1\r\n\r\n" + b"x" * 200)
    with pytest.raises(NotGreeted, match="the key here is not that of the session"):
        connect(HERE, session.port, b"another key, as long")

    assert join(session, tmp_path)[1]["node"] == 1
    silent.close()
    talking.close()


def test_few_strangers_are_greeted_at_once(session: Session, tmp_path: Path) -> None:
    """However many connect and say nothing; nodes are let in again as soon as some of them are gone."""

    def greetings() -> int:
        return sum(thread.name == GREETING for thread in threading.enumerate())

    strangers = [socket.create_connection((HERE, session.port)) for _ in range(AT_ONCE + 10)]
    assert wait(lambda: greetings() == AT_ONCE)
    for one in strangers:
        one.close()

    assert join(session, tmp_path)[1]["node"] == 1


def test_a_node_that_nobody_greets_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where too many strangers are greeted: there may be a session all the same."""
    monkeypatch.setattr(greeting, "SECONDS", 0.2)
    with socket.create_server((HERE, 0)) as silent, pytest.raises(Unanswered, match="has said nothing"):
        connect(HERE, silent.getsockname()[1], b"key")


def test_a_stranger_that_dawdles_is_sent_away(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of the greeting has its time, not each byte of it."""
    monkeypatch.setattr(greeting, "SECONDS", 0.2)
    with socket.create_connection((HERE, session.port)) as slow:
        slow.settimeout(0.05)

        def sent_away() -> bool:
            try:
                slow.send(b"x")
                while slow.recv(100):
                    continue
            except TimeoutError:
                return False
            except OSError:
                return True
            return True

        assert any(sent_away() for _ in range(2 * greeting.NONCE - 1))


def test_nodes_join_after_no_more_files_could_be_opened(session: Session, tmp_path: Path) -> None:
    """It goes by, as when many have connected, and the session listens as before."""
    strangers = [socket.socket() for _ in range(3)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    first_free = os.dup(0)
    os.close(first_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (first_free, hard))
    try:
        for one in strangers:
            one.connect((HERE, session.port))
        time.sleep(0.2)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    for one in strangers:
        one.close()

    assert join(session, tmp_path)[1]["node"] == 1


def test_what_answers_and_is_no_session_is_said() -> None:
    """And where nothing answers, there may be a session later."""
    with socket.create_server((HERE, 0)) as other:
        threading.Thread(target=lambda: other.accept()[0].sendall(b"SSH-2.0-OpenSSH\r\n" * 5), daemon=True).start()
        with pytest.raises(NotGreeted, match="is no session of this slowstep"):
            connect(HERE, other.getsockname()[1], b"k" * 20)
        port = other.getsockname()[1]
    with pytest.raises(Unanswered, match="nothing answers at"):
        connect(HERE, port, b"k" * 20)


def test_a_port_in_use_is_said(session: Session, tmp_path: Path) -> None:
    """With the option that gives another one."""
    with pytest.raises(SettingsError, match=f"port {session.port} can't be listened at: .*give another one by --port"):
        Session(HELLO, Listening(port=session.port, key_file=str(tmp_path / "key")))


def test_a_node_that_has_left_is_named(session: Session, tmp_path: Path) -> None:
    """As soon as something is asked of it."""
    wire, _ = join(session, tmp_path)
    session.gather()
    wire.close()
    with pytest.raises(NodeFailed, match=r"node 1 \(b\): it has left the session"):
        session.lines("launch-1", {1: {"do": "train"}})


def test_a_node_that_can_not_start_says_why(session: Session, tmp_path: Path) -> None:
    """The reason is its own."""
    wire, _ = join(session, tmp_path)
    session.gather()
    wire.send({"launch": "launch-1", "reason": "no room"})
    with pytest.raises(NodeFailed, match=r"node 1 \(b\): no room"):
        session.lines("launch-1", {1: {"do": "train"}})


@pytest.fixture
def of_three(tmp_path: Path) -> Iterator[Session]:
    """A session of three nodes."""
    found = Session(replace(HELLO, nodes=3), Listening(port=0, key_file=str(tmp_path / "key"), seconds=5))
    yield found
    found.close()


FIRST, SECOND = (replace(OTHER, host=host, node=number, nodes=3) for number, host in ((1, "b"), (2, "c")))


def line_of(session: Session, tmp_path: Path, launch: str, node: int) -> Wire:
    """The connection that a node opens for a launch."""
    line = connect(HERE, session.port, key_of(tmp_path))
    line.send({"launch": launch, "node": node})
    return line


def test_a_launch_that_fails_on_one_node_ends_on_the_others(of_three: Session, tmp_path: Path) -> None:
    """Their connections are closed, whether they open them before that or after it."""
    one, other = (join(of_three, tmp_path, hello)[0] for hello in (FIRST, SECOND))
    early: list[Wire] = []

    def fails() -> None:
        early.append(line_of(of_three, tmp_path, other.receive(5)["launch"], 2))
        one.send({"launch": one.receive(5)["launch"], "reason": "no room"})

    threading.Thread(target=fails, daemon=True).start()
    with pytest.raises(NodeFailed, match=r"node 1 \(b\): no room"):
        of_three.lines("launch-1", {1: {"do": "train"}, 2: {"do": "train"}})
    late = line_of(of_three, tmp_path, "launch-1", 2)

    for line in (*early, late):
        with pytest.raises(EOFError):
            line.receive(5)


def test_nodes_that_leave_keep_their_numbers(of_three: Session, tmp_path: Path) -> None:
    """One of them may come back first, from another host; what the other is asked says that this one has left."""
    wires = [join(of_three, tmp_path, hello)[0] for hello in (FIRST, SECOND)]
    of_three.gather()
    before = spread(of_three, [2, 2, 2])
    for wire in wires:
        wire.close()
    wires[1], told = join(of_three, tmp_path, replace(SECOND, host="d"))
    assert wait(lambda: of_three.hellos[2].host == "d")
    far = spread(of_three, [2, 2, 2])

    assert told["node"] == 2
    assert before.group.hosts == ["node 0 (a)", "node 1 (b)", "node 2 (c)"]
    assert far.group.hosts == ["node 0 (a)", "node 1 (b)", "node 2 (d)"]
    with pytest.raises(NodeFailed, match=r"node 1 \(b\): it has left the session"):
        far.start({"do": "train"})
    assert str(far.why()).startswith("node 1 (b)")
    assert far.logs() == ""
    wires[0], told = join(of_three, tmp_path, replace(FIRST, node=None))  # no --node-rank: its host is known
    assert told["node"] == 1
    of_three.gather()
    assert of_three.on_nodes == [2, 2, 2]


# -- from the other side --


def joined() -> tuple[Wire, OwnNode]:
    """The session's end of a connection, and the node that has joined over it."""
    ours, theirs = pair()
    ours.send({"node": 1, "host": "a"})
    command = Command(words=["train.py"], python=sys.executable, arguments=["train.py"], folder="/")
    return ours, OwnNode(command, 2, 1, theirs, lambda: theirs)


def test_the_end_of_a_session_ends_its_nodes_quietly() -> None:
    """It is no error."""
    wire, node = joined()
    wire.close()
    node.serve()


def test_what_a_nodes_own_system_refuses_is_no_end_of_the_session() -> None:
    """It reaches the user as what it is: a folder that is gone, or a full disk. The session learns that it has left."""
    wire, node = joined()
    wire.receive(5)
    shutil.rmtree(node._folder.name)
    wire.send({"do": "know", "record": "what a survey saw"})
    with pytest.raises(FileNotFoundError, match=r"survey\.json"):
        node.serve()
    with pytest.raises(EOFError):
        wire.receive(5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("host0", ("host0", 29611)), ("host0:5", ("host0", 5)), ("[::1]:5", ("::1", 5)), ("[::1]", ("::1", 29611))],
)
def test_host_and_port_are_read(text: str, expected: tuple[str, int]) -> None:
    """A port that is not named is that of sessions."""
    assert address(text) == expected


@pytest.mark.parametrize(
    "text", ["", ":5", "host0:", "host0:x", "host0:70000", "host0:²", "host0:" + "9" * 5000, "fe80::1"]
)
def test_no_host_or_port_is_said(text: str) -> None:
    """In one sentence."""
    with pytest.raises(SettingsError):
        address(text)


def test_a_patience_without_end_is_no_error() -> None:
    """`--startup 1e9`, or so many seconds in a parameter file: poll(2) waits for 24 days at most."""
    here, there = pair()
    asked = threading.Thread(target=lambda: (time.sleep(0.1), there.send({"said": 1})))
    asked.start()

    assert here.receive(1e9) == {"said": 1}
    asked.join()


# -- ranks and nodes --


def test_ranks_are_numbered_through_all_nodes() -> None:
    """And each knows its place on its own node, as torchrun would tell it."""
    group = Group(on_nodes=[2, 3], hosts=["node 0 (a)", "node 1 (b)"], node=1, leads=False)
    last = group.own[-1].environment

    assert [rank.number for rank in group.own] == [2, 3, 4]
    assert (last["RANK"], last["LOCAL_RANK"], last["WORLD_SIZE"]) == ("4", "2", "5")
    assert (last["LOCAL_WORLD_SIZE"], last["GROUP_RANK"], last["NODE_RANK"]) == ("3", "1", "1")
    assert str(group.own[0]) == "rank 2 on node 1 (b)"
    assert replace(group, node=0, leads=True).far == [1]
    assert not group.alone


def test_one_host_is_a_group_of_one_node() -> None:
    """Its ranks have no names but their numbers, and a single rank is led by nobody."""
    group = Group(on_nodes=[2])

    assert ([str(rank) for rank in group.own], group.far, group.alone) == (["rank 0", "rank 1"], [], False)
    assert Group(on_nodes=[1]).alone
    assert not Group(on_nodes=[1], node=-1).alone


def test_each_connection_is_handed_over_to_its_node() -> None:
    """They are handed over one by one, however many there are, and requests may follow at once."""
    (ours, theirs), lines = pair(), [pair() for _ in range(6)]
    for own, _ in lines:
        ours.send({"node": True}, descriptors=[own.fileno()])
        own.close()
    ours.send({"after": "them"})
    group = Group(on_nodes=[1] * 7)
    for number, wire in enumerate(handed_over(theirs, group)):
        wire.send({"number": number})

    assert [other.receive(5)["number"] for _, other in lines] == list(range(6))
    assert theirs.receive(5) == {"after": "them"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [2, 2]),
        ({"processes": 2}, [2, 0]),
        ({"processes": 3}, [2, 1]),
        ({"nodes": Nodes(apart=True)}, [2, 0]),
        ({"nodes": Nodes(apart=True, number=1)}, [0, 2]),
        ({"nodes": Nodes(number=1)}, [2, 2]),
    ],
)
def test_processes_fill_the_first_nodes_first(changes: dict, expected: list[int]) -> None:
    """Fewer of them need fewer nodes; on a node apart there are its own alone."""
    command = Command(words=[], python="", arguments=["a.py"], folder="/", processes=4, nodes=[2, 2])
    settings = Settings(name="x", command=command, **changes)

    assert (settings.on_nodes, settings.ranks) == (expected, sum(expected))


def test_each_other_node_is_tried_alone_where_there_are_several() -> None:
    """Both arms stand on one node: the baseline on the first, the treatment on the other one."""
    command = Command(words=[], python="", arguments=["a.py"], folder="/", processes=3, nodes=[1, 1, 1])
    settings = Settings(name="x", command=command, parallelism={"node": [1]})
    (contrast,) = comparison_family(settings, "parallelism", this_machine())
    alone = Settings(name="x", command=replace(command, nodes=[]))
    node = CATALOGUE["node"]

    assert [arm.settings.on_nodes for arm in (contrast.baseline, contrast.treatment)] == [[1, 0, 0], [0, 1, 0]]
    assert [list(node.proposals(one.run, this_machine())) for one in (settings, alone)] == [[1, 2], []]


def test_nodes_with_unlike_numbers_of_processes_are_not_held_against_each_other() -> None:
    """By itself each would train another amount of work."""
    command = Command(words=[], python="", arguments=["a.py"], folder="/", processes=5, nodes=[2, 2, 1])
    settings = Settings(name="x", command=command, parallelism={"node": [1, 2]})
    one, two = comparison_family(settings, "parallelism", this_machine())

    assert not one.untestable
    assert "node 2 has 1 processes and node 0 has 2" in two.untestable
    assert list(CATALOGUE["node"].proposals(settings.run, this_machine())) == [1]


def ratio(low: float, high: float, p: float = 1e-4) -> Interval:
    """An effect as an interval of ratios."""
    return Interval(mean=math.log(low * high) / 2, lower=math.log(low), upper=math.log(high), p=p, n=9)


@pytest.mark.parametrize(
    ("effects", "expected"),
    [
        ({1: ratio(0.7, 0.8)}, ([1], 0, 1 / 0.8, 1 / 0.7)),
        ({1: ratio(1.2, 1.3)}, ([0], 1, 1.2, 1.3)),
        ({1: ratio(1.2, 1.3), 2: ratio(1.5, 1.6)}, ([0, 1], 2, 1.5, 1.6)),
        ({1: ratio(1.2, 1.3), 2: ratio(1.25, 1.35)}, ([0], 1, 1.2, 1.3)),  # 1 and 2 are alike, as far as is known
        ({1: ratio(1.2, 1.3), 2: ratio(0.97, 1.01)}, ([2, 0], 1, 1.2 / 1.01, 1.3 / 0.97)),
        ({1: ratio(0.7, 0.8), 2: ratio(0.5, 0.6)}, ([2, 1], 0, 1 / 0.6, 1 / 0.5)),
        ({1: ratio(0.97, 1.03)}, None),
        ({1: ratio(0.96, 0.99)}, None),  # slower, by less than matters
        ({1: ratio(0.8, 0.99, p=0.01), 2: ratio(0.9, 1.1, p=0.9)}, None),  # p = 0.01 for one of two
        ({}, None),
    ],
)
def test_slow_nodes_are_named_beyond_chance(effects: dict[int, Interval], expected: tuple | None) -> None:
    """Whichever they are, against the one that is waited for without them; the first has no interval of its own."""
    found = slow_nodes(effects, 0.05)

    assert (found is None) == (expected is None)
    if found:
        assert (list(found.numbers), found.against) == expected[:2]
        assert (found.gain.low, found.gain.high) == pytest.approx(expected[2:])


def test_ranks_are_counted_node_by_node() -> None:
    """The first node has the first ranks; a node that takes no part has none."""
    assert [node_of_rank(rank, [2, 0, 3]) for rank in range(6)] == [0, 0, 2, 2, 2, None]


def of_node(number: int, effect: Interval, **changes: Any) -> Verdict:
    """The verdict on a node against the first one."""
    return Verdict(**as_judged(number, effect) | changes)


def as_judged(number: int, effect: Interval) -> dict[str, Any]:
    """The fields of the verdict on a node, as its pairs say."""
    return {
        "name": f"node={number}",
        "factor": "node",
        "title": "Node",
        "hypothesis": "it is faster",
        "meaning": Meaning.DIAGNOSTIC,
        "changes": "where it trains",
        "outcome": Outcome.SUPPORTED if effect.low > 1 else Outcome.REFUTED,
        "reason": "",
        "effect": effect,
        "held_constant": {"nodes.apart": True},
        "overrides": {"nodes.number": number},
    }


def of_rank(rank: int, node: int, share: float) -> Suspect:
    """What is lost to a rank that the others wait for."""
    interval = Interval(mean=share, lower=0.9 * share, upper=1.1 * share, p=0.0, n=9)
    return Suspect(phase="forward", share=interval, why=f"rank {rank} is slow", rank=rank, node=node)


@pytest.mark.parametrize(("number", "effect"), [(0, ratio(1.3, 1.5)), (1, ratio(0.65, 0.8))])
def test_a_slow_node_is_one_cause_with_what_its_rank_is_seen_to_lose(number: int, effect: Interval) -> None:
    """Whether it is the first one or another; it is no matter of the program's forward pass."""
    (cause,) = causes([of_node(1, effect)], [of_rank(number, number, 0.25)], 0.05)

    assert cause.factor == "node"
    assert cause.text.startswith(f"Node {number} is slow: ")
    assert f"rank {number} is slow" in cause.text
    assert cause.still_open
    assert cause.headline.startswith(f"Node {number} is slow; ")
    assert cause.size[1] > 1.2


@pytest.mark.parametrize(
    "changes", [{"outcome": Outcome.INCONCLUSIVE}, {"outcome": Outcome.NOT_TESTABLE}, {"tells": False}], ids=str
)
def test_pairs_that_tell_nothing_make_no_node_slow(changes: dict[str, Any]) -> None:
    """A gain that correction took away, a change without effect, and pairs in which something else changed."""
    assert causes([of_node(1, ratio(1.3, 1.5), **changes)], [], 0.05) == []


def test_a_node_is_never_told_as_no_cause_or_as_a_change_to_make() -> None:
    """A slow node is refuted as a faster one, and the notebook's words don't call it no cause for that. Where nothing
    else was asked, the nodes are the answer."""
    for effect, slow in ((ratio(0.7, 0.8), "node 1"), (ratio(1.3, 1.5), "node 0"), (ratio(0.97, 1.03), "")):
        said = str(conclusion("Processes", [of_node(1, effect)]))
        assert said.startswith(f"**Processes:** {f'Slower than another one: {slow}' if slow else 'No node is slower'}")
        assert "Not the cause" not in said
        assert "this run lacks" not in said


@pytest.mark.parametrize(
    ("effect", "suspect", "expected"),
    [
        (ratio(0.7, 0.8), of_rank(0, 0, 0.25), ["node", None]),  # slow on the fast node
        (ratio(0.85, 0.9), of_rank(1, 1, 0.5), [None, "node"]),  # slower than the node explains
        (ratio(0.97, 1.03), of_rank(1, 1, 0.25), [None]),
    ],
)
def test_a_slow_rank_stays_a_cause_where_its_node_does_not_explain_it(
    effect: Interval, suspect: Suspect, expected: list[str | None]
) -> None:
    """Such a rank loses its time by itself."""
    assert [cause.factor for cause in causes([of_node(1, effect)], [suspect], 0.05)] == expected


def test_differences_between_nodes_are_said() -> None:
    """In versions and devices, and not in what differs between any two hosts."""
    first = Node(host="a", machine={"gpu": "A", "memory": 64 * 2**30 + 5}, versions={"torch": "2.6"})
    other = Node(host="b", machine={"gpu": "B", "memory": 64 * 2**30}, versions={"torch": "2.7"})

    assert [one.partition(" on node 1 (b)")[0] for one in unlike([first, other])] == [
        "unlike nodes: torch is 2.7",
        "unlike nodes: gpu is B",
    ]
    assert unlike([first, first]) == []
