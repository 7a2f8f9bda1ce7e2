/* SPDX-License-Identifier: Apache-2.0 */
#include "buffers.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "clock.h"
#include "why.h"

#define HUGE_PAGE (UINT64_C(2) << 20)

struct gpuio_pool {
	unsigned char *base;
	uint64_t bytes;
	uint64_t huge_bytes;
	bool taken;
	uint64_t map_ns;
	struct gpuio_gpus *gpus; /* NULL until a run wants one */
	bool pinned;
	uint64_t pin_ns;
	struct gpuio_aio aio;
};

/* AnonHugePages of the mapping that holds `base`. MADV_HUGEPAGE keeps it from merging with ordinary neighbours. */
static uint64_t huge_bytes_at(const unsigned char *base, uint64_t bytes)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	uintptr_t from, to, want = (uintptr_t)base;
	uint64_t kib, found = 0;
	bool inside = false;
	char line[512];

	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2) {
			if (inside)
				break;
			inside = want >= from && want < to;
		} else if (inside && sscanf(line, "AnonHugePages: %" SCNu64 " kB", &kib) == 1) {
			found = kib * 1024;
			break;
		}
	}
	fclose(f);
	return found < bytes ? found : bytes;
}

static unsigned char *map_aligned(uint64_t bytes)
{
	unsigned char *map = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t head;

	if (map == MAP_FAILED)
		return NULL;
	head = (HUGE_PAGE - (uintptr_t)map % HUGE_PAGE) % HUGE_PAGE;
	if (head)
		munmap(map, head);
	munmap(map + head + bytes, HUGE_PAGE - head);
	return map + head;
}

struct gpuio_pool *gpuio_pool_new(void)
{
	struct gpuio_pool *pool = calloc(1, sizeof(*pool));

	if (pool)
		gpuio_aio_init(&pool->aio);
	return pool;
}

static void unmap(struct gpuio_pool *pool)
{
	if (pool->pinned)
		gpuio_gpus_unpin(pool->gpus, pool->base);
	if (pool->base)
		munmap(pool->base, pool->bytes);
	pool->base = NULL;
	pool->pinned = false;
	pool->bytes = pool->huge_bytes = pool->map_ns = pool->pin_ns = 0;
}

int gpuio_pool_reserve(struct gpuio_pool *pool, uint64_t bytes, struct gpuio_why *why)
{
	unsigned char *base;
	uint64_t from;

	gpuio_say(why, "%s", "");
	if (bytes <= pool->bytes)
		return 0;
	if (pool->taken) {
		gpuio_say(why, "the buffer pool cannot grow from %" PRIu64 " to %" PRIu64 " bytes while a run uses it: close "
			  "the run first", pool->bytes, bytes);
		return -EBUSY;
	}
	if (bytes > (UINT64_C(1) << 46)) {
		gpuio_say(why, "%" PRIu64 " bytes of buffers are asked for: lower block size, queue depth or jobs", bytes);
		return -ENOMEM;
	}
	bytes = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
	/* Given back first: old and new together could be more memory than there is. */
	unmap(pool);
	from = mono_ns();
	base = map_aligned(bytes);
	if (!base) {
		int err = errno;

		gpuio_say(why, "%" PRIu64 " bytes of buffers cannot be mapped (%s): lower block size, queue depth or jobs",
			  bytes, strerror(err));
		return -err;
	}
	/* Advice only: a kernel without transparent huge pages refuses it, and huge_bytes then says 0. */
	madvise(base, bytes, MADV_HUGEPAGE);
	for (uint64_t at = 0; at < bytes; at += GPUIO_PAGE)
		((volatile unsigned char *)base)[at] = 0;
	pool->map_ns = mono_ns() - from;
	pool->base = base;
	pool->bytes = bytes;
	pool->huge_bytes = huge_bytes_at(base, bytes);
	return 0;
}

void gpuio_pool_describe(const struct gpuio_pool *pool, struct gpuio_pool_info *info)
{
	info->base = pool->base;
	info->bytes = pool->bytes;
	info->huge_bytes = pool->huge_bytes;
	info->map_ns = pool->map_ns;
	info->pinned_bytes = pool->pinned ? pool->bytes : 0;
	info->pin_ns = pool->pin_ns;
}

int gpuio_pool_take(struct gpuio_pool *pool, uint64_t bytes, unsigned char **base, struct gpuio_why *why)
{
	int rc;

	if (pool->taken) {
		gpuio_say(why, "the buffer pool is in use by another run: close that run first");
		return -EBUSY;
	}
	rc = gpuio_pool_reserve(pool, bytes, why);
	if (rc)
		return rc;
	pool->taken = true;
	*base = pool->base;
	return 0;
}

int gpuio_pool_gpus(struct gpuio_pool *pool, const char *library, struct gpuio_gpus **gpus, struct gpuio_why *why)
{
	int rc = pool->gpus ? gpuio_gpus_same(pool->gpus, library, why) : gpuio_gpus_open(&pool->gpus, library, why);

	*gpus = pool->gpus;
	return rc;
}

int gpuio_pool_pin(struct gpuio_pool *pool, struct gpuio_why *why)
{
	uint64_t from = mono_ns();
	int rc;

	if (pool->pinned || !pool->base)
		return 0;
	rc = gpuio_gpus_pin(pool->gpus, pool->base, pool->bytes, why);
	pool->pinned = rc == 0;
	pool->pin_ns = mono_ns() - from;
	return rc;
}

struct gpuio_aio *gpuio_pool_aio(struct gpuio_pool *pool)
{
	return &pool->aio;
}

void gpuio_pool_give_back(struct gpuio_pool *pool)
{
	pool->taken = false;
}

void gpuio_pool_free(struct gpuio_pool *pool)
{
	/* A run that was given up may still have I/O in flight into this memory: leaked on purpose. */
	if (!pool || pool->taken)
		return;
	unmap(pool);
	gpuio_aio_close(&pool->aio);
	gpuio_gpus_close(pool->gpus);
	free(pool);
}
