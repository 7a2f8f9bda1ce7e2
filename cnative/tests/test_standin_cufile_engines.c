/* SPDX-License-Identifier: Apache-2.0 */
/* The cuFile engines against a stand-in library (standin/libcufile.c): threads, depth, data, errors. */
#include <errno.h>

#include "fixture.h"

#define LIBRARY "./standin_libcufile.so"
#define MIB (UINT64_C(1) << 20)

static void settle(struct fixture *f, const char *engine, uint32_t jobs, uint32_t depth)
{
	f->spec.engine = engine;
	f->spec.library = LIBRARY;
	f->spec.jobs = jobs;
	f->spec.depth = depth;
	f->spec.knobs = GPUIO_KNOB_FIXED_BUFFERS;
}

static struct gpuio_cufile *open_driver(void)
{
	struct gpuio_cufile *cufile;
	struct gpuio_why why;

	CHECK_EQ(gpuio_cufile_open(LIBRARY, &cufile, &why), 0);
	return cufile;
}

static uint64_t word(const struct gpuio_cufile *cufile, unsigned level, unsigned at)
{
	static uint64_t words[GPUIO_CUFILE_WORDS];
	struct gpuio_why why;

	CHECK_EQ(gpuio_cufile_counters(cufile, level, words, &why), 0);
	return words[at];
}

static void check_sweep(struct gpuio_run *run, uint64_t least, bool good)
{
	uint64_t checked, bad, first;
	struct gpuio_why why;

	CHECK_EQ(gpuio_sweep(run, &checked, &bad, &first, &why), 0);
	CHECK(checked >= least);
	CHECK_EQ(bad > 0, !good);
}

static void moves_and_counts(struct fixture *f, const char *engine, uint32_t jobs, uint32_t depth, uint32_t read_percent)
{
	struct gpuio_cufile *cufile = open_driver();
	struct gpuio_window window;
	struct gpuio_run *run;
	bool batch = depth > 1;
	uint64_t before;

	settle(f, engine, jobs, depth);
	f->spec.read_percent = read_percent;
	run = fixture_run(f);
	CHECK_EQ(gpuio_effective_knobs(run), GPUIO_KNOB_FIXED_BUFFERS);
	before = batch ? word(cufile, 1, 50) : word(cufile, 3, 142 + 7) + word(cufile, 3, 142 + 20);
	window = fixture_window(run, 1000);
	CHECK_EQ(window.ios, 1000);
	CHECK_EQ(window.errors + window.short_ios, 0);
	CHECK_EQ(window.max_in_flight, jobs * depth);
	CHECK_EQ((batch ? word(cufile, 1, 50) : word(cufile, 3, 142 + 7) + word(cufile, 3, 142 + 20)) - before, 1000);
	check_sweep(run, jobs, true);
	CHECK_EQ(gpuio_close(run), 0);
	f->spec.read_percent = 100;
	CHECK_EQ(gpuio_cufile_close(cufile), 0);
}

static void faults_are_told(struct fixture *f, const char *engine, uint32_t depth)
{
	struct gpuio_cufile *cufile = open_driver();
	struct gpuio_window window;
	struct gpuio_run *run;

	settle(f, engine, 1, depth);
	setenv("STANDIN_FAULT", "register:5027", 1);
	CHECK_EQ(gpuio_open(&f->spec, &run, &f->why), -5027);
	CHECK(mentions(&f->why, "cuFileHandleRegister refused the target (cuFile code 5027)"));
	CHECK_EQ(gpuio_cufile_accepts(cufile, f->fd, &f->why), -5027);

	setenv("STANDIN_FAULT", "buffer:5036", 1);
	run = fixture_run(f); /* without it, told why */
	CHECK_EQ(gpuio_effective_knobs(run), 0);
	gpuio_knob_reason(run, &f->why);
	CHECK(mentions(&f->why, "cuFileBufRegister refused"));
	CHECK(mentions(&f->why, "5036"));
	CHECK_EQ(gpuio_close(run), 0);
	f->spec.knobs |= GPUIO_KNOB_REQUIRE;
	CHECK_EQ(gpuio_open(&f->spec, &run, &f->why), -ENOTSUP);
	f->spec.knobs = 0;

	unsetenv("STANDIN_FAULT");
	CHECK_EQ(gpuio_cufile_accepts(cufile, f->fd, &f->why), 0);
	run = fixture_run(f);
	setenv("STANDIN_FAULT", "read:5012", 1);
	window = fixture_window(run, 10);
	CHECK_EQ(window.ios, 0);
	CHECK_EQ(window.errors, 10);
	CHECK_EQ(window.first_error, -5012);
	setenv("STANDIN_FAULT", "short", 1);
	window = fixture_window(run, 10);
	CHECK_EQ(window.short_ios, 10);
	setenv("STANDIN_FAULT", "wrong", 1);
	window = fixture_window(run, 10);
	CHECK_EQ(window.ios, 10);
	check_sweep(run, 1, false);
	unsetenv("STANDIN_FAULT");
	CHECK_EQ(gpuio_close(run), 0);
	CHECK_EQ(gpuio_cufile_close(cufile), 0);
}

static void batch_refusals_end_their_requests(struct fixture *f)
{
	struct gpuio_cufile *cufile = open_driver();
	struct gpuio_window window;
	struct gpuio_run *run;

	settle(f, "cufile_batch", 1, 8);
	run = fixture_run(f);
	setenv("STANDIN_FAULT", "batch:5035", 1);
	window = fixture_window(run, 20);
	CHECK_EQ(window.errors, 20);
	CHECK_EQ(window.first_error, -5035);
	unsetenv("STANDIN_FAULT");
	CHECK_EQ(fixture_window(run, 20).ios, 20);
	CHECK_EQ(gpuio_close(run), 0);
	f->spec.depth = f->spec.submit_batch = 129;
	CHECK_EQ(gpuio_open(&f->spec, &run, &f->why), -5022);
	CHECK(mentions(&f->why, "properties.io_batchsize"));
	f->spec.depth = 10;
	f->spec.submit_batch = 4;
	run = fixture_run(f);
	window = fixture_window(run, 1000);
	CHECK_EQ(window.ios, 1000);
	CHECK_EQ(window.max_in_flight, 10);
	check_sweep(run, 10, true);
	CHECK_EQ(gpuio_close(run), 0);
	f->spec.submit_batch = 1;
	CHECK_EQ(gpuio_cufile_close(cufile), 0);
}

static void the_driver_is_opened_by_name_only(struct fixture *f)
{
	struct gpuio_cufile *cufile;
	struct gpuio_run *run;

	settle(f, "cufile", 1, 1);
	CHECK_EQ(gpuio_open(&f->spec, &run, &f->why), -EBADF);
	CHECK(mentions(&f->why, "not open in this process"));
	CHECK_EQ(gpuio_engine_probe("cufile", LIBRARY, &f->why), 0);
	CHECK_EQ(gpuio_engine_probe("cufile_batch", LIBRARY, &f->why), 0);
	CHECK_EQ(gpuio_engine_probe("cufile", "./nowhere.so", &f->why), -ELIBACC);
	CHECK(mentions(&f->why, "pip install nvidia-cufile"));
	CHECK_EQ(gpuio_engine_probe("cufile", "./skeleton.so", &f->why), -ELIBACC);
	CHECK(mentions(&f->why, "lacks cuFileDriverClose"));
	CHECK_EQ(gpuio_cufile_open("./nowhere.so", &cufile, &f->why), -ELIBACC);
	setenv("STANDIN_FAULT", "open:5007", 1);
	CHECK_EQ(gpuio_cufile_open(LIBRARY, &cufile, &f->why), -5007);
	CHECK(mentions(&f->why, "cuFileDriverOpen was refused (cuFile code 5007"));
	unsetenv("STANDIN_FAULT");
}

static void the_driver_says_what_it_is(void)
{
	static uint64_t words[GPUIO_CUFILE_WORDS];
	struct gpuio_cufile_info info;
	struct gpuio_cufile *cufile;
	struct gpuio_why why;

	setenv("STANDIN_CUFILE", "nvfs", 1);
	cufile = open_driver();
	gpuio_cufile_describe(cufile, &info);
	CHECK_EQ(info.version, 1150);
	CHECK_EQ(info.counts, 1);
	CHECK_EQ(info.nvfs_major, 2);
	CHECK_EQ(info.control_flags, 2);
	CHECK_EQ(info.max_direct_bytes, 16 * MIB);
	CHECK_EQ(info.poll_threshold_bytes, 4096);
	CHECK_EQ(gpuio_cufile_counters(cufile, 2, words, &why), -EINVAL);
	CHECK_EQ(gpuio_cufile_close(cufile), 0);
	CHECK_EQ(gpuio_cufile_close(NULL), 0);
	setenv("STANDIN_FAULT", "stats:5022", 1);
	cufile = open_driver();
	CHECK_EQ(gpuio_cufile_counters(cufile, 1, words, &why), -ENODATA);
	CHECK(mentions(&why, "no counters"));
	CHECK_EQ(gpuio_cufile_close(cufile), 0);
	unsetenv("STANDIN_FAULT");
	unsetenv("STANDIN_CUFILE");
}

static void a_release_that_would_spin_is_not_called(void)
{
	FILE *modules = fopen("/proc/modules", "re");
	struct gpuio_cufile *cufile;
	struct gpuio_why why;

	setenv("STANDIN_VERSION", "1200", 1);
	if (modules) {
		fclose(modules);
		CHECK_EQ(gpuio_cufile_open(LIBRARY, &cufile, &why), 0);
		CHECK_EQ(gpuio_cufile_close(cufile), 0);
	} else {
		CHECK_EQ(gpuio_cufile_open(LIBRARY, &cufile, &why), -ENOTSUP);
		CHECK(mentions(&why, "libcufile 1.20 never comes back"));
	}
	setenv("STANDIN_VERSION", "1210", 1);
	cufile = open_driver();
	CHECK_EQ(gpuio_cufile_close(cufile), 0);
}

int main(void)
{
	struct fixture f;

	fixture_open(&f, 4 * MIB);
	setenv("STANDIN_VERSION", "1150", 1);
	the_driver_is_opened_by_name_only(&f);
	the_driver_says_what_it_is();
	a_release_that_would_spin_is_not_called();
	moves_and_counts(&f, "cufile", 4, 1, 100);
	moves_and_counts(&f, "cufile", 2, 1, 50);
	moves_and_counts(&f, "cufile_batch", 1, 32, 100);
	moves_and_counts(&f, "cufile_batch", 2, 8, 30);
	faults_are_told(&f, "cufile", 1);
	faults_are_told(&f, "cufile_batch", 4);
	batch_refusals_end_their_requests(&f);
	fixture_close(&f);
	return 0;
}
