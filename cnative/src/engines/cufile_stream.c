/* SPDX-License-Identifier: Apache-2.0 */
/* cufile_stream.c - cuFileReadAsync and cuFileWriteAsync: each request in the order of a CUDA stream, one stream per slot. */
#include <errno.h>
#include <stdlib.h>

#include "buffers.h"
#include "engines/cufile.h"
#include "gpu.h"
#include "registry.h"
#include "why.h"

/* Flags of cuFileStreamRegister: offsets and sizes are right already when a request is sent; whole pages only. */
#define KNOWN_WHEN_SENT 0x7
#define WHOLE_PAGES 0x8

/* What the library reads, and writes, when the stream comes to it. */
struct cufile_stream_slot {
	size_t size;
	off_t file_offset, base_offset;
	ssize_t moved;
	cuda_stream stream;
	cuda_event event;
	bool registered;
	struct gpuio_io *io; /* in flight; NULL = not */
};

struct cufile_stream_state {
	struct cufile_target target;
	struct gpuio_device *device;
	bool sleeps;
	unsigned nslots, in_flight, next; /* next: where looking goes on, so that no slot is always last */
	struct cufile_stream_slot *slots;
};

static int stream_probe(const char *library, struct gpuio_why *why)
{
	struct gpuio_cufile_lib lib;
	int rc = gpuio_cufile_lib_open(&lib, library, why);

	if (rc == 0 && (!lib.read_async || !lib.write_async || !lib.stream_register || !lib.stream_deregister)) {
		gpuio_say(why, "this libcufile has no stream interface: use libcufile 1.7 (CUDA 12.2) or newer");
		rc = -ENOTSUP;
	}
	gpuio_cufile_lib_close(&lib);
	return rc;
}

static int open_slot(struct gpuio_job *job, struct cufile_stream_slot *slot)
{
	struct cufile_stream_state *s = job->priv;
	const struct gpuio_cuda *cuda = s->device->cuda;
	unsigned flags = CUDA_EVENT_DISABLE_TIMING | (s->sleeps ? CUDA_EVENT_BLOCKING_SYNC : 0);
	bool pages = job->spec->block % GPUIO_PAGE == 0 && job->spec->region_offset % GPUIO_PAGE == 0;
	struct cufile_error error;
	int rc;

	rc = gpuio_cuda_say(cuda, cuda->stream_create(&slot->stream, CUDA_STREAM_NON_BLOCKING), &job->why, "making a stream on GPU %d",
			    s->device->ordinal);
	if (rc == 0)
		rc = gpuio_cuda_say(cuda, cuda->event_create(&slot->event, flags), &job->why, "making an event on GPU %d",
				    s->device->ordinal);
	if (rc)
		return rc;
	error = s->target.lib.stream_register(slot->stream, KNOWN_WHEN_SENT | (pages ? WHOLE_PAGES : 0));
	slot->registered = error.code == 0;
	if (error.code)
		gpuio_say(&job->why, "cuFileStreamRegister was refused (cuFile code %d, CUDA code %d)", error.code, error.cuda);
	return -error.code;
}

static int stream_open(struct gpuio_job *job)
{
	struct cufile_stream_state *s = calloc(1, sizeof(*s));
	int rc;

	job->priv = s;
	if (!s)
		return -ENOMEM;
	s->target.fd = -1;
	if (!job->device) {
		gpuio_say(&job->why, "cuFile's stream interface moves bytes in the order of a GPU's work: use a GPU as destination");
		return -ENODEV;
	}
	rc = stream_probe(job->spec->library, &job->why);
	if (rc == 0)
		rc = gpuio_cufile_target_open(&s->target, job);
	if (rc)
		return rc;
	s->device = job->device;
	s->sleeps = job->spec->gpu.wait == GPUIO_WAIT_SLEEP;
	s->slots = calloc(job->slots, sizeof(*s->slots));
	if (!s->slots)
		return -ENOMEM;
	while (rc == 0 && s->nslots < job->slots)
		rc = open_slot(job, &s->slots[s->nslots++]);
	return rc;
}

static int send(struct gpuio_job *job, struct gpuio_io *io)
{
	struct cufile_stream_state *s = job->priv;
	struct cufile_stream_slot *slot = &s->slots[io->index];
	const struct gpuio_cufile_lib *lib = &s->target.lib;
	struct cufile_error error;

	slot->size = io->length;
	slot->file_offset = (off_t)io->offset;
	slot->base_offset = 0;
	slot->moved = -1;
	error = (io->op == GPUIO_READ ? lib->read_async : lib->write_async)(s->target.file, io->buf, &slot->size, &slot->file_offset,
									     &slot->base_offset, &slot->moved, slot->stream);
	if (error.code) {
		/* The request has ended with it; the stream still has an end to wait for. */
		slot->moved = -error.code;
	}
	slot->io = io;
	s->in_flight++;
	return s->device->cuda->event_record(slot->event, slot->stream) == CUDA_SUCCESS ? 0 : -EIO;
}

static int stream_submit(struct gpuio_job *job, struct gpuio_io *const *ios, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		int rc = send(job, ios[i]);

		if (rc) {
			gpuio_say(&job->why, "an event cannot be recorded in a stream of GPU %d: the GPU is lost, see dmesg (Xid)",
				  job->gpu);
			return rc;
		}
	}
	return (int)n;
}

/* Takes the slot's request when its stream has come past it; with `wait` it waits for that. 1, 0 or -errno. */
static int take(struct cufile_stream_state *s, struct cufile_stream_slot *slot, bool wait, struct gpuio_io **done)
{
	const struct gpuio_cuda *cuda = s->device->cuda;
	int code = wait ? cuda->event_synchronize(slot->event) : cuda->event_query(slot->event);

	if (code == CUDA_NOT_READY)
		return 0;
	slot->io->result = code == CUDA_SUCCESS ? cufile_result(slot->moved, EIO) : -EIO;
	*done = slot->io;
	slot->io = NULL;
	s->in_flight--;
	return 1;
}

static unsigned look(struct cufile_stream_state *s, struct gpuio_io **done, unsigned max)
{
	unsigned n = 0;

	for (unsigned i = 0; i < s->nslots && n < max && s->in_flight; i++) {
		struct cufile_stream_slot *slot = &s->slots[s->next];

		s->next = s->next + 1 == s->nslots ? 0 : s->next + 1;
		if (slot->io)
			n += (unsigned)take(s, slot, false, &done[n]);
	}
	return n;
}

static int stream_reap(struct gpuio_job *job, struct gpuio_io **done, unsigned min, unsigned max)
{
	struct cufile_stream_state *s = job->priv;
	unsigned n = look(s, done, max);

	while (n < min && s->in_flight) {
		if (s->sleeps) {
			while (!s->slots[s->next].io)
				s->next = s->next + 1 == s->nslots ? 0 : s->next + 1;
			n += (unsigned)take(s, &s->slots[s->next], true, &done[n]);
		}
		n += look(s, done + n, max - n);
	}
	return (int)n;
}

static void close_slot(struct cufile_stream_state *s, struct cufile_stream_slot *slot)
{
	const struct gpuio_cuda *cuda = s->device->cuda;

	if (slot->stream)
		cuda->stream_synchronize(slot->stream);
	if (slot->registered)
		s->target.lib.stream_deregister(slot->stream);
	if (slot->event)
		cuda->event_destroy(slot->event);
	if (slot->stream)
		cuda->stream_destroy(slot->stream);
}

static void stream_close(struct gpuio_job *job)
{
	struct cufile_stream_state *s = job->priv;

	if (!s)
		return;
	for (unsigned i = 0; i < s->nslots; i++)
		close_slot(s, &s->slots[i]);
	gpuio_cufile_target_close(&s->target);
	free(s->slots);
	free(s);
	job->priv = NULL;
}

const struct gpuio_engine gpuio_engine_cufile_stream = {
	.name = "cufile_stream",
	.abi = GPUIO_ABI,
	.flags = GPUIO_ENGINE_NEEDS_GPU | GPUIO_ENGINE_FIXED_BUFFERS,
	.probe = stream_probe,
	.open = stream_open,
	.submit = stream_submit,
	.reap = stream_reap,
	.close = stream_close,
};
