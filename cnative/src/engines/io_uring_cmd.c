/* SPDX-License-Identifier: Apache-2.0 */
/* io_uring_cmd.c - NVMe commands through the ring, past the block layer (Linux 5.19), on /dev/ng0n1 and the like. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/utsname.h>

#include "engines/nvme.h"
#include "engines/uring.h"
#include "registry.h"
#include "why.h"

#define OP_URING_CMD 46      /* IORING_OP_URING_CMD, an enumerator that older headers lack */
#define CMD_FIXED (1u << 0)  /* IORING_URING_CMD_FIXED */
#define CMD_PLACE 48u        /* of the command in its SQE */
#define NVME_URING_IO _IOWR('N', 0x80, struct nvme_command)

_Static_assert(sizeof(struct nvme_command) == 72, "the kernel's struct nvme_uring_cmd has 72 bytes");

void gpuio_uring_fill_command(const struct uring_state *s, struct io_uring_sqe *sqe, const struct gpuio_io *io)
{
	struct nvme_command *command = (struct nvme_command *)(void *)((char *)sqe + CMD_PLACE);
	uint32_t operation = NVME_URING_IO;

	memset(sqe + 1, 0, sizeof(*sqe)); /* the second half */
	sqe->opcode = OP_URING_CMD;
	sqe->flags = s->flags;
	sqe->fd = uring_file(s, io);
	memcpy(&sqe->off, &operation, sizeof(operation)); /* cmd_op, which older headers lack */
	if (s->fixed) {
		sqe->rw_flags = (int)CMD_FIXED; /* uring_cmd_flags */
		sqe->buf_index = (uint16_t)io->index;
	}
	gpuio_nvme_encode(command, &s->ns, io->op, io->buf, io->length, io->offset);
}

/* Registered buffers in commands came with Linux 6.1; an older kernel would fail each request. */
static bool kernel_fixes_buffers(void)
{
	struct utsname name;
	unsigned major, minor;

	return uname(&name) == 0 && sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
	       (major > 6 || (major == 6 && minor >= 1));
}

static int attach(struct gpuio_job *job, struct uring_state *s)
{
	const struct gpuio_spec *spec = job->spec;
	uint64_t lba;
	int rc;

	if (spec->replay.records) {
		gpuio_say(&job->why, "io_uring_cmd does not replay records: use another data path on the namespace's block device");
		return -ENOTSUP;
	}
	rc = gpuio_nvme_describe(spec->fd, &s->ns, &job->why);
	if (rc)
		return rc;
	lba = UINT64_C(1) << s->ns.lba_shift;
	if (spec->block % lba || spec->region_offset % lba) {
		gpuio_say(&job->why, "blocks of %" PRIu32 " bytes from offset %" PRIu64 " on are not whole logical blocks of %" PRIu64
			  " bytes", spec->block, spec->region_offset, lba);
		return -EINVAL;
	}
	if (spec->region_offset + spec->region_bytes > s->ns.bytes) {
		gpuio_say(&job->why, "the region ends at byte %" PRIu64 ", the namespace at %" PRIu64,
			  spec->region_offset + spec->region_bytes, s->ns.bytes);
		return -EINVAL;
	}
	if (spec->knobs & GPUIO_KNOB_FIXED_BUFFERS && !kernel_fixes_buffers()) {
		s->knobs &= ~(uint32_t)GPUIO_KNOB_FIXED_BUFFERS;
		gpuio_say(&job->why, "fixed buffers are off: passthrough commands take them from Linux 6.1 on");
	}
	return 0;
}

static const struct uring_kind kind = {
	.setup = IORING_SETUP_SQE128 | IORING_SETUP_CQE32,
	.knobs = GPUIO_KNOB_FIXED_BUFFERS | GPUIO_KNOB_REGISTERED_FILES | GPUIO_KNOB_SINGLE_ISSUER | GPUIO_KNOB_MERGED_WAIT,
	.form = URING_COMMAND,
	.attach = attach,
};

static int cmd_probe(const char *library, struct gpuio_why *why)
{
	return gpuio_uring_probe(&kind, library, why);
}

static int cmd_open(struct gpuio_job *job)
{
	return gpuio_uring_open(job, &kind);
}

static int cmd_sync(struct gpuio_job *job, uint16_t file, int fd, int whole)
{
	struct uring_state *s = job->priv;

	(void)file;
	(void)whole;
	return gpuio_nvme_flush(fd, &s->ns);
}

static int64_t cmd_read_back(struct gpuio_job *job, int fd, void *buf, uint32_t length, uint64_t offset)
{
	struct uring_state *s = job->priv;

	return gpuio_nvme_transfer(fd, &s->ns, GPUIO_READ, buf, length, offset);
}

const struct gpuio_engine gpuio_engine_io_uring_cmd = {
	.name = "io_uring_cmd",
	.abi = GPUIO_ABI,
	.flags = GPUIO_ENGINE_FIXED_BUFFERS,
	.probe = cmd_probe,
	.open = cmd_open,
	.submit = gpuio_uring_submit,
	.reap = gpuio_uring_reap,
	.close = gpuio_uring_close,
	.wait = gpuio_uring_wait,
	.sync = cmd_sync,
	.read_back = cmd_read_back,
};
