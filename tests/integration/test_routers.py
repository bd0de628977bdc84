# SPDX-License-Identifier: BSD-2-Clause
"""What routers between two hosts may do to packets. The hosts' own nftables stand in for them."""
import pytest

import roce
from harness import free_port
from netns import Cable, Capture
from test_network import run_pair, verify

pytestmark = pytest.mark.network


class Rules:
    """Rules of nftables on a host during a `with`; `family` is ip or ip6."""

    def __init__(self, host, family, chain, *rules):
        self.host = host
        self.table = f'{family} router'
        self.commands = [f'add table {self.table}',
                         f'add chain {self.table} way {{ {chain} ; }}',
                         *(f'add rule {self.table} way {rule}' for rule in rules)]

    def __enter__(self):
        for command in self.commands:
            self.host.command('nft', command)

    def __exit__(self, *_):
        self.host.command('nft', f'delete table {self.table}')


def send_elsewhere(host):
    """Rules of policy routing send packets for the host's own address through the cable."""
    host.ip('rule', 'add', 'pref', '100', 'lookup', 'local')
    host.ip('rule', 'del', 'pref', '0')
    host.ip('rule', 'add', 'pref', '10', 'iif', 'lo', 'to', host.address, 'lookup', '10')
    host.ip('route', 'add', host.address, 'dev', host.interface, 'table', '10')


def marking(host, family):
    """All that comes was marked because of congestion, whether routers may do that or not."""
    return Rules(host, family, 'type filter hook prerouting priority -300',
                 f'udp dport 4791 {family} ecn set ce')


@pytest.mark.parametrize('op, family', [
    ('write', 'ip'), ('read', 'ip6'), pytest.param('write', 'ip6', marks=pytest.mark.long),
    pytest.param('read', 'ip', marks=pytest.mark.long)])
def test_congestion_notifications(cables, op, family):
    """Both ends send CNPs (decode checks each), fewer than what they are about, and all data arrives."""
    cable = cables(1500, segment=False)
    gid_index = cable.a.gid_index(cable.a.addresses[family == 'ip6'])
    with marking(cable.a, family), marking(cable.b, family), Capture(cable.a) as capture:
        verify(cable, 'rc', op, [1, 5000, 65537], gid_index=gid_index, count=50)
    report = roce.check(capture.path, 1024)
    count = report.by_operation[roce.CNP, 'cnp']
    assert 2 <= count < report.packets / 2, report


@pytest.mark.parametrize('family, hops', [('ip', 'ttl'), ('ip6', 'hoplimit')])
def test_programs_that_want_one_hop(cables, family, hops):
    """The pingpongs ask for a hop limit of 1. That of a connection is the route's, as with adapters."""
    cable = cables(1500)
    gid_index = cable.a.gid_index(cable.a.addresses[family == 'ip6'])
    port = free_port()
    argv = ['ibv_rc_pingpong', '-d', cable.a.device, '-g', gid_index, '-p', port, '-n', 100]
    chain = 'type filter hook prerouting priority -300'
    rule = f'udp dport 4791 {family} {hops} 1 drop'
    with Rules(cable.a, family, chain, rule), Rules(cable.b, family, chain, rule):
        run_pair(cable, argv, port)


# Another cable, as the kernel goes on translating what it has seen once.
@pytest.mark.parametrize('family', ['ip', 'ip6'])
def test_address_translation(family):
    """Nothing arrives; the receiving end says why, and the sending one where to look."""
    with Cable(1500, name='nat') as cable:
        outside = {'ip': '10.78.0.101', 'ip6': 'fd78::101'}[family]
        gid_index = cable.a.gid_index(cable.a.addresses[family == 'ip6'])
        port = free_port()
        argv = ['ibv_rc_pingpong', '-d', cable.a.device, '-g', gid_index, '-p', port]
        with Rules(cable.a, family, 'type nat hook postrouting priority 100',
                   f'udp dport 4791 snat to {outside}'):
            server = cable.b.start_server(argv, port, env={'VERBATIM_EXPLAIN': '1'})
            client = cable.a.start(*argv, cable.b.address, env={'VERBATIM_EXPLAIN': '1'})
            server.wait_for('RoCEv2 does not pass NAT')
            assert outside in server.output(), server.report()
            assert 'ICRC_TRANSLATED' in cable.b.tool('explain')
            client.wait_for('no NAT or firewall')
