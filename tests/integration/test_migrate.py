# SPDX-License-Identifier: BSD-2-Clause
"""Pages of a region move to shared memory and back while both ends write: verify/migrate.c."""
import ctypes
import os

import pytest

from harness import HOST, SLOWER, VERIFY


def can_hold_writers():
    """Whether userfaultfd holds back the kernel's writes, too; without that nothing is moved."""
    fd = ctypes.CDLL(None, use_errno=True).syscall(323, os.O_CLOEXEC)
    if fd < 0:
        try:
            fd = os.open('/dev/userfaultfd', os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
    os.close(fd)
    return True


def until_back(moves):
    """Options of `verify migrate`: if the pages are to come back after the fork, however late the target's progress
    thread gets a processor.
    """
    return ['--hold-ms', 20000 * SLOWER] if moves else []


@pytest.mark.asan
@pytest.mark.parametrize('wish', [None, 'never', 'held'])
@pytest.mark.parametrize('options', [[], ['--wr-api']], ids=['post_send', 'wr_api'])
def test_nothing_is_lost(runner, port, options, wish):
    # without userfaultfd the pages leave for the fork, and do not come back beside a thread that counts
    moves = wish is None and can_hold_writers()
    argv = [VERIFY, 'migrate', '--port', port, '--count', 20000, *until_back(moves), *options]
    target, initiator = runner.pair(argv, [*argv, HOST], port, seconds=60,
                                    env={'VERBATIM_MIGRATE': wish})
    assert f'{"migrated" if moves else "not migrated"}, nothing lost' in target.splitlines(), target
    assert 'wrote 20000 rounds' in initiator, initiator


@pytest.mark.asan
@pytest.mark.parametrize('wish, options', [(None, []), (None, ['--polling']), ('held', ['--polling'])],
                         ids=['guard', 'guard_polling', 'held'])
def test_hammer(runner, port, wish, options):
    """Threads load, store, and sit in system calls on a region that migrates and leaves."""
    argv = [VERIFY, 'hammer', '--port', port, '--count', 30, *options]
    target, initiator = runner.pair(argv, [*argv, HOST], port, seconds=60, env={'VERBATIM_MIGRATE': wish})
    assert 'nothing lost' in target and 'wrote 30 rounds' in initiator, target + initiator
    if can_hold_writers() or wish == 'held':
        assert 'in some rounds' in target, target


def test_passive_target_never(runner, port):
    """What test_data.py does to a target that sleeps, without moving its pages."""
    argv = [VERIFY, 'passive', '--port', port, '--count', 100, '--sizes', '1,8,100,4096,65537']
    target = runner.start_server(argv, port, env={'VERBATIM_MIGRATE': 'never'})
    initiator = runner.start(*argv, HOST, env={'VERBATIM_MIGRATE': 'never'})
    assert 'served 100 rounds' in initiator.finish(seconds=60)
    assert target.status is None, target.report()
