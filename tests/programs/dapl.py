# SPDX-License-Identifier: BSD-2-Clause
"""dapl over rdma_cm: dtest, which says what its buffers contain, or compares them itself (-D)."""
import pathlib
import tempfile

import rows

PORT = 15828  # where it arranges the rest, by TCP

# Its name, version of the API, library, version of the provider, interface: what /etc/dat.conf has of an adapter.
ENTRY = 'verbatim u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "{interface} 0" ""\n'


def dtest(*options, said):
    """Both ends: what each of them has to say, {own} and {other} being the two roles."""
    def run(a, b):
        with tempfile.TemporaryDirectory() as directory:
            registry = pathlib.Path(directory, 'dat.conf')
            registry.write_text(ENTRY.format(interface=a.interface), encoding='ascii')
            argv = ['dtest', '-P', 'verbatim', *options]
            outputs = a.pair(argv, [*argv, '-h', a.address], PORT, peer=b, seconds=40,
                             env={'DAT_OVERRIDE': registry})
        for output, own, other in zip(outputs, ('SERVER', 'CLIENT'), ('client', 'server')):
            for text in (*said, 'Test Complete. PASSED'):
                wanted = text.format(own=own, other=other)
                rows.check(wanted in output, f'no "{wanted}"', output)
    return run


SEND = dtest('-b', 65536, said=('{own}: RDMA write buffer contains: {other} RDMA write data',
                                'RDMA write (bi-direction)'))
WRITE = dtest('-b', 4096, '-W', '-D', said=('PINGPONG with DATA CHECK', '(1000 x 4096)'))
rows.row('dapl', 'dtest over cma: SEND, WRITE and READ', 'dapl2-utils')(SEND)
rows.row('dapl', 'dtest over cma: WRITE in turns, compared', 'dapl2-utils')(WRITE)
