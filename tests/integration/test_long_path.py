# SPDX-License-Identifier: BSD-2-Clause
"""iWARP over a long and lossy path: netem in a guest, between two processes of it, as not each kernel has netem."""
import re

import pytest

from guest import until_listening
from harness import free_port

pytestmark = pytest.mark.interop
PLACE = '/share/verbatim/usr/local/bin/verbatim'
RUN = f'env VERBATIM_TRANSPORT=iwarp VERBATIM_PATH=wire {PLACE} run --'


@pytest.fixture(scope='module')
def guest(guest_with):
    running = guest_with('none')
    running.install()
    running.insert('net/sched/sch_netem.ko')
    return running


@pytest.fixture(params=['delay 10ms', 'delay 10ms loss 1%', 'delay 10ms loss 5%'],
                ids=['20_ms', '20_ms_1_percent', '20_ms_5_percent'])
def path(request, guest):
    """Each packet takes so long, there and back twice as long."""
    guest.run(f'/sbin/tc qdisc replace dev lo root netem {request.param} limit 10000')
    yield guest
    guest.run('/sbin/tc qdisc del dev lo root')


PAIRS = [('rping -s -C 10 -S 3000 -V', 'rping -c -C 10 -S 3000 -V -a'),
         ('ib_write_bw -R -F -n 100', 'ib_write_bw -R -F -n 100'),
         ('ib_read_bw -R -F -n 50', 'ib_read_bw -R -F -n 50'),
         ('ib_send_bw -R -F -n 50', 'ib_send_bw -R -F -n 50'),
         ('ib_send_lat -R -F -n 20', 'ib_send_lat -R -F -n 20'),
         ('ucmatose -c 10', 'ucmatose -c 10 -s'),
         ('riostream -T v -S 4096 -C 20', 'riostream -T v -S 4096 -C 20 -s'),
         ('rstream -T v -S 4096 -C 20', 'rstream -T v -S 4096 -C 20 -s')]


@pytest.mark.parametrize('server, client', PAIRS, ids=lambda argv: argv.split()[0])
def test_programs(path, server, client):
    port = free_port()
    output = path.run(f'''
        timeout 100 {RUN} {server.replace(" ", f" -p {port} ", 1)} >/tmp/server.log 2>&1 &
        {until_listening(port)}
        timeout 90 {RUN} {client.replace(" ", f" -p {port} ", 1)} {path.address}; echo "client: $?"
        wait $!; echo "server: $?"; cat /tmp/server.log''', seconds=150)
    assert re.findall(r'(client|server): (\d+)', output)[:2] == [('client', '0'), ('server', '0')], output
