# SPDX-License-Identifier: BSD-2-Clause
"""verbatimd: started on demand, inherits nothing, ends after its last client."""
import os
import pathlib
import pwd
import shutil
import subprocess
import time

import pytest

from harness import BUILD, DEVICE, HOST, SLOWER, VERIFY, free_port, processes_of, wait_until

DEVINFO = ['ibv_devinfo', '-d', DEVICE]


def start_holder(runner):
    """A process with a slot, which stays until it is stopped."""
    port = free_port()
    return runner.start_server([VERIFY, 'data', '--port', port], port)


@pytest.mark.asan
def test_starts_on_demand_and_ends_after_its_last_client(fresh_runner):
    runner = fresh_runner(linger_ms=300)
    assert not runner.daemons()
    holder = start_holder(runner)
    assert len(runner.daemons()) == 1
    time.sleep(0.8)
    assert len(runner.daemons()) == 1, 'it ended while it had a client'
    holder.stop()
    wait_until(lambda: not runner.daemons(), (0.3 + 3) * SLOWER, 'the daemon ended')


def test_lingers_for_the_next_client(fresh_runner):
    runner = fresh_runner(linger_ms=5000)
    runner.run(*DEVINFO)
    first = runner.daemons()
    runner.run(*DEVINFO)
    assert first and runner.daemons() == first
    runner.stop_daemons()


def test_pipeline_ends_with_the_program(fresh_runner):
    """The daemon must not keep the pipe open."""
    runner = fresh_runner(linger_ms=8000)
    command = f'{runner.verbatim} run -- {" ".join(DEVINFO)} | cat'
    began = time.monotonic()
    done = subprocess.run(['sh', '-c', command], env=runner.environment(), timeout=20 * SLOWER,
                          capture_output=True, text=True, check=True)
    assert f'hca_id:\t{DEVICE}' in done.stdout, done.stdout + done.stderr
    assert time.monotonic() - began < 6
    assert runner.daemons(), 'the test needs a daemon that is still there'
    runner.stop_daemons()


def test_holds_no_inherited_descriptor(fresh_runner):
    runner = fresh_runner(linger_ms=8000)
    ours, theirs = os.pipe()
    os.set_inheritable(theirs, True)
    program = runner.start(*DEVINFO, pass_fds=[theirs])
    os.close(theirs)
    program.finish()
    os.set_blocking(ours, False)
    assert os.read(ours, 1) == b'', 'somebody still holds the other end of the pipe'
    os.close(ours)
    (daemon,) = runner.daemons()
    root = pathlib.Path(f'/proc/{daemon}')
    assert os.readlink(root / 'cwd') == '/'
    for fd in ('0', '1', '2'):
        assert os.readlink(root / 'fd' / fd) == '/dev/null'
    assert os.getsid(daemon) != os.getsid(0)
    runner.stop_daemons()


def test_thirty_processes_at_the_same_moment(fresh_runner):
    runner = fresh_runner(linger_ms=3000)
    programs = [runner.start(*DEVINFO) for _ in range(30)]
    for program in programs:
        assert f'hca_id:\t{DEVICE}' in program.finish(seconds=30)
    assert len(runner.daemons()) == 1, processes_of(runner.namespace)


def test_thirty_processes_have_slots_of_their_own(fresh_runner):
    runner = fresh_runner()
    ports = [free_port() for _ in range(30)]
    for port in ports:
        runner.start(VERIFY, 'data', '--port', port)

    def slots():
        return [process['slot'] for process in runner.show()['processes']]
    wait_until(lambda: len(slots()) == 30, 20 * SLOWER, 'thirty processes are listed')
    assert len(set(slots())) == 30
    assert len(runner.daemons()) == 1


@pytest.mark.asan
@pytest.mark.parametrize('argv', [
    DEVINFO, ['ibv_rc_pingpong', '-d', DEVICE, '-g', '0']], ids=['ibv_devinfo', 'ibv_rc_pingpong'])
def test_missing_daemon_is_explained(fresh_runner, argv):
    runner = fresh_runner()
    program = runner.start(*argv, env={'VERBATIM_DAEMON': '/nonexistent'})
    assert program.wait(10 * SLOWER) is not None, program.report()
    assert program.status > 0, f'no error, or a crash\n{program.report()}'
    output = program.output()
    assert 'VERBATIM_DAEMON' in output and '/nonexistent' in output, output
    assert 'verbatimd' in output, output


def test_devices_are_listed_without_a_daemon(fresh_runner):
    runner = fresh_runner()
    output = runner.run('ibv_devices', env={'VERBATIM_DAEMON': '/nonexistent'})
    assert DEVICE in output


def as_nobody():
    """What to put before a command so that `nobody` runs it; or skips the test."""
    if os.getuid() != 0:
        pytest.skip('only root can run programs as another user')
    if not shutil.which('setpriv'):
        pytest.skip('there is no setpriv')
    user = pwd.getpwnam('nobody')
    before = ['setpriv', f'--reuid={user.pw_uid}', f'--regid={user.pw_gid}', '--clear-groups']
    for path in (BUILD / 'verbatim', VERIFY):
        if subprocess.run([*before, 'test', '-x', path], check=False).returncode != 0:
            pytest.skip(f'nobody may not execute {path}')
    return before


def test_two_users_at_once(fresh_runner):
    runner = fresh_runner(linger_ms=20000)  # both daemons are looked at in the end
    before = as_nobody()
    ends = []
    for prefix in ([], before):
        port = free_port()
        argv = [VERIFY, 'data', '--port', port, '--count', 2000, '--sizes', '1,4096,100000']
        ends.append(runner.start_server(argv, port, before=prefix, seconds=20))
        ends.append(runner.start(*argv, HOST, before=prefix))
    for end in ends:
        assert 'verified 6000 messages' in end.finish(seconds=40)
    owners = {os.stat(f'/proc/{pid}').st_uid for pid in runner.daemons()}
    assert owners == {0, pwd.getpwnam('nobody').pw_uid}
    runner.stop_daemons()


def test_ordinary_user_runs_pingpong(fresh_runner, port):
    runner = fresh_runner()
    argv = ['ibv_rc_pingpong', '-d', DEVICE, '-g', '0', '-p', port, '-c']
    for output in runner.pair(argv, [*argv, HOST], port, before=as_nobody()):
        assert '1000 iters in' in output
