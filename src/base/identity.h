/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Identity - attributes of devices, as verbs and the view of sysfs show them.
 */
#ifndef BASE_IDENTITY_H
#define BASE_IDENTITY_H

/* An OUI that IEEE does not assign: bit 1 of its first byte is set. */
#define IDENTITY_VENDOR_ID	0x027662
#define IDENTITY_VENDOR_PART_ID 1 /* unless VERBATIM_VENDOR_PART_ID says otherwise */
#define IDENTITY_HW_VER		1
#define IDENTITY_BOARD_ID	"VRB0000000001"

/* Of the IBA's PortInfo; infiniband/verbs.h has no names for them. */
#define IDENTITY_PHYS_STATE_DISABLED 3
#define IDENTITY_PHYS_STATE_LINK_UP  5
#define IDENTITY_WIDTH_4X	     2
#define IDENTITY_SPEED_EDR	     32
#define IDENTITY_SPEED_100_MBPS	     1000 /* width times speed, in units of 100 Mbit/s */

#define IDENTITY_PORT_CAP_FLAGS IBV_PORT_CM_SUP
#define IDENTITY_ROCE_CAP_FLAGS IBV_PORT_IP_BASED_GIDS /* on Ethernet beside them */
#define IDENTITY_RNIC_CAP_FLAGS (IBV_PORT_CM_SUP | IBV_PORT_DEVICE_MGMT_SUP) /* as siw */
#define IDENTITY_PKEY		0xffff

#endif
