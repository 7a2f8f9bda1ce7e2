/* SPDX-License-Identifier: Apache-2.0 */
/* Copies past the cache, on ordinary memory: every byte of the range arrives, and none around it is touched. */
#include "fixture.h"
#include "persist.h"

#define ROOM 2048u

static unsigned char from[ROOM], to[ROOM], expected[ROOM];

static void one(const struct gpuio_persist *how, size_t source, size_t place, size_t bytes)
{
	bool durable;

	memset(to, 0xee, sizeof(to));
	memcpy(expected, to, sizeof(to));
	memcpy(expected + place, from + source, bytes);
	durable = gpuio_persist_copy(how, to + place, from + source, bytes);
	CHECK_EQ(durable, how->flush != NULL);
	CHECK(memcmp(to, expected, sizeof(to)) == 0);
}

int main(void)
{
	static const char *const stores[] = {NULL, "avx512f", "avx", "sse2", "memcpy"};
	static const size_t lengths[] = {0, 1, 7, 63, 64, 65, 127, 255, 256, 257, 319, 512, 1000, 1536};
	unsigned found = 0;

	for (unsigned i = 0; i < sizeof(from); i++)
		from[i] = (unsigned char)(i * 131u + (i >> 8));
	for (unsigned i = 0; i < sizeof(stores) / sizeof(stores[0]); i++) {
		const struct gpuio_persist *how = gpuio_persist_choose(stores[i]);

		CHECK(i > 0 || how);
		if (!how)
			continue;
		found++;
		CHECK(!stores[i] || strcmp(how->store, stores[i]) == 0);
		CHECK_EQ(how->flush == NULL, how->flush_line == NULL);
		for (unsigned l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++)
			for (size_t place = 0; place < 130; place += 13)
				for (size_t source = 0; source < 70; source += 23)
					one(how, source, place, lengths[l]);
	}
	CHECK(found >= 2);
	CHECK(!gpuio_persist_choose("a store that no CPU has"));
	return 0;
}
