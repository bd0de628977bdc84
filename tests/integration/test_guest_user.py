# SPDX-License-Identifier: BSD-2-Clause
"""An ordinary user on another kernel, with and without Yama: the regions of a program migrate all the
same. In the guest, whose kernel has Yama.
"""
import re

import pytest

from guest import until_listening
from harness import BUILD, free_port

pytestmark = pytest.mark.interop

KERNEL = '/proc/sys/kernel/yama/ptrace_scope'
CONTRACT = [BUILD / f'tests/contract/test_contract_{name}' for name in ('data', 'fork')]
# Both ends of a program, as nobody. busybox has no setpriv.
PAIR = '''
exec 2>&1
cd /tmp
%(program)s %(options)s &
%(until_listening)s
%(program)s %(options)s 127.0.0.1
wait
'''


@pytest.fixture(scope='module')
def installed(guest_with):
    guest = guest_with('none')
    guest.run('mkdir -p /etc; echo root:x:0:0::/:/bin/sh >/etc/passwd; '
              'echo nobody:x:65534:65534::/tmp:/bin/sh >>/etc/passwd; chmod 1777 /tmp')
    guest.install(*CONTRACT)
    return guest


def as_user(guest, script, *variables, seconds=60):
    """The output of a shell script of nobody's over Verbatim."""
    place = '/share/verbatim/usr/local'
    (guest.share / 'script').write_text(
        f'export VERBATIM_EXPLAIN=1 PATH={place}/bin:$PATH {" ".join(variables)}\n{script}')
    return guest.run('su -s /bin/sh -c "sh /share/script" nobody', seconds=seconds)


def migrate(guest, *variables, options=''):
    port = free_port()
    return as_user(guest, PAIR % {'program': 'verbatim run -- /share/verify migrate',
                                  'options': f'--port {port} --count 500 {options}',
                                  'until_listening': until_listening(port)}, *variables)


@pytest.mark.parametrize('scope', [0, pytest.param(1, marks=pytest.mark.first)])
def test_regions_migrate(installed, scope):
    installed.run(f'echo {scope} >{KERNEL}')
    # ibv_reg_mr waits for the progress thread for 500 ms, in which it may not get the guest's processor. Then the region
    # migrates in a later verb, while the program has one thread.
    output = migrate(installed, options='--polling')
    assert re.search('migrated (at registration|while polling)', output) and 'wrote 500 rounds' in output, output
    told = 'kernel.yama.ptrace_scope is 1' in output
    assert told == bool(scope), output  # after the fork, when its pages are private again


def test_tracers_are_allowed(installed):
    """The kernel lets the peer at the target's memory, although Yama would not."""
    installed.run(f'echo 1 >{KERNEL}')
    output = migrate(installed, 'VERBATIM_PTRACER=any', 'VERBATIM_MIGRATE=never')
    assert 'wrote 500 rounds' in output and 'ptrace_scope' not in output, output


@pytest.mark.long
@pytest.mark.parametrize('program', CONTRACT, ids=lambda path: path.name)
def test_contract(installed, program):
    installed.run(f'echo 1 >{KERNEL}')
    output = as_user(installed, f'VERBATIM_EXPLAIN= verbatim run -- /share/{program.name} 2>&1', seconds=300)
    assert 'FAILED' not in output and 'PASSED' in output, output
