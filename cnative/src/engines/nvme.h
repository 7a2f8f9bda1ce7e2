/* SPDX-License-Identifier: Apache-2.0 */
/* nvme.h - reads, writes and flushes as NVMe commands, and what a namespace says of itself. */
#ifndef GPUIO_ENGINES_NVME_H
#define GPUIO_ENGINES_NVME_H

#include <stdint.h>

#include "gpuio.h"

#define NVME_IDENTIFY_BYTES 4096u
#define NVME_OP_FLUSH 0x00u
#define NVME_OP_WRITE 0x01u
#define NVME_OP_READ 0x02u

/* struct nvme_uring_cmd of the kernel's ABI (Linux 5.19), which lies at byte 48 of a 128-byte SQE. */
struct nvme_command {
	uint8_t opcode, flags;
	uint16_t reserved1;
	uint32_t nsid, cdw2, cdw3;
	uint64_t metadata, addr;
	uint32_t metadata_len, data_len;
	uint32_t cdw10, cdw11, cdw12, cdw13, cdw14, cdw15;
	uint32_t timeout_ms, reserved2;
};

struct nvme_namespace {
	uint32_t nsid, lba_shift;
	uint64_t bytes;
};

/* Reads the answer to Identify Namespace. -ENOTSUP for formats whose blocks carry metadata. */
int gpuio_nvme_parse(const unsigned char *identify, struct nvme_namespace *ns, struct gpuio_why *why);
/* Asks the descriptor; refuses what is no NVMe generic character device (/dev/ng0n1). */
int gpuio_nvme_describe(int fd, struct nvme_namespace *ns, struct gpuio_why *why);
/* Offsets and lengths are whole logical blocks. */
void gpuio_nvme_encode(struct nvme_command *command, const struct nvme_namespace *ns, int op, void *buf, uint32_t length,
		       uint64_t offset);
/* One command by ioctl, waited for: bytes, or -errno (-EIO = the device's own status). */
int64_t gpuio_nvme_transfer(int fd, const struct nvme_namespace *ns, int op, void *buf, uint32_t length, uint64_t offset);
int gpuio_nvme_flush(int fd, const struct nvme_namespace *ns);

#endif
