# SPDX-License-Identifier: BSD-2-Clause
"""Between two hosts, as a user without any rights: small socket buffers, no process_vm, no raw sockets."""
import pytest

from test_daemon import as_nobody
from test_network import perftest, pingpong, share_the_port

pytestmark = pytest.mark.network

KI = 1 << 10
MI = 1 << 20


class AsNobody:
    """A cable on whose hosts all programs are nobody's."""

    def __init__(self, cable):
        before = as_nobody()
        self.cable = cable
        self.a, self.b = (AsNobody.Host(host, before) for host in cable.hosts)

    class Host:
        def __init__(self, host, before):
            self._host = host
            self._before = before

        def __getattr__(self, name):
            return getattr(self._host, name)

        def pair(self, *argv, peer, **options):
            return self._host.pair(*argv, peer=peer._host, before=self._before, **options)


@pytest.fixture(params=[1500, pytest.param(9000, marks=pytest.mark.long)])
def nobodys(request, cables):
    return AsNobody(cables(request.param))


@pytest.mark.parametrize('service', ['rc', 'uc', 'ud', 'srq'])
def test_pingpong(nobodys, service):
    pingpong(nobodys, service, '-s', 1000 if service == 'ud' else 4096)


@pytest.mark.parametrize('program, options', [
    ('ib_send_bw', ['-s', 64 * KI, '-n', 2000]),
    ('ib_write_bw', ['-s', 64 * KI, '-n', 2000]),
    ('ib_write_bw', ['-s', MI, '-q', 8, '-b', '-n', 25]),
    ('ib_read_bw', ['-s', 64 * KI, '-n', 2000]),
    ('ib_send_lat', ['-s', 8, '-n', 1000]),
], ids=lambda value: value if isinstance(value, str) else '_'.join(map(str, value)))
def test_perftest(nobodys, program, options):
    """Nothing that the small buffers drop is lost, or holds the programs up for long."""
    perftest(nobodys, program, *options, seconds=30)


def test_loss_of_reads(cables):
    """Eight processes over a cable as between network cards, which read and write both ways; every byte compared."""
    share_the_port(cables(1500, cards=True), 200, ops=['read', 'read', 'write', 'send'], before=as_nobody(),
                   env={'VERBATIM_TEST_LOSS': '0.01,11'})
