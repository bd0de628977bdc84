#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes vectors.h: packets with their ICRC from an independent implementation, scapy's RoCE layer.

    tests/unit/packet/vectors.py >tests/unit/packet/vectors.h

scapy knows the BTH, the AETH, and the ICRC over IPv4. Other headers are packed here, field by field as in
IBA 9.2 and 9.3; the ICRC over IPv6 is zlib's CRC over scapy's own IPv6 packet, masked as annex A17 says.
Needs python3-scapy; building and testing do not.
"""
import struct
import zlib

from scapy.contrib.roce import AETH, BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Raw

FIELDS = {
    'deth': ('!II', 'qkey', 'src_qpn'),
    'xrceth': ('!I', 'xrc_srqn'),
    'reth': ('!QII', 'va', 'rkey', 'length'),
    'atomic': ('!QIQQ', 'va', 'rkey', 'swap_add', 'compare'),
    'result': ('!Q', 'atomic_result'),
    'imm': ('!I', 'imm'),
    'ieth': ('!I', 'invalidate_rkey'),
    'feth': ('!I', 'flush'),
}
VALUES = {
    'qkey': 0x80010203, 'src_qpn': 0xabcdef, 'xrc_srqn': 0x123456, 'va': 0x7f0011223344f5a1,
    'rkey': 0xdeadbeef, 'length': 0x40000123, 'swap_add': 0x0102030405060708,
    'compare': 0xf1f2f3f4f5f6f7f8, 'atomic_result': 0x99aabbccddeeff01, 'imm': 0xcafe1234,
    'invalidate_rkey': 0x0badf00d, 'flush': 0x13,
}

# lower five bits: headers in the order of the wire, whether there may be payload
REQUESTS = {
    0x00: ('', 1), 0x01: ('', 1), 0x02: ('', 1), 0x03: ('imm', 1), 0x04: ('', 1), 0x05: ('imm', 1),
    0x06: ('reth', 1), 0x07: ('', 1), 0x08: ('', 1), 0x09: ('imm', 1), 0x0a: ('reth', 1),
    0x0b: ('reth imm', 1),
}
ANSWERED = {
    0x0c: ('reth', 0), 0x13: ('atomic', 0), 0x14: ('atomic', 0), 0x16: ('ieth', 1),
    0x17: ('ieth', 1),
}
ANSWERS = {
    0x0d: ('aeth', 1), 0x0e: ('', 1), 0x0f: ('aeth', 1), 0x10: ('aeth', 1), 0x11: ('aeth', 0),
    0x12: ('aeth result', 0),
}
PLACEMENT = {0x1c: ('feth reth', 0), 0x1d: ('reth', 1)}  # annex A19


def opcodes():
    """Every opcode with its headers."""
    for low, row in {**REQUESTS, **ANSWERED, **ANSWERS}.items():
        yield low, *row
    for low, row in REQUESTS.items():
        yield 0x20 | low, *row
    yield 0x64, 'deth', 1
    yield 0x65, 'deth imm', 1
    yield 0x81, '', 1
    for low, (headers, payload) in {**REQUESTS, **ANSWERED}.items():
        yield 0xa0 | low, f'xrceth {headers}'.strip(), payload
    for low, row in ANSWERS.items():
        yield 0xa0 | low, *row
    for low, (headers, payload) in PLACEMENT.items():
        yield low, headers, payload
        yield 0xa0 | low, f'xrceth {headers}', payload


def extended(headers):
    for header in headers.split():
        if header == 'aeth':
            yield bytes(AETH(syndrome=0x1f, msn=0xfedcba))
        else:
            form, *names = FIELDS[header]
            yield struct.pack(form, *(VALUES[name] for name in names))


def with_icrc(ip, packet):
    """From the BTH to the end of the ICRC."""
    if isinstance(ip, IP):
        return bytes(ip / packet)[28:]
    packet[BTH].icrc = 0
    body = bytes(packet[BTH])[:-4]
    whole = bytearray(bytes(ip / UDP(sport=packet.sport, dport=4791) / Raw(body + bytes(4))))
    whole[0:4] = b'\x6f\xff\xff\xff'
    whole[7] = 0xff
    whole[46:48] = b'\xff\xff'
    whole[52] = 0xff
    return body + struct.pack('<I', zlib.crc32(b'\xff' * 8 + whole[:-4]))


def vector(number, opcode, headers, may_have_payload, v6):
    payload_bytes = 0
    if opcode == 0x81:
        payload_bytes = 16
    elif may_have_payload:
        payload_bytes = (0, 1, 2, 3, 4, 64, 257, 1024)[number % 8]
    pad = -payload_bytes % 4
    payload = bytes((number + 7 * i) & 0xff for i in range(payload_bytes))
    flags = number + 1
    bth = BTH(opcode=opcode, solicited=flags & 1, migreq=flags >> 1 & 1, padcount=pad, pkey=0xffff,
              fecn=flags >> 2 & 1, becn=flags >> 3 & 1, dqpn=0x80_0001 + number,
              ackreq=flags >> 4 & 1, psn=(0xfffff0 + number) & 0xffffff)
    packet = UDP(sport=49152 + number, dport=4791) / bth / Raw(
        b''.join(extended(headers)) + payload + bytes(pad))
    if v6:
        ip = IPv6(src='fd00::1:2', dst='2001:db8:aa:bb::ff', tc=2, fl=0x12345, hlim=3)
    else:
        ip = IP(src='10.1.2.3', dst='192.168.250.7', flags='DF', id=number * 1237 & 0xffff, tos=2,
                ttl=9)
    return payload_bytes, pad, with_icrc(ip, packet)


def main():
    print('/* SPDX-License-Identifier: BSD-2-Clause */')
    print('/* Made by vectors.py. */')
    print('static const struct vector vectors[] = {')
    number = 0
    for opcode, headers, may_have_payload in opcodes():
        for v6 in (False, True):
            payload_bytes, pad, data = vector(number, opcode, headers, may_have_payload, v6)
            text = data.hex()
            lines = '\n\t  '.join(f'"{text[i:i + 80]}"' for i in range(0, len(text), 80))
            identification = 0 if v6 else number * 1237 & 0xffff
            print(f'\t{{ {number}, 0x{opcode:02x}, {int(v6)}, {identification}, {payload_bytes}, '
                  f'{pad},\n\t  {lines} }},')
            number += 1
    print('};')


if __name__ == '__main__':
    main()
