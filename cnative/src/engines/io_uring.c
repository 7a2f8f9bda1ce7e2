/* SPDX-License-Identifier: Apache-2.0 */
/* io_uring.c - the ring on files: completing by interrupt, with a kernel thread that submits, polling the device, or both. */
#include "engines/uring.h"
#include "registry.h"

#define ALL_KNOBS                                                                                                            \
	(GPUIO_KNOB_FIXED_BUFFERS | GPUIO_KNOB_REGISTERED_FILES | GPUIO_KNOB_SINGLE_ISSUER | GPUIO_KNOB_MERGED_WAIT)
/* With a poller nobody else runs task work, and submitting enters no kernel that could also wait. */
#define POLLER_KNOBS (GPUIO_KNOB_FIXED_BUFFERS | GPUIO_KNOB_REGISTERED_FILES)

static void fill_transfer(const struct uring_state *s, struct io_uring_sqe *sqe, const struct gpuio_io *io)
{
	bool reads = io->op == GPUIO_READ;

	if (s->fixed) {
		sqe->opcode = reads ? IORING_OP_READ_FIXED : IORING_OP_WRITE_FIXED;
		sqe->buf_index = (uint16_t)io->index;
	} else {
		sqe->opcode = reads ? IORING_OP_READ : IORING_OP_WRITE;
	}
	sqe->flags = s->flags;
	sqe->fd = s->fd;
	sqe->off = io->offset;
	sqe->addr = (uintptr_t)io->buf;
	sqe->len = io->length;
}

static void fill_nop(const struct uring_state *s, struct io_uring_sqe *sqe, const struct gpuio_io *io)
{
	(void)s;
	(void)io;
	sqe->opcode = IORING_OP_NOP;
	sqe->fd = -1;
}

/* One table per mode: `NAME` with the ring's set-up flags, its knobs, and how a request is written. */
#define URING_ENGINE(NAME, SETUP, KNOBS, STATUS, FILL, FLAGS)                                                                \
	static const struct uring_kind NAME##_kind = {.setup = (SETUP), .knobs = (KNOBS), .status = (STATUS), .fill = (FILL)}; \
                                                                                                                             \
	static int NAME##_probe(const char *library, struct gpuio_why *why)                                                  \
	{                                                                                                                    \
		return gpuio_uring_probe(&NAME##_kind, library, why);                                                        \
	}                                                                                                                    \
                                                                                                                             \
	static int NAME##_open(struct gpuio_job *job)                                                                        \
	{                                                                                                                    \
		return gpuio_uring_open(job, &NAME##_kind);                                                                  \
	}                                                                                                                    \
                                                                                                                             \
	const struct gpuio_engine gpuio_engine_##NAME = {                                                                    \
		.name = #NAME,                                                                                               \
		.abi = GPUIO_ABI,                                                                                            \
		.flags = (FLAGS),                                                                                            \
		.probe = NAME##_probe,                                                                                       \
		.open = NAME##_open,                                                                                         \
		.submit = gpuio_uring_submit,                                                                                \
		.reap = gpuio_uring_reap,                                                                                    \
		.close = gpuio_uring_close,                                                                                  \
		.wait = gpuio_uring_wait,                                                                                    \
	}

URING_ENGINE(io_uring, 0, ALL_KNOBS, false, fill_transfer, GPUIO_ENGINE_FIXED_BUFFERS);
URING_ENGINE(io_uring_sqpoll, IORING_SETUP_SQPOLL, POLLER_KNOBS, false, fill_transfer,
	     GPUIO_ENGINE_FIXED_BUFFERS | GPUIO_ENGINE_POLLED);
URING_ENGINE(io_uring_iopoll, IORING_SETUP_IOPOLL, ALL_KNOBS, false, fill_transfer,
	     GPUIO_ENGINE_FIXED_BUFFERS | GPUIO_ENGINE_POLLED);
URING_ENGINE(io_uring_full, IORING_SETUP_SQPOLL | IORING_SETUP_IOPOLL, POLLER_KNOBS, false, fill_transfer,
	     GPUIO_ENGINE_FIXED_BUFFERS | GPUIO_ENGINE_POLLED);
/* What a request through a ring costs when there is no I/O behind it. */
URING_ENGINE(io_uring_nop, 0, GPUIO_KNOB_SINGLE_ISSUER | GPUIO_KNOB_MERGED_WAIT, true, fill_nop, GPUIO_ENGINE_NO_FILE);
