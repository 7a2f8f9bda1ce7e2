/* SPDX-License-Identifier: Apache-2.0 */
/* offsets.h - which block a worker's I/O number i touches, and whether it reads or writes. */
#ifndef GPUIO_OFFSETS_H
#define GPUIO_OFFSETS_H

#include "gpuio.h"
#include "mix.h"

/*
 * A seeded bijection of 0 .. blocks - 1: numbers are written as two digits, high * base + low with high < top, and each digit is
 * shifted in turn by a hash of the other one (an alternating Feistel network over Z_top x Z_base).
 */
struct gpuio_permutation {
	uint64_t blocks, top, base; /* top * base is at least blocks, and less than blocks + base */
	uint64_t inverse;           /* 2^64 / base rounded up; 0 when a multiplication by it would not be exact */
	uint64_t key[3], mul1, mul2;
};

struct gpuio_zipf {
	double theta, low, high, accept; /* of the inversion: H(1.5) - 1, H(n + 0.5), acceptance width */
};

struct gpuio_offsets {
	uint64_t i;      /* number of the next I/O of this worker */
	uint64_t at;     /* SEQUENTIAL: place in the slice; RANDOM: index in the permutation */
	uint64_t left;   /* I/Os until the slice wraps or a new permutation begins */
	uint64_t epoch;  /* RANDOM: which permutation */
	uint64_t first;  /* SEQUENTIAL: first block of the slice; RANDOM: the worker's first index */
	uint64_t count;  /* blocks of the worker per slice or epoch */
	uint64_t stride; /* from one I/O to the next: 1, or the number of workers */
	uint64_t blocks, block, region_offset;
	uint64_t op_key, draw_key, seed;
	uint32_t order, read_percent;
	struct gpuio_permutation perm;
	struct gpuio_zipf zipf;
};

/* -EINVAL when the geometry gives the worker no block. */
int gpuio_offsets_init(struct gpuio_offsets *o, const struct gpuio_spec *spec, uint32_t worker, struct gpuio_why *why);
/* Goes to I/O number i; the stream from there is the same as after i calls of offsets_next. */
void gpuio_offsets_seek(struct gpuio_offsets *o, uint64_t i);
void gpuio_offsets_rekey(struct gpuio_offsets *o);
uint64_t gpuio_zipf_block(const struct gpuio_offsets *o);

static inline uint64_t mul_high(uint64_t a, uint64_t b)
{
	return (uint64_t)(((unsigned __int128)a * b) >> 64);
}

/* digit + a hash of the other digit, in Z_size. */
static inline uint64_t shift_digit(const struct gpuio_permutation *p, unsigned round, uint64_t digit, uint64_t other, uint64_t size)
{
	uint64_t hash = (other + p->key[round]) * p->mul1;

	hash = (hash ^ (hash >> 32)) * p->mul2;
	digit += mul_high(hash, size);
	return digit >= size ? digit - size : digit;
}

static inline uint64_t permute(const struct gpuio_permutation *p, uint64_t x)
{
	/* Outside 0 .. blocks - 1 the cycle is walked on, which keeps the bijection; that is rare, as top * base is so close. */
	do {
		uint64_t high = p->inverse ? mul_high(x, p->inverse) : x / p->base;
		uint64_t low = x - high * p->base;

		high = shift_digit(p, 0, high, low, p->top);
		low = shift_digit(p, 1, low, high, p->base);
		high = shift_digit(p, 2, high, low, p->top);
		x = high * p->base + low;
	} while (__builtin_expect(x >= p->blocks, 0));
	return x;
}

static inline uint64_t offsets_next(struct gpuio_offsets *o, uint8_t *op)
{
	uint64_t block;

	if (o->order == GPUIO_ZIPF)
		block = gpuio_zipf_block(o);
	else if (o->order == GPUIO_RANDOM)
		block = permute(&o->perm, o->at);
	else
		block = o->at;
	if (o->read_percent == 100)
		*op = GPUIO_READ;
	else if (o->read_percent == 0)
		*op = GPUIO_WRITE;
	else
		*op = ((mix64(o->op_key + o->i) >> 32) * 100) >> 32 < o->read_percent ? GPUIO_READ : GPUIO_WRITE;
	o->i++;
	o->at += o->stride;
	if (--o->left == 0) {
		o->left = o->count;
		o->at = o->first;
		if (o->order == GPUIO_RANDOM) {
			o->epoch++;
			gpuio_offsets_rekey(o);
		}
	}
	return o->region_offset + block * o->block;
}

#endif
