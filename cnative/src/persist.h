/* SPDX-License-Identifier: Apache-2.0 */
/* persist.h - stores to persistent memory that survive a power cut once the call has returned. */
#ifndef GPUIO_PERSIST_H
#define GPUIO_PERSIST_H

#include <stdbool.h>
#include <stddef.h>

/* How this CPU does it: chosen once, at run time, since one build runs everywhere. */
struct gpuio_persist {
	const char *store; /* whole cache lines past the cache: avx512f, avx, sse2; or memcpy, where flush is what makes it last */
	const char *flush; /* single lines: clwb, clflushopt, clflush; NULL = this CPU has no such instruction for user space */
	void (*lines)(void *to, const void *from, size_t lines); /* `to` is aligned to 64 bytes */
	void (*flush_line)(void *at);
};

/* The best that the CPU has; `wanted` NULL, or the name of the store that is to be used (tests), NULL when it is not there. */
const struct gpuio_persist *gpuio_persist_choose(const char *wanted);

/* As memcpy; then every byte has left the CPU's caches. False when this CPU cannot promise it (the bytes are copied). */
bool gpuio_persist_copy(const struct gpuio_persist *how, void *to, const void *from, size_t bytes);

#endif
