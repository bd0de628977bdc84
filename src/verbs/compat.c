/*
 * The names of IBVERBS_1.0 whose structs had another layout before 2007, and one of 1.1.
 *
 * No program that is still built binds to them. They exist so that a very old one starts and gets
 * an error: the first thing it asks for, the list of devices, is empty.
 */
#include <stdint.h>

#include "verbs/answer.h"

#define COMPAT(answer, name)                                                                       \
	answer(compat_##name) VERBS_VERSION(compat_##name, ibv_##name, "@IBVERBS_1.0")

VERBS_EXPORT void *compat_get_device_list(int *num_devices);
void *compat_get_device_list(int *num_devices)
{
	if (num_devices)
		*num_devices = 0;
	errno = EOPNOTSUPP;
	return NULL;
}
VERBS_VERSION(compat_get_device_list, ibv_get_device_list, "@IBVERBS_1.0");

VERBS_EXPORT uint64_t compat_get_device_guid(void);
uint64_t compat_get_device_guid(void)
{
	return 0;
}
VERBS_VERSION(compat_get_device_guid, ibv_get_device_guid, "@IBVERBS_1.0");

COMPAT(ANSWER_NOTHING, ack_async_event);
COMPAT(ANSWER_NOTHING, ack_cq_events);
COMPAT(ANSWER_NULL, alloc_pd);
COMPAT(ANSWER_ERRNO, attach_mcast);
COMPAT(ANSWER_ERRNO, close_device);
COMPAT(ANSWER_NULL, create_ah);
COMPAT(ANSWER_NULL, create_cq);
COMPAT(ANSWER_NULL, create_qp);
COMPAT(ANSWER_NULL, create_srq);
COMPAT(ANSWER_ERRNO, dealloc_pd);
COMPAT(ANSWER_ERRNO, dereg_mr);
COMPAT(ANSWER_ERRNO, destroy_ah);
COMPAT(ANSWER_ERRNO, destroy_cq);
COMPAT(ANSWER_ERRNO, destroy_qp);
COMPAT(ANSWER_ERRNO, destroy_srq);
COMPAT(ANSWER_ERRNO, detach_mcast);
COMPAT(ANSWER_NOTHING, free_device_list);
COMPAT(ANSWER_MINUS_ONE, get_async_event);
COMPAT(ANSWER_MINUS_ONE, get_cq_event);
COMPAT(ANSWER_NULL, get_device_name);
COMPAT(ANSWER_ERRNO, modify_qp);
COMPAT(ANSWER_ERRNO, modify_srq);
COMPAT(ANSWER_NULL, open_device);
COMPAT(ANSWER_ERRNO, query_device);
COMPAT(ANSWER_MINUS_ONE, query_gid);
COMPAT(ANSWER_MINUS_ONE, query_pkey);
COMPAT(ANSWER_ERRNO, query_port);
COMPAT(ANSWER_ERRNO, query_qp);
COMPAT(ANSWER_ERRNO, query_srq);
COMPAT(ANSWER_NULL, reg_mr);
COMPAT(ANSWER_ERRNO, resize_cq);

/* Providers of before 2010 registered themselves with this. */
ANSWER_NOTHING(compat_register_driver)
VERBS_VERSION(compat_register_driver, ibv_register_driver, "@IBVERBS_1.1");
