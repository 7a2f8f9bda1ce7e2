/* SPDX-License-Identifier: Apache-2.0 */
#include "hist.h"

#include <errno.h>
#include <string.h>

void gpuio_hist_reset(struct gpuio_hist *h)
{
	memset(h, 0, sizeof(*h));
	h->min_ns = UINT64_MAX;
}

void gpuio_hist_clear(struct gpuio_hist *h)
{
	if (h->count) {
		unsigned first = hist_bin(h->min_ns), end = hist_bin(h->max_ns) + 1;

		if (end > GPUIO_HIST_BINS)
			end = GPUIO_HIST_BINS;
		if (first < end)
			memset(h->bins + first, 0, (end - first) * sizeof(h->bins[0]));
	}
	h->count = h->overflow = h->sum_ns = h->max_ns = 0;
	h->min_ns = UINT64_MAX;
}

void gpuio_hist_add(struct gpuio_hist *h, uint64_t ns)
{
	hist_add_n(h, ns, 1);
}

void gpuio_hist_merge(struct gpuio_hist *into, const struct gpuio_hist *from)
{
	unsigned first, end;

	if (from->count == 0)
		return;
	first = hist_bin(from->min_ns);
	end = hist_bin(from->max_ns) + 1;
	if (end > GPUIO_HIST_BINS)
		end = GPUIO_HIST_BINS;
	into->count += from->count;
	into->overflow += from->overflow;
	into->sum_ns += from->sum_ns;
	if (from->min_ns < into->min_ns)
		into->min_ns = from->min_ns;
	if (from->max_ns > into->max_ns)
		into->max_ns = from->max_ns;
	for (unsigned i = first; i < end; i++)
		into->bins[i] += from->bins[i];
}

unsigned gpuio_hist_bin(uint64_t ns)
{
	return hist_bin(ns);
}

uint64_t gpuio_hist_bin_low(unsigned bin)
{
	unsigned octave = bin >> GPUIO_HIST_SUB_BITS;

	if (bin >= GPUIO_HIST_BINS)
		return UINT64_C(1) << GPUIO_HIST_MAX_BITS;
	if (octave == 0)
		return bin;
	return (uint64_t)((1u << GPUIO_HIST_SUB_BITS) + (bin & ((1u << GPUIO_HIST_SUB_BITS) - 1))) << (octave - 1);
}

uint64_t gpuio_hist_bin_width(unsigned bin)
{
	unsigned octave = bin >> GPUIO_HIST_SUB_BITS;

	if (bin >= GPUIO_HIST_BINS)
		return 0;
	return octave == 0 ? 1 : UINT64_C(1) << (octave - 1);
}

/* The smallest value with at least q * count values at or below it. */
int gpuio_hist_quantile(const struct gpuio_hist *h, double q, uint64_t *ns)
{
	uint64_t rank, seen = 0, value = h->max_ns;
	double exact;

	if (!(q >= 0.0 && q <= 1.0))
		return -EINVAL;
	if (h->count == 0)
		return -ENODATA;
	exact = q * (double)h->count;
	rank = (uint64_t)exact;
	if ((double)rank < exact || rank == 0)
		rank++;
	for (unsigned i = 0; i < GPUIO_HIST_BINS; i++) {
		seen += h->bins[i];
		if (seen >= rank) {
			value = gpuio_hist_bin_low(i) + (gpuio_hist_bin_width(i) - 1) / 2;
			break;
		}
	}
	if (value < h->min_ns)
		value = h->min_ns;
	if (value > h->max_ns)
		value = h->max_ns;
	*ns = value;
	return 0;
}
