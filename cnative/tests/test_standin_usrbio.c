/* SPDX-License-Identifier: Apache-2.0 */
/* The usrbio engine against a stand-in library (standin/libhf3fs_api_shared.c): rings, depth, batches, data, errors, what is missing. */
#include <dlfcn.h>
#include <errno.h>
#include <unistd.h>

#include "fixture.h"

#define LIBRARY "./standin_libhf3fs_api_shared.so"
#define MIB (UINT64_C(1) << 20)

static int ask(const char *name)
{
	void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD), *address;
	int (*count)(void);

	CHECK(handle);
	address = dlsym(handle, name);
	CHECK(address);
	memcpy(&count, &address, sizeof(address));
	dlclose(handle);
	return count();
}

static void settle(struct fixture *f, uint32_t jobs, uint32_t depth, uint32_t batch, uint32_t read_percent)
{
	f->spec.engine = "usrbio";
	f->spec.library = LIBRARY;
	f->spec.jobs = jobs;
	f->spec.depth = depth;
	f->spec.submit_batch = batch;
	f->spec.read_percent = read_percent;
}

static void check_sweep(struct gpuio_run *run, uint64_t least, bool good)
{
	uint64_t checked, bad, first;
	struct gpuio_why why;

	CHECK_EQ(gpuio_sweep(run, &checked, &bad, &first, &why), 0);
	CHECK(checked >= least);
	CHECK_EQ(bad > 0, !good);
}

static void moves(struct fixture *f, uint32_t jobs, uint32_t depth, uint32_t batch, uint32_t read_percent, const char *facts)
{
	bool mixed = read_percent > 0 && read_percent < 100;
	struct gpuio_window window;
	struct gpuio_run *run;

	settle(f, jobs, depth, batch, read_percent);
	f->spec.verify = 1;
	run = fixture_run(f);
	gpuio_facts(run, &f->why);
	CHECK(mentions(&f->why, facts));
	CHECK_EQ(ask("standin_hf3fs_rings_made"), jobs * (mixed ? 2 : 1));
	for (int i = 0; i < 2; i++) {
		window = fixture_window(run, 500);
		CHECK_EQ(window.ios, 500);
		CHECK_EQ(window.errors + window.short_ios, 0);
		CHECK_EQ(window.bytes, 500 * (uint64_t)f->spec.block);
		CHECK_EQ(window.verified, window.reads);
		CHECK_EQ(window.bad, 0);
		CHECK_EQ(window.max_in_flight, jobs * depth);
		check_sweep(run, jobs, true);
	}
	CHECK(ask("standin_hf3fs_largest_batch") <= (int)(batch > 1 ? batch : depth));
	CHECK_EQ(gpuio_close(run), 0);
	CHECK_EQ(ask("standin_hf3fs_live"), 0);
	f->spec.verify = 0;
}

static void waits_for_arrivals(struct fixture *f)
{
	uint64_t arrivals[100];
	struct gpuio_run *run;

	for (unsigned i = 0; i < 100; i++)
		arrivals[i] = i * 20000;
	settle(f, 1, 8, 1, 100);
	f->spec.arrivals = arrivals;
	f->spec.n_arrivals = 100;
	run = fixture_run(f);
	CHECK_EQ(fixture_window(run, 100).ios, 100);
	CHECK_EQ(gpuio_close(run), 0);
	f->spec.arrivals = NULL;
	f->spec.n_arrivals = 0;
}

/* Records of two files, in groups, one of them with an fsync between. */
static void replays_records_of_several_files(struct fixture *f)
{
	char name[] = "second-XXXXXX";
	int second = mkstemp(name);
	const int32_t fds[] = {f->fd, second};
	const uint64_t seeds[] = {7, 9};
	static const struct gpuio_record records[] = {
		{.offset = 0, .length = 4096, .file = 0, .op = GPUIO_READ},
		{.offset = 8192, .length = 8192, .file = 1, .op = GPUIO_READ},
		{.offset = 65536, .length = 4096, .file = 1, .op = GPUIO_WRITE},
		{.file = 1, .op = GPUIO_FSYNC},
	};
	static const struct gpuio_group groups[] = {{.first = 0, .time_ns = -1}, {.first = 2, .time_ns = -1}};
	struct gpuio_group_result results[2];
	struct gpuio_window window;
	struct gpuio_run *run;

	CHECK(second >= 0);
	unlink(name);
	fixture_lay_out(second, MIB, 9);
	settle(f, 1, 4, 1, 50);
	f->spec.block = 8192;
	f->spec.replay = (struct gpuio_replay_spec){.records = records, .n_records = 4, .groups = groups, .n_groups = 2, .n_chains = 1,
						    .fds = fds, .seeds = seeds, .n_files = 2};
	run = fixture_run(f);
	CHECK_EQ(gpuio_replay(run, 0, 2, results, &window, &f->why), 0);
	CHECK_EQ(window.ios, 3);
	CHECK_EQ(window.errors + window.short_ios, 0);
	CHECK_EQ(window.syncs, 1);
	check_sweep(run, 1, true);
	CHECK_EQ(gpuio_close(run), 0);
	CHECK_EQ(ask("standin_hf3fs_live"), 0);
	close(second);
	f->spec.block = 4096;
	memset(&f->spec.replay, 0, sizeof(f->spec.replay));
}

static void refused(struct fixture *f, const char *fault, int code, const char *words)
{
	struct gpuio_run *run;

	setenv("STANDIN_HF3FS_FAULT", fault, 1);
	CHECK_EQ(gpuio_open(&f->spec, &run, &f->why), code);
	CHECK(mentions(&f->why, words));
	CHECK_EQ(ask("standin_hf3fs_live"), 0);
	unsetenv("STANDIN_HF3FS_FAULT");
}

static void each_step_of_opening_may_fail(struct fixture *f)
{
	settle(f, 2, 4, 1, 50);
	refused(f, "foreign", -EXDEV, "is not on 3FS: name a folder below a mount of hf3fs_fuse_main");
	refused(f, "register:22", -EINVAL, "refused to register the target's file");
	refused(f, "ior:12", -ENOMEM, "no ring of 4 reads on /");
	refused(f, "iov:28", -ENOSPC, "make room in /dev/shm");
}

static void one_fault(struct gpuio_run *run, const char *fault, int error)
{
	struct gpuio_window window;

	setenv("STANDIN_HF3FS_FAULT", fault, 1);
	window = fixture_window(run, 20);
	unsetenv("STANDIN_HF3FS_FAULT");
	CHECK_EQ(window.ios, 0);
	CHECK_EQ(window.errors, 20);
	CHECK_EQ(window.first_error, error);
}

static void faults_of_requests_are_their_results(struct fixture *f)
{
	struct gpuio_window window;
	struct gpuio_run *run;

	settle(f, 1, 4, 2, 100);
	run = fixture_run(f);
	one_fault(run, "code:8001", -(GPUIO_3FS_CODES + 8001));
	one_fault(run, "prepare:9", -EBADF);
	setenv("STANDIN_HF3FS_FAULT", "short", 1);
	CHECK_EQ(fixture_window(run, 20).short_ios, 20);
	setenv("STANDIN_HF3FS_FAULT", "wrong", 1);
	CHECK_EQ(fixture_window(run, 20).ios, 20);
	unsetenv("STANDIN_HF3FS_FAULT");
	check_sweep(run, 4, false);
	setenv("STANDIN_HF3FS_FAULT", "submit:32", 1);
	CHECK_EQ(gpuio_window(run, 20, &window, &f->why), -EPIPE);
	CHECK(mentions(&f->why, "cannot tell the daemon of /"));
	unsetenv("STANDIN_HF3FS_FAULT");
	CHECK_EQ(gpuio_close(run), 0);
	CHECK_EQ(ask("standin_hf3fs_live"), 0);
	run = fixture_run(f);
	setenv("STANDIN_HF3FS_FAULT", "wait:5", 1);
	CHECK_EQ(gpuio_window(run, 20, &window, &f->why), -EIO);
	CHECK(mentions(&f->why, "cannot wait for requests on /"));
	unsetenv("STANDIN_HF3FS_FAULT");
	CHECK_EQ(gpuio_close(run), 0);
	CHECK_EQ(ask("standin_hf3fs_live"), 0);
}

/* A dead daemon: the deadline of the window ends the wait, and closing ends, too. */
static void a_daemon_that_never_answers_is_given_up(struct fixture *f)
{
	struct gpuio_window window;
	struct gpuio_run *run;

	settle(f, 1, 4, 1, 50);
	f->spec.timeout_ns = UINT64_C(300000000);
	run = fixture_run(f);
	setenv("STANDIN_HF3FS_FAULT", "never", 1);
	CHECK_EQ(gpuio_window(run, 20, &window, &f->why), -ETIMEDOUT);
	unsetenv("STANDIN_HF3FS_FAULT");
	gpuio_close(run);
	f->spec.timeout_ns = UINT64_C(60000000000);
}

static void what_is_missing_is_told(struct fixture *f)
{
	CHECK_EQ(gpuio_engine_probe("usrbio", "./nowhere.so", &f->why), -ELIBACC);
	CHECK(mentions(&f->why, "nowhere.so"));
	CHECK(mentions(&f->why, "install 3FS's client here, or name its libhf3fs_api_shared.so in GPUIO_USRBIO"));
	CHECK_EQ(gpuio_engine_probe("usrbio", "./no_table.so", &f->why), -ELIBACC);
	CHECK(mentions(&f->why, "lacks hf3fs_is_hf3fs"));
	CHECK_EQ(gpuio_engine_probe("usrbio", LIBRARY, &f->why), 0);
	setenv("STANDIN_HF3FS_MOUNT", "/nowhere", 1);
	CHECK_EQ(gpuio_usrbio_accepts(LIBRARY, "/", &f->why), -EXDEV);
	CHECK(mentions(&f->why, "/ is not on 3FS"));
	unsetenv("STANDIN_HF3FS_MOUNT");
	CHECK_EQ(gpuio_usrbio_accepts(LIBRARY, "/", &f->why), 0);
}

int main(void)
{
	struct fixture f;

	fixture_open(&f, MIB);
	what_is_missing_is_told(&f);
	moves(&f, 1, 1, 1, 100, "rings=1 entries=1 io_depth=0 holes=refused mount=/");
	moves(&f, 3, 16, 1, 0, "rings=1 entries=16 io_depth=0");
	moves(&f, 2, 16, 4, 60, "rings=2 entries=16 io_depth=-4");
	waits_for_arrivals(&f);
	replays_records_of_several_files(&f);
	each_step_of_opening_may_fail(&f);
	faults_of_requests_are_their_results(&f);
	a_daemon_that_never_answers_is_given_up(&f);
	fixture_close(&f);
	return 0;
}
