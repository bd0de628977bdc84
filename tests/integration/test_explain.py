# SPDX-License-Identifier: BSD-2-Clause
"""Failures explain themselves; `verbatim show` tells who is there."""
import errno
import os
import re
import socket
import struct
import subprocess
import threading

import pytest

from harness import DEVICE, HOST, VERIFY

SENTENCE = 'The rkey names no memory region or window of the target'
HELLO, WELCOME = 1, 3  # of ctl/header.h


@pytest.fixture
def failed(runner, port):
    """Starts the end that was refused, with this environment, and returns while it lives."""
    def start(**env):
        argv = [VERIFY, 'badkey', '--port', port]
        target = runner.start_server(argv, port, env=env)
        initiator = runner.start(*argv, HOST, stdin=subprocess.PIPE, env=env)
        initiator.wait_for('refused')
        assert target.status is None, target.report()
        return initiator, target
    return start


@pytest.mark.asan
def test_explained_at_once_on_standard_error(failed):
    initiator, target = failed(VERBATIM_EXPLAIN='1')
    assert SENTENCE in initiator.output(), initiator.report()
    rkey = re.search(r'refused rkey=0x([0-9a-f]+)', initiator.output())[1]
    told = [line for line in initiator.output().splitlines() if SENTENCE in line]
    assert rkey in told[0], f'the rkey 0x{rkey} is not named: {told}'
    initiator.process.stdin.close()
    initiator.finish()
    target.finish()


def test_explained_on_demand(runner, failed):
    initiator, _ = failed()
    assert SENTENCE not in initiator.output()
    assert SENTENCE in runner.tool('explain', initiator.pid)
    assert SENTENCE in runner.tool('explain')


def test_vendor_err_is_the_number_of_the_cause(runner, failed):
    initiator, _ = failed()
    number = re.search(r'vendor_err=(\d+)', initiator.output())[1]
    assert SENTENCE in runner.tool('explain', '--cause', number)


def test_silent_without_being_asked(failed):
    initiator, _ = failed()
    lines = initiator.output().strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith('refused'), lines


@pytest.mark.asan
def test_clean_run_explains_nothing(runner, port):
    argv = ['ibv_rc_pingpong', '-d', DEVICE, '-g', '0', '-p', port]
    for output in runner.pair(argv, [*argv, HOST], port, env={'VERBATIM_EXPLAIN': '1'}):
        assert 'verbatim' not in output.lower(), output


@pytest.mark.parametrize('error', [errno.ENOSPC, errno.EDQUOT])
def test_a_daemon_without_slots_is_not_missing(fresh_runner, error):
    runner = fresh_runner()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as daemon:
        daemon.bind(f'\0verbatim.{os.geteuid()}.{runner.namespace}')
        daemon.listen()

        def refuse():
            with daemon.accept()[0] as client:
                header, greeting = struct.unpack_from('=I12s', client.recv(4096))
                assert header == HELLO
                client.send(struct.pack('=I12siIi', WELCOME, greeting, error, 0, os.getpid()))
                client.recv(1)

        thread = threading.Thread(target=refuse)
        thread.start()
        said = runner.run('ibv_devinfo', env={'VERBATIM_EXPLAIN': '1'}, status=1)
        thread.join()
    assert 'verbatimd has no slot left for this process' in said, said


def test_show_lists_processes_devices_and_queue_pairs(runner, port):
    argv = [VERIFY, 'block', '--port', port, '--hold-ms', 6000]
    sleeper = runner.start_server(argv, port)
    sender = runner.start(*argv, HOST)
    sleeper.wait_for('blocked')
    sender.wait_for('holding')
    processes = {process['pid']: process for process in runner.show()['processes']}
    ours, theirs = processes[sleeper.pid], processes[sender.pid]
    assert ours['slot'] != theirs['slot']
    for process in (ours, theirs):
        assert process['program'] == 'verify'
        (device,) = process['devices']
        assert device['name'] == DEVICE and '127.0.0.1' in device['address']
        (qp,) = process['qps']
        assert (qp['type'], qp['state'], qp['device']) == ('RC', 'RTS', DEVICE)
        assert qp['qpn'] >> 14 == process['slot']
    assert ours['qps'][0]['dest_qpn'] == theirs['qps'][0]['qpn']

    text = runner.tool('show')
    for word in (str(sleeper.pid), str(sender.pid), DEVICE, 'RTS', f'0x{ours["qps"][0]["qpn"]:06x}'):
        assert word in text, f'{word} is missing\n{text}'


def test_show_without_a_daemon(fresh_runner):
    runner = fresh_runner()
    assert runner.show()['processes'] == []
    assert not runner.daemons(), 'looking must not start a daemon'
