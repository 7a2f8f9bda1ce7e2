/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "fixture.h"

static void refused(const char *path, int code, const char *words)
{
	const struct gpuio_engine *engine;
	unsigned before = gpuio_engine_count();
	struct gpuio_why why;

	CHECK_EQ(gpuio_engine_load(path, &engine, &why), code);
	CHECK(engine == NULL);
	CHECK(mentions(&why, words));
	CHECK_EQ(gpuio_engine_count(), before);
}

int main(void)
{
	static const char *const names[] = {"null", "psync", "libaio", "io_uring", "io_uring_sqpoll", "io_uring_iopoll",
					     "io_uring_full", "io_uring_cmd", "io_uring_nop", "mmap", "dax", "spdk", "usrbio", "cufile",
					     "cufile_batch", "cufile_stream"};
	const unsigned built_in = sizeof(names) / sizeof(names[0]);
	const struct gpuio_engine *engine, *again;
	struct gpuio_why why;

	CHECK_EQ(gpuio_engine_count(), built_in);
	for (unsigned i = 0; i < built_in; i++) {
		engine = gpuio_engine_at(i);
		CHECK_EQ(strcmp(engine->name, names[i]), 0);
		CHECK(gpuio_engine_find(names[i]) == engine);
		CHECK_EQ(engine->abi, GPUIO_ABI);
		CHECK(engine->probe && engine->open && engine->submit && engine->reap && engine->close);
	}
	CHECK(gpuio_engine_at(built_in) == NULL);
	CHECK(gpuio_engine_find("warp") == NULL);
	CHECK_EQ(gpuio_engine_probe("warp", NULL, &why), -ENOENT);
	CHECK(mentions(&why, "no engine named warp"));
	CHECK_EQ(gpuio_engine_probe("psync", NULL, &why), 0);
	CHECK_EQ(gpuio_engine_probe("null", NULL, NULL), 0);

	refused("./nowhere.so", -ENOENT, "nowhere.so");
	refused("./no_table.so", -EINVAL, "no table named gpuio_engine");
	refused("./wrong_abi.so", -EPROTO, "engine ABI 4 and this is 3");
	refused("./incomplete.so", -EINVAL, "lacks its name or one of");
	refused("./taken_name.so", -EEXIST, "an engine named psync is there already");

	CHECK_EQ(gpuio_engine_load("./skeleton.so", &engine, &why), 0);
	CHECK_EQ(gpuio_engine_count(), built_in + 1);
	CHECK(gpuio_engine_at(built_in) == engine && gpuio_engine_find("skeleton") == engine);
	CHECK_EQ(gpuio_engine_load("./skeleton.so", &again, &why), 0); /* twice is once */
	CHECK(again == engine);
	CHECK_EQ(gpuio_engine_count(), built_in + 1);
	CHECK_EQ(gpuio_engine_probe("skeleton", NULL, &why), 0);
	return 0;
}
