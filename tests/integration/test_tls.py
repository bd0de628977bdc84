# SPDX-License-Identifier: BSD-2-Clause
"""iWARP by TLS (VERBATIM_IWARP_TLS): between two processes of a guest, whose kernel has kTLS; and what is said where
there is none.
"""
import pathlib
import re
import shutil

import pytest

import guest as guests
from harness import HOST, SLOWER, free_port
from test_iwarp import IWARP

PLACE = '/share/verbatim/usr/local/bin/verbatim'
RUN = f'env VERBATIM_TRANSPORT=iwarp VERBATIM_PATH=wire VERBATIM_EXPLAIN=1 {PLACE} run --'
LINE = 'node:00112233445566778899aabbccddeeff\n'
MODULES = ('crypto/gf128mul.ko', 'crypto/ghash-generic.ko', 'crypto/ctr.ko', 'crypto/gcm.ko', 'net/tls/tls.ko')  # in this order
FIRST = pytest.mark.first


@pytest.fixture(scope='module')
def guest(guest_with):
    running = guest_with('none')
    gnutls = pathlib.Path(guests.SYSTEM_LIBRARIES) / 'libgnutls.so.30'
    copy = running.share / gnutls.name
    shutil.copy(gnutls, copy)
    copy.chmod(0o755)  # for its own libraries
    running.install()
    running.run(f'cp /share/{gnutls.name} {guests.SYSTEM_LIBRARIES}/; umask 077; '
                f'for k in a b; do printf "{LINE}" >/tmp/$k; done; echo "node:ff112233445566778899aabbccddeeff" >/tmp/other')
    running.insert(*MODULES)
    return running


def rping(guest, server_env, client_env, *options):
    """The outputs of the server and of the client, and the client's status; both with time limits."""
    port = free_port()
    words = f'-v -C 5 -S 3000 -V -p {port} {" ".join(options)}'
    output = guest.run(f'''
        {server_env} timeout 40 {RUN} rping -s {words} >/tmp/server.log 2>&1 &
        {guests.until_listening(port)}
        {client_env} timeout 30 {RUN} rping -c {words} -a {guest.address}; echo "client: $?"
        kill $! 2>/dev/null; wait; cat /tmp/server.log; cat /proc/net/tls_stat''', seconds=100)
    return output, int(re.search(r'client: (\d+)', output)[1])


def sockets(output):
    """Directions that the kernel has encrypted or decrypted since it was booted."""
    return [int(re.search(rf'{name}\s+(\d+)', output)[1]) for name in ('TlsTxSw', 'TlsRxSw')]


@pytest.mark.interop
@FIRST
def test_encrypted(guest):
    output, status = rping(guest, 'VERBATIM_IWARP_TLS=/tmp/a', 'VERBATIM_IWARP_TLS=/tmp/b')
    assert status == 0 and 'rdma-ping-4' in output, output
    assert all(count >= 2 for count in sockets(output)), output


@pytest.mark.interop
@pytest.mark.parametrize('program', ['ib_write_bw', 'ib_send_bw', 'ib_read_bw', 'ib_send_lat'])
def test_perftest(guest, program):
    port = free_port()
    argv = f'VERBATIM_IWARP_TLS=/tmp/a timeout 60 {RUN} {program} -R -F -n 100 -p {port}'
    output = guest.run(f'{argv} >/tmp/server.log 2>&1 & {guests.until_listening(port)}; {argv} {guest.address}; s=$?; wait; '
                       f'cat /tmp/server.log; exit $s', seconds=120)
    assert re.search(r'^ \d+ +\d+ ', output, re.MULTILINE), output


@pytest.mark.interop
def test_half_close(guest):
    """What was sent last is not overtaken by the FIN: rstream compares all of it, and closes at once."""
    port = free_port()
    argv = f'VERBATIM_IWARP_TLS=/tmp/a timeout 60 {RUN} rstream -T v -S 262144 -C 20 -p {port}'
    output = guest.run(f'{argv} >/tmp/server.log 2>&1 & {guests.until_listening(port)}; {argv} -s {guest.address}; s=$?; wait $! || s=1; '
                       f'cat /tmp/server.log; exit $s', seconds=120)
    assert output.count('usec/xfer') == 2, output


@pytest.mark.interop
@pytest.mark.parametrize('server, client', [
    pytest.param('a', 'other', id='client_has_another', marks=FIRST), pytest.param('other', 'a', id='server_has_another'),
    pytest.param('a', '', id='client_in_the_clear', marks=FIRST), pytest.param('', 'a', id='server_in_the_clear')])
def test_refused(guest, server, client):
    """Nothing is said in the clear, and who has not the key gets no connection."""
    envs = [f'VERBATIM_IWARP_TLS=/tmp/{name}' if name else '' for name in (server, client)]
    output, status = rping(guest, *envs)
    assert status != 0 and 'rdma-ping-0' not in output, output
    assert 'An iWARP connection cannot be encrypted' in output, output


def test_without_ktls(fresh_runner, tmp_path):
    """Nothing goes on in the clear: the call fails, and says why."""
    fresh = fresh_runner()
    key = tmp_path / 'key'
    key.write_text(LINE)
    key.chmod(0o600)
    if pathlib.Path('/proc/net/tls_stat').exists():
        pytest.skip('the kernel has kTLS')
    env = {**IWARP, 'VERBATIM_IWARP_TLS': str(key), 'VERBATIM_EXPLAIN': '1'}
    for argv in (['ucmatose'], ['ucmatose', '-s', HOST]):
        program = fresh.start(*argv, '-p', free_port(), env=env)
        assert program.wait(20 * SLOWER) not in (None, 0), program.report()
        assert 'the kernel has no kTLS' in program.output(), program.report()
