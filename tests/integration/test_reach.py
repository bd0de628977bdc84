# SPDX-License-Identifier: BSD-2-Clause
"""Where the kernel does not let a process at another's memory, WRITE and READ go by message until the
region has migrated, and that is told: once for each peer, with the reason. Regions migrate for
ordinary users and in containers, too.
"""
import os
import re
import subprocess
import tempfile

import pytest

from harness import HOST, VERIFY
from test_daemon import as_nobody

SOURCE = r'''
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define REFUSE(call, error) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))

/* Before main: the process refuses to be looked into, or may not look into others. */
__attribute__((constructor)) static void refuse(void)
{
	const char *how = getenv("REFUSE");
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	/* what containers' usual profile refuses, and a quicker way might want */
	struct sock_filter container[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		REFUSE(SYS_clone3, ENOSYS),
		REFUSE(SYS_userfaultfd, EPERM),
		REFUSE(SYS_kcmp, EPERM),
		REFUSE(SYS_move_pages, EPERM),
		REFUSE(SYS_mbind, EPERM),
		REFUSE(SYS_io_uring_setup, EPERM),
		REFUSE(SYS_process_madvise, EPERM),
		REFUSE(SYS_pidfd_getfd, EPERM),
		REFUSE(SYS_perf_event_open, EPERM),
		REFUSE(SYS_bpf, EPERM),
		REFUSE(SYS_unshare, EPERM),
		REFUSE(SYS_setns, EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(*filter), filter };

	if (how && !strcmp(how, "container"))
		program = (struct sock_fprog){ sizeof(container) / sizeof(*container), container };

	if (how && !strcmp(how, "dumpable"))
		prctl(PR_SET_DUMPABLE, 0);
	if (how && strcmp(how, "dumpable")) {
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
	}
}
'''
TOLD = 'WRITE and READ go to a process by message'


@pytest.fixture(scope='module')
def refusing():
    """A library that makes the program which loads it refuse. Everybody may read it."""
    with tempfile.TemporaryDirectory(prefix='verbatim-reach-') as folder:
        os.chmod(folder, 0o755)
        library = f'{folder}/refuse.so'
        subprocess.run(['gcc', '-shared', '-fPIC', '-o', library, '-x', 'c', '-'], input=SOURCE,
                       text=True, check=True)
        yield library


def write(runner, port, before=(), count=500, client_env=None, server_env=None):
    """What both ends of an ib_write_bw say."""
    argv = ['ib_write_bw', '-n', count, '-s', 4096, '-p', port]
    return runner.pair(argv, [*argv, HOST], port, before=before,
                       server_options={'env': {'VERBATIM_EXPLAIN': 1, **(server_env or {})}},
                       client_options={'env': {'VERBATIM_EXPLAIN': 1, **(client_env or {})}})


def test_reachable_memory_is_no_news(runner, port):
    assert all(TOLD not in said for said in write(runner, port))


def test_a_system_call_that_is_filtered(runner, port, refusing):
    env = {'LD_PRELOAD': refusing, 'REFUSE': 'seccomp'}
    server, client = write(runner, port, client_env=env)
    assert client.count(TOLD) == 1 and 'process_vm_readv (seccomp)' in client, client
    assert TOLD not in server, server


def test_by_wish(runner, port):
    _, client = write(runner, port, client_env={'VERBATIM_REACH': 'message'})
    assert client.count(TOLD) == 1 and 'VERBATIM_REACH' in client, client


def test_a_target_that_is_not_dumpable(fresh_runner, port, refusing):
    if os.getuid() != 0:
        pytest.skip('only root becomes nobody')
    before = ('setpriv', '--reuid=65534', '--regid=65534', '--clear-groups',
              '--inh-caps=-all', '--bounding-set=-all')
    runner = fresh_runner()
    env = {'LD_PRELOAD': refusing, 'REFUSE': 'dumpable'}
    _, client = write(runner, port, before=before, server_env=env)
    assert client.count(TOLD) == 1, client
    assert re.search(r'not dumpable|ptrace_scope is [1-9]', client), client


STAYS = 'A region does not migrate'


def test_a_region_that_stays(runner, port):
    """The target says why, and the requester that it copies through the kernel."""
    server, client = write(runner, port, count=50000, server_env={'VERBATIM_MIGRATE': 'never'})
    assert server.count(STAYS) == 1 and 'VERBATIM_MIGRATE is never' in server, server
    assert client.count(STAYS) == 1 and 'whose reports say why' in client, client


def test_a_region_that_was_asked_for(runner, port):
    """A thread that sleeps outside of verbs keeps it: the requester is told, too, but not at once."""
    env = {'VERBATIM_EXPLAIN': 1, 'VERBATIM_MIGRATE': 'held'}
    for sizes, told in ((8192, 0), ('8192,8192,8192', 1)):
        argv = [VERIFY, 'latency', '--op', 'write', '--sizes', sizes, '--count', 2000, '--port', port, '--sleeper']
        _, client = runner.pair(argv, [*argv, HOST], port, seconds=60,
                                server_options={'env': env}, client_options={'env': env})
        assert client.count('some thread of it has not called verbs') == told, client


def test_programs_in_a_container(fresh_runner, port, refusing):
    """READs and atomics, too, and to a target with a thread that sleeps, whose region does not migrate."""
    env = {'LD_PRELOAD': refusing, 'REFUSE': 'container'}
    runner = fresh_runner()
    for operation in ('write', 'read', 'faa', 'send'):
        argv = [VERIFY, 'latency', '--op', operation, '--sizes', '8,4096' if operation != 'faa' else 8,
                '--count', 300, '--port', port, '--sleeper']
        _, initiator = runner.pair(argv, [*argv, HOST], port, seconds=60, before=as_nobody(),
                                   server_options={'env': env}, client_options={'env': env})
        assert 'median' in initiator, initiator


@pytest.mark.parametrize('where', ['host', 'container'])
def test_regions_of_ordinary_users_migrate(fresh_runner, port, refusing, where):
    env = {'LD_PRELOAD': refusing, 'REFUSE': 'container'} if where == 'container' else {}
    # ibv_reg_mr waits for the progress thread for 500 ms, in which it may not get a processor
    argv = [VERIFY, 'migrate', '--port', port, '--count', 2000, '--polling']
    target, _ = fresh_runner().pair(argv, [*argv, HOST], port, before=as_nobody(),
                                    server_options={'env': env}, client_options={'env': env})
    assert re.search('^migrated (at registration|while polling)$', target, re.MULTILINE), target
