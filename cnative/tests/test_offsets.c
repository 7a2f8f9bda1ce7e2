/* SPDX-License-Identifier: Apache-2.0 */
#include "offsets.h"

#include <errno.h>
#include <math.h>

#include "fixture.h"

#define BLOCK 4096u

static struct gpuio_spec geometry(uint32_t order, uint64_t blocks, uint32_t jobs)
{
	return (struct gpuio_spec){
		.jobs = jobs,
		.depth = 1,
		.block = BLOCK,
		.order = order,
		.read_percent = 100,
		.region_offset = 3 * BLOCK,
		.region_bytes = blocks * BLOCK + BLOCK - 1, /* the last piece is no whole block */
		.zipf_theta = 1.0,
		.seed = 99,
	};
}

/* In each round the workers together touch every block, and none twice. */
static void covers(uint32_t order, uint64_t blocks, uint32_t jobs, unsigned rounds)
{
	struct gpuio_spec spec = geometry(order, blocks, jobs);
	uint8_t *touched = calloc(rounds, blocks), *ops = calloc(blocks, rounds);
	uint64_t *offsets = calloc(blocks * rounds, sizeof(*offsets)), total = 0;

	CHECK(touched && ops && offsets);
	for (uint32_t w = 0; w < jobs; w++) {
		uint64_t share = blocks / jobs + (w < blocks % jobs);

		CHECK_EQ(gpuio_offsets(&spec, w, share * rounds, offsets, ops), 0);
		for (uint64_t i = 0; i < share * rounds; i++) {
			uint64_t block = offsets[i] / BLOCK - 3, round = i / share;

			CHECK(offsets[i] >= 3 * BLOCK && offsets[i] % BLOCK == 0 && block < blocks);
			CHECK_EQ(touched[round * blocks + block], 0);
			touched[round * blocks + block] = 1;
			CHECK_EQ(ops[i], GPUIO_READ);
			total++;
		}
	}
	CHECK_EQ(total, blocks * rounds);
	free(touched);
	free(ops);
	free(offsets);
}

static void sequential_is_sequential(void)
{
	struct gpuio_spec spec = geometry(GPUIO_SEQUENTIAL, 10, 3);
	/* 10 blocks over 3 workers: 0-3, 4-6, 7-9. */
	static const uint64_t want[3][8] = {
		{0, 1, 2, 3, 0, 1, 2, 3}, {4, 5, 6, 4, 5, 6, 4, 5}, {7, 8, 9, 7, 8, 9, 7, 8}};
	uint64_t offsets[8];
	uint8_t ops[8];

	for (uint32_t w = 0; w < 3; w++) {
		CHECK_EQ(gpuio_offsets(&spec, w, 8, offsets, ops), 0);
		for (unsigned i = 0; i < 8; i++)
			CHECK_EQ(offsets[i], (want[w][i] + 3) * BLOCK);
	}
}

static void seeds_and_epochs_differ(void)
{
	enum { N = 1024 };
	struct gpuio_spec spec = geometry(GPUIO_RANDOM, N, 1);
	uint64_t *a = calloc(4 * N, sizeof(*a)), *b = calloc(4 * N, sizeof(*b)), sum_of_steps = 0;
	uint8_t *ops = calloc(4 * N, 1);
	unsigned same_epoch = 0, same_seed = 0, neighbours = 0;

	CHECK(a && b && ops);
	CHECK_EQ(gpuio_offsets(&spec, 0, 2 * N, a, ops), 0);
	CHECK_EQ(gpuio_offsets(&spec, 0, 2 * N, b, ops), 0);
	CHECK_EQ(memcmp(a, b, 2 * N * sizeof(*a)), 0);
	spec.seed++;
	CHECK_EQ(gpuio_offsets(&spec, 0, 2 * N, b, ops), 0);
	for (unsigned i = 0; i < N; i++) {
		same_epoch += a[i] == a[i + N];
		same_seed += a[i] == b[i];
	}
	for (unsigned i = 1; i < N; i++) {
		uint64_t step = a[i] > a[i - 1] ? a[i] - a[i - 1] : a[i - 1] - a[i];

		neighbours += step == BLOCK;
		sum_of_steps += step / BLOCK;
	}
	/* A random permutation has 1 fixed point, 2 neighbouring steps and a mean step of N / 3; wide bounds. */
	CHECK(same_epoch < 12 && same_seed < 12 && neighbours < 16);
	CHECK(sum_of_steps / N > N / 4 && sum_of_steps / N < N / 2);
	free(a);
	free(b);
	free(ops);
}

static void seeking_is_walking(void)
{
	static const uint32_t orders[] = {GPUIO_SEQUENTIAL, GPUIO_RANDOM, GPUIO_ZIPF};

	for (unsigned k = 0; k < 3; k++) {
		struct gpuio_spec spec = geometry(orders[k], 37, 2);
		struct gpuio_offsets walk, jump;

		spec.read_percent = 50;
		CHECK_EQ(gpuio_offsets_init(&walk, &spec, 1, NULL), 0);
		for (uint64_t i = 0; i < 200; i++) {
			uint8_t a, b;

			CHECK_EQ(gpuio_offsets_init(&jump, &spec, 1, NULL), 0);
			gpuio_offsets_seek(&jump, i);
			CHECK_EQ(offsets_next(&walk, &a), offsets_next(&jump, &b));
			CHECK_EQ(a, b);
		}
	}
}

static void mixes_reads_and_writes(void)
{
	enum { N = 20000 };
	static uint64_t offsets[N];
	static uint8_t ops[N], other[N];

	for (uint32_t percent = 0; percent <= 100; percent += 10) {
		struct gpuio_spec spec = geometry(GPUIO_RANDOM, 500, 2);
		unsigned reads = 0, same = 0;
		double want = percent / 100.0, sd = sqrt(want * (1 - want) / N);

		spec.read_percent = percent;
		CHECK_EQ(gpuio_offsets(&spec, 0, N, offsets, ops), 0);
		CHECK_EQ(gpuio_offsets(&spec, 1, N, offsets, other), 0);
		for (unsigned i = 0; i < N; i++) {
			reads += ops[i] == GPUIO_READ;
			same += ops[i] == other[i];
		}
		CHECK(fabs((double)reads / N - want) <= 5 * sd);
		CHECK(percent % 100 == 0 ? same == N : same < N);
	}
}

/* Against the exact distribution, by the chi-square statistic: draws of one worker, ranks found through the permutation. */
static void zipf_is_zipf(double theta, uint64_t n)
{
	enum { DRAWS = 200000 };
	struct gpuio_spec spec = geometry(GPUIO_ZIPF, n, 1);
	uint64_t *offsets = calloc(DRAWS, sizeof(*offsets)), *count = calloc(n, sizeof(*count));
	uint8_t *ops = calloc(DRAWS, 1);
	struct gpuio_offsets o;
	double norm = 0, chi = 0, rest_want = 0, rest_got = 0;
	unsigned freedom = 0;

	CHECK(offsets && count && ops);
	spec.zipf_theta = theta;
	CHECK_EQ(gpuio_offsets(&spec, 0, DRAWS, offsets, ops), 0);
	for (unsigned i = 0; i < DRAWS; i++) {
		CHECK(offsets[i] / BLOCK - 3 < n);
		count[offsets[i] / BLOCK - 3]++;
	}
	CHECK_EQ(gpuio_offsets_init(&o, &spec, 0, NULL), 0);
	for (uint64_t rank = 0; rank < n; rank++)
		norm += pow((double)rank + 1, -theta);
	for (uint64_t rank = 0; rank < n; rank++) {
		double want = DRAWS * pow((double)rank + 1, -theta) / norm;
		double got = (double)count[permute(&o.perm, rank)];

		if (want >= 20) {
			chi += (got - want) * (got - want) / want;
			freedom++;
		} else {
			rest_want += want;
			rest_got += got;
		}
	}
	if (rest_want >= 20) {
		chi += (rest_got - rest_want) * (rest_got - rest_want) / rest_want;
		freedom++;
	}
	/* Mean `freedom`, variance 2 x freedom: five standard deviations, and room for few degrees of freedom. */
	CHECK(chi < freedom + 5 * sqrt(2.0 * freedom) + 10);
	free(offsets);
	free(count);
	free(ops);
}

static void refusals(void)
{
	struct gpuio_spec spec = geometry(GPUIO_RANDOM, 3, 4);
	struct gpuio_offsets o;
	struct gpuio_why why;
	uint64_t offset;
	uint8_t op;

	CHECK_EQ(gpuio_offsets_init(&o, &spec, 0, &why), -EINVAL);
	CHECK(mentions(&why, "holds 3 blocks of 4096 bytes"));
	CHECK_EQ(gpuio_offsets(&spec, 0, 1, &offset, &op), -EINVAL);
	spec = geometry(GPUIO_RANDOM, 8, 2);
	CHECK_EQ(gpuio_offsets_init(&o, &spec, 2, &why), -EINVAL);
	spec.block = 0;
	CHECK_EQ(gpuio_offsets_init(&o, &spec, 0, &why), -EINVAL);
	spec = geometry(7, 8, 1);
	CHECK_EQ(gpuio_offsets_init(&o, &spec, 0, &why), -EINVAL);
	CHECK(mentions(&why, "order 7"));
	spec = geometry(GPUIO_ZIPF, 8, 1);
	spec.zipf_theta = 0;
	CHECK_EQ(gpuio_offsets_init(&o, &spec, 0, &why), -EINVAL);
	CHECK(mentions(&why, "theta"));
	spec.zipf_theta = NAN;
	CHECK_EQ(gpuio_offsets_init(&o, &spec, 0, &why), -EINVAL);
}

int main(void)
{
	static const uint64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 63, 64, 65, 1000, 1023, 1025, 4096, 65537};
	static const uint32_t jobs[] = {1, 2, 3, 7};

	for (unsigned s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		for (unsigned j = 0; j < sizeof(jobs) / sizeof(jobs[0]); j++) {
			if (sizes[s] < jobs[j])
				continue;
			covers(GPUIO_SEQUENTIAL, sizes[s], jobs[j], 2);
			covers(GPUIO_RANDOM, sizes[s], jobs[j], 1);
			covers(GPUIO_RANDOM, sizes[s], jobs[j], 3);
		}
	}
	sequential_is_sequential();
	seeds_and_epochs_differ();
	seeking_is_walking();
	mixes_reads_and_writes();
	zipf_is_zipf(0.5, 100);
	zipf_is_zipf(0.99, 1000);
	zipf_is_zipf(1.0, 10000);
	zipf_is_zipf(1.2, 100000);
	zipf_is_zipf(2.5, 50);
	zipf_is_zipf(5.0, 1000000);
	zipf_is_zipf(1.0, 1);
	zipf_is_zipf(1.0, 2);
	refusals();
	return 0;
}
