# SPDX-License-Identifier: BSD-2-Clause
"""Packets of an attacker on the network who has no key."""
import ipaddress
import random
import struct

import roce

PSN_MASK = roce.PSNS - 1


def datagram(source, target, body, source_port=50000, identification=1):
    """IPv4 and UDP around a UDP payload."""
    source, target = (ipaddress.ip_address(end).packed for end in (source, target))
    udp = struct.pack('>HHHH', source_port, roce.PORT, 8 + len(body), 0)
    ip = bytearray(struct.pack('>BBHHHBBH', 0x45, 2, 28 + len(body), identification, 0x4000, 64,
                               17, 0) + source + target)
    total = sum(struct.unpack('>10H', ip))
    total = (total & 0xffff) + (total >> 16)
    ip[10:12] = struct.pack('>H', ~(total + (total >> 16)) & 0xffff)
    return bytes(ip) + udp + body


def signed(source, target, body, **options):
    """The same with the ICRC behind it that makes it good; without, if there is too little for one."""
    if len(body) < 12:
        return datagram(source, target, body, **options)
    packet = datagram(source, target, body + bytes(4), **options)
    return packet[:-4] + roce.icrc(packet[:20], packet[20:28], packet[28:-4])


def bth(opcode, qpn, psn, flags=0, pkey=0xffff, ack_req=True):
    return struct.pack('>BBHII', opcode, flags, pkey, qpn, ack_req << 31 | psn & PSN_MASK)


def headers(operation, rkey, address, length):
    """Extended headers of the lower five bits of an opcode; sensible ones where there are such."""
    made = b''
    for header in roce.OPERATIONS.get(operation, ('', '', ''))[2].split():
        if header == 'reth':
            made += struct.pack('>QII', address, rkey, length)
        elif header == 'atomic':
            made += struct.pack('>QIQQ', address, rkey, 1, 0)
        else:
            made += bytes(roce.HEADER_BYTES[header])
    return made


class Victim:
    """A QP on the host `target`, connected with one on the host `peer`."""

    def __init__(self, peer, target, qpn, psn, rkey, addr, size=1 << 21):
        self.peer, self.target = peer, target
        self.qpn, self.psn, self.rkey, self.addr, self.bytes = qpn, psn, rkey, addr, size


def noise(victim, count, chance):
    """Random bytes of any length, some behind a plausible beginning."""
    for number in range(count):
        body = chance.randbytes(chance.choice([0, 1, 3, 4, 11, 12, 15, 16, 28, 100, 1052, 1440]))
        if number % 2:
            body = bth(chance.randrange(256), victim.qpn, chance.randrange(1 << 24),
                       chance.randrange(256), chance.randrange(1 << 16)) + body
        make = signed if number % 3 else datagram
        yield make(stranger(chance), victim.target, body)


def stranger(chance):
    return f'10.78.0.{chance.randrange(100, 250)}'


def truncated(victim, chance):
    """Packets of every opcode cut at every length, with a good ICRC and with none; from the peer."""
    for opcode in range(256):
        whole = bth(opcode, victim.qpn, ahead(victim, chance)) + headers(
            opcode & 31, victim.rkey, victim.addr, 64) + bytes(8)
        for length in range(0, len(whole), 3):
            yield signed(victim.peer, victim.target, whole[:length])
            yield datagram(victim.peer, victim.target, whole[:length])


def ahead(victim, chance):
    """A PSN that the connection will not come to, and has not come from, during a test."""
    return victim.psn + (1 << 22) + chance.randrange(1 << 21)


def forged_by_peer(victim, count, chance):
    """Every opcode with the right address, QP and key, and a PSN that is not the one expected."""
    for _ in range(count):
        opcode = chance.choice([0x0a, 0x0b, 0x06, 0x07, 0x08, 0x09, 0x13, 0x14, 0x0c, 0x00, 0x04,
                                0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12, 0x64, 0x81,
                                chance.randrange(256)])
        payload = b'' if opcode & 31 in (0x0c, 0x11, 0x12, 0x13, 0x14) else bytes(64)
        body = bth(opcode, victim.qpn, ahead(victim, chance)) + headers(
            opcode & 31, victim.rkey, victim.addr + 8 * chance.randrange(1000), len(payload))
        yield signed(victim.peer, victim.target, body + payload)


def forged_by_strangers(victim, count, chance):
    """The right QP, key and PSNs, from an address that is not the peer's."""
    for number in range(count):
        opcode = chance.choice([0x0a, 0x0b, 0x13, 0x14, 0x0c, 0x11, 0x04])
        payload = b'' if opcode in (0x0c, 0x11, 0x13, 0x14) else bytes(64)
        body = bth(opcode, victim.qpn, victim.psn + number) + headers(
            opcode & 31, victim.rkey, victim.addr + 8 * (number % 1000), len(payload))
        yield signed(stranger(chance), victim.target, body + payload)


def without_right(victim, count, chance):
    """From the peer's address, with every PSN that the connection may be at; what is wrong is the
    key, or the place, which lies before what the key is for or reaches behind it.
    """
    for number in range(count):
        opcode = chance.choice([0x0a, 0x0c, 0x13, 0x14])
        payload = bytes(64) if opcode == 0x0a else b''
        rkey, addr = chance.choice([
            (victim.rkey ^ chance.randrange(1, 1 << 32), victim.addr + 8 * chance.randrange(1000)),
            (victim.rkey, victim.addr - 4096), (victim.rkey, victim.addr + victim.bytes - 4)])
        body = bth(opcode, victim.qpn, victim.psn + number) + headers(opcode & 31, rkey, addr, 64)
        yield signed(victim.peer, victim.target, body + payload)


def wrong_targets(victim, count, chance):
    """QPs that do not exist, special ones, other services, odd header fields."""
    for _ in range(count):
        qpn = chance.choice([0, 1, 0xffffff, victim.qpn ^ 1, victim.qpn ^ 1 << 20,
                             chance.randrange(1 << 24)])
        opcode = chance.choice([0x04, 0x0a, 0x24, 0x2a, 0x64, 0x65, 0x81, 0xa4])
        body = bth(opcode, qpn, victim.psn, chance.choice([0, 0x0f, 0x30]),
                   chance.choice([0xffff, 0x7fff, 0]))
        body += chance.randbytes(8) if opcode >> 5 == 3 else b''
        body += headers(opcode & 31, victim.rkey, victim.addr, 64) + bytes(64)
        yield signed(chance.choice([victim.peer, stranger(chance)]), victim.target, body)


def replayed(path, target):
    """What a capture shows to have been sent to the target, once more."""
    for _, _, packet in roce.datagrams(path):
        if str(ipaddress.ip_address(packet[16:20])) == target:
            yield packet


def write(path, packets, chance):
    """In an order of chance; at most as many as the sender takes."""
    packets = list(packets)
    chance.shuffle(packets)
    with open(path, 'wb') as file:
        for packet in packets[:65536]:
            file.write(struct.pack('=I', len(packet)) + packet)
    return len(packets)


def chance(seed):
    return random.Random(seed)
