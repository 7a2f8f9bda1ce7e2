/* SPDX-License-Identifier: Apache-2.0 */
/* uring_setup.c - a ring's life: set up as its engine needs it, tried by a probe, torn down. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engines/uring.h"
#include "why.h"

#define PROBE_ENTRIES 8u
#define PROBE_DEADLINE_S 5
#define DEFAULT_IDLE_MS 50u

struct uring_state *gpuio_uring_new(const struct uring_kind *kind)
{
	struct uring_state *s = aligned_alloc(alignof(struct uring_state), sizeof(*s));

	if (s) {
		memset(s, 0, sizeof(*s));
		s->kind = kind;
		s->form = kind->form;
		s->knobs = kind->knobs;
		s->opcodes[GPUIO_READ] = IORING_OP_READ;
		s->opcodes[GPUIO_WRITE] = IORING_OP_WRITE;
	}
	return s;
}

void gpuio_uring_free(struct uring_state *s)
{
	if (!s)
		return;
	if (s->ready)
		s->lib.queue_exit(&s->ring);
	gpuio_liburing_close(&s->lib);
	free(s);
}

/* Sets up a ring of `entries`; params says how, and what was had. */
static int setup(struct uring_state *s, unsigned entries, struct io_uring_params *params, struct gpuio_why *why)
{
	int rc;

	memset(&s->ring, 0, sizeof(s->ring));
	rc = s->lib.queue_init_params(entries, &s->ring, params);
	if (rc)
		return rc;
	s->ready = true;
	rc = gpuio_liburing_fits(&s->ring, params, why);
	if (rc)
		return rc;
	s->sqpoll = params->flags & IORING_SETUP_SQPOLL;
	s->iopoll = params->flags & IORING_SETUP_IOPOLL;
	s->sqe_shift = params->flags & IORING_SETUP_SQE128 ? 1 : 0;
	s->cqe_shift = params->flags & IORING_SETUP_CQE32 ? 1 : 0;
	s->sq_entries = params->sq_entries;
	s->sq_mask = params->sq_entries - 1;
	s->cq_mask = params->cq_entries - 1;
	/* Submitting to a poller is done here, so the places must be what they are numbered. */
	if (!(params->flags & IORING_SETUP_NO_SQARRAY))
		for (unsigned i = 0; i < params->sq_entries; i++)
			s->ring.sq.array[i] = i;
	return 0;
}

static int explained_setup(struct uring_state *s, unsigned entries, struct io_uring_params *params, struct gpuio_why *why)
{
	struct io_uring_params asked = *params;
	int rc = setup(s, entries, params, why);

	if (rc && !s->ready)
		gpuio_uring_explain_setup(-rc, &asked, entries, "/proc", why);
	return rc;
}

/* Sends a few NOPs through a small ring: submission and completion work, a sleeping poller is woken. */
static int try_nops(struct uring_state *s, struct gpuio_why *why)
{
	struct __kernel_timespec deadline = {.tv_sec = PROBE_DEADLINE_S};
	struct io_uring_cqe *cqe;
	unsigned head, ready;
	int rc;

	for (unsigned i = 0; i < PROBE_ENTRIES; i++) {
		struct io_uring_sqe *sqe = uring_sqe(s);

		if (!sqe)
			return -EIO;
		memset(sqe, 0, sizeof(*sqe) << s->sqe_shift);
		sqe->opcode = IORING_OP_NOP;
	}
	rc = s->lib.submit_and_wait_timeout(&s->ring, &cqe, PROBE_ENTRIES, &deadline, NULL);
	head = *s->ring.cq.khead;
	ready = __atomic_load_n(s->ring.cq.ktail, __ATOMIC_ACQUIRE) - head;
	__atomic_store_n(s->ring.cq.khead, head + ready, __ATOMIC_RELEASE);
	if (rc >= 0 && ready >= PROBE_ENTRIES) /* old kernels: and liburing's own time-out */
		return 0;
	gpuio_say(why, "the ring was set up but did not complete %u NOPs within %d s (%s)", PROBE_ENTRIES, PROBE_DEADLINE_S,
		  strerror(rc < 0 ? -rc : EIO));
	return rc < 0 ? rc : -EIO;
}

int gpuio_uring_probe(const struct uring_kind *kind, const char *library, struct gpuio_why *why)
{
	struct io_uring_params params = {.flags = kind->setup, .sq_thread_idle = 1};
	struct uring_state *s = gpuio_uring_new(kind);
	int rc;

	if (!s)
		return -ENOMEM;
	rc = gpuio_liburing_open(&s->lib, library, why);
	if (rc == 0)
		rc = explained_setup(s, PROBE_ENTRIES, &params, why);
	/* A ring that polls devices takes no NOP before Linux 5.19; that it is there says it all. */
	if (rc == 0 && !s->iopoll)
		rc = try_nops(s, why);
	gpuio_uring_free(s);
	return rc;
}

static void choose_poller(const struct gpuio_job *job, struct io_uring_params *params)
{
	const struct gpuio_spec *spec = job->spec;
	int cpu = spec->sq_cpus ? spec->sq_cpus[job->worker] : -1;

	params->sq_thread_idle = spec->sq_idle_ms ? spec->sq_idle_ms : DEFAULT_IDLE_MS;
	if (cpu < 0)
		return;
	params->flags |= IORING_SETUP_SQ_AFF;
	params->sq_thread_cpu = (unsigned)cpu;
}

/* Sets the ring up with what was asked for and can be had. */
static int start(struct gpuio_job *job, struct uring_state *s)
{
	uint32_t asked = job->spec->knobs & s->knobs;
	struct io_uring_params plain = {.flags = s->kind->setup}, params;
	int rc = -EINVAL;

	if (plain.flags & IORING_SETUP_SQPOLL)
		choose_poller(job, &plain);
	if (asked & GPUIO_KNOB_SINGLE_ISSUER) {
		params = plain;
		params.flags |= IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
		rc = setup(s, job->spec->depth, &params, &job->why);
		if (rc == 0)
			job->effective |= GPUIO_KNOB_SINGLE_ISSUER;
		else if (rc == -EINVAL)
			gpuio_say(&job->why, "single_issuer is off: the kernel lacks SINGLE_ISSUER with DEFER_TASKRUN (Linux 6.1)");
		if (rc == -EINVAL && job->spec->knobs & GPUIO_KNOB_REQUIRE)
			return rc;
	}
	if (rc == -EINVAL) {
		params = plain;
		rc = setup(s, job->spec->depth, &params, &job->why);
	}
	if (rc) {
		if (!s->ready)
			gpuio_uring_explain_setup(-rc, &plain, job->spec->depth, "/proc", &job->why);
		return rc;
	}
	job->ring_fd = s->ring.ring_fd;
	if (asked & GPUIO_KNOB_MERGED_WAIT) {
		job->effective |= GPUIO_KNOB_MERGED_WAIT;
		s->merged = true;
	}
	return gpuio_uring_register(job, s);
}

int gpuio_uring_open(struct gpuio_job *job, const struct uring_kind *kind)
{
	struct uring_state *s = gpuio_uring_new(kind);
	int rc;

	job->priv = s;
	if (!s)
		return -ENOMEM;
	rc = gpuio_liburing_open(&s->lib, job->spec->library, &job->why);
	if (rc == 0 && kind->attach)
		rc = kind->attach(job, s);
	return rc ? rc : start(job, s);
}

void gpuio_uring_close(struct gpuio_job *job)
{
	job->ring_fd = -1;
	gpuio_uring_free(job->priv);
	job->priv = NULL;
}
