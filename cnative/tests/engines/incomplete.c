/* SPDX-License-Identifier: Apache-2.0 */
/* A table without callbacks. */
#include "gpuio.h"

const struct gpuio_engine gpuio_engine = {.name = "incomplete", .abi = GPUIO_ABI};
