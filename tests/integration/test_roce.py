# SPDX-License-Identifier: BSD-2-Clause
"""The judge of captures, judged: a packet that Linux's rxe sent is good, and no other is like it."""
import pytest

import roce

# ib_send_bw -s 2 between two machines with rxe; from the IPv4 header on.
RXE = bytes.fromhex(
    '45000030dacd400040114b530a4d00020a4c0002'
    'c19012b7001c0000'
    '0420ffff0000001480e5f962' 'bbd40000' '3c5d337a')
VARIANT = {1, 8, 10, 11}                  # type of service, time to live, checksum of the header
VARIANT |= {26, 27}                       # UDP's checksum
VARIANT |= {32}                           # FECN, BECN and reserved bits


def test_a_packet_of_rxe():
    packet = roce.decode(1, 0.0, RXE)
    assert packet.icrc_good and packet.dont_fragment
    assert (packet.service, packet.operation, packet.place) == (roce.RC, 'send', roce.ONLY)
    assert (packet.qpn, packet.psn, packet.ack_req) == (0x14, 0xe5f962, True)
    assert (packet.pad, packet.payload) == (2, 2)


@pytest.mark.parametrize('at', range(len(RXE)))
def test_each_byte_counts(at):
    changed = bytearray(RXE)
    changed[at] ^= 0x10
    try:
        packet = roce.decode(1, 0.0, bytes(changed))
    except roce.Malformed:
        return
    assert packet is None or packet.icrc_good == (at in VARIANT)


def request(flow_psn, operation='send', place=roce.ONLY, payload=10, **fields):
    fields = {'service': roce.RC, 'ack_req': False, 'dma_length': None, **fields}
    others = {name: None for name in roce.Packet._fields
              if name not in ('psn', 'operation', 'place', 'payload', *fields)}
    return roce.Packet(psn=flow_psn % roce.PSNS, operation=operation, place=place, payload=payload,
                       **fields, **others)


def wrong(packets, mtu=1024):
    flow = roce.Flow(packets[0], mtu)
    return [error for error in map(flow.add, packets) if error]


F, M, L = roce.FIRST, roce.MIDDLE, roce.LAST


@pytest.mark.parametrize('packets', [
    [request(5), request(6), request(7)],
    [request(roce.PSNS - 1), request(0)],
    [request(5, place=F, payload=1024), request(6, place=M, payload=1024), request(7, place=L)],
    [request(5), request(6), request(5), request(6), request(7)],
    [request(5, 'read', dma_length=4097), request(10)],
    [request(5, 'read', dma_length=4097), request(7, 'read', dma_length=2049), request(10)],
])
def test_good_sequences(packets):
    assert not wrong(packets)


@pytest.mark.parametrize('packets, what', [
    ([request(5), request(7)], 'leaves 1'),
    ([request(5, service=roce.UC), request(5, service=roce.UC)], 'used again'),
    ([request(5, place=F, payload=1024), request(6)], 'before the end'),
    ([request(5), request(6, place=L)], 'within'),
    ([request(5, place=F, payload=1000), request(6, place=L)], 'not 1024'),
    ([request(5, 'read', dma_length=4097), request(10, 'read', dma_length=9),
      request(9, 'read', dma_length=1025)], 'goes beyond'),
    ([request(5, payload=1025)], 'more than the MTU'),
    ([request(5, place=F, payload=1024), request(6, place=L, payload=0)], 'empty last'),
])
def test_bad_sequences(packets, what):
    found = wrong(packets)
    assert found and what in found[0], found
