# SPDX-License-Identifier: BSD-2-Clause
"""Reads captures of RoCEv2 and checks them: an implementation of the formats and of the ICRC that
shares nothing with the one it checks.

In:  a pcap file with Ethernet frames (IBA annex A17, volume 1 chapter 9).
Out: Packet, one for each; `check` returns what is wrong, as sentences.
"""
import collections
import ipaddress
import struct
import subprocess
import zlib

PORT = 4791
PSNS = 1 << 24

RC, UC, RD, UD, CNP, XRC = 0, 1, 2, 3, 4, 5
FIRST, MIDDLE, LAST, ONLY = 'first', 'middle', 'last', 'only'

# The lower five bits of an opcode: what it is, its place in the message, its headers.
OPERATIONS = {
    0x00: ('send', FIRST, ''), 0x01: ('send', MIDDLE, ''), 0x02: ('send', LAST, ''),
    0x03: ('send', LAST, 'imm'), 0x04: ('send', ONLY, ''), 0x05: ('send', ONLY, 'imm'),
    0x06: ('write', FIRST, 'reth'), 0x07: ('write', MIDDLE, ''), 0x08: ('write', LAST, ''),
    0x09: ('write', LAST, 'imm'), 0x0a: ('write', ONLY, 'reth'), 0x0b: ('write', ONLY, 'reth imm'),
    0x0c: ('read', ONLY, 'reth'),
    0x0d: ('response', FIRST, 'aeth'), 0x0e: ('response', MIDDLE, ''),
    0x0f: ('response', LAST, 'aeth'), 0x10: ('response', ONLY, 'aeth'),
    0x11: ('ack', ONLY, 'aeth'), 0x12: ('atomic_ack', ONLY, 'aeth atomic_ack'),
    0x13: ('atomic', ONLY, 'atomic'), 0x14: ('atomic', ONLY, 'atomic'),
    0x16: ('send', LAST, 'ieth'), 0x17: ('send', ONLY, 'ieth'),
    0x1c: ('flush', ONLY, 'feth reth'), 0x1d: ('atomic_write', ONLY, 'reth'),  # annex A19
}
SERVICE_OPERATIONS = {
    RC: set(OPERATIONS), UC: set(range(0x0c)), UD: {0x04, 0x05},
    XRC: set(OPERATIONS),
}
RELIABLE = (RC, XRC)
HEADER_BYTES = {'imm': 4, 'reth': 16, 'aeth': 4, 'atomic_ack': 8, 'atomic': 28, 'ieth': 4, 'feth': 4}
ANSWERED = ('read', 'atomic', 'flush', 'atomic_write')  # by responses
REQUESTS = ('send', 'write', *ANSWERED)
GAP_REPORT = 0x08  # of the reserved bits beside AckReq (docs/design/transport.md)
NAK_SEQUENCE = 0x60
KEPT_PSNS = 1024  # that a responder keeps behind the missing one

Packet = collections.namedtuple(
    'Packet', 'number time source target source_port dont_fragment identification icrc_good bytes '
    'service operation place pad ack_req qpn psn dma_length syndrome msn source_qpn srqn payload')


def icrc(ip, udp, roce):
    """Of an IP header, a UDP header and what follows up to the ICRC; as it stands in the packet."""
    if ip[0] >> 4 == 4:
        header = bytearray(ip)
        header[1] = header[8] = 0xff             # type of service, time to live
        header[10:12] = b'\xff\xff'              # checksum
    else:
        header = bytearray(ip)
        header[0:4] = bytes([ip[0] | 0x0f, 0xff, 0xff, 0xff])  # traffic class, flow label
        header[7] = 0xff                         # hop limit
    bth = bytearray(roce)
    bth[4] = 0xff                                # reserved, with FECN and BECN
    masked = b'\xff' * 8 + header + udp[:6] + b'\xff\xff' + bth
    return struct.pack('<I', zlib.crc32(masked))


def datagrams(path):
    """(number, seconds, IP datagram) of each frame with IPv4 or IPv6, without Ethernet's padding."""
    with open(path, 'rb') as file:
        data = file.read()
    magic, = struct.unpack_from('<I', data)
    assert magic in (0xa1b2c3d4, 0xa1b23c4d), f'{path} is no pcap file of this machine'
    fraction = 1e-6 if magic == 0xa1b2c3d4 else 1e-9
    link_type, = struct.unpack_from('<I', data, 20)
    assert link_type == 1, f'{path}: link type {link_type} is not Ethernet'
    at, number = 24, 0
    while at + 16 <= len(data):
        seconds, part, length, original = struct.unpack_from('<IIII', data, at)
        at += 16
        number += 1
        assert length == original, f'frame {number} is cut'
        frame = data[at:at + length]
        at += length
        kind, = struct.unpack_from('>H', frame, 12)
        if kind == 0x0800:
            yield number, seconds + part * fraction, frame[14:14 + int.from_bytes(frame[16:18], 'big')]
        elif kind == 0x86dd:
            size = 40 + int.from_bytes(frame[18:20], 'big')
            yield number, seconds + part * fraction, frame[14:14 + size]


class Malformed(Exception):
    pass


def decode_notification(ip, roce):
    """What is wrong with a CNP (annex A17.9.3), or None."""
    ecn = (ip[1] if ip[0] >> 4 == 4 else ip[1] >> 4) & 3
    if roce[0] & 0x1f != 1:
        return f'opcode {roce[0]:#x}'
    if ecn:
        return f'a CNP with ECN bits {ecn}: routers may mark it'
    if not roce[4] & 0x40:
        return 'a CNP without BECN'
    if roce[12:] != bytes(16):
        return f'a CNP with {roce[12:].hex()}'
    return None


def decode(number, time, datagram):
    """A Packet; None if it is not for RoCE's port."""
    if datagram[0] >> 4 == 4:
        header_bytes = (datagram[0] & 15) * 4
        identification, fragment = struct.unpack_from('>HH', datagram, 4)
        protocol = datagram[9]
        source, target = datagram[12:16], datagram[16:20]
    else:
        header_bytes, identification, fragment = 40, None, 0x4000
        protocol = datagram[6]
        source, target = datagram[8:24], datagram[24:40]
    if protocol != 17:
        return None
    if fragment & 0x3fff:
        raise Malformed('a fragment')
    ip, udp = datagram[:header_bytes], datagram[header_bytes:header_bytes + 8]
    source_port, target_port, udp_bytes = struct.unpack_from('>HHH', udp)
    if target_port != PORT:
        return None
    body = datagram[header_bytes + 8:]
    if udp_bytes != len(body) + 8:
        raise Malformed(f'UDP says {udp_bytes} bytes, there are {len(body) + 8}')
    if len(body) < 16:
        raise Malformed(f'{len(body)} bytes are too few')
    roce, received = body[:-4], body[-4:]
    opcode, flags, pkey, word, last = struct.unpack_from('>BBHII', roce)
    service, operation = opcode >> 5, opcode & 0x1f
    if service == CNP:
        error = decode_notification(ip, roce)
        if error:
            raise Malformed(error)
    elif operation not in SERVICE_OPERATIONS.get(service, ()):
        raise Malformed(f'opcode {opcode:#x}')
    if flags & 0x0f:
        raise Malformed('version of the transport header')
    if pkey & 0x7fff != 0x7fff:
        raise Malformed(f'P_Key {pkey:#x}')
    kind, place, headers = ('cnp', ONLY, '') if service == CNP else OPERATIONS[operation]
    at = 12
    fields = dict(dma_length=None, syndrome=None, msn=None, source_qpn=None, srqn=None)
    if service == UD:
        fields['source_qpn'] = int.from_bytes(roce[17:20], 'big')
        at += 8
    if service == XRC and kind in REQUESTS:
        fields['srqn'] = int.from_bytes(roce[13:16], 'big')
        at += 4
    for header in headers.split():
        if len(roce) < at + HEADER_BYTES[header]:
            raise Malformed(f'cut in its headers ({len(roce)} bytes, opcode {opcode:#x})')
        if header == 'reth':
            fields['dma_length'], = struct.unpack_from('>I', roce, at + 12)
        elif header == 'aeth':
            fields['syndrome'] = roce[at]
            fields['msn'] = int.from_bytes(roce[at + 1:at + 4], 'big')
            if kind == 'ack' and last >> 24 & GAP_REPORT:
                missing, fields['msn'] = fields['msn'], None
                if fields['syndrome'] != NAK_SEQUENCE or not 1 <= missing < KEPT_PSNS:
                    raise Malformed(f'gap report of {missing} packets, syndrome {fields["syndrome"]:#x}')
        at += HEADER_BYTES[header]
    pad = flags >> 4 & 3
    payload = len(roce) - at - pad
    if payload < 0 or len(roce) % 4:
        raise Malformed(f'{len(roce)} bytes with {pad} of padding, opcode {opcode:#x}')
    if payload and kind in ('read', 'ack', 'atomic', 'atomic_ack', 'flush'):
        raise Malformed(f'payload of a {kind}')
    if kind == 'atomic_write' and (payload != 8 or fields['dma_length'] != 8):
        raise Malformed(f'{payload} bytes of an ATOMIC WRITE, which says {fields["dma_length"]}')
    if kind == 'flush' and not 1 <= roce[at - 17] & 15 <= 3:
        raise Malformed(f'FLUSH with placement type {roce[at - 17] & 15}')
    return Packet(
        number=number, time=time, source=str(ipaddress.ip_address(source)),
        target=str(ipaddress.ip_address(target)), source_port=source_port,
        dont_fragment=bool(fragment & 0x4000), identification=identification,
        icrc_good=icrc(ip, udp, roce) == received, bytes=len(datagram), service=service,
        operation=kind, place=place, pad=pad, ack_req=bool(last >> 31), qpn=word & 0xffffff,
        psn=last & 0xffffff, payload=payload, **fields)


def distance(a, b):
    """How far PSN a is behind PSN b in their circle; negative: before it."""
    return (a - b + PSNS // 2) % PSNS - PSNS // 2


class Flow:
    """The requests of one QP, towards one QP."""

    def __init__(self, first, mtu):
        self.mtu = mtu
        self.next = first.psn       # the PSN that no packet has had yet
        self.message = None         # 'send' or 'write' while a message of that kind has not ended
        self.reads = []             # (first PSN, how many) of each READ request, oldest first
        self.highest_needed = None  # the last PSN for which an answer is due
        self.repeated = 0
        self.packets = 0
        self.sizes = collections.Counter()
        self.ahead = {}  # packets behind a gap, by PSN

    def psns_of(self, packet):
        if packet.operation != 'read':
            return 1
        return max(1, -(-packet.dma_length // self.mtu))

    def add(self, packet):
        """What is wrong with the next packet of the flow, or None. Those behind a gap count once it is filled."""
        self.packets += 1
        wrong = self.add_next(packet)
        while self.next in self.ahead:
            wrong = self.add_next(self.ahead.pop(self.next)) or wrong
        return wrong

    def add_next(self, packet):
        behind = distance(packet.psn, self.next)
        if behind > 0:
            self.ahead[packet.psn] = packet
            return f'PSN {packet.psn} leaves {behind} PSNs out'
        psns = self.psns_of(packet)
        if behind < 0:
            self.repeated += 1
            if packet.service not in RELIABLE:
                return f'PSN {packet.psn} is used again by a service that repeats nothing'
            if behind + psns > 0 and packet.operation != 'read':
                return f'PSN {packet.psn} is used again for something longer'
            if packet.operation == 'read':
                return self.repeat_read(packet, psns)
            if behind + psns < 0:
                return None
            # The last one that was sent before: what follows goes on from here.
            self.message = packet.operation if packet.place in (FIRST, MIDDLE) else None
            return None
        self.next = (packet.psn + psns) % PSNS
        if packet.operation == 'read':
            self.reads.append((packet.psn, psns))
        if packet.service in RELIABLE and (packet.ack_req or packet.operation in ANSWERED):
            self.highest_needed = (self.next - 1) % PSNS
        before, self.message = self.message, (
            packet.operation if packet.place in (FIRST, MIDDLE) else None)
        if packet.place in (MIDDLE, LAST) and before != packet.operation:
            return f'{packet.operation} {packet.place} within {before}'
        if packet.place in (FIRST, ONLY) and before:
            return f'{packet.operation} {packet.place} before the end of {before}'
        if packet.place in (FIRST, MIDDLE) and packet.payload != self.mtu:
            return f'{packet.place} with {packet.payload} bytes, not {self.mtu}'
        if packet.payload > self.mtu:
            return f'{packet.payload} bytes are more than the MTU, {self.mtu}'
        if packet.place == LAST and packet.payload == 0:
            return 'an empty last packet'
        return None


    def repeat_read(self, packet, psns):
        """A responder executes what is a part of one request that it had, and nothing else."""
        for first, count in reversed(self.reads):
            ahead = distance(packet.psn, first)
            if 0 <= ahead < count:
                if ahead + psns <= count:
                    return None
                end = distance((packet.psn + psns) % PSNS, self.next)
                if end > 0:
                    self.next = (self.next + end) % PSNS
                return (f'READ of {psns} PSNs from {packet.psn} repeats one of {count} from {first} '
                        f'and goes beyond it')
        return f'READ of {psns} PSNs from {packet.psn} repeats no request that there was'


class Answers:
    """What comes back to a QP. `reused`: its number may be that of several QPs, one after the other."""

    def __init__(self, reused=False):
        self.reused = reused
        self.highest = None
        self.msn = None
        self.naks = collections.Counter()

    def add(self, packet):
        new = self.highest is None or distance(packet.psn, self.highest) > 0
        if packet.syndrome is not None and packet.syndrome >> 5:
            self.naks[{1: 'rnr', 3: f'nak {packet.syndrome & 31}'}.get(
                packet.syndrome >> 5, 'reserved')] += 1
            if packet.syndrome >> 5 == 2 or packet.syndrome >> 5 > 3:
                return f'syndrome {packet.syndrome:#x}'
        elif new:
            self.highest = packet.psn
        return self.add_msn(packet, new)

    def add_msn(self, packet, new):
        """A responder tells how many messages it has completed, whatever it answers, and repeats."""
        if packet.msn is None or self.reused:
            return None
        if self.msn is not None and distance(packet.msn, self.msn) < 0:
            # Of two threads that acknowledge, the one with more to tell was quicker: no harm done.
            if packet.operation == 'ack' and not new:
                return None
            return f'MSN {packet.msn} after {self.msn}'
        self.msn = packet.msn
        return None


class Report:
    """What a capture holds. `wrong` are the sentences of what must not be."""

    def __init__(self):
        self.wrong = []
        self.packets = 0
        self.by_operation = collections.Counter()  # (service, operation)
        self.by_direction = collections.Counter()  # (source, target) addresses
        self.flows = {}
        self.answers = {}
        self.identifications = collections.defaultdict(set)  # of each source address
        self.zero_identifications = 0
        self.largest = 0

    @property
    def repeated(self):
        return sum(flow.repeated for flow in self.flows.values())

    @property
    def naks(self):
        return sum((answers.naks for answers in self.answers.values()), collections.Counter())

    def __str__(self):
        names = {CNP: 'CNP', RC: 'RC', UC: 'UC', UD: 'UD', XRC: 'XRC'}
        kinds = ', '.join(f'{names[service]} {operation} {count}' for (service, operation), count
                          in sorted(self.by_operation.items()))
        return (f'{self.packets} packets ({kinds}), {len(self.flows)} flows, '
                f'{self.repeated} repeated, {dict(self.naks)}')


def read(path, mtu, ends=True, reused=False):
    """A Report of a capture in which the path MTU is `mtu`. `ends`: the programs saw to it that all
    they sent was acknowledged before they ended. `reused`: some ended before others began, so that QP
    numbers may have been given twice.

    A flow is known by the destination QP and the source address: with UD by the source QP, too.
    Answers of RC belong to the other direction; which flow they answer is known only from what the
    programs agreed on, so the check of ends pairs flows and answers as far as PSNs tell.
    """
    report = Report()
    for number, time, datagram in datagrams(path):
        try:
            packet = decode(number, time, datagram)
        except Malformed as error:
            report.wrong.append(f'frame {number}: {error}')
            continue
        if packet is None:
            continue
        report.packets += 1
        report.by_operation[packet.service, packet.operation] += 1
        report.by_direction[packet.source, packet.target] += 1
        report.largest = max(report.largest, packet.bytes)
        if not packet.icrc_good:
            report.wrong.append(f'frame {number}: wrong ICRC ({packet.bytes} bytes)')
        if not packet.dont_fragment:
            report.wrong.append(f'frame {number}: may be fragmented')
        if packet.operation == 'cnp':
            continue
        if packet.operation in REQUESTS:
            key = (packet.source, packet.target, packet.qpn, packet.source_qpn)
            flow = report.flows.get(key)
            # A GSI (QP 1) that its host had closed for want of connections begins anew.
            if flow is None or (packet.service == UD and packet.qpn == 1 and packet.psn == 0):
                flow = report.flows[key] = Flow(packet, mtu)
            error = flow.add(packet)
        else:
            key = (packet.source, packet.target, packet.qpn)
            answers = report.answers.setdefault(key, Answers(reused))
            error = answers.add(packet)
        if error:
            report.wrong.append(f'frame {number}, to QP {packet.qpn:#x}: {error}')
    if ends:
        _check_ends(report)
    return report


def _check_ends(report):
    """Each RC flow that asked for an answer got one: some stream of answers in the other direction
    has come to exactly its end.
    """
    ends = collections.defaultdict(collections.Counter)
    for (source, target, _), answers in report.answers.items():
        if answers.highest is not None:
            ends[target, source][answers.highest] += 1
    for (source, target, qpn, _), flow in report.flows.items():
        if flow.highest_needed is None:
            continue
        found = ends[source, target]
        reached = [psn for psn in found if 0 <= distance(psn, flow.highest_needed)
                   < distance(flow.next, flow.highest_needed)]
        if not reached:
            report.wrong.append(f'requests to QP {qpn:#x}: PSN {flow.highest_needed} was to be '
                                f'acknowledged and was not ({sorted(found)})')


# What tshark would guess from the first bytes of a payload. Patterns are none of these.
GUESSED = ['smb_direct', 'rpcordma', 'nvme-rdma', 'lnet', 'iser', 'infiniband_sdp', 'fcoib', 'smc']
HEURISTICS = ['eth_over_ib', 'mellanox_eoib']


def dissect(path):
    """What tshark takes for malformed, or for an error: one line each."""
    without = [word for name in GUESSED for word in ('--disable-protocol', name)]
    without += [word for name in HEURISTICS for word in ('--disable-heuristic', name)]
    done = subprocess.run(
        # rxe has no UDP checksum, over IPv6 either: the ICRC covers what that would.
        ['tshark', '-n', '-o', 'udp.ignore_ipv6_zero_checksum:TRUE', '-r', str(path), *without, '-Y',
         'udp.dstport == 4791 && (_ws.malformed || _ws.expert.severity == error || !infiniband)',
         '-T', 'fields', '-e', 'frame.number', '-e', '_ws.col.Protocol', '-e', '_ws.expert.message'],
        capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def check(path, mtu, ends=True, reused=False):
    """The Report of a capture; an error if anything in it is wrong."""
    report = read(path, mtu, ends, reused)
    wrong = report.wrong + dissect(path)
    assert not wrong, (f'{report}\n{len(wrong)} things are wrong:\n' + '\n'.join(wrong[:20]))
    assert report.packets, f'{path} holds no packets'
    return report
