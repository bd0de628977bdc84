/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Grh - preloaded into programs with rdma-core's datagram rsockets on Ethernet.
 *
 * Such an rsocket makes an address handle of its own QP by LID alone, to send itself datagrams that
 * came over UDP. Ethernet ports have no LID, so the handle is refused, and with it every datagram
 * rsocket. This library adds the missing GRH: the port's own IPv4 address. All else is rdma-core's.
 */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <string.h>

#define ENTRIES 16

static int find_ipv4(struct ibv_pd *pd, uint8_t port, union ibv_gid *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	for (int i = 0; i < ENTRIES; i++)
		if (!ibv_query_gid(pd->context, port, i, gid) &&
		    !memcmp(gid->raw, mapped, sizeof(mapped)))
			return i;
	return -1;
}

__attribute__((visibility("default"))) struct ibv_ah *ibv_create_ah(struct ibv_pd *pd,
								    struct ibv_ah_attr *attr)
{
	struct ibv_ah *(*next)(struct ibv_pd *, struct ibv_ah_attr *) =
		dlsym(RTLD_NEXT, "ibv_create_ah");
	struct ibv_ah_attr global = *attr;
	int index;

	if (attr->is_global)
		return next(pd, attr);
	index = find_ipv4(pd, attr->port_num, &global.grh.dgid);
	if (index < 0)
		return next(pd, attr);
	global.is_global = 1;
	global.grh.sgid_index = (uint8_t)index;
	global.grh.hop_limit = 64;
	return next(pd, &global);
}
