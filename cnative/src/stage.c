/* SPDX-License-Identifier: Apache-2.0 */
#include "stage.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "buffers.h"
#include "replay_steps.h"
#include "steps.h"
#include "why.h"

#define KIB UINT64_C(1024)
#define MOST_EVENTS 256u
/* Copying so many bytes along takes about as long as the call that begins another copy (2.6 us, tried on an H200). */
#define GAP (64 * KIB)
/* Each copy costs the GPU 2.6 us beside its bytes (tried on an H200): 1 MiB reaches 88 % of what long copies do, 4 MiB 96 %, 8 MiB
 * 98 %. Longer ones would only free their slots later. */
#define MOST_BYTES (8192 * KIB)
/* One to run and one to follow it without a gap. What ends meanwhile goes together with the next: a worker that is faster than its
 * copies makes fewer of them. */
#define MOST_UNDER_WAY 2u

uint32_t gpuio_stage_ahead(const struct gpuio_spec *spec, bool synchronous)
{
	/* What a copy takes, the device must be able to read meanwhile. With one slot beside the one that is read into, threads that
	 * share a copy engine wait for each other's copies: 10 % at 1 MiB and 8 or 16 threads (tried on an H200). */
	uint64_t n = 1024 * KIB / spec->block, least = 2, most = synchronous ? 64 : spec->depth;

	if (spec->gpu.ahead)
		return spec->gpu.ahead;
	if (most > 64)
		most = 64;
	n = n < most ? n : most;
	return (uint32_t)(n > least ? n : least);
}

static int make_events(struct gpuio_worker *w, struct gpuio_stage *s)
{
	const struct gpuio_cuda *cuda = w->side->device->cuda;
	unsigned flags = CUDA_EVENT_DISABLE_TIMING | (w->run->spec.gpu.wait == GPUIO_WAIT_SLEEP ? CUDA_EVENT_BLOCKING_SYNC : 0);
	uint32_t n = w->job.slots < MOST_EVENTS ? w->job.slots : MOST_EVENTS;

	for (; s->size < n; s->size++) {
		int rc = gpuio_cuda_say(cuda, cuda->event_create(&s->batches[s->size].event, flags), &w->job.why,
					"making an event on GPU %d", w->side->device->ordinal);

		if (rc)
			return rc;
	}
	return 0;
}

int gpuio_stage_open(struct gpuio_worker *w)
{
	const struct gpuio_spec *spec = &w->run->spec;
	struct gpuio_stage *s = w->stage;
	uint32_t slots = w->job.slots;

	s->words = (slots + 63) / 64;
	s->batches = calloc(slots < MOST_EVENTS ? slots : MOST_EVENTS, sizeof(*s->batches));
	s->line = calloc(slots, sizeof(struct gpuio_io *));
	s->ready = calloc(slots, sizeof(struct gpuio_io *));
	s->gathered = calloc(slots, sizeof(struct gpuio_io *));
	s->marked = calloc(s->words, sizeof(*s->marked));
	if (!s->batches || !s->line || !s->ready || !s->gathered || !s->marked)
		return -ENOMEM;
	s->verifies = spec->verify && engine_moves_data(w->job.engine);
	/* A slot that is copied along may just be read into: its own copy comes later and overwrites it, in a stream's order. Not so
	 * with several streams, or where slots hold what is going to be written; what is checked must not be copied over once more
	 * meanwhile; and what one thread reads comes in a row. */
	s->gap = w->side->nstreams == 1 && spec->read_percent == 100 && !s->verifies && !(w->job.engine->flags & GPUIO_ENGINE_SYNC) ? GAP : 0;
	return make_events(w, s);
}

void gpuio_stage_close(struct gpuio_worker *w)
{
	struct gpuio_stage *s = w->stage;

	if (!s)
		return;
	for (uint32_t i = 0; i < s->size; i++)
		w->side->device->cuda->event_destroy(s->batches[i].event);
	s->size = 0;
	free(s->batches);
	free(s->line);
	free(s->ready);
	free(s->gathered);
	free(s->marked);
	s->batches = NULL;
	s->line = s->ready = s->gathered = NULL;
	s->marked = NULL;
}

void gpuio_stage_land(struct gpuio_worker *w, struct gpuio_io *io, uint64_t begun, uint64_t now)
{
	hist_add_n(&w->total, ticks_to_ns(&w->ticker, ticks_between(begun, now)), 1);
	w->tally.landed++;
	w->tally.total.level--;
	if (w->scheduled) {
		uint64_t lag = ticks_between(io->intended, begun);

		hist_add_n(&w->lag, ticks_to_ns(&w->ticker, lag), 1);
		hist_add_n(&w->response, ticks_to_ns(&w->ticker, ticks_between(io->intended, now)), 1);
		w->tally.late += lag > w->late_ticks;
	}
	w->free[w->nfree++] = io;
	if (w->run->replay)
		gpuio_replay_end(w, io, now);
}

/* Each read in GPU memory, right behind its copy. */
static int check_run(struct gpuio_worker *w, uint32_t first, uint32_t last, cuda_stream stream)
{
	struct gpuio_side *side = w->side;

	for (uint32_t i = first; i <= last; i++) {
		const struct gpuio_io *io = &w->slots[i];
		int rc;

		if (!(w->stage->marked[i / 64] >> (i % 64) & 1) || !gpuio_device_can_check(side_address(side, i), io->offset))
			continue;
		rc = gpuio_device_check(side->device, &side->findings, i, side_address(side, i), io->length, io->offset,
					w->run->seeds[io->file], stream, &w->job.why);
		if (rc)
			return rc;
	}
	return 0;
}

static int stamp_run(struct gpuio_worker *w, uint32_t first, uint32_t last, cuda_stream stream)
{
	for (uint32_t i = first; i <= last; i++) {
		const struct gpuio_io *io = &w->slots[i];
		int rc = gpuio_device_stamp(w->side->device, side_address(w->side, i), io->length, io->offset, w->run->seeds[io->file],
					    stream, &w->job.why);

		if (rc)
			return rc;
	}
	return 0;
}

/* One copy of the slots first..last. */
static int copy_run(struct gpuio_worker *w, uint32_t first, uint32_t last, bool out, cuda_stream stream)
{
	const struct gpuio_cuda *cuda = w->side->device->cuda;
	cuda_ptr device = side_address(w->side, first);
	void *host = w->slots[first].buf;
	uint64_t bytes = (last - first) * w->side->stride + w->slots[last].length;
	int rc = 0;

	if (out && w->side->kernel)
		rc = stamp_run(w, first, last, stream);
	if (rc)
		return rc;
	if (out)
		rc = cuda->memcpy_to_host_async(host, device, bytes, stream);
	else
		rc = cuda->memcpy_to_device_async(device, host, bytes, stream);
	w->tally.copies++;
	w->tally.copied_bytes += bytes;
	rc = gpuio_cuda_say(cuda, rc, &w->job.why, "copying %" PRIu64 " bytes %s GPU %d", bytes, out ? "from" : "to",
			    w->side->device->ordinal);
	if (rc == 0 && !out && w->stage->verifies && w->side->kernel)
		rc = check_run(w, first, last, stream);
	return rc;
}

/* The batch that copies go into now, with nothing in it. */
static struct gpuio_copies *begin_batch(struct gpuio_worker *w, bool out, int *rc)
{
	struct gpuio_stage *s = w->stage;
	struct gpuio_copies *batch;
	uint32_t place;

	while (s->count == s->size) {
		*rc = gpuio_stage_retire(w, true);
		if (*rc < 0)
			return NULL;
	}
	place = s->head + s->count;
	batch = &s->batches[place < s->size ? place : place - s->size];
	batch->n = 0;
	batch->out = out;
	return batch;
}

static int end_batch(struct gpuio_worker *w, struct gpuio_copies *batch, cuda_stream stream)
{
	const struct gpuio_cuda *cuda = w->side->device->cuda;
	struct gpuio_stage *s = w->stage;

	s->count++;
	s->turn = s->turn + 1 < w->side->nstreams ? s->turn + 1 : 0;
	return gpuio_cuda_say(cuda, cuda->event_record(batch->event, stream), &w->job.why, "recording an event on GPU %d",
			      w->side->device->ordinal);
}

/* The next marked slot from `from` on; job.slots = there is none. */
static uint32_t next_marked(const struct gpuio_worker *w, uint32_t from)
{
	const struct gpuio_stage *s = w->stage;
	uint32_t word = from / 64;
	uint64_t bits;

	if (from >= w->job.slots)
		return w->job.slots;
	bits = s->marked[word] & (UINT64_MAX << (from % 64));
	while (!bits && ++word < s->words)
		bits = s->marked[word];
	return bits ? word * 64 + (uint32_t)__builtin_ctzll(bits) : w->job.slots;
}

static void line_up(struct gpuio_worker *w, uint32_t slot, struct gpuio_copies *batch)
{
	struct gpuio_stage *s = w->stage;
	uint32_t place = s->line_head + s->line_count++;

	s->line[place < w->job.slots ? place : place - w->job.slots] = &w->slots[slot];
	batch->n++;
}

/* As many marked slots from `first` on as one copy takes; returns the last of them. */
static uint32_t end_of_run(const struct gpuio_worker *w, uint32_t first)
{
	uint64_t stride = w->side->stride;
	uint32_t last = first;

	for (;;) {
		uint32_t next = next_marked(w, last + 1);

		/* Behind a short request lies what a later write from that place needs as it is. */
		if (w->slots[last].length < w->run->spec.block && w->run->spec.read_percent < 100)
			return last;
		if (next == w->job.slots || (next - last - 1) * stride > w->stage->gap || (next - first + 1) * stride > MOST_BYTES)
			return last;
		last = next;
	}
}

int gpuio_stage_copy(struct gpuio_worker *w, struct gpuio_io *const *ios, uint32_t n, bool out)
{
	struct gpuio_stage *s = w->stage;
	uint32_t slot;
	int rc = 0;

	for (uint32_t i = 0; i < n; i++)
		s->marked[ios[i]->index / 64] |= UINT64_C(1) << (ios[i]->index % 64);
	slot = next_marked(w, 0);
	while (slot < w->job.slots) {
		struct gpuio_copies *batch = begin_batch(w, out, &rc);
		cuda_stream stream = w->side->streams[s->turn];
		uint64_t bytes = 0;

		if (!batch)
			return rc;
		do {
			uint32_t last = end_of_run(w, slot);

			rc = copy_run(w, slot, last, out, stream);
			if (rc)
				return rc;
			bytes += (last - slot + 1) * w->side->stride;
			for (; slot <= last; slot = next_marked(w, slot + 1))
				line_up(w, slot, batch);
		} while (slot < w->job.slots && bytes < MOST_BYTES);
		rc = end_batch(w, batch, stream);
		if (rc)
			return rc;
	}
	for (uint32_t i = 0; i < n; i++)
		s->marked[ios[i]->index / 64] = 0;
	return 0;
}

int gpuio_stage_flush(struct gpuio_worker *w)
{
	struct gpuio_stage *s = w->stage;
	uint32_t n = s->ngathered, most = w->side->nstreams > MOST_UNDER_WAY ? w->side->nstreams : MOST_UNDER_WAY;

	if (n == 0 || s->count >= most)
		return 0;
	s->ngathered = 0;
	return gpuio_stage_copy(w, s->gathered, n, false);
}

/* CUDA_NOT_READY only when not asked to wait. */
static int look(struct gpuio_worker *w, cuda_event event, bool wait)
{
	const struct gpuio_cuda *cuda = w->side->device->cuda;
	int rc;

	if (wait && w->run->spec.gpu.wait == GPUIO_WAIT_SLEEP)
		return cuda->event_synchronize(event);
	do {
		rc = cuda->event_query(event);
	} while (rc == CUDA_NOT_READY && wait && !given_up(w));
	return rc;
}

static void into_host(struct gpuio_worker *w, struct gpuio_io *io)
{
	struct gpuio_stage *s = w->stage;
	uint32_t place = s->ready_head + s->nready++;

	if (!w->side->kernel && engine_moves_data(w->job.engine))
		gpuio_pattern_stamp(io->buf, io->length, io->offset, w->run->seeds[io->file]);
	s->ready[place < w->job.slots ? place : place - w->job.slots] = io;
}

/* What the kernel did not check behind the copy is copied back. */
static int check_back(struct gpuio_worker *w, const struct gpuio_io *io)
{
	struct gpuio_tally *t = &w->tally;
	uint64_t first;
	bool bad;
	int rc;

	t->verified += pattern_whole(io->length, io->offset) > 0;
	if (w->side->kernel && gpuio_device_can_check(side_address(w->side, io->index), io->offset))
		return 0;
	rc = gpuio_side_check_back(w, io, &bad, &first);
	if (rc == 0 && bad && t->bad++ == 0)
		t->first_bad_offset = first;
	return rc;
}

static int take_batch(struct gpuio_worker *w, const struct gpuio_copies *batch)
{
	struct gpuio_stage *s = w->stage;
	uint64_t now;

	flow_mark(&w->tally.total, stamp(&w->ticker));
	now = stamp(&w->ticker);
	for (uint32_t i = 0; i < batch->n; i++) {
		struct gpuio_io *io = s->line[s->line_head];
		int rc;

		if (++s->line_head == w->job.slots)
			s->line_head = 0;
		s->line_count--;
		hist_add_n(&w->copy, ticks_to_ns(&w->ticker, ticks_between(batch->out ? io->held : io->reaped, now)), 1);
		if (batch->out) {
			into_host(w, io);
			continue;
		}
		rc = s->verifies ? check_back(w, io) : 0;
		if (rc)
			return rc;
		gpuio_stage_land(w, io, io->started, now);
	}
	return (int)batch->n;
}

int gpuio_stage_retire(struct gpuio_worker *w, bool wait)
{
	const struct gpuio_cuda *cuda = w->side->device->cuda;
	struct gpuio_stage *s = w->stage;
	int n = 0, rc;

	while (s->count) {
		const struct gpuio_copies *batch = &s->batches[s->head];

		rc = look(w, batch->event, wait && n == 0);
		if (rc == CUDA_NOT_READY)
			return wait && n == 0 ? -ETIMEDOUT : n;
		rc = gpuio_cuda_say(cuda, rc, &w->job.why, "a copy %s GPU %d", batch->out ? "from" : "to", w->side->device->ordinal);
		if (rc)
			return rc;
		rc = take_batch(w, batch);
		if (rc < 0)
			return rc;
		n += rc;
		if (++s->head == s->size)
			s->head = 0;
		s->count--;
	}
	return n;
}
