# SPDX-License-Identifier: BSD-2-Clause
"""What ibv_devices, ibv_devinfo and ibv_asyncwatch say about the devices."""
import os
import pty
import re
import shutil
import signal
import subprocess

import pytest

from harness import DEVICE, VERIFY, wait_until


def fields(output):
    """{name: value} of the lines `name: value` of ibv_devinfo; the first of each name."""
    found = {}
    for line in output.splitlines():
        name, colon, value = line.strip().partition(':')
        if colon:
            found.setdefault(name.strip(), value.strip())
    return found


def test_ibv_devices(runner):
    output = runner.run('ibv_devices')
    assert re.search(rf'^\s+{DEVICE}\s+[0-9a-f]{{16}}$', output, re.MULTILINE), output


@pytest.mark.asan
def test_ibv_devinfo_prints_a_complete_device(runner):
    output = runner.run('ibv_devinfo', '-v', '-d', DEVICE)
    found = fields(output)

    assert found['hca_id'] == DEVICE
    assert found['transport'] == 'InfiniBand (0)'
    assert found['fw_ver'] and found['hw_ver']
    for name in ('node_guid', 'sys_image_guid'):
        assert re.fullmatch(r'[0-9a-f]{4}(:[0-9a-f]{4}){3}', found[name]), found[name]
        assert found[name] != '0000:0000:0000:0000'
    for name in ('vendor_id', 'vendor_part_id', 'max_mr_size', 'page_size_cap'):
        assert int(found[name], 0) > 0, f'{name}: {found[name]}'
    assert int(found['vendor_id'], 0) not in (0x02c9, 5157, 0x8086, 0x1d0f)
    assert int(found['page_size_cap'], 0) >= 4096
    for name in ('max_qp', 'max_qp_wr', 'max_cq', 'max_cqe', 'max_mr', 'max_pd', 'max_ah',
                 'max_qp_rd_atom', 'max_qp_init_rd_atom', 'max_res_rd_atom', 'max_srq',
                 'max_srq_wr', 'max_srq_sge', 'max_pkeys'):
        assert int(found[name].split()[0], 0) > 0, f'{name}: {found[name]}'
    assert int(found['max_sge']) >= 2
    assert found['atomic_cap'].startswith(('ATOMIC_HCA', 'ATOMIC_GLOB')), found['atomic_cap']
    assert int(found['device_cap_flags'], 0) != 0
    assert found['phys_port_cnt'] == '1'
    assert int(found['num_comp_vectors']) >= 1
    assert 'completion timestamp_mask' in found
    assert 'ODP_SUPPORT' in output and 'SUPPORT_SEND' in output


@pytest.mark.asan
def test_ibv_devinfo_prints_a_complete_port(runner):
    output = runner.run('ibv_devinfo', '-v', '-d', DEVICE)
    found = fields(output)

    assert found['state'] == 'PORT_ACTIVE (4)'
    assert found['link_layer'] == 'Ethernet'
    assert found['max_mtu'] == '4096 (5)'
    assert found['active_mtu'] == '4096 (5)'
    assert found['phys_state'] == 'LINK_UP (5)'
    assert int(found['max_msg_sz'], 0) >= 1 << 30
    assert int(found['gid_tbl_len']) >= 4
    assert int(found['pkey_tbl_len']) >= 1
    assert 'invalid' not in found['active_width'] and 'invalid' not in found['active_speed']
    assert re.search(r'GID\[\s*0\]:\s*::ffff:127\.0\.0\.1, RoCE v2', output), output


def test_device_names_choose_and_order(runner):
    output = runner.run('ibv_devinfo', '-l', env={'VERBATIM_DEVICES': 'vrb_lo'})
    assert '1 HCA found' in output and DEVICE in output
    output = runner.run('ibv_devinfo', '-l', env={'VERBATIM_DEVICES': 'nonexistent'})
    assert '0 HCAs found' in output, output


def test_vendor_part_id(runner):
    output = runner.run('ibv_devinfo', '-d', DEVICE, env={'VERBATIM_VENDOR_PART_ID': '4119'})
    assert fields(output)['vendor_part_id'] == '4119'


@pytest.mark.asan
def test_ibv_asyncwatch_starts_and_ends(runner):
    """Its output goes to a terminal: to a file it would keep it to itself."""
    terminal, its_end = pty.openpty()
    os.set_blocking(terminal, False)
    program = runner.start('ibv_asyncwatch', '-d', DEVICE, stdout=its_end)
    os.close(its_end)
    said = b''

    def speaks():
        nonlocal said
        try:
            said += os.read(terminal, 4096)
        except OSError:
            pass
        return b'async event FD' in said or program.status is not None
    try:
        wait_until(speaks, 10, 'ibv_asyncwatch says something')
        assert f'{DEVICE}: async event FD'.encode() in said, said
        assert program.wait(0.3) is None, 'it ended by itself'
        program.signal(signal.SIGTERM)
        assert program.wait(5) == -signal.SIGTERM
    finally:
        os.close(terminal)


@pytest.fixture
def namespace():
    """A network namespace with an interface `t0` that is up and has no address yet."""
    if os.getuid() != 0 or not shutil.which('ip'):
        pytest.skip('only root, with iproute2, can make a network namespace')
    name = f'verbatim-test-{os.getpid()}'

    def ip(*words):
        return subprocess.run(['ip', *words], capture_output=True, text=True, check=False)
    made = ip('netns', 'add', name)
    if made.returncode != 0:
        pytest.skip(f'no network namespace can be made: {made.stderr.strip()}')
    try:
        if (ip('-n', name, 'link', 'add', 't0', 'type', 'veth', 'peer', 'name', 't1').returncode
                and ip('-n', name, 'link', 'add', 't0', 'type', 'dummy').returncode):
            pytest.skip('neither veth nor dummy interfaces can be made')
        for interface in ('lo', 't0', 't1'):
            ip('-n', name, 'link', 'set', interface, 'up')
        yield name
    finally:
        ip('netns', 'del', name)


def test_changed_addresses_are_seen_by_the_next_open(fresh_runner, namespace):
    def ip(*words):
        subprocess.run(['ip', '-n', namespace, *words], check=True)
    ip('addr', 'add', '10.77.0.1/24', 'dev', 't0')
    runner = fresh_runner()
    program = runner.start(VERIFY, 'address', before=['ip', 'netns', 'exec', namespace],
                           env={'VERBATIM_DEVICES': None, 'VERIFY_DEVICE': 'vrb_t0'},
                           stdin=subprocess.PIPE)

    def gids(turn):
        wait_until(lambda: program.output().count('end') >= turn or program.status is not None,
                   10, f'list {turn}')
        assert program.status is None, program.report()
        return program.output().split('end')[turn - 1]

    def next_gids(turn):
        program.process.stdin.write(b'again\n')
        program.process.stdin.flush()
        return gids(turn)

    assert 'gid 0 ::ffff:10.77.0.1' in gids(1)
    ip('addr', 'add', '10.77.0.2/24', 'dev', 't0')
    listed = next_gids(2)
    assert '10.77.0.1' in listed and '10.77.0.2' in listed
    ip('addr', 'flush', 'dev', 't0')
    ip('addr', 'add', '10.77.0.3/24', 'dev', 't0')
    listed = next_gids(3)
    assert 'gid 0 ::ffff:10.77.0.3' in listed and '10.77.0.1' not in listed


def test_network_namespaces_do_not_meet(fresh_runner, namespace):
    """Each has a daemon of its own, and shows its own devices."""
    runner = fresh_runner(linger_ms=20000)
    subprocess.run(['ip', '-n', namespace, 'addr', 'add', '10.77.0.1/24', 'dev', 't0'], check=True)
    runner.run('ibv_devinfo')
    output = runner.run('ibv_devinfo', '-l', before=['ip', 'netns', 'exec', namespace],
                        env={'VERBATIM_DEVICES': None})
    assert 'vrb_t0' in output, output
    runner.run('ibv_devinfo', before=['ip', 'netns', 'exec', namespace])
    assert len(runner.daemons()) == 2
    runner.stop_daemons()
