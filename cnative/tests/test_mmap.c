/* SPDX-License-Identifier: Apache-2.0 */
/* The mapped file: a file that shrinks under it is an error and not the end; what was written is made durable. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engines/sigbus.h"
#include "fixture.h"

static void on_sigbus(int number)
{
	(void)number;
	_exit(7);
}

static void shrinking_file(uint32_t jobs, uint32_t read_percent)
{
	struct sigaction mine, now;
	struct gpuio_window w;
	struct gpuio_run *run;
	struct fixture f;

	memset(&mine, 0, sizeof(mine));
	mine.sa_handler = on_sigbus;
	CHECK_EQ(sigaction(SIGBUS, &mine, NULL), 0);
	fixture_open(&f, 1 << 20);
	f.spec.engine = "mmap";
	f.spec.jobs = jobs;
	f.spec.order = GPUIO_SEQUENTIAL;
	f.spec.read_percent = read_percent;
	run = fixture_run(&f);
	w = fixture_window(run, 256);
	CHECK_EQ(w.ios, 256);
	CHECK_EQ(w.errors, 0);
	CHECK_EQ(ftruncate(f.fd, 0), 0);
	w = fixture_window(run, 32 * jobs);
	CHECK_EQ(w.ios, 0);
	CHECK_EQ(w.errors, 32 * jobs);
	CHECK_EQ(w.first_error, -EFAULT);
	/* And it is well again when the file is. */
	fixture_lay_out(f.fd, 1 << 20, 7);
	w = fixture_window(run, 256 - 32 * jobs);
	CHECK_EQ(w.errors, 0);
	CHECK_EQ(gpuio_close(run), 0);
	/* Who handled the signal before does so again. */
	CHECK_EQ(sigaction(SIGBUS, NULL, &now), 0);
	CHECK(now.sa_handler == on_sigbus);
	signal(SIGBUS, SIG_DFL);
	fixture_close(&f);
}

/* A SIGBUS that is not the engine's does what it would have done without it. */
static int fate_of_a_stranger(void (*handler)(int))
{
	pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (child == 0) {
		struct sigaction mine;

		memset(&mine, 0, sizeof(mine));
		mine.sa_handler = handler;
		sigaction(SIGBUS, &mine, NULL);
		if (gpuio_sigbus_hold() != 0)
			_exit(99);
		raise(SIGBUS);
		raise(SIGBUS);
		_exit(98);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	return status;
}

/* Shorter than the region: as read would say, and no byte behind the end is touched. */
static void short_file(void)
{
	struct gpuio_window w;
	struct gpuio_run *run;
	struct fixture f;

	fixture_open(&f, (1 << 20) - 2048);
	f.spec.engine = "mmap";
	f.spec.order = GPUIO_SEQUENTIAL;
	f.spec.region_bytes = (1 << 20) + 8192;
	f.spec.read_percent = 0;
	run = fixture_run(&f);
	w = fixture_window(run, 258);
	CHECK_EQ(w.ios, 255);
	CHECK_EQ(w.short_ios, 3);
	CHECK_EQ(lseek(f.fd, 0, SEEK_END), (1 << 20) - 2048);
	CHECK_EQ(gpuio_close(run), 0);
	fixture_close(&f);
}

static void syncs(void)
{
	struct gpuio_window w;
	struct gpuio_run *run;
	struct fixture f;

	fixture_open(&f, 1 << 20);
	f.spec.engine = "mmap";
	f.spec.block = 1536; /* neither begins nor ends with pages */
	f.spec.read_percent = 0;
	f.spec.region_offset = 512;
	f.spec.region_bytes -= 512;
	f.spec.sync = GPUIO_SYNC_EVERY;
	f.spec.sync_every = 5;
	run = fixture_run(&f);
	w = fixture_window(run, 23);
	CHECK_EQ(w.errors, 0);
	CHECK_EQ(w.syncs, 4);
	CHECK(w.sync_ns > 0);
	CHECK_EQ(gpuio_close(run), 0);
	f.spec.sync = GPUIO_SYNC_END;
	run = fixture_run(&f);
	w = fixture_window(run, 23);
	CHECK_EQ(w.errors, 0);
	CHECK_EQ(w.syncs, 1);
	CHECK_EQ(gpuio_close(run), 0);
	fixture_close(&f);
}

static void what_cannot_be_mapped(void)
{
	struct gpuio_run *run;
	struct fixture f;
	char path[64];
	int ends[2], fd;

	fixture_open(&f, 1 << 20);
	f.spec.engine = "mmap";
	snprintf(path, sizeof(path), "/proc/self/fd/%d", f.fd);
	fd = open(path, O_RDONLY);
	CHECK(fd >= 0);
	f.spec.fd = fd;
	f.spec.read_percent = 50;
	CHECK_EQ(gpuio_open(&f.spec, &run, &f.why), -EACCES);
	CHECK(mentions(&f.why, "for writing too"));
	close(fd);
	CHECK_EQ(pipe(ends), 0);
	f.spec.fd = ends[0];
	CHECK_EQ(gpuio_open(&f.spec, &run, &f.why), -ESPIPE);
	CHECK(mentions(&f.why, "with a size"));
	close(ends[0]);
	close(ends[1]);
	fixture_close(&f);
}

int main(void)
{
	int status;

	shrinking_file(1, 100);
	shrinking_file(1, 0);
	shrinking_file(3, 100);
	status = fate_of_a_stranger(on_sigbus);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	status = fate_of_a_stranger(SIG_DFL);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
	short_file();
	syncs();
	what_cannot_be_mapped();
	return 0;
}
