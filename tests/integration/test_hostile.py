"""A hostile sender on port 4791, at full rate, while others work: nothing is written that no key
allows, the others' traffic goes on, memory stays bounded.
"""
import itertools
import pathlib
import re
import subprocess

import pytest

import hostile
import roce
from harness import BUILD, SLOWER, VERIFY, free_port
from netns import Capture

pytestmark = pytest.mark.network

BLAST = BUILD / 'tests/integration/blast/blast'
SECONDS = 1
GROWTH_MAX_KIB = (16 if SLOWER == 1 else 400) << 10  # sanitizers keep what was freed


def resident_kib(pid):
    status = pathlib.Path(f'/proc/{pid}/status').read_text()
    return int(re.search(r'^VmRSS:\s+(\d+)', status, re.MULTILINE)[1])


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

    def finish(self):
        """How many rounds the traffic went."""
        self.client.process.stdin.close()
        output = self.client.finish(20)
        assert 'untouched' in self.server.finish(20)
        return int(re.search(r'rounds (\d+)', output)[1])


def blast(sender, receiver, packets, tmp_path, seed=1):
    """Returns how many datagrams were sent."""
    path = tmp_path / 'datagrams'
    assert hostile.write(path, packets, hostile.chance(seed))
    mac = re.search(r'link/ether (\S+)', receiver.ip('link', 'show', receiver.interface))[1]
    output = sender.command(BLAST, sender.interface, mac, path, SECONDS)
    return int(re.search(r'sent (\d+)', output)[1])


def attacks(kind, guarded, tmp_path):
    chance = hostile.chance(7)
    for victim in (guarded.at_b, guarded.at_a):
        if kind == 'noise':
            packets = hostile.noise(victim, 20000, chance)
        elif kind == 'truncated':
            packets = hostile.truncated(victim, chance)
        elif kind == 'forged_by_peer':
            packets = hostile.forged_by_peer(victim, 20000, chance)
        elif kind == 'forged_by_strangers':
            packets = hostile.forged_by_strangers(victim, 50000, chance)
        elif kind == 'wrong_targets':
            packets = hostile.wrong_targets(victim, 20000, chance)
        yield victim, packets


@pytest.mark.parametrize('kind', [
    pytest.param('noise', marks=pytest.mark.asan),
    pytest.param('truncated', marks=pytest.mark.asan),
    pytest.param('forged_by_peer', marks=pytest.mark.asan),
    'forged_by_strangers', 'wrong_targets', 'replayed'])
def test_hostile_sender(cables, tmp_path, kind):
    cable = cables(1500, segment=False)
    guarded = Guarded(cable)
    if kind == 'replayed':
        with Capture(cable.a, complete=False) as capture:
            guarded.client.wait(0.1)
        seen = {victim: list(itertools.islice(hostile.replayed(capture.path, victim.target), 20000))
                for victim in (guarded.at_b, guarded.at_a)}
        plan = list(seen.items())
    else:
        plan = list(attacks(kind, guarded, tmp_path))
    ends = (guarded.server, guarded.client)
    before = [resident_kib(end.pid) for end in ends]
    sent = 0
    for victim, packets in plan:
        sender, receiver = ((cable.a, cable.b) if victim is guarded.at_b else (cable.b, cable.a))
        sent += blast(sender, receiver, packets, tmp_path)
    growth = [resident_kib(end.pid) - size for end, size in zip(ends, before)]
    assert guarded.server.status is None and guarded.client.status is None, (
        guarded.server.report() + guarded.client.report())
    assert sent > 50000, f'{sent} datagrams are no attack'
    rounds = guarded.finish()
    assert rounds > 100, f'the traffic came to {rounds} rounds while {sent} datagrams came'
    assert max(growth) < GROWTH_MAX_KIB, f'memory grew by {growth} KiB'


def test_others_do_not_notice(cables, tmp_path):
    """Another pair on the same port moves its data while a QP beside it is under attack."""
    cable = cables(1500, segment=False)
    guarded = Guarded(cable)
    port = free_port()
    argv = [VERIFY, 'data', '--port', port, '--op', 'send', '--listen', '::', '--sizes',
            '100,5000', '--count', 4000]
    server = cable.b.start_server(argv, port)
    client = cable.a.start(*argv, cable.b.address)
    chance = hostile.chance(5)
    packets = [*hostile.noise(guarded.at_b, 10000, chance),
               *hostile.forged_by_peer(guarded.at_b, 10000, chance),
               *hostile.wrong_targets(guarded.at_b, 10000, chance)]
    blast(cable.a, cable.b, packets, tmp_path)
    for end in (client, server):
        assert 'verified 8000 messages' in end.finish(60)
    guarded.finish()


def test_attacks_are_what_they_say(tmp_path):
    """The forged packets have a good ICRC: they are not refused for that alone."""
    victim = hostile.Victim('10.78.0.1', '10.78.0.2', 0x4001, 7920, 0x1200, 1 << 40)
    chance = hostile.chance(3)
    good = [*hostile.forged_by_peer(victim, 300, chance),
            *hostile.forged_by_strangers(victim, 300, chance)]
    decoded = []
    for packet in good:
        try:
            decoded.append(roce.decode(1, 0, packet))
        except roce.Malformed:
            pass  # some of the opcodes do not exist
    assert len(decoded) > 400
    assert all(packet.icrc_good for packet in decoded)
    assert {packet.operation for packet in decoded} >= {'write', 'atomic', 'read', 'send', 'ack'}
