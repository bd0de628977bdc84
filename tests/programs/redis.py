# SPDX-License-Identifier: BSD-2-Clause
"""Redis over rsockets: librspreload of librdmacm, with what it lacks for programs that wait by epoll (verbatim(7))."""
import pathlib
import re
import secrets
import tempfile

import harness
import rows

VALUE_BYTES = 1 << 20
TESTS = ('SET', 'GET', 'LRANGE_100')


def under():
    """The words before a command line."""
    preload, = pathlib.Path('/usr/lib').glob('*/rsocket/librspreload.so')
    return 'env', f'LD_PRELOAD={preload} {harness.BUILD}/src/preload/libverbatim-rsmore.so'


def run(a, b):
    port = harness.free_port()
    cli = (*under(), 'redis-cli', '-h', a.address, '-p', port)
    value = secrets.token_hex(VALUE_BYTES // 2)
    server = a.start(*under(), 'redis-server', '--port', port, '--save', '', '--bind', a.address,
                     '--protected-mode', 'no')
    try:
        server.wait_for('Ready to accept connections')
        rows.check(not harness.is_listening(port, a.anchor), 'it listens for TCP', server.report())
        with tempfile.TemporaryFile('w+', encoding='ascii') as file:
            file.write(value)
            file.seek(0)
            output = b.run(*cli, '-x', 'set', 'key', stdin=file)
        rows.check(output.strip() == 'OK', output)
        output = b.run(*cli, '--raw', 'get', 'key')
        rows.check(output.strip() == value, f'another value, of {len(output)} bytes')
        output = b.run(*under(), 'redis-benchmark', '-h', a.address, '-p', port, '-t', ','.join(TESTS).lower(), '-n', 2000,
                       '-c', 8, '-q', seconds=30).replace('\r', '\n')
        for test in TESTS:
            rows.check(re.search(rf'^{test}.*: [\d.]+ requests per second', output, re.MULTILINE), output)
    finally:
        a.release(server)


rows.row('Redis', 'a value of 1 MiB, redis-benchmark, by librspreload', 'redis-server')(run)
