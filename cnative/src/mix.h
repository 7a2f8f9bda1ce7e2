/* SPDX-License-Identifier: Apache-2.0 */
/* mix.h - a bijection of 64-bit words whose output bits all depend on all input bits. */
#ifndef GPUIO_MIX_H
#define GPUIO_MIX_H

#include <stdint.h>

static inline uint64_t mix64(uint64_t x)
{
	x ^= x >> 30;
	x *= UINT64_C(0xbf58476d1ce4e5b9);
	x ^= x >> 27;
	x *= UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

#endif
