/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine refuses whatever is not DAX, and says why. It moves data only where GPUIO_TEST_DAX names a directory of a DAX file system
 * or a devdax device that may be overwritten: in a virtual machine with persistent memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"

static void refuses_page_cache(void)
{
	struct gpuio_run *run;
	struct fixture f;

	fixture_open(&f, 1 << 20);
	f.spec.engine = "dax";
	for (uint32_t percent = 0; percent <= 100; percent += 50) {
		f.spec.read_percent = percent;
		CHECK_EQ(gpuio_open(&f.spec, &run, &f.why), -ENOTSUP);
		CHECK(run == NULL);
		CHECK(mentions(&f.why, "not DAX"));
		CHECK(mentions(&f.why, "dax=always"));
	}
	fixture_close(&f);
}

static void refuses_what_has_no_map(void)
{
	struct gpuio_run *run;
	struct fixture f;
	int ends[2], fd;

	fixture_open(&f, 1 << 20);
	f.spec.engine = "dax";
	CHECK_EQ(pipe(ends), 0);
	f.spec.fd = ends[0];
	CHECK_EQ(gpuio_open(&f.spec, &run, &f.why), -ESPIPE);
	CHECK(mentions(&f.why, "dax needs a file"));
	close(ends[0]);
	close(ends[1]);
	/* A character device, but not of persistent memory: mapping it would even work. */
	fd = open("/dev/zero", O_RDWR);
	CHECK(fd >= 0);
	f.spec.fd = fd;
	CHECK_EQ(gpuio_open(&f.spec, &run, &f.why), -ENOTSUP);
	CHECK(mentions(&f.why, "/dev/daxX.Y"));
	close(fd);
	fixture_close(&f);
}

static void depth_is_one(void)
{
	struct gpuio_run *run;
	struct fixture f;

	fixture_open(&f, 1 << 20);
	f.spec.engine = "dax";
	f.spec.depth = 2;
	CHECK_EQ(gpuio_open(&f.spec, &run, &f.why), -EINVAL);
	fixture_close(&f);
}

/* On the real thing: what is written is read back, by the map and by pread, whatever the block size. */
static void moves_data(const char *path)
{
	static const uint32_t blocks[] = {4096, 512, 1536, 65536};
	uint64_t checked, bad, first;
	struct gpuio_window w;
	struct gpuio_run *run;
	struct gpuio_why facts;
	struct fixture f;
	struct stat st;
	int fd;

	CHECK_EQ(stat(path, &st), 0);
	fixture_open(&f, 1 << 20);
	fd = S_ISDIR(st.st_mode) ? open(path, O_TMPFILE | O_RDWR, 0600) : open(path, O_RDWR);
	CHECK(fd >= 0);
	if (S_ISDIR(st.st_mode))
		fixture_lay_out(fd, 4 << 20, 7);
	f.spec.engine = "dax";
	f.spec.fd = fd;
	f.spec.region_bytes = 4 << 20;
	for (unsigned i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
		f.spec.block = blocks[i];
		f.spec.read_percent = 0;
		f.spec.order = GPUIO_SEQUENTIAL;
		f.spec.sync = GPUIO_SYNC_END;
		run = fixture_run(&f);
		gpuio_facts(run, &facts);
		printf("%s: %s\n", path, facts.text);
		CHECK(mentions(&facts, "flush="));
		w = fixture_window(run, (4 << 20) / blocks[i]);
		CHECK_EQ(w.errors + w.short_ios, 0);
		CHECK_EQ(w.syncs, 1);
		CHECK_EQ(gpuio_sweep(run, &checked, &bad, &first, &f.why), 0);
		CHECK(checked > 0);
		CHECK_EQ(bad, 0);
		CHECK_EQ(gpuio_close(run), 0);
		f.spec.read_percent = 100;
		f.spec.order = GPUIO_RANDOM;
		f.spec.verify = 1;
		f.spec.sync = GPUIO_SYNC_NONE;
		run = fixture_run(&f);
		w = fixture_window(run, (4 << 20) / blocks[i]);
		CHECK_EQ(w.errors + w.short_ios, 0);
		CHECK(w.verified > 0);
		CHECK_EQ(w.bad, 0);
		CHECK_EQ(gpuio_close(run), 0);
		f.spec.verify = 0;
	}
	close(fd);
	fixture_close(&f);
}

int main(void)
{
	const char *path = getenv("GPUIO_TEST_DAX");

	refuses_page_cache();
	refuses_what_has_no_map();
	depth_is_one();
	if (path)
		moves_data(path);
	return 0;
}
