/* SPDX-License-Identifier: Apache-2.0 */
/* why.h - writing the one sentence for people. */
#ifndef GPUIO_WHY_H
#define GPUIO_WHY_H

#include "gpuio.h"

/* Replaces the text; `why` may be NULL. Text that does not fit is cut at the end. */
__attribute__((format(printf, 2, 3))) void gpuio_say(struct gpuio_why *why, const char *format, ...);

#endif
