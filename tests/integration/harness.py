# SPDX-License-Identifier: BSD-2-Clause
"""Runs programs over Verbatim, alone or in pairs, and leaves none of them behind.

A Runner has a namespace of its own (VERBATIM_NAMESPACE), so that what it starts never meets the
daemon of a user or of another test. Every program has a time limit; when something goes wrong the
error shows the command line, the exit status and the output of everybody involved.

Needs nothing but Python's library: the demo and the benchmarks use it, too.
"""
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get('VERBATIM_BUILD', ROOT / 'build')).resolve()
VERBATIM = BUILD / 'verbatim'
VERIFY = BUILD / 'tests/integration/verify/verify'

DEVICE = 'vrb_lo'
HOST = '127.0.0.1'
OUTPUT_CHARS = 6000  # of each program's output, shown in an error
SLOWER = 4 if 'LD_PRELOAD' in os.environ else 1  # with sanitizers every time limit is longer


_given_ports = set()


def free_port():
    """A free TCP port, below the ephemeral ones of the kernel; each only once."""
    while True:
        port = random.randrange(20000, 32000)
        if port in _given_ports:
            continue
        with socket.socket(socket.AF_INET6) as probe:
            try:
                probe.bind(('::', port))  # fails, too, where only the IPv4 port is taken
            except OSError:
                continue
        _given_ports.add(port)
        return port


def is_listening(port, of='self'):
    """Whether a program listens on this TCP port; found out without connecting to it. `of` is a
    process of the network namespace that is meant.
    """
    wanted = f'{port:04X}'
    for table in (f'/proc/{of}/net/tcp', f'/proc/{of}/net/tcp6'):
        try:
            with open(table, encoding='ascii') as rows:
                next(rows)
                for row in rows:
                    _, local, _, state = row.split()[:4]
                    if state == '0A' and local.endswith(':' + wanted):
                        return True
        except FileNotFoundError:
            pass
    return False


def wait_until(condition, seconds, what):
    """Returns the first true value of condition(); an error if there is none in time."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f'{what}: not within {seconds} s')
        time.sleep(0.005)


def processes_of(namespace):
    """{pid: name} of the living processes whose environment names the namespace."""
    wanted = f'VERBATIM_NAMESPACE={namespace}'.encode()
    found = {}
    for entry in os.listdir('/proc'):
        if not entry.isdigit():
            continue
        try:
            environment = pathlib.Path('/proc', entry, 'environ').read_bytes()
            if wanted in environment.split(b'\0'):
                found[int(entry)] = pathlib.Path('/proc', entry, 'comm').read_text().strip()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            pass
    return found


def cpu_ticks(pid):
    """User and system time of a process, all its threads, in clock ticks."""
    stat = pathlib.Path(f'/proc/{pid}/stat').read_text()
    fields = stat[stat.rindex(')') + 2:].split()
    return int(fields[11]) + int(fields[12])


class Program:
    """One process (and its children, by their process group), its output in a file."""

    def __init__(self, argv, env, stdin=subprocess.DEVNULL, stdout=None, **options):
        self.argv = [str(word) for word in argv]
        self._file = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            self.argv, env=env, stdin=stdin, stdout=stdout or self._file,
            stderr=subprocess.STDOUT, start_new_session=True, **options)

    @property
    def pid(self):
        return self.process.pid

    @property
    def status(self):
        """None while it runs; an exit status; or minus the signal that ended it."""
        return self.process.poll()

    def output(self):
        # Not through the descriptor's own offset: the process is writing at it.
        size = os.fstat(self._file.fileno()).st_size
        return os.pread(self._file.fileno(), size, 0).decode(errors='replace')

    def report(self):
        status = 'still running' if self.status is None else f'status {self.status}'
        return f'--- {" ".join(self.argv)}: {status}\n{self.output()[-OUTPUT_CHARS:]}'

    def wait_for(self, text, seconds=10):
        """Returns once the output contains the text."""
        def seen():
            if text in self.output():
                return True
            if self.status is not None and text not in self.output():
                raise AssertionError(f'ended without saying "{text}"\n{self.report()}')
            return False
        try:
            wait_until(seen, seconds * SLOWER, f'"{text}"')
        except AssertionError as error:
            raise AssertionError(f'{error}\n{self.report()}') from None

    def wait(self, seconds):
        """The status, or None if it has not ended in time."""
        try:
            return self.process.wait(max(0, seconds))
        except subprocess.TimeoutExpired:
            return None

    def finish(self, seconds=20, status=0):
        """Its output, once it has ended with this status."""
        if self.wait(seconds * SLOWER) is None:
            raise AssertionError(f'not ended within {seconds * SLOWER} s\n{self.report()}')
        if self.status != status:
            raise AssertionError(f'status {self.status}, expected {status}\n{self.report()}')
        return self.output()

    def signal(self, number):
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass

    def stop(self):
        if self.status is None:
            self.signal(signal.SIGTERM)
            self.wait(1)
        self.signal(signal.SIGKILL)  # what is left of its group, too
        self.process.wait()
        if self.process.stdin:
            self.process.stdin.close()
        self._file.close()


def finish_both(ends, seconds, tell=lambda: ''):
    """Returns when both programs have ended well. `tell` adds to what the error says of a program
    that does not end.
    """
    deadline = time.monotonic() + seconds * SLOWER
    what = 'did not end well'
    while any(end.status is None for end in ends):
        if time.monotonic() > deadline:
            what = f'not ended in {seconds * SLOWER} s'
            break
        # One end that fails lets the other wait for ever: do not wait with it.
        if any(end.status for end in ends):
            for end in ends:
                end.wait(2)
            break
        time.sleep(0.002)
    if any(end.status != 0 for end in ends):
        text = what + '\n' + '\n'.join(end.report() for end in ends)
        raise AssertionError(text + (tell() if any(end.status is None for end in ends) else ''))


def close_all(made):
    """Closes runners, or what has such a close(). Fails if something would not go by itself."""
    left = {}
    for each in made:
        left.update(each.close())
    assert not left, f'left behind: {left}'


class Runner:
    """Starts programs in one namespace. Use as a context manager, or call close()."""
    prefix = ()      # words before every command line, e.g. to enter a network namespace
    anchor = 'self'  # a process in the same network namespace as what is started

    def __init__(self, namespace, verbatim=VERBATIM, linger_ms=500, **variables):
        self.namespace = namespace
        self.verbatim = verbatim
        self.programs = []
        self.env = {name: value for name, value in os.environ.items()
                    if not name.startswith('VERBATIM')}
        self.env.update({'VERBATIM_NAMESPACE': namespace, 'VERBATIM_DEVICES': 'lo',
                         'VERBATIMD_LINGER_MS': str(linger_ms), **variables})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def environment(self, env=None):
        """The runner's, changed by env; a value of None removes a variable."""
        merged = dict(self.env)
        for name, value in (env or {}).items():
            merged.pop(name, None)
            if value is not None:
                merged[name] = str(value)
        return merged

    def start(self, *argv, env=None, before=(), run=(), **options):
        """Starts `before... verbatim run run... -- argv...`, e.g. before=('setpriv', ...)."""
        return self.start_plain(*before, self.verbatim, 'run', *run, '--', *argv, env=env,
                                **options)

    def start_plain(self, *argv, env=None, **options):
        """Starts a program that is to know nothing of Verbatim."""
        program = Program([*self.prefix, *argv], self.environment(env), **options)
        self.programs.append(program)
        return program

    def run(self, *argv, seconds=20, status=0, **options):
        """The output of a program that ends by itself."""
        program = self.start(*argv, **options)
        try:
            return program.finish(seconds, status)
        finally:
            self.release(program)

    def start_server(self, argv, port, seconds=10, **options):
        """Starts a program and returns when it listens on the port."""
        server = self.start(*argv, **options)

        def ready():
            if server.status is not None:
                raise AssertionError(f'the server ended before it listened\n{server.report()}')
            return is_listening(port, self.anchor)
        try:
            wait_until(ready, seconds * SLOWER, f'listening on port {port}')
        except AssertionError as error:
            text = str(error) if server.status is not None else f'{error}\n{server.report()}'
            self.release(server)
            raise AssertionError(text) from None
        return server

    def pair(self, server_argv, client_argv, port, seconds=20, server_options=None,
             client_options=None, peer=None, **options):
        """Runs both ends to their ends; (server's output, client's output) if both exit with 0.
        The client is started by `peer`, another runner, if there is one.
        """
        peer = peer or self
        server = self.start_server(server_argv, port, **options, **(server_options or {}))
        client = peer.start(*client_argv, **options, **(client_options or {}))
        try:
            finish_both((server, client), seconds, lambda: self._tell(peer))
            return server.output(), client.output()
        finally:
            peer.release(client)
            self.release(server)

    def _tell(self, peer):
        runners = [self] if peer is self else [self, peer]
        return ''.join(f'\n--- verbatim show\n{runner.tool("show", check=False)}'
                       for runner in runners)

    def tool(self, *argv, check=True, env=None):
        """Standard output of `verbatim argv...`."""
        try:
            done = subprocess.run([*self.prefix, self.verbatim, *map(str, argv)], env=self.environment(env),
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=10 * SLOWER, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            if check:
                raise AssertionError(f'verbatim {" ".join(argv)}: {error}') from error
            return str(error)
        if check and done.returncode != 0:
            raise AssertionError(f'verbatim {" ".join(map(str, argv))}: status '
                                 f'{done.returncode}\n{done.stdout}{done.stderr}')
        return done.stdout if check else done.stdout + done.stderr

    def show(self):
        """What `verbatim show --json` says, decoded."""
        return json.loads(self.tool('show', '--json'))

    def listens(self, program):
        """Whether it has an identifier of rdma_cm that listens; not, if verbatimd is killed while it lists them."""
        try:
            listeners = self.show()['listeners']
        except AssertionError as error:
            if 'ended while it listed' not in str(error):
                raise
            return False
        return any(listener['pid'] == program.pid for listener in listeners)

    def daemons(self):
        return [pid for pid, name in processes_of(self.namespace).items() if name == 'verbatimd']

    def stop_daemons(self):
        """So that no test waits for a daemon that lingers long."""
        for pid in self.daemons():
            os.kill(pid, signal.SIGTERM)

    def release(self, *programs):
        for program in programs:
            program.stop()
            if program in self.programs:
                self.programs.remove(program)

    def close(self):
        """Ends everything. Returns {pid: name} of what would not go by itself."""
        self.release(*list(self.programs))
        linger = int(self.env['VERBATIMD_LINGER_MS']) / 1000
        deadline = time.monotonic() + (linger + 3) * SLOWER
        while (left := processes_of(self.namespace)) and time.monotonic() < deadline:
            time.sleep(0.02)
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return left
