/* SPDX-License-Identifier: Apache-2.0 */
/* Why a ring cannot be had: the right reason out of a faked /proc. And a liburing that is none. */
#include <errno.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "dl/liburing.h"
#include "engines/uring.h"
#include "fixture.h"

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	CHECK(f);
	fputs(text, f);
	fclose(f);
}

static struct io_uring_params params;
static unsigned entries = 32;

static void explains(int error, const char *disabled, const char *status, const char *words)
{
	struct gpuio_why why;

	write_file("fake_proc/sys/kernel/io_uring_disabled", disabled);
	write_file("fake_proc/self/status", status);
	gpuio_uring_explain_setup(error, &params, entries, "fake_proc", &why);
	CHECK(mentions(&why, words));
}

int main(void)
{
	static const char filtered[] = "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n", free_[] = "Name:\tx\nSeccomp:\t0\n";
	struct gpuio_liburing lib;
	struct rlimit limit = {65536, 65536};
	struct gpuio_why why;

	mkdir("fake_proc", 0700);
	mkdir("fake_proc/sys", 0700);
	mkdir("fake_proc/sys/kernel", 0700);
	mkdir("fake_proc/self", 0700);
	explains(EPERM, "2\n", filtered, "kernel.io_uring_disabled is 2");
	explains(EPERM, "1\n", free_, "kernel.io_uring_group");
	explains(EPERM, "0\n", filtered, "seccomp filter");
	explains(EPERM, "0\n", free_, "Operation not permitted");
	explains(ENOSYS, "0\n", free_, "the kernel has no io_uring");
	explains(ENOSYS, "0\n", filtered, "or the seccomp filter of this container hides it");
	explains(ENOMEM, "0\n", free_, "locked memory");
	entries = 32769;
	explains(EINVAL, "0\n", free_, "the most is 32768");
	entries = 32;
	explains(EINVAL, "0\n", free_, "does not know this kind of ring (set-up flags 0x0");
	params.flags = IORING_SETUP_SQE128 | IORING_SETUP_CQE32;
	explains(EINVAL, "0\n", free_, "Linux 5.19");
	params.flags = IORING_SETUP_SQPOLL | IORING_SETUP_SQ_AFF;
	params.sq_thread_cpu = 77;
	explains(EINVAL, "0\n", free_, "cannot have CPU 77");
	/* The three reasons for EPERM are told apart. */
	explains(EPERM, "0\n", free_, "CAP_SYS_NICE (Linux 5.11)");
	explains(EPERM, "0\n", filtered, "seccomp filter");
	explains(EPERM, "2\n", filtered, "kernel.io_uring_disabled is 2");
	params.flags = 0;
	/* Kernels before 6.6 have no such file. */
	gpuio_uring_explain_setup(EPERM, &params, 32, "no_proc_here", &why);
	CHECK(mentions(&why, "Operation not permitted"));

	gpuio_uring_explain_buffers(EFAULT, 4096, &why);
	CHECK(mentions(&why, "registering 4096 bytes failed (Bad address)"));
	CHECK_EQ(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	gpuio_uring_explain_buffers(ENOMEM, 131072, &why);
	CHECK(mentions(&why, "131072 bytes"));
	CHECK(mentions(&why, "it is 65536"));

	CHECK_EQ(gpuio_liburing_open(&lib, "./no_table.so", &why), -ELIBACC);
	CHECK(mentions(&why, "lacks io_uring_queue_init_params"));
	CHECK(lib.handle == NULL);
	CHECK_EQ(gpuio_liburing_open(&lib, "./nowhere.so", &why), -ELIBACC);
	CHECK(mentions(&why, "pip install liburing"));
	setenv("GPUIO_LIBURING", "./no_table.so", 1);
	CHECK_EQ(gpuio_engine_probe("io_uring", NULL, &why), -ELIBACC);
	CHECK(mentions(&why, "no_table.so lacks"));
	return 0;
}
