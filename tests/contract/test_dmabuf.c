/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Dma-bufs as memory regions: rule 9. Made of a memfd by /dev/udmabuf, where the kernel has it and
 * lets us.
 */
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "expect.h"

#define BYTES 65536

/* The dma-buf, and where its memory is mapped by itself. */
static int make_dmabuf(char **memory)
{
	struct udmabuf_create create = { .flags = UDMABUF_FLAGS_CLOEXEC, .size = BYTES };
	int device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC), fd;

	if (device < 0)
		skip_because("/dev/udmabuf: %s", strerror(errno));
	create.memfd = (uint32_t)memfd_create("dmabuf", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	REQUIRE(ftruncate((int)create.memfd, BYTES) == 0 &&
			fcntl((int)create.memfd, F_ADD_SEALS, F_SEAL_SHRINK) == 0,
		"a memfd");
	*memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, (int)create.memfd, 0);
	REQUIRE(*memory != MAP_FAILED, "mmap");
	fd = ioctl(device, UDMABUF_CREATE, &create);
	if (fd < 0)
		skip_because("UDMABUF_CREATE: %s", strerror(errno));
	close(device);
	return fd;
}

static void rule_09_dmabuf(struct pair *pair)
{
	struct end *a = &pair->a, *b = &pair->b;
	struct ibv_mr *mr;
	char *memory;
	int fd = make_dmabuf(&memory);

	pair_connect(pair, WITH());
	mr = ibv_reg_dmabuf_mr(a->side->pd, 4096, BYTES - 4096, 0x1000000, fd, ACCESS_ALL);
	if (!mr && errno == EOPNOTSUPP)
		skip_because("this kernel does not let a process copy there");
	REQUIRE(mr, "ibv_reg_dmabuf_mr: %s", strerror(errno));
	close(fd); /* the region has one of its own */
	for (int i = 0; i < 8192; i++)
		memory[4096 + i] = (char)pattern(5, (uint64_t)i);
	post_send(a, 0,
		  WRITE(b, 0, .wr_id = 1, .num_sge = 1, .sge = { { 0x1000000, 8192, mr->lkey } }));
	expect(a, SENDS, 1, IBV_WC_SUCCESS);
	expect_bytes(b, 0, 8192, 5);
	post_send(b, 0,
		  REQUEST(.wr_id = 2, .opcode = IBV_WR_RDMA_WRITE, .remote = 0x1000000 + 8192,
			  .rkey = mr->rkey, .length = 8192));
	expect(b, SENDS, 2, IBV_WC_SUCCESS);
	REQUIRE(!memcmp(memory + 4096, memory + 4096 + 8192, 8192), "other bytes came");
	post_send(b, 0,
		  REQUEST(.wr_id = 3, .opcode = IBV_WR_RDMA_WRITE,
			  .remote = 0x1000000 + BYTES - 4096, .rkey = mr->rkey, .length = 1));
	expect(b, SENDS, 3, IBV_WC_REM_ACCESS_ERR);
	REQUIRE(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

static void rule_09_dmabuf_bad_arguments(struct pair *pair)
{
	struct side *side = side_open(WITH());
	char *memory;
	int fd = make_dmabuf(&memory);

	REQUIRE(!ibv_reg_dmabuf_mr(side->pd, 4096, BYTES, 0, fd, IBV_ACCESS_LOCAL_WRITE) &&
			errno == EINVAL,
		"beyond its end: %d", errno);
	REQUIRE(!ibv_reg_dmabuf_mr(side->pd, 0, 4096, 0, fd, IBV_ACCESS_REMOTE_WRITE),
		"without LOCAL_WRITE");
	if (errno == EOPNOTSUPP)
		skip_because("ibv_reg_dmabuf_mr: %s", strerror(errno));
	REQUIRE(!ibv_reg_dmabuf_mr(side->pd, 0, 4096, 64, fd, IBV_ACCESS_LOCAL_WRITE) &&
			errno == EINVAL,
		"an iova with another offset in the page: %d", errno);
	REQUIRE(!ibv_reg_dmabuf_mr(side->pd, 0, 4096, 0, fd,
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND) &&
			errno == EINVAL,
		"MW_BIND, which ibv_reg_mr(3) does not name: %d", errno);
}

static const struct test tests[] = {
	HERE(rule_09_dmabuf),
	HERE(rule_09_dmabuf_bad_arguments),
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
