/* SPDX-License-Identifier: Apache-2.0 */
/* uring_register.c - buffers and files made known to the ring beforehand, so that requests do not have to look them up. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "buffers.h"
#include "engines/uring.h"
#include "why.h"

#define MAX_FIXED_BUFFERS 16384u

/* One buffer per slot, so that every request names its own. */
static int fix_buffers(struct gpuio_job *job, struct uring_state *s)
{
	unsigned n = job->slots;
	struct iovec *list;
	int rc;

	if (n > MAX_FIXED_BUFFERS) {
		gpuio_say(&job->why, "fixed buffers are off: a ring registers at most %u, the queue depth is %u", MAX_FIXED_BUFFERS,
			  n);
		return -EINVAL;
	}
	list = calloc(n, sizeof(*list));
	if (!list)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++) {
		list[i].iov_base = job->ios[i].buf;
		list[i].iov_len = job->ios[i].length;
	}
	rc = s->lib.register_buffers(&s->ring, list, n);
	free(list);
	if (rc < 0)
		gpuio_uring_explain_buffers(-rc, slot_stride(job->spec->block) * n, &job->why);
	return rc;
}

static int register_files(struct gpuio_job *job, struct uring_state *s)
{
	const struct gpuio_replay_spec *replay = &job->spec->replay;

	if (replay->records)
		return s->lib.register_files(&s->ring, replay->fds, replay->n_files);
	return s->lib.register_files(&s->ring, &job->spec->fd, 1);
}

int gpuio_uring_register(struct gpuio_job *job, struct uring_state *s)
{
	uint32_t asked = job->spec->knobs & s->knobs;
	bool require = job->spec->knobs & GPUIO_KNOB_REQUIRE;
	/* Before Linux 5.11 a poller only knows registered files. */
	bool must = s->sqpoll && !(s->ring.features & IORING_FEAT_SQPOLL_NONFIXED);
	int rc;

	if (asked & GPUIO_KNOB_FIXED_BUFFERS) {
		rc = fix_buffers(job, s);
		s->fixed = rc == 0;
		if (rc && require)
			return rc;
		if (rc == 0) {
			job->effective |= GPUIO_KNOB_FIXED_BUFFERS;
			s->opcodes[GPUIO_READ] = IORING_OP_READ_FIXED;
			s->opcodes[GPUIO_WRITE] = IORING_OP_WRITE_FIXED;
		}
	}
	if (asked & GPUIO_KNOB_REGISTERED_FILES || must) {
		rc = register_files(job, s);
		if (rc)
			gpuio_say(&job->why, "registered files are off: registering failed (%s)", strerror(-rc));
		if (rc && (require || must))
			return rc;
		if (rc == 0) {
			job->effective |= GPUIO_KNOB_REGISTERED_FILES;
			s->flags = IOSQE_FIXED_FILE;
			s->registered = true;
		}
	}
	return 0;
}
