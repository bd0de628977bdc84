"""No system call stands on the way of a small message while both ends poll."""
import shutil
import subprocess

import pytest

from harness import DEVICE
import syscalls

PER_MESSAGE = 0.05


@pytest.mark.parametrize('end', ['server', 'client'])
def test_small_send_makes_no_system_call(runner, tmp_path, end):
    if not shutil.which('strace'):
        pytest.skip('there is no strace')
    if subprocess.run(['strace', '-o', '/dev/null', 'true'], check=False).returncode != 0:
        pytest.skip('strace may not trace here')
    argv = ['ib_send_lat', '-d', DEVICE, '-F', '-s', 8]
    count, yields = syscalls.per_message(runner, argv, end, tmp_path)
    print(f'{count:.4f} system calls a message; yielded {yields:.4f} times while waiting')
    assert count < PER_MESSAGE, f'{count:.4f} system calls a message'
