/* SPDX-License-Identifier: Apache-2.0 */
/* hist.h - the histogram's inner part, inlined into the job loop. */
#ifndef GPUIO_HIST_H
#define GPUIO_HIST_H

#include "gpuio.h"

static inline unsigned hist_bin(uint64_t ns)
{
	unsigned exponent;

	if (ns < (1u << GPUIO_HIST_SUB_BITS))
		return (unsigned)ns;
	exponent = 63u - (unsigned)__builtin_clzll(ns);
	if (exponent >= GPUIO_HIST_MAX_BITS)
		return GPUIO_HIST_BINS;
	/* The leading one adds 64 to the sub-bin, so octave 6 (64..127) starts at bin 64. */
	return ((exponent - GPUIO_HIST_SUB_BITS) << GPUIO_HIST_SUB_BITS) +
	       (unsigned)(ns >> (exponent - GPUIO_HIST_SUB_BITS));
}

/* As gpuio_hist_reset, for one that has been reset before: touches only the bins between its smallest and its largest value, which
 * are all that can hold anything. Between windows it counts: the whole of it is 19 KB. */
void gpuio_hist_clear(struct gpuio_hist *h);

/* Sum, smallest and largest of values on their way into a histogram: what would be stored with each of them otherwise. */
struct gpuio_part {
	uint64_t sum_ns, min_ns, max_ns;
};

static inline struct gpuio_part part_empty(void)
{
	return (struct gpuio_part){0, UINT64_MAX, 0};
}

static inline void part_add(struct gpuio_part *p, struct gpuio_hist *h, uint64_t ns)
{
	unsigned bin = hist_bin(ns);

	p->sum_ns += ns;
	p->min_ns = ns < p->min_ns ? ns : p->min_ns;
	p->max_ns = ns > p->max_ns ? ns : p->max_ns;
	if (__builtin_expect(bin < GPUIO_HIST_BINS, 1))
		h->bins[bin]++;
	else
		h->overflow++;
}

static inline void part_end(const struct gpuio_part *p, struct gpuio_hist *h, uint64_t n)
{
	h->count += n;
	h->sum_ns += p->sum_ns;
	if (p->min_ns < h->min_ns)
		h->min_ns = p->min_ns;
	if (p->max_ns > h->max_ns)
		h->max_ns = p->max_ns;
}

/* n values of ns each. */
static inline void hist_add_n(struct gpuio_hist *h, uint64_t ns, uint64_t n)
{
	unsigned bin = hist_bin(ns);

	h->count += n;
	h->sum_ns += n * ns;
	if (ns < h->min_ns)
		h->min_ns = ns;
	if (ns > h->max_ns)
		h->max_ns = ns;
	if (__builtin_expect(bin < GPUIO_HIST_BINS, 1))
		h->bins[bin] += n;
	else
		h->overflow += n;
}

#endif
