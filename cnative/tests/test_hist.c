/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>

#include "fixture.h"
#include "hist.h"
#include "mix.h"

#define VALUES 20000

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void bins_tile_the_range(void)
{
	uint64_t next = 0;

	for (unsigned i = 0; i < GPUIO_HIST_BINS; i++) {
		uint64_t low = gpuio_hist_bin_low(i), width = gpuio_hist_bin_width(i);

		CHECK_EQ(low, next);
		CHECK(width >= 1);
		CHECK_EQ(gpuio_hist_bin(low), i);
		CHECK_EQ(gpuio_hist_bin(low + width - 1), i);
		/* The middle is at most 1/128 from any value of the bin. */
		CHECK((double)(width - 1) / 2.0 <= (double)low / 128.0 || width == 1);
		next = low + width;
	}
	CHECK_EQ(next, UINT64_C(1) << 42);
	CHECK_EQ(gpuio_hist_bin(next), GPUIO_HIST_BINS);
	CHECK_EQ(gpuio_hist_bin(UINT64_MAX), GPUIO_HIST_BINS);
	CHECK_EQ(gpuio_hist_bin_low(GPUIO_HIST_BINS), next);
	CHECK_EQ(gpuio_hist_bin_width(GPUIO_HIST_BINS), 0);
}

static void quantiles_match_sorting(void)
{
	static const double qs[] = {0.0, 0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0};
	uint64_t *values = malloc(VALUES * sizeof(*values));
	struct gpuio_hist *h = malloc(sizeof(*h));
	uint64_t sum = 0, got;

	CHECK(values && h);
	gpuio_hist_reset(h);
	for (unsigned i = 0; i < VALUES; i++) {
		/* Log-uniform over 1 ns .. 2^40 ns. */
		values[i] = (UINT64_C(1) << (mix64(i) % 40)) + (mix64(i + VALUES) >> 24);
		sum += values[i];
		gpuio_hist_add(h, values[i]);
	}
	qsort(values, VALUES, sizeof(*values), by_value);
	CHECK_EQ(h->count, VALUES);
	CHECK_EQ(h->sum_ns, sum);
	CHECK_EQ(h->min_ns, values[0]);
	CHECK_EQ(h->max_ns, values[VALUES - 1]);
	for (unsigned i = 0; i < sizeof(qs) / sizeof(qs[0]); i++) {
		uint64_t rank = (uint64_t)ceil(qs[i] * VALUES), want = values[rank ? rank - 1 : 0];

		CHECK_EQ(gpuio_hist_quantile(h, qs[i], &got), 0);
		CHECK(fabs((double)got - (double)want) <= (double)want / 128.0);
	}
	CHECK_EQ(gpuio_hist_quantile(h, -0.1, &got), -EINVAL);
	CHECK_EQ(gpuio_hist_quantile(h, 1.1, &got), -EINVAL);
	CHECK_EQ(gpuio_hist_quantile(h, NAN, &got), -EINVAL);
	free(values);
	free(h);
}

static void merging_is_concatenation(void)
{
	struct gpuio_hist *h = malloc(3 * sizeof(*h)), *a = h, *b = h + 1, *all = h + 2;

	CHECK(h);
	gpuio_hist_reset(a);
	gpuio_hist_reset(b);
	gpuio_hist_reset(all);
	for (uint64_t i = 0; i < VALUES; i++) {
		uint64_t value = mix64(i) >> (mix64(~i) % 64);

		gpuio_hist_add(i % 3 ? a : b, value);
		gpuio_hist_add(all, value);
	}
	CHECK(all->overflow > 0);
	gpuio_hist_merge(a, b);
	CHECK_EQ(memcmp(a, all, sizeof(*a)), 0);
	gpuio_hist_reset(b);
	gpuio_hist_merge(a, b);
	CHECK_EQ(memcmp(a, all, sizeof(*a)), 0);
	free(h);
}

static void clearing_is_resetting(void)
{
	struct gpuio_hist *h = malloc(2 * sizeof(*h)), *fresh = h + 1;

	CHECK(h);
	gpuio_hist_reset(h);
	gpuio_hist_reset(fresh);
	gpuio_hist_clear(h);
	CHECK_EQ(memcmp(h, fresh, sizeof(*h)), 0);
	for (unsigned shift = 0; shift < 64; shift += 9) {
		for (uint64_t i = 0; i < VALUES / 10; i++)
			gpuio_hist_add(h, mix64(i) >> shift);
		gpuio_hist_clear(h);
		CHECK_EQ(memcmp(h, fresh, sizeof(*h)), 0);
	}
	gpuio_hist_add(h, 0);
	gpuio_hist_add(h, UINT64_MAX);
	gpuio_hist_clear(h);
	CHECK_EQ(memcmp(h, fresh, sizeof(*h)), 0);
	free(h);
}

static void empty_and_overflow(void)
{
	struct gpuio_hist *h = malloc(sizeof(*h));
	uint64_t got = 1;

	CHECK(h);
	gpuio_hist_reset(h);
	CHECK_EQ(gpuio_hist_quantile(h, 0.5, &got), -ENODATA);
	CHECK(h->min_ns == UINT64_MAX);
	gpuio_hist_add(h, 10);
	gpuio_hist_add(h, UINT64_C(1) << 50);
	CHECK_EQ(h->overflow, 1);
	CHECK_EQ(h->count, 2);
	CHECK_EQ(gpuio_hist_quantile(h, 1.0, &got), 0);
	CHECK_EQ(got, UINT64_C(1) << 50);
	CHECK_EQ(gpuio_hist_quantile(h, 0.5, &got), 0);
	CHECK_EQ(got, 10);
	free(h);
}

int main(void)
{
	bins_tile_the_range();
	quantiles_match_sorting();
	merging_is_concatenation();
	clearing_is_resetting();
	empty_and_overflow();
	return 0;
}
