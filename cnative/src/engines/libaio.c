/* SPDX-License-Identifier: Apache-2.0 */
/* libaio.c - Linux native asynchronous I/O by its own system calls; no library. What has ended is read from the context's ring in
 * memory, as virtual machine monitors and databases do; the kernel is entered to begin requests and to wait. */
#include <errno.h>
#include <inttypes.h>
#include <linux/aio_abi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "aio.h"
#include "buffers.h"
#include "clock.h"
#include "registry.h"
#include "why.h"

#define RING_MAGIC 0xa10a10a1u

/* What a context's number points to; the kernel's own layout, stable since Linux 2.6 (fs/aio.c). */
struct ring {
	uint32_t id, nr;
	uint32_t head, tail; /* the reader moves head, the kernel tail */
	uint32_t magic, compat_features, incompat_features, header_length;
	struct io_event events[];
};

struct libaio_state {
	struct gpuio_aio_context context;
	struct ring *ring;          /* NULL = not as known here: then by system calls */
	uint64_t flying;            /* requests that the kernel has */
	struct iocb *blocks;        /* one per slot */
	struct iocb **list;         /* of one submit call */
	struct io_event *events;
	struct gpuio_io **refused;  /* requests that io_submit rejected: they end with its error, at the next reap */
	unsigned nrefused;
};

static int sys_io_submit(aio_context_t context, long n, struct iocb **list)
{
	long rc = syscall(SYS_io_submit, context, n, list);

	return rc < 0 ? -errno : (int)rc;
}

static int sys_io_getevents(aio_context_t context, long min, long max, struct io_event *events, struct timespec *wait)
{
	long rc = syscall(SYS_io_getevents, context, min, max, events, wait);

	return rc < 0 ? -errno : (int)rc;
}

static struct ring *ring_of(aio_context_t context)
{
	struct ring *ring = (struct ring *)(uintptr_t)context;

	return ring->magic == RING_MAGIC && ring->incompat_features == 0 && ring->header_length == sizeof(*ring) ? ring : NULL;
}

static uint64_t read_number(const char *path)
{
	FILE *f = fopen(path, "re");
	uint64_t value = 0;

	if (!f)
		return 0;
	if (fscanf(f, "%" SCNu64, &value) != 1)
		value = 0;
	fclose(f);
	return value;
}

static void explain_setup(int error, unsigned depth, struct gpuio_why *why)
{
	if (error == EAGAIN)
		gpuio_say(why, "io_setup for %u requests: the limit of asynchronous I/O requests is used up (fs.aio-nr %" PRIu64
			  " of fs.aio-max-nr %" PRIu64 "): raise it with sysctl -w fs.aio-max-nr=1048576, or lower depth or jobs",
			  depth, read_number("/proc/sys/fs/aio-nr"), read_number("/proc/sys/fs/aio-max-nr"));
	else if (error == ENOSYS)
		gpuio_say(why, "the kernel is built without asynchronous I/O (CONFIG_AIO), or a sandbox hides it: use psync");
	else if (error == EPERM)
		gpuio_say(why, "a seccomp filter (container or sandbox) forbids io_setup: allow it there, or use psync");
	else
		gpuio_say(why, "io_setup for %u requests failed (%s)", depth, strerror(error));
}

static int libaio_probe(const char *library, struct gpuio_why *why)
{
	struct gpuio_aio_context context;
	struct gpuio_aio aio;
	int rc;

	(void)library;
	gpuio_aio_init(&aio);
	rc = gpuio_aio_take(&aio, 1, &context);
	if (rc)
		explain_setup(-rc, 1, why);
	else
		gpuio_aio_end(context);
	return rc;
}

static int libaio_open(struct gpuio_job *job)
{
	unsigned depth = job->spec->depth;
	struct libaio_state *s = calloc(1, sizeof(*s));
	int rc;

	job->priv = s;
	if (!s)
		return -ENOMEM;
	s->blocks = calloc(job->slots, sizeof(*s->blocks));
	s->list = calloc(depth, sizeof(struct iocb *));
	s->events = calloc(depth, sizeof(*s->events));
	s->refused = calloc(depth, sizeof(struct gpuio_io *));
	if (!s->blocks || !s->list || !s->events || !s->refused)
		return -ENOMEM;
	for (unsigned i = 0; i < job->slots; i++) {
		s->blocks[i].aio_buf = (uintptr_t)job->ios[i].buf;
		s->blocks[i].aio_data = (uintptr_t)&job->ios[i];
	}
	rc = gpuio_aio_take(gpuio_pool_aio(job->spec->pool), depth, &s->context);
	if (rc)
		explain_setup(-rc, depth, &job->why);
	else
		s->ring = ring_of(s->context.id);
	return rc;
}

static int libaio_submit(struct gpuio_job *job, struct gpuio_io *const *ios, unsigned n)
{
	struct libaio_state *s = job->priv;
	int rc;

	for (unsigned i = 0; i < n; i++) {
		struct iocb *block = &s->blocks[ios[i]->index];

		block->aio_lio_opcode = ios[i]->op == GPUIO_READ ? IOCB_CMD_PREAD : IOCB_CMD_PWRITE;
		block->aio_fildes = (uint32_t)ios[i]->fd;
		block->aio_offset = (int64_t)ios[i]->offset;
		block->aio_nbytes = ios[i]->length;
		s->list[i] = block;
	}
	rc = sys_io_submit(s->context.id, (long)n, s->list);
	if (rc >= 0) {
		s->flying += (unsigned)rc;
		return rc;
	}
	if (rc == -EAGAIN || rc == -EINTR)
		return 0;
	/* An error is about the first request: it has ended, the others were not looked at. */
	ios[0]->result = rc;
	s->refused[s->nrefused++] = ios[0];
	return 1;
}

static struct gpuio_io *ended(const struct io_event *event)
{
	struct gpuio_io *io = (struct gpuio_io *)(uintptr_t)event->data;

	io->result = event->res;
	return io;
}

/* Up to max finished requests that are in the ring by now. */
static unsigned read_ring(struct libaio_state *s, struct gpuio_io **done, unsigned max)
{
	struct ring *ring = s->ring;
	uint32_t head, tail;
	unsigned n = 0;

	if (!ring)
		return 0;
	head = __atomic_load_n(&ring->head, __ATOMIC_RELAXED);
	tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
	while (n < max && head != tail) {
		done[n++] = ended(&ring->events[head]);
		if (++head == ring->nr)
			head = 0;
	}
	if (n)
		__atomic_store_n(&ring->head, head, __ATOMIC_RELEASE);
	s->flying -= n;
	return n;
}

/* Stores up to max finished requests in done, waiting for min of them until the time-out; NULL = without end. */
static int take_events(struct libaio_state *s, struct gpuio_io **done, unsigned min, unsigned max, struct timespec *timeout)
{
	unsigned n = 0;
	int rc;

	while (n < max && n < s->nrefused) {
		done[n] = s->refused[n];
		n++;
	}
	s->nrefused -= n;
	memmove(s->refused, s->refused + n, s->nrefused * sizeof(s->refused[0]));
	n += read_ring(s, done + n, max - n);
	if (n == max || (n >= min && s->ring))
		return (int)n;
	min = min > n ? min - n : 0;
	do {
		rc = sys_io_getevents(s->context.id, (long)min, (long)(max - n), s->events, timeout);
	} while (rc == -EINTR);
	if (rc < 0)
		return rc;
	s->flying -= (unsigned)rc;
	for (int i = 0; i < rc; i++)
		done[n++] = ended(&s->events[i]);
	return (int)n;
}

static int libaio_reap(struct gpuio_job *job, struct gpuio_io **done, unsigned min, unsigned max)
{
	struct timespec now = {0, 0};

	return take_events(job->priv, done, min, max, min ? NULL : &now);
}

static int libaio_wait(struct gpuio_job *job, struct gpuio_io **done, unsigned max, uint64_t deadline_ns)
{
	struct timespec left = {0, 0};
	uint64_t now = mono_ns();

	if (now < deadline_ns) {
		left.tv_sec = (time_t)((deadline_ns - now) / 1000000000u);
		left.tv_nsec = (long)((deadline_ns - now) % 1000000000u);
	}
	return take_events(job->priv, done, 1, max, &left);
}

static void libaio_close(struct gpuio_job *job)
{
	struct libaio_state *s = job->priv;

	if (!s)
		return;
	if (s->flying)
		gpuio_aio_end(s->context); /* waits for them */
	else if (s->context.id)
		gpuio_aio_give_back(gpuio_pool_aio(job->spec->pool), s->context);
	free(s->blocks);
	free(s->list);
	free(s->events);
	free(s->refused);
	free(s);
	job->priv = NULL;
}

const struct gpuio_engine gpuio_engine_libaio = {
	.name = "libaio",
	.abi = GPUIO_ABI,
	.flags = 0,
	.probe = libaio_probe,
	.open = libaio_open,
	.submit = libaio_submit,
	.reap = libaio_reap,
	.close = libaio_close,
	.wait = libaio_wait,
};
