# SPDX-License-Identifier: BSD-2-Clause
"""Where the kernel does not let a process at another's memory, WRITE and READ go by message, and that
is told: once for each peer, with the reason.
"""
import os
import re
import subprocess
import tempfile

import pytest

from harness import HOST

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
	struct sock_fprog program = { sizeof(filter) / sizeof(*filter), filter };

	if (how && !strcmp(how, "dumpable"))
		prctl(PR_SET_DUMPABLE, 0);
	if (how && !strcmp(how, "seccomp")) {
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


def write(runner, port, before=(), client_env=None, server_env=None):
    """What both ends of an ib_write_bw say."""
    argv = ['ib_write_bw', '-n', 500, '-s', 4096, '-p', port]
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
