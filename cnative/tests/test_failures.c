/* SPDX-License-Identifier: Apache-2.0 */
/* I/O that fails or is short is counted; an engine that breaks ends the run. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "fixture.h"

/* The last block of the region lies half behind the end of the file, those after it wholly. */
static void short_reads(const char *engine, uint32_t depth)
{
	struct gpuio_window w;
	struct gpuio_run *run;
	struct fixture f;

	fixture_open(&f, (1 << 20) - 2048);
	f.spec.engine = engine;
	f.spec.depth = depth;
	f.spec.order = GPUIO_SEQUENTIAL;
	f.spec.region_bytes = (1 << 20) + 8192;
	f.spec.verify = 1;
	run = fixture_run(&f);
	w = fixture_window(run, 258);
	CHECK_EQ(w.ios, 255);
	CHECK_EQ(w.short_ios, 3);
	CHECK_EQ(w.errors, 0);
	CHECK_EQ(w.bytes, 255 * 4096);
	CHECK_EQ(w.verified, 255);
	CHECK_EQ(w.bad, 0);
	CHECK_EQ(gpuio_lat(run)->count, 255);
	CHECK_EQ(gpuio_close(run), 0);
	fixture_close(&f);
}

/* A descriptor open for writing only: each read fails, and after 64 the worker has seen enough. */
static void failed_reads(const char *engine, uint32_t depth)
{
	char path[64];
	struct gpuio_window w;
	struct gpuio_run *run;
	struct fixture f;
	int fd;

	fixture_open(&f, 1 << 20);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", f.fd);
	fd = open(path, O_WRONLY);
	CHECK(fd >= 0);
	f.spec.engine = engine;
	f.spec.depth = depth;
	f.spec.fd = fd;
	f.spec.order = GPUIO_SEQUENTIAL;
	f.spec.region_offset = 8192;
	f.spec.region_bytes -= 8192;
	run = fixture_run(&f);
	w = fixture_window(run, 100000);
	CHECK_EQ(w.ios, 0);
	CHECK(w.errors >= 64 && w.errors < 64 + depth);
	CHECK_EQ(w.first_error, -EBADF);
	CHECK_EQ(w.first_error_op, GPUIO_READ);
	CHECK_EQ(w.first_error_offset, 8192);
	CHECK_EQ(w.stopped, 0);
	CHECK_EQ(gpuio_lat(run)->count, 0);
	w = fixture_window(run, 3); /* the run itself is well */
	CHECK_EQ(w.errors, 3);
	CHECK_EQ(gpuio_close(run), 0);
	close(fd);
	fixture_close(&f);
}

/* Written data that nobody may read back. */
static void sweep_without_permission(void)
{
	uint64_t checked, bad, first;
	struct gpuio_window w;
	struct gpuio_run *run;
	struct fixture f;
	char path[64];
	int fd;

	fixture_open(&f, 1 << 20);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", f.fd);
	fd = open(path, O_WRONLY);
	CHECK(fd >= 0);
	f.spec.fd = fd;
	f.spec.read_percent = 0;
	run = fixture_run(&f);
	w = fixture_window(run, 10);
	CHECK_EQ(w.writes, 10);
	CHECK_EQ(gpuio_sweep(run, &checked, &bad, &first, &f.why), -EBADF);
	CHECK(mentions(&f.why, "open the file for reading and writing"));
	CHECK_EQ(gpuio_close(run), 0);
	close(fd);
	fixture_close(&f);
}

/* A pipe cannot be synced; the failure is counted and marked as no I/O's. */
static void failed_sync(void)
{
	struct gpuio_window w;
	struct gpuio_run *run;
	struct fixture f;
	int ends[2];

	fixture_open(&f, 1 << 20);
	CHECK_EQ(pipe(ends), 0);
	f.spec.fd = ends[0];
	f.spec.sync = GPUIO_SYNC_END;
	run = fixture_run(&f);
	w = fixture_window(run, 1);
	CHECK_EQ(w.first_error, -ESPIPE);
	CHECK_EQ(w.errors, 2);
	CHECK_EQ(w.syncs, 1);
	CHECK_EQ(gpuio_close(run), 0);
	close(ends[0]);
	close(ends[1]);
	fixture_close(&f);
}

static void broken_engine(void)
{
	static const struct {
		const char *at;
		int code;
	} cases[] = {{"submit", -ENODEV}, {"reap", -EIO}, {"never", -EAGAIN}, {"greedy", -EPROTO}};
	const struct gpuio_engine *engine;
	struct gpuio_run *run;
	struct gpuio_window w;
	struct fixture f;

	fixture_open(&f, 1 << 20);
	CHECK_EQ(gpuio_engine_load("./broken.so", &engine, &f.why), 0);
	f.spec.engine = "broken";
	f.spec.jobs = 2;
	CHECK_EQ(gpuio_engine_probe("broken", NULL, &f.why), -ENODEV);
	CHECK(mentions(&f.why, "buy another"));
	setenv("BROKEN_AT", "open", 1);
	CHECK_EQ(gpuio_open(&f.spec, &run, &f.why), -ENODEV);
	CHECK(mentions(&f.why, "finds no device"));
	setenv("BROKEN_AT", "silently", 1);
	CHECK_EQ(gpuio_open(&f.spec, &run, &f.why), -ENXIO);
	CHECK(mentions(&f.why, "broken cannot be opened in worker 0"));
	for (unsigned i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
		setenv("BROKEN_AT", cases[i / 2].at, 1);
		f.spec.depth = i % 2 ? 16 : 1;
		run = fixture_run(&f);
		CHECK_EQ(gpuio_window(run, 100, &w, &f.why), cases[i / 2].code);
		CHECK(mentions(&f.why, "worker 0: the engine broken failed"));
		CHECK_EQ(gpuio_window(run, 100, &w, &f.why), -ECANCELED);
		CHECK_EQ(gpuio_close(run), 0);
	}
	setenv("BROKEN_AT", "", 1);
	f.spec.depth = 1;
	run = fixture_run(&f);
	w = fixture_window(run, 100);
	CHECK_EQ(w.ios, 100);
	CHECK_EQ(gpuio_close(run), 0);
	fixture_close(&f);
}

/* More requests than the system allows: the sentence names the sysctl and its numbers. */
static void aio_limit(void)
{
	unsigned long long most = 0;
	struct gpuio_run *run;
	struct fixture f;
	FILE *limit = fopen("/proc/sys/fs/aio-max-nr", "r");

	CHECK(limit);
	CHECK_EQ(fscanf(limit, "%llu", &most), 1);
	fclose(limit);
	if (most > 100000) /* the buffers of such a depth would be too much for a test */
		return;
	fixture_open(&f, 1 << 20);
	f.spec.engine = "libaio";
	f.spec.depth = (uint32_t)most + 1;
	f.spec.block = 512;
	CHECK_EQ(gpuio_open(&f.spec, &run, &f.why), -EAGAIN);
	CHECK(mentions(&f.why, "sysctl -w fs.aio-max-nr="));
	fixture_close(&f);
}

int main(void)
{
	short_reads("psync", 1);
	short_reads("mmap", 1);
	short_reads("libaio", 8);
	failed_reads("psync", 1);
	failed_reads("libaio", 8);
	sweep_without_permission();
	failed_sync();
	broken_engine();
	aio_limit();
	return 0;
}
