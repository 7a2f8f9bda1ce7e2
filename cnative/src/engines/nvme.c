/* SPDX-License-Identifier: Apache-2.0 */
#include "engines/nvme.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/nvme_ioctl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "why.h"

#define OP_IDENTIFY 0x06u

static uint64_t little_endian(const unsigned char *from, unsigned bytes)
{
	uint64_t value = 0;

	for (unsigned i = bytes; i-- > 0;)
		value = value << 8 | from[i];
	return value;
}

/* NVM Command Set specification, Identify Namespace: NSZE at byte 0, FLBAS at 26, the list of LBA formats at 128. */
int gpuio_nvme_parse(const unsigned char *identify, struct nvme_namespace *ns, struct gpuio_why *why)
{
	unsigned flbas = identify[26], format = (flbas & 0xfu) | (flbas & 0x60u) >> 1;
	const unsigned char *lbaf = identify + 128 + 4 * format;
	unsigned metadata = (unsigned)little_endian(lbaf, 2), shift = lbaf[2];
	uint64_t blocks = little_endian(identify, 8);

	if (shift < 9 || shift > 30 || blocks == 0 || blocks > UINT64_MAX >> shift) {
		gpuio_say(why, "the NVMe namespace says that it has %" PRIu64 " blocks of 2^%u bytes, which cannot be", blocks, shift);
		return -EINVAL;
	}
	if (metadata) {
		gpuio_say(why, "the NVMe namespace is formatted with %u bytes of metadata per block, for which io_uring_cmd has no "
			  "buffers: use io_uring on its block device, or a format without metadata", metadata);
		return -ENOTSUP;
	}
	ns->lba_shift = shift;
	ns->bytes = blocks << shift;
	return 0;
}

int gpuio_nvme_describe(int fd, struct nvme_namespace *ns, struct gpuio_why *why)
{
	struct nvme_admin_cmd identify;
	unsigned char *answer;
	struct stat st;
	int nsid = -1, rc;

	if (fstat(fd, &st) == 0 && S_ISCHR(st.st_mode))
		nsid = ioctl(fd, NVME_IOCTL_ID);
	if (nsid <= 0) {
		gpuio_say(why, "io_uring_cmd sends NVMe commands and needs an NVMe generic character device such as /dev/ng0n1; file "
			  "descriptor %d is %s", fd, S_ISREG(st.st_mode) ? "a regular file" : S_ISBLK(st.st_mode) ?
			  "a block device" : "none");
		return -ENOTSUP;
	}
	answer = aligned_alloc(NVME_IDENTIFY_BYTES, NVME_IDENTIFY_BYTES);
	if (!answer)
		return -ENOMEM;
	memset(&identify, 0, sizeof(identify));
	identify.opcode = OP_IDENTIFY;
	identify.nsid = (uint32_t)nsid;
	identify.addr = (uintptr_t)answer;
	identify.data_len = NVME_IDENTIFY_BYTES;
	rc = ioctl(fd, NVME_IOCTL_ADMIN_CMD, &identify);
	if (rc) {
		rc = rc < 0 ? -errno : -EIO;
		gpuio_say(why, "NVMe namespace %d does not answer Identify (%s): run as root, or give this user the device", nsid,
			  strerror(-rc));
	} else {
		ns->nsid = (uint32_t)nsid;
		rc = gpuio_nvme_parse(answer, ns, why);
	}
	free(answer);
	return rc;
}

void gpuio_nvme_encode(struct nvme_command *command, const struct nvme_namespace *ns, int op, void *buf, uint32_t length,
		       uint64_t offset)
{
	uint64_t first = offset >> ns->lba_shift;

	command->opcode = op == GPUIO_READ ? NVME_OP_READ : NVME_OP_WRITE;
	command->nsid = ns->nsid;
	command->addr = (uintptr_t)buf;
	command->data_len = length;
	command->cdw10 = (uint32_t)first;
	command->cdw11 = (uint32_t)(first >> 32);
	command->cdw12 = (length >> ns->lba_shift) - 1; /* counted from 0 */
}

static int send(int fd, const struct nvme_command *command)
{
	struct nvme_passthru_cmd cmd;
	int rc;

	/* The kernel's two structs share their layout up to timeout_ms. */
	memset(&cmd, 0, sizeof(cmd));
	memcpy(&cmd, command, offsetof(struct nvme_command, reserved2));
	rc = ioctl(fd, NVME_IOCTL_IO_CMD, &cmd);
	if (rc < 0)
		return -errno;
	return rc > 0 ? -EIO : 0;
}

int64_t gpuio_nvme_transfer(int fd, const struct nvme_namespace *ns, int op, void *buf, uint32_t length, uint64_t offset)
{
	struct nvme_command command;
	int rc;

	memset(&command, 0, sizeof(command));
	gpuio_nvme_encode(&command, ns, op, buf, length, offset);
	rc = send(fd, &command);
	return rc ? rc : (int64_t)length;
}

int gpuio_nvme_flush(int fd, const struct nvme_namespace *ns)
{
	struct nvme_command command;

	memset(&command, 0, sizeof(command));
	command.opcode = NVME_OP_FLUSH;
	command.nsid = ns->nsid;
	return send(fd, &command);
}
