/* SPDX-License-Identifier: Apache-2.0 */
#include "offsets.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "why.h"

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

enum { STREAM_ORDER = 1, STREAM_OP = 2, STREAM_DRAW = 3 };

static uint64_t derive(uint64_t seed, uint64_t stream, uint64_t number)
{
	return mix64(mix64(mix64(seed) + stream * GOLDEN) + number * GOLDEN);
}

void gpuio_offsets_rekey(struct gpuio_offsets *o)
{
	uint64_t key = derive(o->seed, STREAM_ORDER, o->epoch);

	for (unsigned i = 0; i < 3; i++)
		o->perm.key[i] = mix64(key + i);
	o->perm.mul1 = mix64(key + 3) | 1;
	o->perm.mul2 = mix64(key + 4) | 1;
}

static void permutation_shape(struct gpuio_permutation *p, uint64_t blocks)
{
	uint64_t base = (uint64_t)sqrt((double)blocks);

	p->blocks = blocks;
	p->base = base < 2 ? 2 : base;
	p->top = (blocks + p->base - 1) / p->base;
	/* x * inverse / 2^64 rounds down to x / base as long as x * base < 2^64. */
	p->inverse = blocks < (UINT64_C(1) << 42) ? UINT64_MAX / p->base + 1 : 0;
}

/*
 * Zipf by rejection-inversion (Hoermann and Derflinger, 1996): rank k has weight k^-theta; H is the integral of x^-theta,
 * drawn from uniformly and inverted; the few draws that land between the step function and the curve are thrown again. Exact
 * for every n, and no table.
 */

/* (exp(x) - 1) / x and log(1 + x) / x, also near 0 where theta = 1 lies. */
static double expm1_over(double x)
{
	return fabs(x) > 1e-8 ? expm1(x) / x : 1.0 + x * 0.5 * (1.0 + x / 3.0);
}

static double log1p_over(double x)
{
	return fabs(x) > 1e-8 ? log1p(x) / x : 1.0 - x * (0.5 - x / 3.0);
}

static double zipf_h(double theta, double x)
{
	return exp(-theta * log(x));
}

static double zipf_integral(double theta, double x)
{
	double log_x = log(x);

	return expm1_over((1.0 - theta) * log_x) * log_x;
}

static double zipf_inverse(double theta, double y)
{
	double t = y * (1.0 - theta);

	if (t < -1.0) /* rounding at the far end */
		t = -1.0;
	return exp(log1p_over(t) * y);
}

static void zipf_init(struct gpuio_zipf *z, double theta, uint64_t n)
{
	z->theta = theta;
	z->low = zipf_integral(theta, 1.5) - 1.0;
	z->high = zipf_integral(theta, (double)n + 0.5);
	z->accept = 2.0 - zipf_inverse(theta, zipf_integral(theta, 2.5) - zipf_h(theta, 2.0));
}

static uint64_t zipf_rank(const struct gpuio_zipf *z, uint64_t key, uint64_t n)
{
	for (uint64_t attempt = 0;; attempt++) {
		/* In (0, 1]: 53 random bits, never 0. */
		double uniform = (double)((mix64(key + attempt * GOLDEN) >> 11) + 1) * 0x1p-53;
		double u = z->high + uniform * (z->low - z->high);
		double x = zipf_inverse(z->theta, u);
		double k = floor(x + 0.5);

		if (!(k >= 1.0))
			k = 1.0;
		else if (k > (double)n)
			k = (double)n;
		if (k - x <= z->accept || u >= zipf_integral(z->theta, k + 0.5) - zipf_h(z->theta, k))
			return (uint64_t)k - 1;
	}
}

uint64_t gpuio_zipf_block(const struct gpuio_offsets *o)
{
	uint64_t rank = zipf_rank(&o->zipf, mix64(o->draw_key + o->i), o->blocks);

	/* Popular blocks must not be neighbours, so the ranks are scattered over the region. */
	return permute(&o->perm, rank);
}

int gpuio_offsets_init(struct gpuio_offsets *o, const struct gpuio_spec *spec, uint32_t worker, struct gpuio_why *why)
{
	uint64_t blocks = spec->block ? spec->region_bytes / spec->block : 0;
	uint64_t share, extra;

	memset(o, 0, sizeof(*o));
	if (blocks == 0 || (spec->order != GPUIO_ZIPF && blocks < spec->jobs)) {
		gpuio_say(why, "a region of %" PRIu64 " bytes holds %" PRIu64 " blocks of %" PRIu32 " bytes, which is not one for each "
			  "of %" PRIu32 " workers: enlarge the target or lower block size or jobs", spec->region_bytes, blocks,
			  spec->block, spec->jobs);
		return -EINVAL;
	}
	if (worker >= spec->jobs) {
		gpuio_say(why, "worker %" PRIu32 " does not exist: there are %" PRIu32, worker, spec->jobs);
		return -EINVAL;
	}
	share = blocks / spec->jobs;
	extra = blocks % spec->jobs;
	o->order = spec->order;
	o->read_percent = spec->read_percent;
	o->blocks = blocks;
	o->block = spec->block;
	o->region_offset = spec->region_offset;
	o->seed = spec->seed;
	o->op_key = derive(spec->seed, STREAM_OP, worker);
	o->draw_key = derive(spec->seed, STREAM_DRAW, worker);
	permutation_shape(&o->perm, blocks);
	/* Slices and permutation shares have the same size: the first `extra` workers own one block more. */
	o->count = share + (worker < extra ? 1 : 0);
	switch (spec->order) {
	case GPUIO_SEQUENTIAL:
		o->stride = 1;
		o->first = worker * share + (worker < extra ? worker : extra);
		break;
	case GPUIO_RANDOM:
		o->stride = spec->jobs;
		o->first = worker;
		break;
	case GPUIO_ZIPF:
		if (!(spec->zipf_theta > 0.0 && spec->zipf_theta <= 16.0)) {
			gpuio_say(why, "zipf theta %g is out of range: use a number above 0 and up to 16", spec->zipf_theta);
			return -EINVAL;
		}
		o->count = UINT64_MAX; /* no end: draws do not run through a list */
		zipf_init(&o->zipf, spec->zipf_theta, blocks);
		break;
	default:
		gpuio_say(why, "order %" PRIu32 " is not known: use sequential, random or zipf", spec->order);
		return -EINVAL;
	}
	gpuio_offsets_seek(o, 0);
	return 0;
}

void gpuio_offsets_seek(struct gpuio_offsets *o, uint64_t i)
{
	uint64_t inside = i % o->count;

	o->i = i;
	o->left = o->count - inside;
	o->at = o->first + inside * o->stride;
	o->epoch = o->order == GPUIO_RANDOM ? i / o->count : 0;
	gpuio_offsets_rekey(o);
}

int gpuio_offsets(const struct gpuio_spec *spec, uint32_t worker, uint64_t n, uint64_t *offsets, uint8_t *ops)
{
	struct gpuio_offsets o;
	int rc = gpuio_offsets_init(&o, spec, worker, NULL);

	if (rc)
		return rc;
	for (uint64_t i = 0; i < n; i++)
		offsets[i] = offsets_next(&o, &ops[i]);
	return 0;
}
