# SPDX-License-Identifier: BSD-2-Clause
"""Several pairs of processes of the same two hosts, over a cable as between network cards: what the
kernel merges, it merges by addresses and ports alone, and each packet reaches the process that it is for.
"""
import contextlib
import re
import time

import pytest

import harness
from harness import free_port
from test_cm import cmtime

pytestmark = pytest.mark.network

# Of packets that came to the wrong process, or were damaged on the way. When perftest's time is over, it
# leaves requests to a QP that the other end destroys: `qp_destroyed` counts those.
WRONG = ('misdelivered', 'no_qp', 'rx_icrc_encapsulated', 'malformed', 'stranger', 'other_service')
PROGRAMS = [('ib_send_bw', 'RC', 2048), ('ib_write_bw', 'RC', 65536), ('ib_send_bw', 'UD', 1024)]
PROGRAM_IDS = ['send', 'write', 'datagrams']


def wrong(cable):
    """{(host, process, counter): number} of what should be 0."""
    return {(host.namespace, process['pid'], name): process['counters'][name]
            for host in cable.hosts for process in host.show()['processes']
            for name in WRONG if process['counters'].get(name)}


def iterations(output, size):
    """How many perftest says."""
    rows = re.findall(rf'^ {size} +(\d+) ', output, re.MULTILINE)
    assert len(rows) == 1, output
    return int(rows[0])


def run_pairs(cable, count, program, service, size, index, seconds):
    """`count` pairs at once for so long: none fails, data arrives at each, and nothing comes to the wrong
    process. They meet over the management network: datagrams of the first pairs would delay the TCP
    connections of the others.
    """
    gid_index = cable.a.gid_index(cable.a.addresses[index])
    assert gid_index == cable.b.gid_index(cable.b.addresses[index])
    # What earlier datagrams left in the cable's queues would come to the next process of that slot: the echo
    # comes behind it.
    cable.a.command('ping', '-q', '-c', '1', '-W', '30', cable.b.address, seconds=40)
    servers, clients = [], []
    for _ in range(count):
        port = free_port()
        argv = [program, '-d', cable.a.device, '-x', gid_index, '-F', '-c', service, '-s', size,
                '-D', seconds, '-p', port]
        servers.append(cable.b.start_server(argv, port))
        clients.append([*argv, cable.b.management])
    clients = [cable.a.start(*argv) for argv in clients]
    ends = [*servers, *clients]
    # The counters of a process go with it: they are looked at until the first one ends.
    found, looks, when = {}, 0, ''
    begin = time.monotonic()
    deadline = begin + (seconds + 30) * harness.SLOWER
    while all(end.status is None for end in ends) and time.monotonic() < deadline:
        found.update(wrong(cable))
        if found and not when:
            when = f'{time.monotonic() - begin:.2f} s after the start: {[host.show() for host in cable.hosts]}'
        looks += 1
        time.sleep(0.1)
    assert looks > 3 and not found, f'{found}, {when}'
    # an end whose partner fails fails, too, and does not know why
    failed = [end for end in ends if end.wait(30 * harness.SLOWER) != 0]
    assert not failed, '\n'.join(end.report() for end in failed)
    outputs = [end.output() for end in ends]
    for output in outputs[:count] if program == 'ib_send_bw' else outputs[count:]:
        assert iterations(output, size), output
    for host in cable.hosts:
        host.release(*(end for end in ends if end in host.programs))


@pytest.mark.parametrize('program, service, size', PROGRAMS, ids=PROGRAM_IDS)
@pytest.mark.parametrize('count, index', [
    pytest.param(8, 0, id='8-ipv4', marks=pytest.mark.alone), pytest.param(2, 1, id='2-ipv6', marks=pytest.mark.long),
    pytest.param(8, 1, id='8-ipv6', marks=pytest.mark.long), pytest.param(2, 0, id='2-ipv4', marks=pytest.mark.long)])
def test_pairs(cables, count, program, service, size, index):
    # the first of eight has still to be there when the last has begun; and looks take their time
    run_pairs(cables(1500, cards=True), count, program, service, size, index, 4)


@pytest.mark.parametrize('index', [pytest.param(0, id='ipv4', marks=pytest.mark.long), pytest.param(1, id='ipv6')])
def test_pairs_without_merging(cables, index):
    # a look takes a second where two slow processors run other tests beside it
    run_pairs(cables(1500, cards=True, merge=False), 4, *PROGRAMS[0], index, 8)


RESERVED = 'net.ipv4.ip_local_reserved_ports'


@contextlib.contextmanager
def no_source_ports(cable):
    """All of them are kept for other programs."""
    for host in cable.hosts:
        host.command('sysctl', '-w', f'{RESERVED}=49152-65535')
    try:
        yield
    finally:
        for host in cable.hosts:
            host.command('sysctl', '-w', f'{RESERVED}=')


@pytest.mark.parametrize('index', [pytest.param(0, id='ipv4'), pytest.param(1, id='ipv6', marks=pytest.mark.long)])
def test_pairs_without_source_ports(cables, index):
    """What leaves without a port of its own leaves without checksum, and is not merged."""
    cable = cables(1500, cards=True)
    with no_source_ports(cable):
        run_pairs(cable, 2, *PROGRAMS[0], index, 8)  # as above


def test_pairs_that_connect_at_once(cables):
    """MADs of connection management are merged among each other, and with no other packets."""
    cable = cables(1500, cards=True)
    port = free_port()
    argv = ['ib_write_bw', '-d', cable.a.device, '-F', '-D', 600, '-p', port]  # longer than the connections take
    server = cable.b.start_server(argv, port)
    client = cable.a.start(*argv, cable.b.address)
    cmtime(cable.b, 300, peer=cable.a, address=cable.b.address)
    assert client.status is None and server.status is None, client.report() + server.report()
    found = wrong(cable)
    assert not found, found
    cable.a.release(client)
    cable.b.release(server)


@pytest.mark.soak
@pytest.mark.parametrize('index', [0, 1], ids=['ipv4', 'ipv6'])
@pytest.mark.parametrize('program, service, size', PROGRAMS, ids=PROGRAM_IDS)
@pytest.mark.parametrize('count', [2, 8])
def test_pairs_for_a_minute(cables, count, program, service, size, index):
    run_pairs(cables(1500, cards=True), count, program, service, size, index, 60)
