/* SPDX-License-Identifier: Apache-2.0 */
/* Built for another engine ABI; nothing else in its table may be looked at. */
#include "gpuio.h"

const struct gpuio_engine gpuio_engine = {.name = "wrong_abi", .abi = GPUIO_ABI + 1};
