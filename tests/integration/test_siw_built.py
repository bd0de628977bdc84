# SPDX-License-Identifier: BSD-2-Clause
"""With siw as Debian's kernel does not have it: its source is built for the guest with one constant changed, so that it
asks for CRCs, or for the first FPDU of RFC 6581.
"""
import shutil
import subprocess

import pytest

import guest as guests
from harness import free_port
from test_siw import SERVERS, rping, run_pair

pytestmark = [pytest.mark.interop, pytest.mark.long]


def build(place, constant):
    """siw.ko."""
    shutil.copytree(guests.IMAGE / 'siw', place)
    main = place / 'siw_main.c'
    source = main.read_text()
    changed = source.replace(f'const bool {constant};', f'const bool {constant} = true;')
    assert changed != source
    main.write_text(changed)
    headers = next((guests.IMAGE / 'headers/usr/src').glob('linux-headers-*-amd64'))
    subprocess.run(['make', '-s', '-C', headers, f'M={place}', 'CONFIG_RDMA_SIW=m', 'modules'], check=True, timeout=200,
                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return place / 'siw.ko'


@pytest.fixture(scope='module', params=['mpa_crc_required', 'peer_to_peer'])
def guest(request, guest_with, tmp_path_factory):
    running = guest_with('none')
    shutil.copy(build(tmp_path_factory.mktemp('siw') / 'siw', request.param), running.share)
    try:
        running.run('rmmod siw && { modprobe libcrc32c crc32c_generic; insmod /share/siw.ko; }')
        running.choose('siw')
        yield running
    finally:
        running.choose('none')
        running.run('rmmod siw; modprobe siw')


@SERVERS
def test_rping(guest, server):
    for output in rping(guest, server, '-C', 10):
        assert 'rdma-ping-9' in output, output


@SERVERS
@pytest.mark.parametrize('program', ['ib_send_bw', 'ib_write_bw', 'ib_read_bw'])
def test_all_sizes(guest, server, program):
    port = free_port()
    argv = [program, '-R', '-F', '-a', '-n', 20, '-p', port]
    run_pair(guest, server, argv, argv, port, seconds=200)
