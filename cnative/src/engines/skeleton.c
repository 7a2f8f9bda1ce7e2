/* SPDX-License-Identifier: Apache-2.0 */
/*
 * skeleton.c - how to add an engine: copy this file, change what the comments point at.
 *
 * It is a working engine: it queues what is submitted and does the I/O with preadv and pwritev when it is reaped. It is built
 * as a shared object of its own and loaded by path, as yours may be:
 *
 *	cc -std=c11 -O2 -shared -fPIC -I cnative/include -o skeleton.so cnative/src/engines/skeleton.c
 *	GPUIO_ENGINE_PATH=./skeleton.so pytest ...
 *
 * To build an engine in instead: name its table gpuio_engine_<name>, put the file into cnative/CMakeLists.txt and the table
 * into src/registry.h and src/registry.c.
 *
 * Rules: no globals (one process has many jobs); no allocation, lock or system call beyond the I/O in submit and reap;
 * everything returns 0, a count or -errno; a sentence for people goes to job->why.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* preadv, pwritev */
#endif
#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>

#include "gpuio.h"

/* What one job keeps. Here: the requests taken and not yet done, oldest first, in a ring of depth places. */
struct skeleton_state {
	unsigned head, count, size;
	struct gpuio_io *queue[];
};

/*
 * Can it work on this machine? No side effects: look for a device, a library, a kernel feature. When it cannot, return -errno
 * and write one sentence that says what is missing and how to get it. `library` is what the user named, or NULL.
 */
static int skeleton_probe(const char *library, struct gpuio_why *why)
{
	(void)library;
	(void)why;
	return 0;
}

/*
 * Called in the worker's own thread, before any window. Everything that windows need is made here. job->spec is the cell,
 * job->ios are its job->slots requests with their buffers, which may be registered now. Set in job->effective those of the knobs
 * asked for in job->spec->knobs that are really on; this engine has none. close is called also when this fails.
 */
static int skeleton_open(struct gpuio_job *job)
{
	unsigned size = job->spec->depth;
	struct skeleton_state *s = calloc(1, sizeof(*s) + size * sizeof(s->queue[0]));

	if (!s)
		return -ENOMEM;
	s->size = size;
	job->priv = s;
	return 0;
}

/*
 * Take the first k of n requests and return k. 0 means "not now": the job loop reaps and offers the rest again. A request that
 * cannot be done is not an error of the engine: take it and give it back with its -errno as result. -errno from here means the
 * engine is broken and ends the run.
 */
static int skeleton_submit(struct gpuio_job *job, struct gpuio_io *const *ios, unsigned n)
{
	struct skeleton_state *s = job->priv;
	unsigned k = 0;

	while (k < n && s->count < s->size)
		s->queue[(s->head + s->count++) % s->size] = ios[k++];
	return (int)k;
}

static int64_t move(int fd, const struct gpuio_io *io)
{
	struct iovec vec = {.iov_base = io->buf, .iov_len = io->length};
	ssize_t moved;

	do {
		if (io->op == GPUIO_READ)
			moved = preadv(fd, &vec, 1, (off_t)io->offset);
		else
			moved = pwritev(fd, &vec, 1, (off_t)io->offset);
	} while (moved < 0 && errno == EINTR);
	return moved < 0 ? -errno : moved;
}

/*
 * Put up to max finished requests into done, each with its result (bytes moved, or -errno), and return how many. Wait for at
 * least min; with min = 0 do not wait, but still look at the device. Never retry a short transfer: it is counted.
 */
static int skeleton_reap(struct gpuio_job *job, struct gpuio_io **done, unsigned min, unsigned max)
{
	struct skeleton_state *s = job->priv;
	unsigned n = 0, want = min ? min : 1;

	if (want > max)
		want = max;
	while (n < want && s->count > 0) {
		struct gpuio_io *io = s->queue[s->head];

		s->head = (s->head + 1) % s->size;
		s->count--;
		io->result = move(io->fd, io);
		done[n++] = io;
	}
	return (int)n;
}

/* Called in the worker's own thread, also after a failed open. Nothing may be in flight into the buffers afterwards. */
static void skeleton_close(struct gpuio_job *job)
{
	free(job->priv);
	job->priv = NULL;
}

/*
 * A shared object exports its table under this very name. Three more callbacks may follow, see gpuio.h: wait (until a completion or
 * a deadline, for open loops; without it the job loop looks at reap again and again), sync (when fsync of the file is not what
 * makes writes durable) and read_back (when pread of the file does not read what was written).
 */
const struct gpuio_engine gpuio_engine = {
	.name = "skeleton",
	.abi = GPUIO_ABI,
	.flags = 0, /* GPUIO_ENGINE_SYNC when submit returns with the I/O done */
	.probe = skeleton_probe,
	.open = skeleton_open,
	.submit = skeleton_submit,
	.reap = skeleton_reap,
	.close = skeleton_close,
};
