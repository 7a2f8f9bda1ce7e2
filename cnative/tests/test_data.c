/* SPDX-License-Identifier: Apache-2.0 */
/* What the engines move, against what the kernel counted and what the file holds. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "fixture.h"

#define FILE_BYTES (UINT64_C(4) << 20)
#define BLOCK 16384u

struct kernel_count {
	unsigned long long rchar, wchar, syscr, syscw;
};

/* The kernel's own count of this process's read and write calls. */
static struct kernel_count kernel_count(void)
{
	struct kernel_count c;
	char text[512];
	int fd = open("/proc/self/io", O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1); /* one call, which the next count has in it */

	CHECK(n > 0);
	close(fd);
	text[n] = '\0';
	CHECK_EQ(sscanf(text, "rchar: %llu wchar: %llu syscr: %llu syscw: %llu", &c.rchar, &c.wchar, &c.syscr, &c.syscw), 4);
	return c;
}

static uint64_t bad_sectors(int fd)
{
	unsigned char *all = malloc(FILE_BYTES);
	uint64_t bad;

	CHECK(all);
	CHECK_EQ(pread(fd, all, FILE_BYTES, 0), FILE_BYTES);
	bad = gpuio_pattern_check(all, FILE_BYTES, 0, 7, NULL);
	free(all);
	return bad;
}

static void sweep_is_clean(struct gpuio_run *run, uint64_t blocks)
{
	uint64_t checked, bad, first;
	struct gpuio_why why;

	CHECK_EQ(gpuio_sweep(run, &checked, &bad, &first, &why), 0);
	CHECK_EQ(checked, blocks);
	CHECK_EQ(bad, 0);
}

/* psync: exactly as many read calls and bytes as the window says. */
static void psync_calls(void)
{
	struct kernel_count before, after;
	struct gpuio_window w;
	struct gpuio_run *run;
	struct fixture f;

	fixture_open(&f, FILE_BYTES);
	f.spec.block = BLOCK;
	run = fixture_run(&f);
	before = kernel_count();
	w = fixture_window(run, 500);
	after = kernel_count();
	CHECK_EQ(after.syscr - before.syscr, 500 + 1);
	CHECK(after.rchar - before.rchar >= 500ull * BLOCK);
	CHECK(after.rchar - before.rchar < 500ull * BLOCK + 512); /* the count's own text */
	CHECK_EQ(w.ios, 500);
	CHECK_EQ(w.reads, 500);
	CHECK_EQ(w.bytes, 500ull * BLOCK);
	CHECK_EQ(gpuio_lat(run)->count, 500);
	CHECK_EQ(gpuio_clat(run)->count, 500);
	CHECK_EQ(gpuio_slat(run)->count, 0);
	sweep_is_clean(run, 1);
	CHECK_EQ(gpuio_close(run), 0);
	fixture_close(&f);
}

/* Overwrites a file of other content wholly, by each engine: afterwards each sector is what belongs there. */
static void writes_arrive(const char *engine, uint32_t jobs, uint32_t depth, uint32_t batch, uint32_t order)
{
	struct gpuio_window w;
	struct gpuio_run *run;
	struct fixture f;

	fixture_open(&f, FILE_BYTES);
	fixture_lay_out(f.fd, FILE_BYTES, 8);
	CHECK_EQ(bad_sectors(f.fd), FILE_BYTES / GPUIO_SECTOR);
	f.spec.engine = engine;
	f.spec.jobs = jobs;
	f.spec.depth = depth;
	f.spec.block = BLOCK;
	f.spec.submit_batch = f.spec.reap_batch = batch;
	f.spec.order = order;
	f.spec.read_percent = 0;
	f.spec.sync = GPUIO_SYNC_END;
	run = fixture_run(&f);
	w = fixture_window(run, FILE_BYTES / BLOCK);
	CHECK_EQ(w.writes, FILE_BYTES / BLOCK);
	CHECK_EQ(w.reads, 0);
	CHECK_EQ(w.bytes, FILE_BYTES);
	CHECK_EQ(w.syncs, jobs);
	CHECK(w.sync_ns > 0);
	sweep_is_clean(run, jobs * depth);
	CHECK_EQ(bad_sectors(f.fd), 0);
	CHECK_EQ(gpuio_close(run), 0);
	fixture_close(&f);
}

static void reads_are_checked(const char *engine, uint32_t depth)
{
	uint64_t checked, bad, first;
	unsigned char sector[GPUIO_SECTOR];
	struct gpuio_window w;
	struct gpuio_run *run;
	struct fixture f;

	fixture_open(&f, FILE_BYTES);
	f.spec.engine = engine;
	f.spec.depth = depth;
	f.spec.block = BLOCK;
	f.spec.verify = 1;
	run = fixture_run(&f);
	w = fixture_window(run, FILE_BYTES / BLOCK);
	CHECK_EQ(w.verified, FILE_BYTES / BLOCK);
	CHECK_EQ(w.bad, 0);
	/* One bit of the whole file changes, in the middle of a sector. */
	CHECK_EQ(pread(f.fd, sector, sizeof(sector), 1 << 20), sizeof(sector));
	sector[300] ^= 4;
	CHECK_EQ(pwrite(f.fd, sector, sizeof(sector), 1 << 20), sizeof(sector));
	w = fixture_window(run, FILE_BYTES / BLOCK);
	CHECK_EQ(w.verified, FILE_BYTES / BLOCK);
	CHECK_EQ(w.bad, 1);
	CHECK_EQ(w.first_bad_offset, 1 << 20);
	CHECK_EQ(gpuio_close(run), 0);

	/* The sweep sees it too: a region of that one block. */
	f.spec.verify = 0;
	f.spec.region_offset = 1 << 20;
	f.spec.region_bytes = BLOCK;
	run = fixture_run(&f);
	CHECK_EQ(gpuio_sweep(run, &checked, &bad, &first, &f.why), -EINVAL);
	CHECK(mentions(&f.why, "no finished window"));
	w = fixture_window(run, 10);
	CHECK_EQ(w.verified, 0);
	CHECK_EQ(gpuio_sweep(run, &checked, &bad, &first, &f.why), 0);
	CHECK_EQ(checked, depth < 10 ? depth : 10);
	CHECK_EQ(bad, checked);
	CHECK_EQ(first, 1 << 20);
	CHECK_EQ(gpuio_close(run), 0);
	fixture_close(&f);
}

/* Half reads, half writes over a file of the same pattern: it stays whole, and the buffers stay valid. */
static void mixed(const char *engine, uint32_t depth)
{
	struct gpuio_window w;
	struct gpuio_run *run;
	struct fixture f;
	uint64_t reads = 0;
	uint64_t offsets[2000];
	uint8_t ops[2000];

	fixture_open(&f, FILE_BYTES);
	f.spec.engine = engine;
	f.spec.depth = depth;
	f.spec.block = BLOCK;
	f.spec.read_percent = 50;
	f.spec.verify = 1;
	CHECK_EQ(gpuio_offsets(&f.spec, 0, 2000, offsets, ops), 0);
	for (unsigned i = 0; i < 2000; i++)
		reads += ops[i] == GPUIO_READ;
	run = fixture_run(&f);
	w = fixture_window(run, 2000);
	CHECK_EQ(w.reads, reads);
	CHECK_EQ(w.writes, 2000 - reads);
	CHECK_EQ(w.verified, reads);
	CHECK_EQ(w.bad, 0);
	sweep_is_clean(run, depth);
	CHECK_EQ(bad_sectors(f.fd), 0);
	CHECK_EQ(gpuio_close(run), 0);
	fixture_close(&f);
}

static void syncs_every(void)
{
	struct gpuio_window w;
	struct gpuio_run *run;
	struct fixture f;

	fixture_open(&f, FILE_BYTES);
	f.spec.engine = "libaio";
	f.spec.depth = 4;
	f.spec.submit_batch = 4;
	f.spec.read_percent = 0;
	f.spec.sync = GPUIO_SYNC_EVERY;
	f.spec.sync_every = 7;
	run = fixture_run(&f);
	w = fixture_window(run, 20); /* after 7 and 14; 6 writes stay for the next window */
	CHECK_EQ(w.ios, 20);
	CHECK_EQ(w.syncs, 2);
	w = fixture_window(run, 1);
	CHECK_EQ(w.syncs, 1);
	w = fixture_window(run, 14);
	CHECK_EQ(w.syncs, 2);
	CHECK_EQ(gpuio_close(run), 0);
	fixture_close(&f);
}

/* An engine that claims to have moved data and has not. */
static void claims_are_not_believed(void)
{
	const struct gpuio_engine *engine;
	uint64_t checked, bad, first;
	struct gpuio_window w;
	struct gpuio_run *run;
	struct fixture f;

	fixture_open(&f, FILE_BYTES);
	CHECK_EQ(gpuio_engine_load("./dropping.so", &engine, &f.why), 0);
	f.spec.engine = "dropping";
	f.spec.verify = 1;
	f.spec.region_bytes = 8192; /* two blocks, so that one slot meets each of them again and again */
	run = fixture_run(&f);
	w = fixture_window(run, 50);
	CHECK_EQ(w.ios, 50);
	CHECK_EQ(w.verified, 50);
	CHECK_EQ(w.bad, 50);
	CHECK_EQ(gpuio_sweep(run, &checked, &bad, &first, &f.why), 0);
	CHECK_EQ(bad, 1);
	CHECK_EQ(gpuio_close(run), 0);

	/* Right data left over from an honest run must not pass for read. */
	f.spec.engine = "psync";
	f.spec.region_bytes = 4096;
	run = fixture_run(&f);
	fixture_window(run, 1);
	CHECK_EQ(gpuio_close(run), 0);
	f.spec.engine = "dropping";
	run = fixture_run(&f);
	w = fixture_window(run, 1);
	CHECK_EQ(w.bad, 1);
	CHECK_EQ(gpuio_close(run), 0);

	/* Writes that never went to the file. */
	fixture_lay_out(f.fd, FILE_BYTES, 8);
	f.spec.read_percent = 0;
	run = fixture_run(&f);
	fixture_window(run, 1);
	CHECK_EQ(gpuio_sweep(run, &checked, &bad, &first, &f.why), 0);
	CHECK_EQ(checked, 1);
	CHECK_EQ(bad, 1);
	CHECK_EQ(gpuio_close(run), 0);
	fixture_close(&f);
}

/* Reads that begin and end inside sectors: what lies between is still checked. */
static void unaligned_reads(void)
{
	struct gpuio_window w;
	struct gpuio_run *run;
	struct fixture f;

	fixture_open(&f, FILE_BYTES);
	f.spec.block = 1500;
	f.spec.region_offset = 37;
	f.spec.region_bytes -= 37;
	f.spec.verify = 1;
	run = fixture_run(&f);
	w = fixture_window(run, 1000);
	CHECK_EQ(w.ios, 1000);
	CHECK_EQ(w.verified, 1000);
	CHECK_EQ(w.bad, 0);
	sweep_is_clean(run, 1);
	CHECK_EQ(gpuio_close(run), 0);
	f.spec.block = 100; /* no whole sector fits */
	run = fixture_run(&f);
	w = fixture_window(run, 100);
	CHECK_EQ(w.verified, 0);
	sweep_is_clean(run, 0);
	CHECK_EQ(gpuio_close(run), 0);
	fixture_close(&f);
}

int main(void)
{
	const struct gpuio_engine *skeleton;
	struct gpuio_why why;

	CHECK_EQ(gpuio_engine_load("./skeleton.so", &skeleton, &why), 0);
	CHECK_EQ(gpuio_engine_probe("libaio", NULL, &why), 0);
	psync_calls();
	writes_arrive("psync", 1, 1, 1, GPUIO_SEQUENTIAL);
	writes_arrive("psync", 3, 1, 1, GPUIO_RANDOM);
	writes_arrive("libaio", 1, 8, 1, GPUIO_RANDOM);
	writes_arrive("libaio", 2, 16, 16, GPUIO_SEQUENTIAL);
	writes_arrive("libaio", 2, 7, 3, GPUIO_RANDOM);
	writes_arrive("mmap", 1, 1, 1, GPUIO_SEQUENTIAL);
	writes_arrive("mmap", 3, 1, 1, GPUIO_RANDOM);
	writes_arrive("skeleton", 1, 4, 2, GPUIO_RANDOM);
	reads_are_checked("psync", 1);
	reads_are_checked("libaio", 8);
	reads_are_checked("mmap", 1);
	reads_are_checked("skeleton", 16);
	mixed("psync", 1);
	mixed("mmap", 1);
	mixed("libaio", 1);
	syncs_every();
	claims_are_not_believed();
	unaligned_reads();
	return 0;
}
