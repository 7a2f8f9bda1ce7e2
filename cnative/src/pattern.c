/* SPDX-License-Identifier: Apache-2.0 */
#include "pattern.h"

#include <stdbool.h>
#include <string.h>

#include "mix.h"

#define WORDS (GPUIO_SECTOR / 8u)
#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

static inline uint64_t place_word(uint64_t seed, uint64_t offset)
{
	return mix64(mix64(seed) + offset);
}

/* One multiplication: cheaper than mix64 and still without a repetition that a compressor could use. */
static inline uint64_t body_word(uint64_t body, unsigned i)
{
	uint64_t x = body + i * GOLDEN;

	x = (x ^ (x >> 32)) * UINT64_C(0xd6e8feb86659fd93);
	return x ^ (x >> 32);
}

void gpuio_pattern_fill(void *buf, uint64_t bytes, uint64_t offset, uint64_t seed)
{
	unsigned char *p = buf;
	uint64_t words[WORDS];

	for (uint64_t at = 0; at + GPUIO_SECTOR <= bytes; at += GPUIO_SECTOR) {
		/* Another seed than word 0's; mix64 is a bijection, so no two offsets share a body. */
		uint64_t body = mix64(mix64(~seed) + offset + at);

		words[0] = place_word(seed, offset + at);
		words[1] = body;
		for (unsigned i = 2; i < WORDS; i++)
			words[i] = body_word(body, i);
		memcpy(p + at, words, sizeof(words));
	}
}

void gpuio_pattern_stamp(void *buf, uint64_t bytes, uint64_t offset, uint64_t seed)
{
	unsigned char *p = buf;

	for (uint64_t at = 0; at + GPUIO_SECTOR <= bytes; at += GPUIO_SECTOR) {
		uint64_t word = place_word(seed, offset + at);

		memcpy(p + at, &word, sizeof(word));
	}
}

static bool sector_good(const unsigned char *p, uint64_t offset, uint64_t seed)
{
	uint64_t words[WORDS], differ;

	memcpy(words, p, sizeof(words));
	differ = words[0] ^ place_word(seed, offset);
	for (unsigned i = 2; i < WORDS; i++)
		differ |= words[i] ^ body_word(words[1], i);
	return differ == 0;
}

uint64_t gpuio_pattern_check(const void *buf, uint64_t bytes, uint64_t offset, uint64_t seed, uint64_t *first_bad)
{
	uint64_t skip = pattern_skip(offset), whole = pattern_whole(bytes, offset), bad = 0;
	const unsigned char *p = buf;

	for (uint64_t at = skip; at < skip + whole; at += GPUIO_SECTOR) {
		if (sector_good(p + at, offset + at, seed))
			continue;
		if (bad++ == 0 && first_bad)
			*first_bad = offset + at;
	}
	return bad;
}
