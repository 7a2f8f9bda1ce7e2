/* SPDX-License-Identifier: Apache-2.0 */
/* replay_queue.h - groups that may start: later, in a heap of one worker; now, in a queue of all workers. */
#ifndef GPUIO_REPLAY_QUEUE_H
#define GPUIO_REPLAY_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct gpuio_queued {
	uint64_t due;
	uint32_t group;
};

/* A binary heap, the earliest first. */
struct gpuio_heap {
	struct gpuio_queued *at;
	uint32_t n;
};

static inline bool queued_before(const struct gpuio_queued *a, const struct gpuio_queued *b)
{
	return a->due != b->due ? a->due < b->due : a->group < b->group;
}

static inline void heap_push(struct gpuio_heap *h, uint64_t due, uint32_t group)
{
	struct gpuio_queued entry = {due, group};
	uint32_t i = h->n++;

	while (i > 0 && queued_before(&entry, &h->at[(i - 1) / 2])) {
		h->at[i] = h->at[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	h->at[i] = entry;
}

static inline uint32_t heap_pop(struct gpuio_heap *h)
{
	struct gpuio_queued first = h->at[0], last = h->at[--h->n];
	uint32_t i = 0;

	for (;;) {
		uint32_t child = 2 * i + 1;

		if (child >= h->n)
			break;
		if (child + 1 < h->n && queued_before(&h->at[child + 1], &h->at[child]))
			child++;
		if (!queued_before(&h->at[child], &last))
			break;
		h->at[i] = h->at[child];
		i = child;
	}
	h->at[i] = last;
	return first.group;
}

/*
 * First in, first out, without a lock: a place may be written when its number is the turn of the writer, and read when it is one
 * more (the bounded queue of D. Vyukov). It never overflows here: a group is in it once at most.
 */
struct gpuio_place {
	atomic_uint turn;
	uint32_t group;
};

struct gpuio_ready {
	struct gpuio_place *places;
	uint32_t mask; /* number of places - 1; a power of two - 1 */
	atomic_uint in, out;
};

static inline void ready_reset(struct gpuio_ready *q)
{
	for (uint32_t i = 0; i <= q->mask; i++)
		atomic_store_explicit(&q->places[i].turn, i, memory_order_relaxed);
	atomic_store(&q->in, 0);
	atomic_store(&q->out, 0);
}

static inline void ready_put(struct gpuio_ready *q, uint32_t group)
{
	unsigned at = atomic_fetch_add(&q->in, 1);
	struct gpuio_place *place = &q->places[at & q->mask];

	place->group = group;
	atomic_store_explicit(&place->turn, at + 1, memory_order_release);
}

static inline bool ready_get(struct gpuio_ready *q, uint32_t *group)
{
	unsigned at = atomic_load_explicit(&q->out, memory_order_relaxed);

	for (;;) {
		struct gpuio_place *place = &q->places[at & q->mask];
		int32_t ahead = (int32_t)(atomic_load_explicit(&place->turn, memory_order_acquire) - (at + 1));

		if (ahead < 0)
			return false;
		if (ahead > 0) {
			at = atomic_load_explicit(&q->out, memory_order_relaxed);
			continue;
		}
		if (atomic_compare_exchange_weak(&q->out, &at, at + 1)) {
			*group = place->group;
			atomic_store_explicit(&place->turn, at + q->mask + 1, memory_order_release);
			return true;
		}
	}
}

#endif
