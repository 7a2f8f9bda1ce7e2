/* SPDX-License-Identifier: Apache-2.0 */
/* NVMe commands as the kernel's own header lays them out, namespaces as the specification describes them, and what is none. */
#include <errno.h>
#include <fcntl.h>
#include <linux/nvme_ioctl.h>
#include <stddef.h>
#include <unistd.h>

#include "engines/nvme.h"
#include "fixture.h"

#define SAME_PLACE(ours, theirs)                                                                                             \
	_Static_assert(offsetof(struct nvme_command, ours) == offsetof(struct nvme_uring_cmd, theirs), #ours)

_Static_assert(sizeof(struct nvme_command) == sizeof(struct nvme_uring_cmd), "size");
SAME_PLACE(opcode, opcode);
SAME_PLACE(nsid, nsid);
SAME_PLACE(metadata, metadata);
SAME_PLACE(addr, addr);
SAME_PLACE(data_len, data_len);
SAME_PLACE(cdw10, cdw10);
SAME_PLACE(cdw12, cdw12);
SAME_PLACE(timeout_ms, timeout_ms);

static void encodes(void)
{
	struct nvme_namespace ns = {.nsid = 3, .lba_shift = 12, .bytes = UINT64_C(1) << 50};
	struct nvme_command command;
	struct nvme_uring_cmd seen;
	char buf[1];

	memset(&command, 0, sizeof(command));
	/* Block 0x1_2345_6789 of 4 KiB, 128 KiB long: 32 blocks, counted from 0. */
	gpuio_nvme_encode(&command, &ns, GPUIO_READ, buf, 131072, UINT64_C(0x123456789) << 12);
	memcpy(&seen, &command, sizeof(seen));
	CHECK_EQ(seen.opcode, 2);
	CHECK_EQ(seen.nsid, 3);
	CHECK(seen.addr == (uintptr_t)buf);
	CHECK_EQ(seen.data_len, 131072);
	CHECK_EQ(seen.cdw10, 0x23456789);
	CHECK_EQ(seen.cdw11, 1);
	CHECK_EQ(seen.cdw12, 31);
	CHECK_EQ(seen.cdw2 | seen.cdw3 | seen.cdw13 | seen.cdw14 | seen.cdw15 | seen.flags | seen.metadata_len, 0);
	ns.lba_shift = 9;
	gpuio_nvme_encode(&command, &ns, GPUIO_WRITE, buf, 512, 512);
	memcpy(&seen, &command, sizeof(seen));
	CHECK_EQ(seen.opcode, 1);
	CHECK_EQ(seen.cdw10, 1);
	CHECK_EQ(seen.cdw12, 0);
}

static void parses(void)
{
	static unsigned char identify[NVME_IDENTIFY_BYTES];
	struct nvme_namespace ns;
	struct gpuio_why why;

	/* 0x10000 blocks; format 2 of the list is in use: 4096 bytes, no metadata. */
	identify[2] = 1;
	identify[26] = 2;
	identify[128 + 4 * 2 + 2] = 12;
	CHECK_EQ(gpuio_nvme_parse(identify, &ns, &why), 0);
	CHECK_EQ(ns.lba_shift, 12);
	CHECK_EQ(ns.bytes, 0x10000 * 4096);
	/* Format 17 = bits 6:5 hold 1, bits 3:0 hold 1; bit 4 says where metadata would go and is no part of it. */
	identify[26] = 0x20 | 0x10 | 1;
	identify[128 + 4 * 17 + 2] = 9;
	CHECK_EQ(gpuio_nvme_parse(identify, &ns, &why), 0);
	CHECK_EQ(ns.lba_shift, 9);
	identify[128 + 4 * 17] = 8;
	CHECK_EQ(gpuio_nvme_parse(identify, &ns, &why), -ENOTSUP);
	CHECK(mentions(&why, "8 bytes of metadata per block"));
	identify[26] = 5; /* a format that is not there */
	CHECK_EQ(gpuio_nvme_parse(identify, &ns, &why), -EINVAL);
	CHECK(mentions(&why, "2^0 bytes"));
}

static void refuses(void)
{
	struct nvme_namespace ns = {.lba_shift = 9}; /* describe leaves it alone where it refuses */
	struct gpuio_run *run;
	struct fixture f;
	int zero = open("/dev/zero", O_RDONLY);

	CHECK(zero >= 0);
	fixture_open(&f, 1 << 20);
	CHECK_EQ(gpuio_nvme_describe(f.fd, &ns, &f.why), -ENOTSUP);
	CHECK(mentions(&f.why, "/dev/ng0n1"));
	CHECK(mentions(&f.why, "is a regular file"));
	CHECK_EQ(gpuio_nvme_describe(zero, &ns, &f.why), -ENOTSUP);
	CHECK(mentions(&f.why, "is none"));
	CHECK(gpuio_nvme_flush(zero, &ns) < 0);
	CHECK(gpuio_nvme_transfer(zero, &ns, GPUIO_READ, NULL, 512, 0) < 0);
	if (gpuio_engine_probe("io_uring_cmd", NULL, &f.why) == 0) {
		f.spec.engine = "io_uring_cmd";
		f.spec.depth = 4;
		CHECK_EQ(gpuio_open(&f.spec, &run, &f.why), -ENOTSUP);
		CHECK(mentions(&f.why, "NVMe generic character device"));
	}
	close(zero);
	fixture_close(&f);
}

int main(void)
{
	encodes();
	parses();
	refuses();
	return 0;
}
