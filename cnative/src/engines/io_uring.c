/* SPDX-License-Identifier: Apache-2.0 */
/* io_uring.c - a ring per worker, interrupt mode, through liburing opened at run time. */
#include <errno.h>
#include <sched.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "buffers.h"
#include "dl/liburing.h"
#include "engines/io_uring.h"
#include "registry.h"
#include "why.h"

/* Values of the kernel's ABI that older headers do not know. */
#ifndef IORING_SETUP_SINGLE_ISSUER
#define IORING_SETUP_SINGLE_ISSUER (1U << 12)
#endif
#ifndef IORING_SETUP_DEFER_TASKRUN
#define IORING_SETUP_DEFER_TASKRUN (1U << 13)
#endif

#define MAX_FIXED_BUFFERS 16384u
#define PROBE_ENTRIES 8u

struct uring_state {
	alignas(64) unsigned char ring_space[LIBURING_RING_BYTES];
	struct gpuio_liburing lib;
	struct io_uring *ring;      /* ring_space once it is set up */
	struct io_uring_cqe **cqes; /* depth pointers */
	int fd;                     /* as the kernel wants it: a file descriptor, or 0 = first registered file */
	uint8_t flags;              /* of every SQE */
	bool fixed, merged;
};

static int uring_setup(struct uring_state *s, unsigned entries, unsigned flags)
{
	struct io_uring_params params;
	struct io_uring *ring = (struct io_uring *)(void *)s->ring_space;
	int rc;

	memset(&params, 0, sizeof(params));
	memset(s->ring_space, 0, sizeof(s->ring_space));
	params.flags = flags;
	rc = s->lib.queue_init_params(entries, ring, &params);
	if (rc == 0)
		s->ring = ring;
	return rc;
}

static struct uring_state *uring_new(void)
{
	struct uring_state *s = aligned_alloc(alignof(struct uring_state), sizeof(*s));

	if (s)
		memset(s, 0, sizeof(*s));
	return s;
}

static void uring_free(struct uring_state *s)
{
	if (!s)
		return;
	if (s->ring)
		s->lib.queue_exit(s->ring);
	gpuio_liburing_close(&s->lib);
	free(s->cqes);
	free(s);
}

/* Sends a few NOPs through a small ring: setup, submission and completion all work. */
static int probe_ring(struct uring_state *s, struct gpuio_why *why)
{
	struct io_uring_cqe *cqes[PROBE_ENTRIES];
	int rc = uring_setup(s, PROBE_ENTRIES, 0);

	if (rc) {
		gpuio_uring_explain_setup(-rc, PROBE_ENTRIES, "/proc", why);
		return rc;
	}
	for (unsigned i = 0; i < PROBE_ENTRIES; i++) {
		struct io_uring_sqe *sqe = s->lib.get_sqe(s->ring);

		if (!sqe)
			return -EIO;
		memset(sqe, 0, sizeof(*sqe));
		sqe->opcode = IORING_OP_NOP;
	}
	rc = s->lib.submit_and_wait(s->ring, PROBE_ENTRIES);
	if (rc < 0 || s->lib.peek_batch_cqe(s->ring, cqes, PROBE_ENTRIES) != PROBE_ENTRIES) {
		gpuio_say(why, "the ring was set up but did not complete %u NOPs (%s)", PROBE_ENTRIES, strerror(rc < 0 ? -rc : EIO));
		return rc < 0 ? rc : -EIO;
	}
	s->lib.cq_advance(s->ring, PROBE_ENTRIES);
	return 0;
}

static int uring_probe(const char *library, struct gpuio_why *why)
{
	struct uring_state *s = uring_new();
	int rc;

	if (!s)
		return -ENOMEM;
	rc = gpuio_liburing_open(&s->lib, library, why);
	if (rc == 0)
		rc = probe_ring(s, why);
	uring_free(s);
	return rc;
}

/* One buffer per slot, so that every request names its own. */
static int uring_fix_buffers(struct gpuio_job *job, struct uring_state *s)
{
	unsigned depth = job->spec->depth;
	struct iovec *list;
	int rc;

	if (depth > MAX_FIXED_BUFFERS) {
		gpuio_say(&job->why, "fixed buffers are off: a ring registers at most %u, the queue depth is %u", MAX_FIXED_BUFFERS,
			  depth);
		return -EINVAL;
	}
	list = calloc(depth, sizeof(*list));
	if (!list)
		return -ENOMEM;
	for (unsigned i = 0; i < depth; i++) {
		list[i].iov_base = job->ios[i].buf;
		list[i].iov_len = job->ios[i].length;
	}
	rc = s->lib.register_buffers(s->ring, list, depth);
	free(list);
	if (rc < 0)
		gpuio_uring_explain_buffers(-rc, slot_stride(job->spec->block) * depth, &job->why);
	return rc;
}

/* Sets the ring up with what was asked for and can be had. */
static int uring_start(struct gpuio_job *job, struct uring_state *s)
{
	uint32_t asked = job->spec->knobs;
	bool require = asked & GPUIO_KNOB_REQUIRE;
	int rc = -EINVAL;

	if (asked & GPUIO_KNOB_SINGLE_ISSUER) {
		rc = uring_setup(s, job->spec->depth, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
		if (rc == 0)
			job->effective |= GPUIO_KNOB_SINGLE_ISSUER;
		else if (rc == -EINVAL)
			gpuio_say(&job->why, "single_issuer is off: the kernel lacks SINGLE_ISSUER with DEFER_TASKRUN (Linux 6.1)");
		if (rc == -EINVAL && require)
			return rc;
	}
	if (rc == -EINVAL)
		rc = uring_setup(s, job->spec->depth, 0);
	if (rc) {
		gpuio_uring_explain_setup(-rc, job->spec->depth, "/proc", &job->why);
		return rc;
	}
	if (asked & GPUIO_KNOB_FIXED_BUFFERS) {
		rc = uring_fix_buffers(job, s);
		s->fixed = rc == 0;
		if (rc && require)
			return rc;
		if (rc == 0)
			job->effective |= GPUIO_KNOB_FIXED_BUFFERS;
	}
	if (asked & GPUIO_KNOB_REGISTERED_FILES) {
		rc = s->lib.register_files(s->ring, &s->fd, 1);
		if (rc)
			gpuio_say(&job->why, "registered files are off: registering failed (%s)", strerror(-rc));
		if (rc && require)
			return rc;
		if (rc == 0) {
			job->effective |= GPUIO_KNOB_REGISTERED_FILES;
			s->flags = IOSQE_FIXED_FILE;
			s->fd = 0;
		}
	}
	if (asked & GPUIO_KNOB_MERGED_WAIT) {
		job->effective |= GPUIO_KNOB_MERGED_WAIT;
		s->merged = true;
	}
	return 0;
}

static int uring_open(struct gpuio_job *job)
{
	struct uring_state *s = uring_new();
	int rc;

	job->priv = s;
	if (!s)
		return -ENOMEM;
	s->fd = job->spec->fd;
	s->cqes = calloc(job->spec->depth, sizeof(struct io_uring_cqe *));
	if (!s->cqes)
		return -ENOMEM;
	rc = gpuio_liburing_open(&s->lib, job->spec->library, &job->why);
	return rc ? rc : uring_start(job, s);
}

static inline void uring_fill(const struct uring_state *s, struct io_uring_sqe *sqe, struct gpuio_io *io)
{
	bool reads = io->op == GPUIO_READ;

	memset(sqe, 0, sizeof(*sqe));
	if (s->fixed)
		sqe->opcode = reads ? IORING_OP_READ_FIXED : IORING_OP_WRITE_FIXED;
	else
		sqe->opcode = reads ? IORING_OP_READ : IORING_OP_WRITE;
	sqe->flags = s->flags;
	sqe->fd = s->fd;
	sqe->off = io->offset;
	sqe->addr = (uintptr_t)io->buf;
	sqe->len = io->length;
	sqe->buf_index = s->fixed ? (uint16_t)io->index : 0;
	sqe->user_data = (uintptr_t)io;
}

/* What the kernel did not take now stays queued and goes with the next call; that is no error. */
static inline bool for_now(int rc)
{
	return rc == -EINTR || rc == -EAGAIN || rc == -EBUSY;
}

static int uring_submit(struct gpuio_job *job, struct gpuio_io *const *ios, unsigned n)
{
	struct uring_state *s = job->priv;
	unsigned k = 0;
	int rc;

	while (k < n) {
		struct io_uring_sqe *sqe = s->lib.get_sqe(s->ring);

		if (!sqe)
			break;
		uring_fill(s, sqe, ios[k++]);
	}
	if (s->merged)
		return (int)k;
	rc = s->lib.submit(s->ring);
	return rc < 0 && !for_now(rc) ? rc : (int)k;
}

static unsigned uring_collect(struct uring_state *s, struct gpuio_io **done, unsigned max)
{
	unsigned n = s->lib.peek_batch_cqe(s->ring, s->cqes, max);

	for (unsigned i = 0; i < n; i++) {
		struct gpuio_io *io = (struct gpuio_io *)(uintptr_t)s->cqes[i]->user_data;

		io->result = s->cqes[i]->res;
		done[i] = io;
	}
	if (n)
		s->lib.cq_advance(s->ring, n);
	return n;
}

static int uring_reap(struct gpuio_job *job, struct gpuio_io **done, unsigned min, unsigned max)
{
	struct uring_state *s = job->priv;
	unsigned n = 0;
	int rc;

	if (max > job->spec->depth)
		max = job->spec->depth;
	/* Merged: the kernel must be entered in any case, with what submit queued. */
	if (!s->merged && min > 0)
		n = uring_collect(s, done, max);
	while (n < min || min == 0) {
		if (min)
			rc = s->lib.submit_and_wait(s->ring, min - n);
		else /* enters the kernel, or DEFER_TASKRUN would never post anything */
			rc = s->lib.submit_and_get_events(s->ring);
		if (rc < 0 && !for_now(rc))
			return rc;
		n += uring_collect(s, done + n, max - n);
		if (min == 0)
			break;
		if (rc < 0 && n < min)
			sched_yield();
	}
	return (int)n;
}

static void uring_close(struct gpuio_job *job)
{
	uring_free(job->priv);
	job->priv = NULL;
}

const struct gpuio_engine gpuio_engine_io_uring = {
	.name = "io_uring",
	.abi = GPUIO_ABI,
	.flags = GPUIO_ENGINE_FIXED_BUFFERS,
	.probe = uring_probe,
	.open = uring_open,
	.submit = uring_submit,
	.reap = uring_reap,
	.close = uring_close,
};
