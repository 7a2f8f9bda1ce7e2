/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#define BYTES 16384u

static unsigned char buf[BYTES], other[BYTES];

static void every_byte_counts(void)
{
	uint64_t first = 0;

	gpuio_pattern_fill(buf, BYTES, 1 << 20, 5);
	CHECK_EQ(gpuio_pattern_check(buf, BYTES, 1 << 20, 5, &first), 0);
	for (unsigned i = 0; i < 2 * GPUIO_SECTOR; i++) {
		buf[i] ^= 0x10;
		CHECK_EQ(gpuio_pattern_check(buf, BYTES, 1 << 20, 5, &first), 1);
		CHECK_EQ(first, (1 << 20) + i / GPUIO_SECTOR * GPUIO_SECTOR);
		buf[i] ^= 0x10;
	}
	/* Another seed, another place, zeroes: every sector is bad. */
	CHECK_EQ(gpuio_pattern_check(buf, BYTES, 1 << 20, 6, &first), BYTES / GPUIO_SECTOR);
	CHECK_EQ(gpuio_pattern_check(buf, BYTES, (1 << 20) + 512, 5, NULL), BYTES / GPUIO_SECTOR);
	memset(other, 0, BYTES);
	CHECK_EQ(gpuio_pattern_check(other, BYTES, 0, 5, &first), BYTES / GPUIO_SECTOR);
}

static void a_stamp_moves_a_buffer(void)
{
	gpuio_pattern_fill(buf, BYTES, 0, 5);
	gpuio_pattern_stamp(buf, BYTES, 40960, 9);
	CHECK_EQ(gpuio_pattern_check(buf, BYTES, 40960, 9, NULL), 0);
	CHECK(gpuio_pattern_check(buf, BYTES, 0, 5, NULL) > 0);
}

static void parts_of_sectors_are_left_out(void)
{
	gpuio_pattern_fill(buf, BYTES, 0, 5);
	/* 100 .. 1400 of the file holds one whole sector, 512 .. 1024. */
	memcpy(other, buf + 100, 1300);
	CHECK_EQ(gpuio_pattern_check(other, 1300, 100, 5, NULL), 0);
	other[412 + 8 * 10] ^= 1;
	CHECK_EQ(gpuio_pattern_check(other, 1300, 100, 5, NULL), 1);
	other[412 + 8 * 10] ^= 1;
	other[0] ^= 1;
	other[1299] ^= 1;
	CHECK_EQ(gpuio_pattern_check(other, 1300, 100, 5, NULL), 0);
	CHECK_EQ(gpuio_pattern_check(other, 200, 100, 5, NULL), 0);
}

/* No 8-byte word twice in 8 MiB: nothing for compression or deduplication to find. */
static int by_word(const void *a, const void *b)
{
	return memcmp(a, b, 8);
}

static void nothing_repeats(void)
{
	size_t bytes = 8u << 20, words = bytes / 8;
	unsigned char *p = malloc(bytes);
	size_t twice = 0;

	CHECK(p);
	gpuio_pattern_fill(p, bytes, 0, 1);
	qsort(p, words, 8, by_word);
	for (size_t i = 1; i < words; i++)
		twice += memcmp(p + 8 * (i - 1), p + 8 * i, 8) == 0;
	CHECK_EQ(twice, 0);
	free(p);
}

int main(void)
{
	every_byte_counts();
	a_stamp_moves_a_buffer();
	parts_of_sectors_are_left_out();
	nothing_repeats();
	return 0;
}
