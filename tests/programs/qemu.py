# SPDX-License-Identifier: BSD-2-Clause
"""QEMU: a guest that runs is moved by rdma:, its memory compared."""
import json
import pathlib
import random
import socket
import tempfile
import time

import harness
import rows

PATTERN = 64 << 20
AT = 64 << 20  # in the guest's memory
UNDER_WAY = ('setup', 'active', 'device', None)  # of a migration


class Monitor:
    """QMP of one QEMU."""

    def __init__(self, path, program):
        self.program = program
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(30)
        harness.wait_until(lambda: self.socket.connect_ex(str(path)) == 0, 20, f'{path}\n{program.report()}')
        self.lines = self.socket.makefile('r', encoding='utf-8')
        json.loads(self.lines.readline())
        self.ask('qmp_capabilities')

    def ask(self, command, **arguments):
        self.socket.sendall(json.dumps({'execute': command, 'arguments': arguments}).encode() + b'\n')
        while True:
            line = self.lines.readline()
            rows.check(line, f'{command}: no answer', self.program.report())
            answer = json.loads(line)
            if 'event' in answer:
                continue
            rows.check('return' in answer, command, answer, self.program.report())
            return answer['return']


def machine(host, directory, name, *options):
    """A QEMU and its monitor. Its firmware runs, and finds nothing to boot."""
    path = pathlib.Path(directory, name)
    program = host.start('qemu-system-x86_64', '-machine', 'pc', '-accel', 'tcg', '-m', '256', '-nodefaults',
                         '-display', 'none', '-qmp', f'unix:{path},server=on,wait=off', *options)
    return program, Monitor(path, program)


def migrate(pinned):
    def run(a, b):
        port = harness.free_port()
        with tempfile.TemporaryDirectory() as directory:
            pattern, copy = pathlib.Path(directory, 'pattern'), pathlib.Path(directory, 'copy')
            content = random.Random(port).randbytes(PATTERN)
            pattern.write_bytes(content)
            target, incoming = machine(b, directory, 'target', '-incoming', 'defer')
            source, outgoing = machine(a, directory, 'source', '-device',
                                       f'loader,file={pattern},addr={AT:#x},force-raw=on')
            try:
                for monitor in (incoming, outgoing):
                    monitor.ask('migrate-set-capabilities', capabilities=[
                        {'capability': 'rdma-pin-all', 'state': pinned}])
                incoming.ask('migrate-incoming', uri=f'rdma:{b.address}:{port}')
                outgoing.ask('migrate', uri=f'rdma:{b.address}:{port}')
                while (status := outgoing.ask('query-migrate').get('status')) in UNDER_WAY:
                    time.sleep(0.05)
                rows.check(status == 'completed', status, source.report(), target.report())
                # The source says so once all is sent; the target goes on when it has it.
                harness.wait_until(lambda: incoming.ask('query-status')['status'] == 'running', 20, 'the target runs')
                incoming.ask('pmemsave', val=AT, size=PATTERN, filename=str(copy))
                rows.check(copy.read_bytes() == content, 'the memory of the guest differs')
                for program, monitor in ((source, outgoing), (target, incoming)):
                    monitor.ask('quit')
                    program.finish(20)
            finally:
                a.release(source)
                b.release(target)
    return run


rows.row('QEMU', 'live migration, 64 MiB compared', 'qemu-system-x86', seconds=90)(migrate(False))
rows.row('QEMU', 'live migration with rdma-pin-all, 64 MiB compared', 'qemu-system-x86', seconds=90)(migrate(True))
