#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The commands of `verbatim`, called as a user does. Prints TAP.

    test_commands.py VERBATIM VERBATIMD TENANT
"""
import contextlib
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import traceback

VERBATIM, VERBATIMD, TENANT = sys.argv[1:4]
ENV = {name: value for name, value in os.environ.items()
       if not name.startswith(('VERBATIM', 'LD_LIBRARY_PATH'))}
ENV.update(VERBATIM_DAEMON=VERBATIMD, VERBATIM_NAMESPACE=f'test_commands.{os.getpid()}',
           VERBATIMD_LINGER_MS='100', LC_ALL='C', TZ='UTC')


def call(*args, program=VERBATIM, env=None):
    return subprocess.run([program, *args], env={**ENV, **(env or {})}, text=True, timeout=20,
                          stdin=subprocess.DEVNULL, capture_output=True, check=False)


@contextlib.contextmanager
def tenant(*args):
    """A process that uses Verbatim; gives its pid and slot."""
    with subprocess.Popen([TENANT, *args], env=ENV, text=True, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        yield process.pid, int(process.stdout.readline())
        process.stdin.close()


@contextlib.contextmanager
def tree(*files):
    """A directory with a copy of verbatim at the first path, and empty files at the others."""
    with tempfile.TemporaryDirectory() as name:
        top = pathlib.Path(name).resolve()
        for file in files:
            (top / file).parent.mkdir(parents=True, exist_ok=True)
            (top / file).touch()
        shutil.copy(VERBATIM, top / files[0])
        yield top


def test_help_and_version_of_all():
    for command in ([], ['run'], ['show'], ['explain'], ['enable']):
        got = call(*command, '--help')
        assert got.returncode == 0 and got.stdout.startswith('Usage: verbatim'), got
        assert max(map(len, got.stdout.splitlines())) <= 100
        got = call(*command, '--version')
        assert got.returncode == 0 and got.stdout.startswith('verbatim '), got
        if command:
            assert call('help', *command).stdout == call(*command, '--help').stdout
            got = call(*command, '--nonsense')
            assert got.returncode == (125 if command == ['run'] else 2), got
            assert got.stderr == (f"verbatim {command[0]}: unrecognized option '--nonsense'\n"
                                  f"Try 'verbatim {command[0]} --help' for more information.\n"), got
    for args in ([], ['nonsense'], ['show', 'x'], ['explain', '1', '2'], ['enable', 'x'],
                 ['explain', 'x'], ['explain', '0'], ['explain', '-c', '-1']):
        got = call(*args)
        assert got.returncode == 2 and got.stderr and not got.stdout, got


def test_misuse_of_the_daemon():
    for args, why in ((['--system', '--shared'], '--system and --shared exclude each other'), (['x'], "extra operand 'x'")):
        got = call(*args, program=VERBATIMD)
        assert got.returncode == 2 and not got.stdout, got
        assert got.stderr == f"verbatimd: {why}\nTry 'verbatimd --help' for more information.\n", got


def test_full_disk_is_a_failure():
    with open('/dev/full', 'w', encoding='ascii') as full:
        got = subprocess.run([VERBATIM, 'explain', '--list'], stdout=full, check=False,
                             stderr=subprocess.PIPE)
    assert got.returncode == 1 and b'No space' in got.stderr, got


def test_run_in_build_tree():
    for program in ('verbatim', 'src/tools/verbatim'):
        with tree(program, 'src/verbs/libibverbs.so.1', 'src/cm/librdmacm.so.1') as top:
            dirs = f'{top}/src/verbs:{top}/src/cm'
            got = call('run', '--', 'printenv', 'LD_LIBRARY_PATH', program=top / program)
            assert got.stdout == f'{dirs}\n' and not got.stderr, got
            got = call('run', 'printenv', 'LD_LIBRARY_PATH', program=top / program,
                       env={'LD_LIBRARY_PATH': '/before'})
            assert got.stdout == f'{dirs}:/before\n', got
            got = call('run', 'printenv', 'LD_LIBRARY_PATH', program=top / program,
                       env={'LD_LIBRARY_PATH': ''})
            assert got.stdout == f'{dirs}\n', got


def test_run_sets_variables():
    with tree('verbatim', 'src/verbs/libibverbs.so.1') as top:
        got = call('run', '--explain', '-d', 'lo,eth0', '--vendor-part-id', '0x1017', 'printenv',
                   'VERBATIM_EXPLAIN', 'VERBATIM_DEVICES', 'VERBATIM_VENDOR_PART_ID',
                   program=top / 'verbatim')
        assert got.stdout.split() == ['1', 'lo,eth0', '4119'], got
        got = call('run', '--explain=/tmp/file', 'printenv', 'VERBATIM_EXPLAIN',
                   program=top / 'verbatim')
        assert got.stdout == '/tmp/file\n', got
        got = call('run', '--iwarp', 'printenv', 'VERBATIM_TRANSPORT', program=top / 'verbatim')
        assert got.stdout == 'iwarp\n', got
        # Options behind the program are the program's.
        got = call('run', 'echo', '--explain', '-d', program=top / 'verbatim')
        assert got.stdout == '--explain -d\n', got
        for number in ('x', '-1', '', '4294967296', '1x'):
            got = call('run', '-p', number, 'true', program=top / 'verbatim')
            assert got.returncode == 125 and 'vendor part ID' in got.stderr, got


def test_run_exit_statuses():
    with tree('verbatim', 'src/verbs/libibverbs.so.1', 'plain', 'orphan') as top:
        (top / 'orphan').write_text('#!/no/such/interpreter\n', encoding='ascii')
        (top / 'orphan').chmod(0o755)
        rows = ((['sh', '-c', 'exit 7'], 7, ''), (['no-such-program'], 127, 'no program'),
                ([str(top / 'plain')], 126, 'Permission'), ([str(top)], 126, 'Permission'),
                ([str(top / 'orphan')], 126, 'interpreter'), ([], 125, 'missing operand'))
        for args, status, words in rows:
            got = call('run', '--', *args, program=top / 'verbatim')
            assert got.returncode == status and words in got.stderr, got
    for colon in ('a:b', 'a;b'):
        with tree(f'{colon}/verbatim', f'{colon}/src/verbs/libibverbs.so.1') as top:
            got = call('run', 'true', program=top / colon / 'verbatim')
            assert got.returncode == 125 and 'LD_LIBRARY_PATH cannot name' in got.stderr, got
    with tree('bin/verbatim') as top:
        got = call('run', 'true', program=top / 'bin/verbatim')
        # Not an error where Verbatim happens to be installed.
        assert got.returncode in (0, 125), got
        assert got.returncode == 0 or 'build or install' in got.stderr, got


def in_namespaces(script, *args):
    """What a shell does as root of namespaces of its own; None: the kernel has no such for this user."""
    apart = ('--user', '--map-root-user', '--mount')
    if call(*apart, 'true', program='unshare').returncode:
        return None
    return call(*apart, 'sh', '-ec', script, 'sh', *args, program='unshare')


def test_run_without_proc():
    """It is found by the path that was executed; where that is none, as of a descriptor, it says so."""
    with tree('verbatim', 'src/verbs/libibverbs.so.1') as top:
        got = in_namespaces('mount -t tmpfs none /proc; cd "$1"; PATH=$1:$PATH verbatim run echo PATH\n'
                            './verbatim run echo relative; "$1/verbatim" run echo absolute', top)
        # Sanitizers want /proc, too, where they read their options: at the start they warn, and at the exit
        # LeakSanitizer fails the program.
        assert got is None or got.stdout.split() == ['PATH', 'relative', 'absolute'] and '\nverbatim' not in '\n' + got.stderr, got
        execute = "import os; os.execve(os.open('verbatim', os.O_RDONLY), ['verbatim', 'run', 'true'], os.environ)"
        got = in_namespaces('mount -t tmpfs none /proc; cd "$1"; exec "$2" -c "$3"', top, sys.executable, execute)
        assert got is None or 'mount /proc, or start verbatim by its path' in got.stderr, got
        assert got is None or got.returncode == 125 or 'LeakSanitizer' in got.stderr, got


def program_of(path, machine, types):
    """An ELF file for 64 bits that holds no code, with segments of these types."""
    head = b'\x7fELF\x02\x01\x01'.ljust(16, b'\0') + struct.pack('<HHIQQQIHHHHHH', 2, machine, 1, 0, 64, 0, 0, 64, 56,
                                                                   len(types), 0, 0, 0)
    path.write_bytes(head + b''.join(struct.pack('<IIQQQQQQ', kind, 4, 0, 0, 0, 0, 0, 4096) for kind in types))
    path.chmod(0o755)
    return path


def program_of_i386(path):
    code = b'\xb8\1\0\0\0\xbb\7\0\0\0\xcd\x80'
    base, size = 0x8048000, 52 + 32 + len(code)
    path.write_bytes(b'\x7fELF\1\1\1'.ljust(16, b'\0') + struct.pack('<HHIIIIIHHHHHH', 2, 3, 1, base + 84, 52, 0, 0, 52, 32,
                                                                      1, 0, 0, 0) +
                     struct.pack('<8I', 1, 0, base, base, size, size, 5, 4096) + code)
    path.chmod(0o755)
    return path


def test_run_tells_what_it_does_not_reach():
    own = int.from_bytes(pathlib.Path(VERBATIM).read_bytes()[18:20], sys.byteorder)
    load, interpreter, own_class = 1, 3, struct.calcsize('P') == 8
    with tree('verbatim', 'src/verbs/libibverbs.so.1', 'src/cm/librdmacm.so.1') as top:
        def run(*argv):
            return call('run', '--', *argv, program=top / 'verbatim')

        static = program_of(top / 'static', own, [load])
        script = top / 'script'
        script.write_text(f'#!{static} -x\n', encoding='ascii')
        script.chmod(0o755)
        if own_class:
            assert f'{static} is statically linked' in run(static).stderr
            assert f'{static}, which runs {script}, is statically linked' in run(script).stderr
        # for another machine: no shell may take it for a script
        got = run(program_of(top / 'other', own ^ 1, [load, interpreter]))
        assert got.returncode == 126, got
        warning, error = got.stderr.splitlines()
        assert 'is made for another kind of machine than Verbatim' in warning, got
        assert error == f'verbatim: cannot execute {top}/other: Exec format error', got
        # without #! a shell runs it, as with execvp
        script.write_text('echo reached\n', encoding='ascii')
        got = run(script)
        assert (got.returncode, got.stdout, got.stderr) == (0, 'reached\n', ''), got
        # of the other class, and real: exit(7) of the i386
        got = run(program_of_i386(top / 'i386'))
        assert got.returncode in (7, 126) and 'is made for another kind of machine' in got.stderr, got
        if os.getuid() == 0 and not os.statvfs(top).f_flag & os.ST_NOSUID:
            def run_private(*words):
                """As a user who does not own it; what is said of it, and whether the loader took LD_LIBRARY_PATH away."""
                got = call(*words, top / 'verbatim', 'run', '--', private, 'LD_LIBRARY_PATH', program='setpriv')
                return f'{private} runs with privileges of its own' in got.stderr, got.returncode == 1 and not got.stdout

            nobody = ('--reuid=65534', '--regid=65534', '--clear-groups')
            top.chmod(0o755)
            private = top / 'private'
            shutil.copy(shutil.which('printenv'), private)
            assert run_private(*nobody) == (False, False)
            os.chown(private, 1, -1)
            private.chmod(0o4755)
            assert run_private(*nobody) == (True, True)
            assert run_private('--no-new-privs', *nobody) == (False, False)
            # CAP_NET_BIND_SERVICE, effective (struct vfs_cap_data); the root user's programs have it anyway
            private.chmod(0o755)
            os.setxattr(private, 'security.capability', struct.pack('<5I', 0x02000001, 1 << 10, 0, 0, 0))
            assert run_private(*nobody) == (True, True)
            assert run_private('--no-new-privs', *nobody) == (True, True)
            assert run_private('--nnp') == (False, False)
            # the kernel ignores it of a script
            script.write_text('#!/bin/true\n', encoding='ascii')
            os.chown(script, 65534, -1)
            script.chmod(0o4755)
            assert run(script).stderr == ''


def test_enable_and_disable_below_a_root():
    with tempfile.TemporaryDirectory() as root:
        path = pathlib.Path(root) / 'etc/ld.so.conf.d/00-verbatim.conf'
        for _ in range(2):
            got = call('enable', '--root', root)
            assert got.returncode == 0 and str(path) in got.stdout, got
            lines = path.read_text(encoding='ascii').splitlines()
            assert lines[0].startswith('#') and lines[1].endswith('/verbatim'), lines
            assert len(lines) == 2 and path.stat().st_mode & 0o777 == 0o644
        assert os.listdir(path.parent) == [path.name]
        for _ in range(2):
            got = call('enable', '--disable', '--root', root)
            assert got.returncode == 0 and not path.exists(), got
    got = call('enable', '--root', root)
    assert got.returncode == 1 and 'No such' in got.stderr, got


def test_enable_tells_of_userfaultfd():
    """Of an installation, in directories of its own in place of the system's."""
    own = """mount -t tmpfs none /etc; mount -t tmpfs none /dev; mount --bind /bin/true "$(readlink -f /sbin/ldconfig)"
             echo "$2" >/dev/sysctl; mount --bind /dev/sysctl /proc/sys/vm/unprivileged_userfaultfd
             [ -z "$3" ] || { : >/dev/userfaultfd; chmod "$3" /dev/userfaultfd; }
             "$1"/bin/verbatim enable; cat /etc/ld.so.conf.d/00-verbatim.conf >&2"""
    with tempfile.TemporaryDirectory() as root:  # /usr/local/lib/... of the configuration
        call('enable', '--root', root)
        directory = pathlib.Path(root, 'etc/ld.so.conf.d/00-verbatim.conf').read_text(encoding='ascii').splitlines()[1]
    directory = directory[directory.index('/lib') + 1:]
    since = tuple(map(int, os.uname().release.split('.')[:2]))
    with tree('bin/verbatim', f'{directory}/libibverbs.so.1') as top:
        for sysctl, mode, said in ((0, '600', since >= (6, 8)), (1, '600', False), (0, '660', False), (0, '', False)):
            got = in_namespaces(own, top, str(sysctl), mode)
            if got is None:
                return
            assert got.returncode == 0 and f'{top}/{directory}\n' in got.stderr, got
            wrote, *more = got.stdout.splitlines()
            assert wrote == 'Wrote /etc/ld.so.conf.d/00-verbatim.conf.' and len(more) == said, got
            assert not said or 'Only root may open /dev/userfaultfd' in more[0] and '/70-verbatim.rules' in more[0], got


def test_enable_refuses_a_build_tree():
    with tree('verbatim', 'src/verbs/libibverbs.so.1') as top:
        got = call('enable', program=top / 'verbatim')
        assert got.returncode == 1 and 'not installed' in got.stderr, got


def test_no_daemon_is_an_empty_list():
    assert json.loads(call('show', '--json').stdout) == {'processes': [], 'listeners': []}
    got = call('show')
    assert got.returncode == 0 and 'no process uses' in got.stdout, got
    assert call('explain').returncode == 0
    got = call('explain', '1')
    assert got.returncode == 1 and 'process 1' in got.stderr, got


def test_show_processes():
    with tenant('first') as (pid, slot), tenant('second\033') as (other, _):
        processes = json.loads(call('show', '--json').stdout)['processes']
        assert [p['pid'] for p in processes] == [pid, other], processes
        first = processes[0]
        assert first['slot'] == slot and first['program'] == 'first', first
        assert first['uid'] == os.getuid() and first['since'].endswith('Z')
        assert '\033' not in processes[1]['program'], processes
        assert first['devices'] == [{'name': 'vrb_lo', 'address': '127.0.0.1', 'contexts': 1}]
        counters = first['counters']
        assert counters.pop('naks_received') == 3 and set(counters.values()) == {0}, counters
        rc, ud = first['qps']
        assert (rc['qpn'], rc['type'], rc['state']) == (slot << 14 | 1, 'RC', 'RTS'), rc
        assert (rc['dest_qpn'], rc['device']) == (slot << 14 | 2, 'vrb_lo'), rc
        assert (ud['type'], ud['state'], ud['device']) == ('UD', 'ERR', '-'), ud

        text = call('show').stdout
        for word in ('first', 'second', 'vrb_lo', f'0x{slot << 14 | 1:06x}', 'RTS', str(pid)):
            assert word in text, text
        assert '\033' not in text
        assert 'naks_received 3 (' in text and 'local_ack_timeout_err' not in text, text


def test_explain_process():
    with tenant('first') as (pid, slot), tenant('second', '300') as (other, _), \
            tenant('third', '0') as (third, _):
        text = call('explain', str(pid)).stdout
        assert f'first[{pid}] QP 0x{slot << 14 | 1:06x} RKEY_RANGE (7)\n' in text, text
        assert 'rkey 0xabcd, report 0\\x1b[2J.\n' in text and '\033' not in text, text
        assert 'Check remote_addr' in text and 'second' not in text, text

        text = call('explain', str(other)).stdout
        assert text.count('RKEY_RANGE') == 256 and '(44 older' in text, text
        assert text.index('report 44\\') < text.index('report 299\\')
        assert 'report 43\\' not in text

        text = call('explain').stdout
        assert text.count('RKEY_RANGE') == 257 and 'third' not in text
        assert call('explain', str(third)).stdout == 'Nothing failed.\n'
        got = call('explain', '1')
        assert got.returncode == 1 and not got.stdout, got


def test_list_of_causes():
    text = call('explain', '--list').stdout
    assert text.startswith('  1 LKEY_UNKNOWN\n')
    assert call('explain', '--cause', '7').stdout in text
    got = call('explain', '--cause', '1000000')
    assert got.returncode == 1 and 'knows no cause' in got.stderr, got


def main():
    tests = [(name[5:], function) for name, function in globals().items()
             if name.startswith('test_')]
    failed = 0
    print(f'1..{len(tests)}')
    for number, (name, function) in enumerate(tests, 1):
        try:
            function()
            print(f'ok {number} - {name}', flush=True)
        except Exception:  # pylint: disable=broad-except
            failed += 1
            for line in traceback.format_exc().splitlines():
                print(f'# {line}')
            print(f'not ok {number} - {name}', flush=True)
    return failed > 0


if __name__ == '__main__':
    sys.exit(main())
