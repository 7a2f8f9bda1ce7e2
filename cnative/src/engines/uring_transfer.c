/* SPDX-License-Identifier: Apache-2.0 */
/* uring_transfer.c - requests into a ring and out of it; how each kind of ring is waited on. */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "engines/uring.h"
#include "why.h"

/* A ring with a poller is watched without a system call for so long; then, with a device this slow, the kernel waits for it. */
#define WATCH_NS UINT64_C(10000000)
#define LOOKS_PER_CLOCK 64u
#define NAP_NS 20000 /* between two looks, on kernels that cannot wait with a time-out */

static inline void relax(void)
{
#if GPUIO_HAS_TSC
	_mm_pause();
#endif
}

int gpuio_uring_hand_over(struct uring_state *s)
{
	struct io_uring_sq_view *sq = &s->ring.sq;
	unsigned n = sq->sqe_tail - sq->sqe_head;
	long rc;

	if (n == 0)
		return 0;
	sq->sqe_head = sq->sqe_tail;
	/* In this order for everyone: a poller on its way to sleep would else miss the new tail, and we its flag. */
	__atomic_store_n(sq->ktail, sq->sqe_tail, __ATOMIC_SEQ_CST);
	if (__builtin_expect(!(__atomic_load_n(sq->kflags, __ATOMIC_SEQ_CST) & IORING_SQ_NEED_WAKEUP), 1))
		return 0;
	rc = syscall(SYS_io_uring_enter, s->ring.ring_fd, n, 0, IORING_ENTER_SQ_WAKEUP, NULL, 0);
	return rc < 0 ? -errno : 0;
}

int gpuio_uring_submit(struct gpuio_job *job, struct gpuio_io *const *ios, unsigned n)
{
	struct uring_state *s = job->priv;
	unsigned k = 0;
	int rc;

	while (k < n) {
		struct io_uring_sqe *sqe = uring_sqe(s);

		if (!sqe)
			break;
		uring_fill(s, sqe, ios[k++]);
	}
	if (s->merged)
		return (int)k;
	rc = s->sqpoll ? gpuio_uring_hand_over(s) : s->lib.submit(&s->ring);
	return rc < 0 && !uring_for_now(rc) ? rc : (int)k;
}

/* A completion that says only whether, not how much. */
static int64_t status_of(int32_t res, const struct gpuio_io *io)
{
	if (res > 0) /* a status code of the device */
		return -EIO;
	return res < 0 ? res : (int64_t)io->length;
}

static inline unsigned collect(struct uring_state *s, struct gpuio_io **done, unsigned max)
{
	struct io_uring_cq_view *cq = &s->ring.cq;
	unsigned head = *cq->khead, n = __atomic_load_n(cq->ktail, __ATOMIC_ACQUIRE) - head;

	if (n > max)
		n = max;
	for (unsigned i = 0; i < n; i++) {
		const struct io_uring_cqe *cqe = &cq->cqes[(size_t)((head + i) & s->cq_mask) << s->cqe_shift];
		struct gpuio_io *io = (struct gpuio_io *)(uintptr_t)cqe->user_data;

		io->result = __builtin_expect(s->form != URING_TRANSFER, 0) ? status_of(cqe->res, io) : cqe->res;
		done[i] = io;
	}
	if (n)
		__atomic_store_n(cq->khead, head + n, __ATOMIC_RELEASE);
	return n;
}

/* A device that cannot be polled says so with each completion: that is no measurement, it ends the run. */
static int check_polled(struct gpuio_job *job, struct gpuio_io *const *done, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (done[i]->result != -EOPNOTSUPP)
			continue;
		gpuio_say(&job->why, "%s: what the file lies on cannot be polled: its queue/io_poll must be 1 (NVMe: load the "
			  "driver with nvme.poll_queues=1 or more) and the file be opened with O_DIRECT; use io_uring without "
			  "polling otherwise", job->engine->name);
		return -EOPNOTSUPP;
	}
	return (int)n;
}

/*
 * The queue of a ring with a poller fills by itself. Who pays a whole CPU for a poller does not sleep on the other side: the
 * queue is watched, without a system call, as long as a device can reasonably take.
 */
static int watch(struct uring_state *s, struct gpuio_io **done, unsigned min, unsigned max)
{
	unsigned n = collect(s, done, max);
	uint64_t until = 0;
	int rc;

	while (n < min) {
		uint64_t now = mono_ns();

		if (until == 0)
			until = now + WATCH_NS;
		if (now < until) {
			for (unsigned look = 0; look < LOOKS_PER_CLOCK && n < min; look++) {
				relax();
				n += collect(s, done + n, max - n);
			}
			continue;
		}
		rc = s->lib.submit_and_wait(&s->ring, min - n);
		if (rc < 0 && !uring_for_now(rc))
			return rc;
		n += collect(s, done + n, max - n);
	}
	return (int)n;
}

static int enter(struct uring_state *s, struct gpuio_io **done, unsigned min, unsigned max)
{
	unsigned n = 0;
	int rc;

	/* Merged: the kernel must be entered in any case, with what submit queued. */
	if (!s->merged && min > 0)
		n = collect(s, done, max);
	while (n < min || min == 0) {
		if (min)
			rc = s->lib.submit_and_wait(&s->ring, min - n);
		else /* enters the kernel, or DEFER_TASKRUN would never post anything */
			rc = s->lib.submit_and_get_events(&s->ring);
		if (rc < 0 && !uring_for_now(rc))
			return rc;
		n += collect(s, done + n, max - n);
		if (min == 0)
			break;
		if (rc < 0 && n < min)
			sched_yield();
	}
	return (int)n;
}

int gpuio_uring_reap(struct gpuio_job *job, struct gpuio_io **done, unsigned min, unsigned max)
{
	struct uring_state *s = job->priv;
	int n = s->sqpoll ? watch(s, done, min, max) : enter(s, done, min, max);

	if (__builtin_expect(s->iopoll, 0) && n > 0)
		return check_polled(job, done, (unsigned)n);
	return n;
}

int gpuio_uring_wait(struct gpuio_job *job, struct gpuio_io **done, unsigned max, uint64_t deadline_ns)
{
	struct uring_state *s = job->priv;
	bool polls = s->iopoll && !s->sqpoll; /* by system calls that know no deadline: the device is asked again and again */
	/* Before Linux 5.11 a time-out is a request of liburing's own, which would come out of the queue among ours. */
	bool timed = s->ring.features & IORING_FEAT_EXT_ARG;
	struct timespec nap = {.tv_sec = 0, .tv_nsec = NAP_NS};
	struct __kernel_timespec left;
	struct io_uring_cqe *cqe;

	for (;;) {
		uint64_t now = mono_ns();
		int n, rc;

		if (polls || !timed || now >= deadline_ns) {
			n = gpuio_uring_reap(job, done, 0, max);
			if (n != 0 || now >= deadline_ns)
				return n;
			if (!polls)
				nanosleep(&nap, NULL);
			continue;
		}
		n = s->merged ? 0 : (int)collect(s, done, max);
		if (n == 0) {
			left.tv_sec = (long long)((deadline_ns - now) / 1000000000u);
			left.tv_nsec = (long long)((deadline_ns - now) % 1000000000u);
			rc = s->lib.submit_and_wait_timeout(&s->ring, &cqe, 1, &left, NULL);
			if (rc < 0 && rc != -ETIME && !uring_for_now(rc))
				return rc;
			n = (int)collect(s, done, max);
		}
		if (n)
			return s->iopoll ? check_polled(job, done, (unsigned)n) : n;
	}
}
