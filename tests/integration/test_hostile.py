# SPDX-License-Identifier: BSD-2-Clause
"""A hostile sender on port 4791, while others work: nothing is written that no key allows, the others'
traffic goes on, memory stays bounded.
"""
import itertools
import pathlib
import re
import subprocess
import time

import pytest

import hostile
import roce
from harness import BUILD, SLOWER, VERIFY, free_port, wait_until
from netns import Capture

# The sender has to be fast.
pytestmark = [pytest.mark.network, pytest.mark.alone]

BLAST = BUILD / 'tests/integration/blast/blast'
SECONDS = 1
PACKETS_MIN = 50000  # less is no attack
# A second, of an attack that slows others down by what each packet costs. Beyond what a processor can look at, the
# receive buffer is full whatever the receiver does, and what others send is lost there, too.
PACKETS_MAX = 200000
GROWTH_MAX_KIB = (16 if SLOWER == 1 else 400) << 10  # sanitizers keep what was freed
# The share of its rate without an attack that traffic keeps. Its two ends and the attacker share the
# processors of this machine, and the receiver has to look at each packet to find it wrong.
SHARE_MIN = 1 / 50
# What forges the peer's address can forge its NAKs and congestion notifications, too, and these ask
# for a slower sender: of the QP that they name there is only to show that it goes on at all. So of
# all QPs in an attack at full rate.
ROUNDS_MIN = 3


def resident_kib(pid):
    """None: the process has ended, or is about to and has no memory any more."""
    try:
        status = pathlib.Path(f'/proc/{pid}/status').read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    found = re.search(r'^VmRSS:\s+(\d+)', status, re.MULTILINE)
    return int(found[1]) if found else None


class Memory:
    """How much memory programs, and the daemons of their hosts, had at first."""

    def __init__(self, programs, hosts):
        self._groups = [[program.pid] for program in programs] + [host.daemons() for host in hosts]
        self._before = {pid: resident_kib(pid) for group in self._groups for pid in group}

    def growth_kib(self):
        """Of each. A daemon of programs before these may have been about to end, and that is no error. But a
        program, and a daemon of each host, is still there.
        """
        found = []
        for group in self._groups:
            now = {pid: resident_kib(pid) for pid in group}
            grown = [size - self._before[pid] for pid, size in now.items()
                     if size is not None and self._before[pid] is not None]
            assert grown, f'of {group} none has lived through the attack'
            found += grown
        return found


class Guarded:
    """A pair of `verify guard`, and what the attacker knows of it."""

    def __init__(self, cable):
        self.cable = cable
        port = free_port()
        argv = [VERIFY, 'guard', '--port', port, '--sizes', '8,1000,70000', '--listen', '::']
        self.server = cable.b.start_server(argv, port)
        self.client = cable.a.start(*argv, cable.b.address, stdin=subprocess.PIPE)
        self.client.wait_for('running')
        self.server.wait_for(' bytes=')
        facts = dict(re.findall(r'(\w+)=(\d+)', self.server.output()))
        self.rkey, self.addr = int(facts['rkey']), int(facts['addr'])
        self.at_b = hostile.Victim(cable.a.address, cable.b.address, int(facts['qpn']),
                                   int(facts['psn']), self.rkey, self.addr)
        self.at_a = hostile.Victim(cable.b.address, cable.a.address, int(facts['peer']),
                                   int(facts['psn']) - 1, self.rkey, self.addr)
        self._asked = 0

    @property
    def ends(self):
        return self.server, self.client

    def tell(self, byte):
        self.client.process.stdin.write(byte)
        self.client.process.stdin.flush()

    def rounds(self, then=b'g'):
        """How many rounds the traffic has gone; with b'w' it then waits for the next call."""
        self.tell(then)
        self._asked += 1

        def answer():
            assert self.client.status is None, self.client.report() + self.server.report()
            said = re.findall(r'so far (\d+)', self.client.output())
            return said[self._asked - 1:self._asked]
        return int(wait_until(answer, 20 * SLOWER, 'a round')[0])

    def count(self):
        """The rounds so far, and when that was."""
        return self.rounds(), time.monotonic()

    def finish(self):
        """To their good ends."""
        self.client.process.stdin.close()
        self.client.finish(20)
        assert 'untouched' in self.server.finish(20)


def rates(action, *pairs):
    """Rounds a second of each pair while action() runs."""
    before = [pair.count() for pair in pairs]
    action()
    after = [pair.count() for pair in pairs]
    return [(rounds - first) / (end - start) for (first, start), (rounds, end) in zip(before, after)]


class Attack:
    """Datagrams in a file, sent again and again by the host that the target hears."""

    def __init__(self, cable, target, packets, path, seed=1):
        sender, self.receiver = ((cable.a, cable.b) if target == cable.b.address
                                 else (cable.b, cable.a))
        assert hostile.write(path, packets, hostile.chance(seed))
        mac = re.search(r'link/ether (\S+)', self.receiver.ip(
            'link', 'show', self.receiver.interface))[1]
        self.sender = sender
        self.argv = (BLAST, sender.interface, mac, path, SECONDS, PACKETS_MIN)
        self.sent = 0

    def run(self, rate='inf'):
        output = self.sender.command(*self.argv, rate)
        self.sent = int(re.search(r'sent (\d+)', output)[1])
        assert self.sent >= PACKETS_MIN, f'{self.sent} datagrams are no attack'


def packets_for(kind, victim):
    chance = hostile.chance(7)
    if kind == 'noise':
        return hostile.noise(victim, 20000, chance)
    if kind == 'truncated':
        return hostile.truncated(victim, chance)
    if kind == 'forged_by_peer':
        return hostile.forged_by_peer(victim, 20000, chance)
    if kind == 'forged_by_strangers':
        return hostile.forged_by_strangers(victim, 50000, chance)
    return hostile.wrong_targets(victim, 20000, chance)


def replays(guarded):
    """Of either direction, what went there lately."""
    with Capture(guarded.cable.a, complete=False) as capture:
        guarded.client.wait(0.1)
    return [(victim, list(itertools.islice(hostile.replayed(capture.path, victim.target), 20000)))
            for victim in (guarded.at_b, guarded.at_a)]


@pytest.mark.parametrize('kind', [
    'noise',
    pytest.param('truncated', marks=[pytest.mark.asan, pytest.mark.first]),
    pytest.param('forged_by_peer', marks=pytest.mark.asan),
    pytest.param('forged_by_strangers', marks=pytest.mark.long), pytest.param('wrong_targets', marks=pytest.mark.long),
    'replayed'])
def test_hostile_sender(cables, tmp_path, kind):
    """The QP that is attacked goes on, and so does one of other processes that share the port."""
    cable = cables(1500, segment=False)
    guarded, beside = Guarded(cable), Guarded(cable)
    if kind == 'replayed':
        plan = replays(guarded)
    else:
        plan = [(victim, packets_for(kind, victim)) for victim in (guarded.at_b, guarded.at_a)]
    attacks = [Attack(cable, victim.target, packets, tmp_path / str(number))
               for number, (victim, packets) in enumerate(plan)]
    memory = Memory(guarded.ends + beside.ends, cable.hosts)
    for attack, rate in itertools.product(attacks, (PACKETS_MAX, 'inf')):
        names = 'attacked', 'beside it'
        before_it = rates(lambda: time.sleep(0.3), guarded, beside)
        during_it = rates(lambda: attack.run(rate), guarded, beside)
        for name, quiet, busy in zip(names, before_it, during_it):
            told = f'{name}: {busy:.0f} rounds/s while {attack.sent} datagrams came, {quiet:.0f} without'
            print(f'{kind}: {told}')
            told_to_slow_down = kind == 'forged_by_peer' and name == 'attacked'
            least = ROUNDS_MIN if told_to_slow_down or rate == 'inf' else quiet * SHARE_MIN
            assert busy * SECONDS > least, told
    growth = memory.growth_kib()
    assert max(growth) < GROWTH_MAX_KIB, f'memory grew by {growth} KiB'
    guarded.finish()
    beside.finish()


def test_no_right_to_write(cables, tmp_path):
    """Requests that come at the right moment from the right address, without a key for what they
    want: they cost that QP its connection, as they would anywhere, and nothing else.
    """
    cable = cables(1500, segment=False)
    guarded, beside = Guarded(cable), Guarded(cable)
    guarded.rounds(then=b'w')
    attack = Attack(cable, cable.b.address, hostile.without_right(
        guarded.at_b, 65536, hostile.chance(11)), tmp_path / 'datagrams')
    assert rates(attack.run, beside)[0] > 0
    guarded.tell(b'g')
    output = guarded.client.finish(20, status=1)
    assert re.search(r'completion of send \d+: remote (access error|invalid request)', output), output
    assert 'untouched' in guarded.server.finish(20)
    beside.finish()


def test_attacks_are_what_they_say():
    """The forged packets have a good ICRC: they are not refused for that alone."""
    victim = hostile.Victim('10.78.0.1', '10.78.0.2', 0x4001, 7920, 0x1200, 1 << 40)
    chance = hostile.chance(3)
    good = [*hostile.forged_by_peer(victim, 300, chance), *hostile.without_right(victim, 300, chance),
            *hostile.forged_by_strangers(victim, 300, chance)]
    decoded = []
    for packet in good:
        try:
            decoded.append(roce.decode(1, 0, packet))
        except roce.Malformed:
            pass  # some of the opcodes do not exist
    assert len(decoded) > 700
    assert all(packet.icrc_good for packet in decoded)
    assert {packet.operation for packet in decoded} >= {'write', 'atomic', 'read', 'send', 'ack'}
