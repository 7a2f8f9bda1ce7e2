/* SPDX-License-Identifier: Apache-2.0 */
#include "registry.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "why.h"

#define MAX_LOADED 32u

static const struct gpuio_engine *const built_in[] = {
	&gpuio_engine_null,
	&gpuio_engine_psync,
	&gpuio_engine_libaio,
	&gpuio_engine_io_uring,
	&gpuio_engine_io_uring_sqpoll,
	&gpuio_engine_io_uring_iopoll,
	&gpuio_engine_io_uring_full,
	&gpuio_engine_io_uring_cmd,
	&gpuio_engine_io_uring_nop,
	&gpuio_engine_mmap,
	&gpuio_engine_dax,
	&gpuio_engine_spdk,
	&gpuio_engine_usrbio,
	&gpuio_engine_cufile,
	&gpuio_engine_cufile_batch,
	&gpuio_engine_cufile_stream,
};

#define BUILT_IN (sizeof(built_in) / sizeof(built_in[0]))

/* Engines loaded from outside: only ever appended to, so readers need no lock. */
static const struct gpuio_engine *loaded[MAX_LOADED];
static atomic_uint loaded_count;
static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;

unsigned gpuio_engine_count(void)
{
	return (unsigned)BUILT_IN + atomic_load(&loaded_count);
}

const struct gpuio_engine *gpuio_engine_at(unsigned i)
{
	if (i < BUILT_IN)
		return built_in[i];
	return i < gpuio_engine_count() ? loaded[i - BUILT_IN] : NULL;
}

const struct gpuio_engine *gpuio_engine_find(const char *name)
{
	for (unsigned i = 0; i < gpuio_engine_count(); i++)
		if (strcmp(gpuio_engine_at(i)->name, name) == 0)
			return gpuio_engine_at(i);
	return NULL;
}

int gpuio_engine_probe(const char *name, const char *library, struct gpuio_why *why)
{
	const struct gpuio_engine *engine = gpuio_engine_find(name);

	gpuio_say(why, "%s", "");
	if (!engine) {
		gpuio_say(why, "there is no engine named %s", name);
		return -ENOENT;
	}
	return engine->probe(library, why);
}

static int check_table(const struct gpuio_engine *engine, const char *path, struct gpuio_why *why)
{
	/* The ABI number first: with another one nothing else in the table means what it seems to. */
	if (engine->abi != GPUIO_ABI) {
		gpuio_say(why, "%s is built for engine ABI %u and this is %u: build it again with this gpuio.h", path, engine->abi,
			  GPUIO_ABI);
		return -EPROTO;
	}
	if (!engine->name || !engine->name[0] || !engine->probe || !engine->open || !engine->submit || !engine->reap ||
	    !engine->close) {
		gpuio_say(why, "%s: the table gpuio_engine lacks its name or one of probe, open, submit, reap, close", path);
		return -EINVAL;
	}
	return 0;
}

static int append(const struct gpuio_engine *engine, const char *path, struct gpuio_why *why)
{
	const struct gpuio_engine *same = gpuio_engine_find(engine->name);
	unsigned count = atomic_load(&loaded_count);

	if (same == engine) /* loaded before */
		return 0;
	if (same) {
		gpuio_say(why, "%s: an engine named %s is there already", path, engine->name);
		return -EEXIST;
	}
	if (count == MAX_LOADED) {
		gpuio_say(why, "%s: %u engines are loaded, no more fit", path, MAX_LOADED);
		return -ENOSPC;
	}
	loaded[count] = engine;
	atomic_store(&loaded_count, count + 1);
	return 0;
}

int gpuio_engine_load(const char *path, const struct gpuio_engine **out, struct gpuio_why *why)
{
	const struct gpuio_engine *engine;
	void *handle;
	int rc;

	gpuio_say(why, "%s", "");
	*out = NULL;
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		gpuio_say(why, "the engine cannot be loaded: %s", dlerror());
		return -ENOENT;
	}
	engine = dlsym(handle, "gpuio_engine");
	if (!engine) {
		gpuio_say(why, "%s exports no table named gpuio_engine", path);
		dlclose(handle);
		return -EINVAL;
	}
	rc = check_table(engine, path, why);
	if (rc == 0) {
		pthread_mutex_lock(&load_lock);
		rc = append(engine, path, why);
		pthread_mutex_unlock(&load_lock);
	}
	if (rc) {
		dlclose(handle);
		return rc;
	}
	*out = engine;
	return 0;
}
