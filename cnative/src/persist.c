/* SPDX-License-Identifier: Apache-2.0 */
#include "persist.h"

#include <stdint.h>
#include <string.h>

#include "gpuio.h"

#define LINE 64u
/* Below this the lines are copied through the cache and flushed: what is read again at once stays there with clwb. */
#define PAST_CACHE 256u

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

__attribute__((target("avx512f"))) static void lines_avx512f(void *to, const void *from, size_t lines)
{
	unsigned char *d = to;
	const unsigned char *s = from;

	for (; lines; lines--, d += LINE, s += LINE)
		_mm512_stream_si512((__m512i *)(void *)d, _mm512_loadu_si512(s));
}

__attribute__((target("avx"))) static void lines_avx(void *to, const void *from, size_t lines)
{
	unsigned char *d = to;
	const unsigned char *s = from;

	for (; lines; lines--, d += LINE, s += LINE) {
		__m256i a = _mm256_loadu_si256((const __m256i *)(const void *)s);
		__m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(s + 32));

		_mm256_stream_si256((__m256i *)(void *)d, a);
		_mm256_stream_si256((__m256i *)(void *)(d + 32), b);
	}
}

static void lines_sse2(void *to, const void *from, size_t lines)
{
	unsigned char *d = to;
	const unsigned char *s = from;

	/* A line at a time: the memory's controller would write half a line twice. */
	for (; lines; lines--, d += LINE, s += LINE)
		for (unsigned i = 0; i < LINE; i += 16)
			_mm_stream_si128((__m128i *)(void *)(d + i), _mm_loadu_si128((const __m128i *)(const void *)(s + i)));
}

__attribute__((target("clwb"))) static void flush_clwb(void *at)
{
	_mm_clwb(at);
}

__attribute__((target("clflushopt"))) static void flush_clflushopt(void *at)
{
	_mm_clflushopt(at);
}

static void flush_clflush(void *at)
{
	_mm_clflush(at);
}

static void fence(void)
{
	_mm_sfence();
}

#define STORES 3
#define FLUSHES 3

static const struct gpuio_persist table[STORES][FLUSHES] = {
#define WITH(name, lines)                                                                                                    \
	{{name, "clwb", lines, flush_clwb}, {name, "clflushopt", lines, flush_clflushopt}, {name, "clflush", lines, flush_clflush}}
	WITH("avx512f", lines_avx512f),
	WITH("avx", lines_avx),
	WITH("sse2", lines_sse2),
#undef WITH
};

static bool has_store(unsigned i)
{
	return i == 0 ? __builtin_cpu_supports("avx512f") != 0 : i == 1 ? __builtin_cpu_supports("avx") != 0 : true;
}

static unsigned best_flush(void)
{
	unsigned eax, ebx = 0, ecx, edx;

	if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx))
		return 2;
	return ebx & bit_CLWB ? 0 : ebx & bit_CLFLUSHOPT ? 1 : 2;
}

const struct gpuio_persist *gpuio_persist_choose(const char *wanted)
{
	unsigned flush = best_flush();

	for (unsigned i = 0; i < STORES; i++)
		if (has_store(i) && (!wanted || strcmp(wanted, table[i][flush].store) == 0))
			return &table[i][flush];
	return NULL;
}

#else

static void lines_memcpy(void *to, const void *from, size_t lines)
{
	memcpy(to, from, lines * LINE);
}

static void fence(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

const struct gpuio_persist *gpuio_persist_choose(const char *wanted)
{
	static const struct gpuio_persist plain = {"memcpy", NULL, lines_memcpy, NULL};

	return !wanted || strcmp(wanted, plain.store) == 0 ? &plain : NULL;
}

#endif

static void copy_and_flush(const struct gpuio_persist *how, unsigned char *to, const unsigned char *from, size_t bytes)
{
	unsigned char *line = to - (uintptr_t)to % LINE;

	if (bytes == 0)
		return;
	memcpy(to, from, bytes);
	if (how->flush_line)
		for (; line < to + bytes; line += LINE)
			how->flush_line(line);
}

bool gpuio_persist_copy(const struct gpuio_persist *how, void *to, const void *from, size_t bytes)
{
	unsigned char *d = to;
	const unsigned char *s = from;
	size_t head = (LINE - (uintptr_t)d % LINE) % LINE, whole;

	if (bytes < PAST_CACHE) {
		copy_and_flush(how, d, s, bytes);
	} else {
		whole = (bytes - head) / LINE;
		copy_and_flush(how, d, s, head);
		how->lines(d + head, s + head, whole);
		copy_and_flush(how, d + head + whole * LINE, s + head + whole * LINE, bytes - head - whole * LINE);
	}
	fence();
	return how->flush_line != NULL;
}

int gpuio_persist(void *to, const void *from, uint64_t bytes)
{
	return gpuio_persist_copy(gpuio_persist_choose(NULL), to, from, bytes);
}
