/* SPDX-License-Identifier: Apache-2.0 */
#include "why.h"

#include <stdarg.h>
#include <stdio.h>

void gpuio_say(struct gpuio_why *why, const char *format, ...)
{
	va_list args;

	if (!why)
		return;
	va_start(args, format);
	vsnprintf(why->text, sizeof(why->text), format, args);
	va_end(args);
}
