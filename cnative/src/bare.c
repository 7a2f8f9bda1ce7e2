/* SPDX-License-Identifier: Apache-2.0 */
/* bare.c - a ring loop without any measurement, to tell what the measuring costs. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "buffers.h"
#include "clock.h"
#include "engines/uring.h"
#include "offsets.h"
#include "process.h"
#include "run.h"
#include "why.h"

#define TURNS_PER_CLOCK 256 /* looks at the clock only so often */

struct bare {
	const struct gpuio_spec *spec;
	struct gpuio_job job;
	struct gpuio_offsets offsets;
	struct gpuio_io **free;
	unsigned nfree;
	uint64_t for_ns;
	struct gpuio_bare_result *result;
	int error;
};

/* Queues requests until every slot is in use; split: each batch is submitted at once. */
static int fill_queue(struct bare *b, struct uring_state *s)
{
	unsigned queued = 0;
	uint8_t op;
	int rc;

	while (b->nfree) {
		struct io_uring_sqe *sqe = uring_sqe(s);
		struct gpuio_io *io = b->free[b->nfree - 1];

		if (!sqe)
			break;
		b->nfree--;
		io->offset = offsets_next(&b->offsets, &op);
		uring_fill(s, sqe, io);
		if (s->merged || (++queued < b->spec->submit_batch && b->nfree))
			continue;
		rc = s->lib.submit(&s->ring);
		if (rc < 0 && !uring_for_now(rc))
			return rc;
		queued = 0;
	}
	return 0;
}

/* Waits for `want` completions and takes all there are. */
static int empty_queue(struct bare *b, struct uring_state *s, unsigned want)
{
	struct io_uring_cq_view *cq = &s->ring.cq;
	unsigned head = *cq->khead, tail = __atomic_load_n(cq->ktail, __ATOMIC_ACQUIRE), nfree = b->nfree;
	int32_t good = s->form == URING_NOP ? 0 : (int32_t)b->spec->block;
	int rc;

	while (s->merged || tail - head < want) {
		rc = s->lib.submit_and_wait(&s->ring, want);
		if (rc < 0 && !uring_for_now(rc))
			return rc;
		tail = __atomic_load_n(cq->ktail, __ATOMIC_ACQUIRE);
		if (tail - head >= want)
			break;
	}
	for (; head != tail; head++) {
		const struct io_uring_cqe *cqe = &cq->cqes[head & s->cq_mask];

		if (__builtin_expect(cqe->res != good, 0))
			return cqe->res < 0 ? cqe->res : -EIO;
		b->free[nfree++] = (struct gpuio_io *)(uintptr_t)cqe->user_data;
	}
	b->result->ios += nfree - b->nfree;
	b->nfree = nfree;
	__atomic_store_n(cq->khead, head, __ATOMIC_RELEASE);
	return 0;
}

static int loop(struct bare *b)
{
	struct uring_state *s = b->job.priv;
	unsigned depth = b->spec->depth, want = b->spec->reap_batch;
	uint64_t start = mono_ns(), cpu = gpuio_thread_cpu_ns();
	int rc = 0;

	do {
		for (unsigned turn = 0; turn < TURNS_PER_CLOCK && rc == 0; turn++) {
			rc = fill_queue(b, s);
			if (rc == 0)
				rc = empty_queue(b, s, want);
		}
	} while (rc == 0 && mono_ns() - start < b->for_ns);
	while (rc == 0 && b->nfree < depth)
		rc = empty_queue(b, s, 1);
	b->result->ns = mono_ns() - start;
	b->result->cpu_ns = gpuio_thread_cpu_ns() - cpu;
	return rc;
}

static void *bare_main(void *arg)
{
	struct bare *b = arg;
	int cpu = b->spec->cpus ? b->spec->cpus[0] : -1;
	cpu_set_t set;

	CPU_ZERO(&set);
	if (cpu >= 0 && cpu < CPU_SETSIZE)
		CPU_SET((unsigned)cpu, &set);
	if (cpu >= 0 && sched_setaffinity(0, sizeof(set), &set) != 0) {
		b->error = -errno;
		gpuio_say(&b->job.why, "the bare loop cannot be pinned to CPU %d (%s)", cpu, strerror(-b->error));
		return NULL;
	}
	b->error = b->job.engine->open(&b->job);
	if (b->error == 0) {
		b->error = loop(b);
		if (b->error)
			gpuio_say(&b->job.why, "the bare loop broke off: a request failed or was short (%s)", strerror(-b->error));
	}
	b->job.engine->close(&b->job);
	return NULL;
}

/* The slots on the pool's buffers, and the thread that uses them. */
static int run_thread(struct bare *b, unsigned char *buffers)
{
	unsigned depth = b->spec->depth;
	pthread_t thread;
	int rc = -ENOMEM;

	b->job.slots = depth;
	b->job.gpu = -1;
	b->job.ios = calloc(depth, sizeof(*b->job.ios));
	b->free = calloc(depth, sizeof(struct gpuio_io *));
	if (b->job.ios && b->free) {
		for (unsigned i = 0; i < depth; i++) {
			struct gpuio_io *io = &b->job.ios[i];

			io->buf = buffers + i * slot_stride(b->spec->block);
			io->length = b->spec->block;
			io->index = i;
			io->fd = b->spec->fd;
			io->op = GPUIO_READ;
			b->free[b->nfree++] = io;
		}
		rc = -pthread_create(&thread, NULL, bare_main, b);
		if (rc == 0)
			rc = -pthread_join(thread, NULL);
	}
	free(b->free);
	free(b->job.ios);
	return rc ? rc : b->error;
}

int gpuio_bare_uring(const struct gpuio_spec *spec, uint64_t ns, struct gpuio_bare_result *result, struct gpuio_why *why)
{
	const struct gpuio_engine *engine = spec->engine ? gpuio_engine_find(spec->engine) : NULL;
	struct bare b = {.spec = spec, .for_ns = ns, .result = result};
	unsigned char *buffers;
	int rc;

	gpuio_say(why, "%s", "");
	memset(result, 0, sizeof(*result));
	if (!engine || (strcmp(spec->engine, "io_uring") != 0 && strcmp(spec->engine, "io_uring_nop") != 0)) {
		gpuio_say(why, "the bare loop is for the engines io_uring and io_uring_nop");
		return -EINVAL;
	}
	rc = gpuio_spec_check(spec, engine, why);
	if (rc)
		return rc;
	if (spec->jobs != 1 || spec->read_percent != 100) {
		gpuio_say(why, "the bare loop only reads, in one thread: %" PRIu32 " jobs and %" PRIu32 " %% reads are asked for",
			  spec->jobs, spec->read_percent);
		return -EINVAL;
	}
	rc = gpuio_offsets_init(&b.offsets, spec, 0, why);
	if (rc == 0)
		rc = gpuio_pool_take(spec->pool, slot_stride(spec->block) * spec->depth, &buffers, why);
	if (rc)
		return rc;
	b.job.spec = spec;
	b.job.engine = engine;
	b.job.ring_fd = -1;
	rc = run_thread(&b, buffers);
	gpuio_pool_give_back(spec->pool);
	if (rc && why)
		*why = b.job.why;
	return rc;
}
