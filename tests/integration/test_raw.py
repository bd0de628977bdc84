# SPDX-License-Identifier: BSD-2-Clause
"""perftest's raw_ethernet programs between two hosts: whole Ethernet frames, steered by flows."""
import re

import pytest

from test_perftest import rows

pytestmark = pytest.mark.network

UDP = ['-j', '{client}', '-J', '{server}', '-k', 4000, '-K', 4001]


def mac_of(host):
    return re.search(r'link/ether (\S+)', host.ip('link', 'show', host.interface))[1]


def raw_ethernet(cable, program, *options):
    """The rows of the client and of the server, which have no other connection than the frames."""
    client, server = cable.hosts
    macs = mac_of(client), mac_of(server)
    options = [str(option).format(client=client.address, server=server.address)
               for option in options]
    argv = [program, '-d', client.device, '-F', *options]
    # its last line before the first frame, which it would otherwise keep to itself
    there = server.start(*argv, '--server', '-B', macs[1], '-E', macs[0], before=['stdbuf', '-oL'])
    there.wait_for('#bytes')
    here = client.start(*argv, '--client', '-B', macs[0], '-E', macs[1])
    return rows(here.finish(30)), rows(there.finish(30))


@pytest.mark.parametrize('options', [[], UDP], ids=['mac', 'udp'])
def test_lat(cables, options):
    for found in raw_ethernet(cables(1500), 'raw_ethernet_lat', '-s', 64, '-n', 500, *options):
        assert [row[:2] for row in found] == [['64', '500']], found


@pytest.mark.parametrize('options', [
    [], UDP, ['--vlan_en', '--vlan_pcp', 3, *UDP], ['--tcp', *UDP], ['--promiscuous'], ['--sniffer'],
], ids=['mac', 'udp', 'vlan', 'tcp', 'promiscuous', 'sniffer'])
def test_bw(cables, options):
    """For a second: the server takes what comes, and counts it."""
    sent, received = raw_ethernet(cables(1500), 'raw_ethernet_bw', '-s', 1000, '-D', 1, *options)
    assert int(sent[0][1]) > 1000 and int(received[0][1]) > 1000, (sent, received)


def test_without_capability(cables):
    """Who may not open packet sockets is told why."""
    cable = cables(1500)
    argv = ['raw_ethernet_bw', '-d', cable.b.device, '-F', '-s', 1000, '--server',
            '-B', mac_of(cable.b), '-E', mac_of(cable.a)]
    program = cable.b.start(*argv, env={'VERBATIM_EXPLAIN': '1'},
                            before=['setpriv', '--bounding-set', '-net_raw', '--inh-caps', '-net_raw'])
    assert program.wait(20) != 0, program.report()
    assert 'CAP_NET_RAW' in program.output(), program.report()


def test_many_flows(cables):
    """How fast flows are made: more of them than one filter of the kernel holds."""
    cable = cables(1500)
    options = [str(option).format(client=cable.a.address, server=cable.b.address) for option in UDP]
    output = cable.b.run('raw_ethernet_fs_rate', '-d', cable.b.device, '-F', '-s', 64, '-n', 500,
                         '--server', '-B', mac_of(cable.b), '-E', mac_of(cable.a), *options)
    assert '500' in output and 'flow' in output.lower(), output
