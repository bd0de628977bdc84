/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address - prints the GIDs of the device, and again, with it opened anew, for each line of
 * standard input.
 */
#include <arpa/inet.h>
#include <stdio.h>

#include "endpoint.h"

static void print_gids(void)
{
	struct ibv_context *context = endpoint_open_device();
	struct ibv_port_attr port;
	union ibv_gid gid;
	char text[INET6_ADDRSTRLEN];

	if (ibv_query_port(context, 1, &port))
		fail("ibv_query_port");
	for (int i = 0; i < port.gid_tbl_len; i++) {
		if (ibv_query_gid(context, 1, i, &gid))
			fail("ibv_query_gid %d", i);
		if (gid.global.subnet_prefix || gid.global.interface_id)
			printf("gid %d %s\n", i, inet_ntop(AF_INET6, gid.raw, text, sizeof(text)));
	}
	printf("end\n");
	ibv_close_device(context);
}

int run_address(const struct options *options)
{
	char line[64];

	do
		print_gids();
	while (fgets(line, sizeof(line), stdin));
	return 0;
}
