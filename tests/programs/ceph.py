# SPDX-License-Identifier: BSD-2-Clause
"""Ceph with its messenger async+rdma: a monitor, an OSD that keeps its objects in memory, and rados."""
import contextlib
import pathlib
import random
import re
import tempfile
import uuid

import harness
import rows

BYTES = 16 << 20
OBJECTS = 64  # of 4 MiB

# Less than Ceph takes by default: its buffers of 128 KiB, 33,000 of them, are for servers that do nothing else.
CONFIGURATION = '''
[global]
fsid = {fsid}
mon host = [v2:{address}:3300,v1:{address}:6789]
auth cluster required = none
auth service required = none
auth client required = none
ms type = async+rdma
ms async rdma device name = {device}
ms async rdma polling us = 0
ms async rdma receive queue len = 256
ms async rdma receive buffers = 1024
ms async rdma send buffers = 128
ms async op threads = 1
osd objectstore = memstore
memstore device bytes = 536870912
osd pool default size = 1
osd pool default min size = 1
osd pool default pg autoscale mode = off
mon allow pool size one = true
osd crush chooseleaf type = 0
run dir = {directory}
admin socket = {directory}/$cluster-$name.$pid.asok
log file = {directory}/$name.log
mon data = {directory}/mon
osd data = {directory}/osd
'''


class Cluster:
    """A monitor on one host and an OSD on the other, in a directory."""

    def __init__(self, a, b, directory):
        self.a, self.b = a, b
        self.directory = pathlib.Path(directory)
        self.programs = []
        self.configuration = self.directory / 'ceph.conf'
        self.fsid = uuid.uuid4()
        self.configuration.write_text(CONFIGURATION.format(
            fsid=self.fsid, address=a.address, device=a.device, directory=directory), encoding='ascii')

    def ceph(self, host, program, *words, seconds=30):
        return host.run(program, '-c', self.configuration, *words, seconds=seconds)

    def begin(self, host, program, *words):
        started = host.start(program, '-c', self.configuration, '-f', *words)
        self.programs.append((host, started))
        return started

    def begin_monitor(self):
        monmap, data = self.directory / 'monmap', self.directory / 'mon'
        data.mkdir()
        address = self.a.address
        self.a.command('monmaptool', '--create', '--fsid', self.fsid, '--addv', 'a',
                       f'[v2:{address}:3300,v1:{address}:6789]', monmap)
        self.ceph(self.a, 'ceph-mon', '--mkfs', '-i', 'a', '--monmap', monmap)
        self.begin(self.a, 'ceph-mon', '-i', 'a')

    def begin_osd(self):
        identity = uuid.uuid4()
        (self.directory / 'osd').mkdir()
        self.ceph(self.a, 'ceph', 'osd', 'new', identity)
        self.ceph(self.b, 'ceph-osd', '-i', 0, '--mkfs', '--osd-uuid', identity)
        osd = self.begin(self.b, 'ceph-osd', '-i', 0)
        harness.wait_until(lambda: '1 up' in self.ceph(self.a, 'ceph', 'osd', 'stat'), 40, osd.report())
        return osd

    def report(self):
        logs = (f'--- {path.name}\n{path.read_text(errors="replace")[-4000:]}' for path in self.directory.glob('*.log'))
        return '\n'.join((*(program.report() for _, program in self.programs), *logs))

    def end(self):
        for host, program in reversed(self.programs):
            host.release(program)


@contextlib.contextmanager
def cluster(a, b):
    with tempfile.TemporaryDirectory() as directory:
        made = Cluster(a, b, directory)
        try:
            yield made
        except BaseException as error:
            raise AssertionError(f'{type(error).__name__}: {error}\n{made.report()}') from error
        finally:
            made.end()


def connected(host, program):
    """How many RC QPs of the program can send."""
    return sum(qp['type'] == 'RC' and qp['state'] == 'RTS' for process in host.show()['processes']
               if process['pid'] == program.pid for qp in process.get('qps', ()))


def run(a, b):
    with cluster(a, b) as made:
        made.begin_monitor()
        osd = made.begin_osd()
        made.ceph(a, 'ceph', 'osd', 'pool', 'create', 'test', 8)
        # A full OSD lets writers wait, so it is not filled.
        made.ceph(a, 'rados', '-p', 'test', 'bench', 60, 'write', '--no-cleanup', '--max-objects', OBJECTS, seconds=80)
        rows.check(connected(b, osd), 'ceph-osd has no RC QP in RTS')
        output = made.ceph(a, 'rados', '-p', 'test', 'bench', 60, 'seq', seconds=80)
        rows.check(re.search(rf'Total reads made:\s+{OBJECTS}\b', output), output)
        pattern, copy = made.directory / 'pattern', made.directory / 'copy'
        pattern.write_bytes(random.Random(BYTES).randbytes(BYTES))
        made.ceph(a, 'rados', '-p', 'test', 'put', 'object', pattern)
        made.ceph(a, 'rados', '-p', 'test', 'get', 'object', copy)
        rows.check(copy.read_bytes() == pattern.read_bytes(), 'the object differs')


rows.row('Ceph', 'async+rdma: rados bench, and put and get of 16 MiB, compared', 'ceph-osd', seconds=240)(run)
