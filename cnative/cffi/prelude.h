/* SPDX-License-Identifier: Apache-2.0 */
/* Goes in front of the generated C: the compiler checks every declaration of cdef.h against the real header. */
#include "gpuio.h"
