/* SPDX-License-Identifier: Apache-2.0 */
/* io_uring.c - the ring on files: completing by interrupt, with a kernel thread that submits, polling the device, or both. */
#include "engines/uring.h"
#include "registry.h"

#define ALL_KNOBS                                                                                                            \
	(GPUIO_KNOB_FIXED_BUFFERS | GPUIO_KNOB_REGISTERED_FILES | GPUIO_KNOB_SINGLE_ISSUER | GPUIO_KNOB_MERGED_WAIT)
/* With a poller nobody else runs task work, and submitting enters no kernel that could also wait. */
#define POLLER_KNOBS (GPUIO_KNOB_FIXED_BUFFERS | GPUIO_KNOB_REGISTERED_FILES)

/* One table per mode: `NAME` with the ring's set-up flags, its knobs, and what a request becomes. */
#define URING_ENGINE(NAME, SETUP, KNOBS, FORM, FLAGS)                                                                        \
	static const struct uring_kind NAME##_kind = {.setup = (SETUP), .knobs = (KNOBS), .form = (FORM)};                      \
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

URING_ENGINE(io_uring, 0, ALL_KNOBS, URING_TRANSFER, GPUIO_ENGINE_FIXED_BUFFERS);
URING_ENGINE(io_uring_sqpoll, IORING_SETUP_SQPOLL, POLLER_KNOBS, URING_TRANSFER,
	     GPUIO_ENGINE_FIXED_BUFFERS | GPUIO_ENGINE_POLLED);
URING_ENGINE(io_uring_iopoll, IORING_SETUP_IOPOLL, ALL_KNOBS, URING_TRANSFER,
	     GPUIO_ENGINE_FIXED_BUFFERS | GPUIO_ENGINE_POLLED);
URING_ENGINE(io_uring_full, IORING_SETUP_SQPOLL | IORING_SETUP_IOPOLL, POLLER_KNOBS, URING_TRANSFER,
	     GPUIO_ENGINE_FIXED_BUFFERS | GPUIO_ENGINE_POLLED);
/* What a request through a ring costs when there is no I/O behind it. */
URING_ENGINE(io_uring_nop, 0, GPUIO_KNOB_SINGLE_ISSUER | GPUIO_KNOB_MERGED_WAIT, URING_NOP, GPUIO_ENGINE_NO_FILE);
