# SPDX-License-Identifier: BSD-2-Clause
"""dapl by its three connection managers: dtest, which says what its buffers contain, or compares them itself (-D)."""
import pathlib
import tempfile

import rows

PORT = 15828  # where it arranges the rest, by TCP

# Its name, version of the API, library, version of the provider, device: what /etc/dat.conf has of an adapter.
ENTRY = 'verbatim u2.0 nonthreadsafe default {library} dapl.2.0 "{device}" ""\n'

# By rdma_cm; by TCP; by datagrams of its own, for which dtest wants a LID of the peer.
MANAGERS = {
    'cma': ('libdaplofa.so.2', '{0.interface} 0', {}),
    'scm': ('libdaploscm.so.2', '{0.device} 1', {}),
    'ucm': ('libdaploucm.so.2', '{0.device} 1', {'VERBATIM_LINK_LAYER': 'infiniband'}),
}


def dtest(manager, *options, said):
    """Both ends: what each of them has to say, {own} and {other} being the two roles."""
    library, device, env = MANAGERS[manager]

    def run(a, b):
        with tempfile.TemporaryDirectory() as directory:
            registry = pathlib.Path(directory, 'dat.conf')
            registry.write_text(ENTRY.format(library=library, device=device.format(a)), encoding='ascii')
            argv = ['dtest', '-P', 'verbatim', *options]
            outputs = a.pair(argv, [*argv, '-h', a.address], PORT, peer=b, seconds=40,
                             env={**env, 'DAT_OVERRIDE': registry})
        for output, own, other in zip(outputs, ('SERVER', 'CLIENT'), ('client', 'server')):
            for text in (*said, 'Test Complete. PASSED'):
                wanted = text.format(own=own, other=other)
                rows.check(wanted in output, f'no "{wanted}"', output)
    return run


SEND = ('{own}: RDMA write buffer contains: {other} RDMA write data', 'RDMA write (bi-direction)')
WRITE = ('PINGPONG with DATA CHECK', '(1000 x 4096)')
for name in MANAGERS:
    rows.row('dapl', f'dtest over {name}: SEND, WRITE and READ', 'dapl2-utils')(dtest(name, '-b', 65536, said=SEND))
    rows.row('dapl', f'dtest over {name}: WRITE in turns, compared', 'dapl2-utils')(
        dtest(name, '-b', 4096, '-W', '-D', said=WRITE))
