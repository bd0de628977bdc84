# SPDX-License-Identifier: BSD-2-Clause
"""Rsockets in epoll sets: a program under librspreload and libverbatim-rsmore, whose argument names what it does."""
import ctypes
import os
import platform
import resource
import select
import signal
import socket
import sys
import threading
import time

C = ctypes.CDLL(None, use_errno=True)
CLONE_VM, CLONE_VFORK = 0x100, 0x4000  # linux/sched.h
CANCEL_DISABLE = 1  # pthread.h


def rsocket():
    """Python's own sockets ask for SOCK_CLOEXEC, which librspreload leaves to the system."""
    fd = C.socket(socket.AF_INET, socket.SOCK_STREAM, 0)
    made = socket.socket(fileno=fd)
    assert os.readlink(f'/proc/self/fd/{fd}') == '/dev/null', 'no placeholder'
    return made


class Connection:
    """Both ends: `far` sends, `near` is in sets. Nothing comes to the listener beside."""

    def __init__(self, listener):
        self.listener = listener
        self.far = rsocket()
        connecting = threading.Thread(target=self.far.connect, args=(listener.getsockname(),))
        connecting.start()
        fd = C.accept(self.listener.fileno(), None, None)
        connecting.join()
        self.near = socket.socket(fileno=fd)


def in_thread(call):
    """Starts a call that sleeps; returns what waits for its result."""
    results = []
    thread = threading.Thread(target=lambda: results.append(call()), daemon=True)
    thread.start()
    time.sleep(0.3)
    assert not results, results

    def result():
        thread.join(5)
        return results[0] if results else 'asleep'
    return result


def take_number(fd):
    """An ordinary file that can be read. False: a thread of the libraries has the number already."""
    files = [os.open('/dev/zero', os.O_RDONLY) for _ in range(50)]
    for file in files:
        if file != fd:
            os.close(file)
    return fd in files


def sleeper_sees_addition(connection):
    """A thread sleeps in a set, with and without a member, while another one adds to it."""
    for first in (None, connection.listener):
        with select.epoll() as epoll:
            if first:
                epoll.register(first, select.EPOLLIN)
            result = in_thread(epoll.poll)
            epoll.register(connection.near, select.EPOLLIN)
            connection.far.send(b'x')
            assert result() == [(connection.near.fileno(), select.EPOLLIN)], result()
            connection.near.recv(1)


def use_up_descriptors():
    """What opens one fails with EMFILE; returns what was opened."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    opened = []
    try:
        while True:
            opened.append(os.dup(0))
    except OSError:
        return opened


def sleeper_without_descriptors(connection):
    """As above, in a thread for which no descriptor is left."""
    def sleep():
        allowed.wait()
        return epoll.poll()
    epoll, allowed = select.epoll(), threading.Event()
    result = in_thread(sleep)
    opened = use_up_descriptors()
    before = time.process_time()
    allowed.set()
    time.sleep(0.5)
    epoll.register(connection.listener, select.EPOLLIN)
    time.sleep(0.5)
    assert time.process_time() - before < 0.5, 'spins'
    epoll.register(connection.near, select.EPOLLIN)
    connection.far.send(b'x')
    assert result() == [(connection.near.fileno(), select.EPOLLIN)], result()
    epoll.unregister(connection.near)
    began = time.monotonic()
    assert epoll.poll(0.5) == []
    assert 0.4 < time.monotonic() - began < 2
    for fd in opened:
        os.close(fd)


def addition_is_no_cancellation_point(connection):
    """It would leave the mutex locked. PyDLL keeps the lock of the interpreter, which is such a point, too."""
    class Event(ctypes.Structure):
        _pack_ = 1 if platform.machine() == 'x86_64' else 8
        _fields_ = [('events', ctypes.c_uint32), ('data', ctypes.c_uint64)]

    epoll = select.epoll()
    result = in_thread(epoll.poll)
    c = ctypes.PyDLL(None)
    c.pthread_self.restype = ctypes.c_void_p
    c.pthread_cancel.argtypes = [ctypes.c_void_p]
    setcancelstate, add = c.pthread_setcancelstate, c.epoll_ctl
    arguments = (epoll.fileno(), 1, connection.near.fileno(),
                 ctypes.byref(Event(select.EPOLLIN, connection.near.fileno())))
    assert c.pthread_cancel(c.pthread_self()) == 0
    rc = add(*arguments)
    setcancelstate(CANCEL_DISABLE, None)
    assert rc == 0
    connection.far.send(b'x')
    assert result() == [(connection.near.fileno(), select.EPOLLIN)], result()


def sleeper_sees_change(connection):
    epoll = select.epoll()
    epoll.register(connection.near, select.EPOLLIN | select.EPOLLONESHOT)
    connection.far.send(b'x')
    assert epoll.poll(5) == [(connection.near.fileno(), select.EPOLLIN)]
    result = in_thread(epoll.poll)
    epoll.modify(connection.near, select.EPOLLIN)
    assert result() == [(connection.near.fileno(), select.EPOLLIN)], result()


def closed_leaves_set(connection):
    epoll = select.epoll()
    for _ in range(20):
        fd = connection.near.fileno()
        epoll.register(fd, select.EPOLLIN)
        connection.near.close()
        taken = take_number(fd)
        assert epoll.poll(0) == []
        if taken:
            return
        connection = Connection(connection.listener)
    raise AssertionError('no number came back')


def closed_set_is_empty(connection):
    epoll = select.epoll()
    number = epoll.fileno()
    epoll.register(connection.near, select.EPOLLIN)
    connection.far.send(b'x')
    assert epoll.poll(5)
    epoll.close()
    again = [select.epoll()]
    while again[-1].fileno() != number:
        again.append(select.epoll())
    assert again[-1].poll(0) == []
    again[-1].register(connection.near, select.EPOLLIN)
    assert again[-1].poll(5) == [(connection.near.fileno(), select.EPOLLIN)]


def accepted_closes_on_exec(connection):
    """SOCK_CLOEXEC of accept4 is for the number that the program has: a child that it starts is not to have it."""
    far = rsocket()
    connecting = threading.Thread(target=far.connect, args=(connection.listener.getsockname(),))
    connecting.start()
    fd = C.accept4(connection.listener.fileno(), None, None, socket.SOCK_CLOEXEC)
    connecting.join()
    with open(f'/proc/self/fdinfo/{fd}', encoding='ascii') as info:
        flags = next(int(line.split()[1], 8) for line in info if line.startswith('flags'))
    assert flags & os.O_CLOEXEC, oct(flags)


def closed_in_vfork_stays(connection):
    """The child of vfork(2), here of the clone(2) that is one, shares the memory, but not the descriptors."""
    epoll = select.epoll()
    epoll.register(connection.near, select.EPOLLIN)
    stack = ctypes.create_string_buffer(1 << 18)
    end = (ctypes.addressof(stack) + len(stack)) & ~15
    pid = C.clone(C.close, ctypes.c_void_p(end), CLONE_VM | CLONE_VFORK | signal.SIGCHLD,
                  ctypes.c_void_p(epoll.fileno()))
    assert pid > 0 and os.waitpid(pid, 0) == (pid, 0)
    connection.far.send(b'x')
    assert epoll.poll(5) == [(connection.near.fileno(), select.EPOLLIN)]


def added_twice(connection):
    epoll = select.epoll()
    epoll.register(connection.near, select.EPOLLIN)
    try:
        epoll.register(connection.near, select.EPOLLIN)
    except FileExistsError:
        return
    raise AssertionError('registered twice')


def files_are_refused(_):
    """As Linux does: libevent and others tell files from what can be waited for by that."""
    epoll = select.epoll()
    for path in ('/dev/null', __file__):
        with open(path, 'rb') as file:
            try:
                epoll.register(file, select.EPOLLIN)
            except PermissionError:
                continue
            raise AssertionError(f'{path} was registered')


def disabled_sleeps(connection):
    """A member with EPOLLONESHOT that was reported, and whose peer is gone."""
    epoll = select.epoll()
    epoll.register(connection.near, select.EPOLLIN | select.EPOLLONESHOT)
    connection.near.shutdown(socket.SHUT_WR)
    connection.far.close()
    assert epoll.poll(5)[0][1] & select.EPOLLHUP
    before, began = time.process_time(), time.monotonic()
    assert epoll.poll(1) == []
    assert time.monotonic() - began > 0.9, 'returned early'
    assert time.process_time() - before < 0.5, 'spun'


def all_have_their_turn(connection):
    """Room for one event, and two descriptors of either kind that are ready."""
    epoll = select.epoll()
    pipes = [os.pipe() for _ in range(2)]
    ready = {connection.near.fileno(), *(pipe[0] for pipe in pipes)}
    for fd in ready:
        epoll.register(fd, select.EPOLLIN)
    for _, end in pipes:
        os.write(end, b'x')
    connection.far.send(b'x')
    time.sleep(0.2)
    seen = set()
    for _ in range(20):
        seen |= {fd for fd, _ in epoll.poll(5, 1)}
    assert seen == ready, (seen, ready)


def listening(address, port):
    listener = rsocket()
    listener.bind((address, port))
    listener.listen()
    return listener


globals()[sys.argv[1]](Connection(listening(sys.argv[2], int(sys.argv[3]))))
print('done', flush=True)
os._exit(0)
