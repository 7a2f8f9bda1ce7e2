/* SPDX-License-Identifier: Apache-2.0 */
#include "libcuda.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))
#define UNSEEN_BYTES ((size_t)4 << 20)
#define TAG (UINT64_C(1) << 62) /* no address a processor takes */
#define CHECK_FAILURES()                                                                                                     \
	do {                                                                                                                 \
		int failure = failing(__func__);                                                                             \
		if (failure)                                                                                                 \
			return failure;                                                                                      \
	} while (0)

enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101,
       INVALID_CONTEXT = 201, NOT_READY = 600 };
enum { COPY_IN, COPY_OUT, RECORD, CHECK, STAMP, WORK };

#define ROUND_US 2.0 /* of gpuio_work */

struct event {
	bool pending;
	struct timespec at;
};

struct op {
	int kind;
	void *host;
	uint64_t device, bytes;
	bool lost;
	struct event *event;
	uint64_t args[7];
	struct op *next;
};

struct stream {
	pthread_t thread;
	struct op *first, **last;
	bool quit, busy;
	pthread_cond_t work;
};

struct range {
	void *at;
	size_t bytes;
	struct range *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t done = PTHREAD_COND_INITIALIZER;
static struct standin_state state;
static struct range *pinned;
static int gpus = 1;
static bool ready;
static uint64_t lose, delay_us, copies;
static uint32_t times = 1; /* as many times longer does gpuio_work take */
static char fail_name[64];
static uint64_t fail_from, fail_calls;
static int fail_code;
static _Thread_local int current; /* device + 1; 0 = no context */

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *value = getenv(name);

	return value && value[0] ? strtoull(value, NULL, 10) : otherwise;
}

static int failing(const char *name)
{
	int code = 0;

	pthread_mutex_lock(&lock);
	if (fail_name[0] && strcmp(fail_name, name) == 0 && ++fail_calls >= fail_from)
		code = fail_code;
	pthread_mutex_unlock(&lock);
	return code;
}

PUBLIC void standin_cuda_state(struct standin_state *out)
{
	pthread_mutex_lock(&lock);
	*out = state;
	pthread_mutex_unlock(&lock);
}

PUBLIC void standin_cuda_slow_down(uint32_t by)
{
	__atomic_store_n(&times, by, __ATOMIC_RELAXED);
}

PUBLIC int cuInit(unsigned flags)
{
	const char *fail = getenv("STANDIN_CUDA_FAIL");
	unsigned long long from = 0;

	(void)flags;
	pthread_mutex_lock(&lock);
	gpus = (int)number("STANDIN_CUDA_GPUS", 1);
	lose = number("STANDIN_CUDA_LOSE", 0);
	delay_us = number("STANDIN_CUDA_DELAY_US", 0);
	copies = fail_calls = 0;
	fail_name[0] = 0;
	if (fail && sscanf(fail, "%63[^:]:%llu:%d", fail_name, &from, &fail_code) != 3)
		fail_name[0] = 0;
	fail_from = from;
	ready = true;
	pthread_mutex_unlock(&lock);
	CHECK_FAILURES();
	return gpus > 0 ? OK : NO_DEVICE;
}

PUBLIC int cuDriverGetVersion(int *version)
{
	*version = 12040;
	return OK;
}

PUBLIC int cuGetErrorName(int code, const char **name)
{
	*name = code == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : code == NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_STANDIN";
	return OK;
}

PUBLIC int cuGetErrorString(int code, const char **text)
{
	(void)code;
	*text = "of the stand-in";
	return OK;
}

PUBLIC int cuDeviceGetCount(int *count)
{
	CHECK_FAILURES();
	if (!ready)
		return NOT_INITIALIZED;
	*count = gpus;
	return OK;
}

PUBLIC int cuDeviceGet(int *device, int ordinal)
{
	CHECK_FAILURES();
	if (ordinal < 0 || ordinal >= gpus)
		return INVALID_DEVICE;
	*device = ordinal;
	return OK;
}

PUBLIC int cuDeviceGetName(char *name, int length, int device)
{
	snprintf(name, (size_t)length, "stand-in GPU %d", device);
	return OK;
}

PUBLIC int cuDeviceGetUuid(unsigned char *uuid, int device)
{
	memset(uuid, 0, 16);
	uuid[15] = (unsigned char)device;
	return OK;
}

PUBLIC int cuDeviceGetPCIBusId(char *id, int length, int device)
{
	snprintf(id, (size_t)length, "0000:%02X:00.0", device + 1);
	return OK;
}

PUBLIC int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
	(void)device;
	*bytes = (size_t)1 << 30;
	return OK;
}

PUBLIC int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	(void)device;
	*value = attribute == 75 ? 9 : attribute == 40 ? 2 : 0;
	return OK;
}

PUBLIC int cuDevicePrimaryCtxRetain(void **context, int device)
{
	CHECK_FAILURES();
	pthread_mutex_lock(&lock);
	if (state.contexts[device]++ == 0)
		state.ever[device]++;
	pthread_mutex_unlock(&lock);
	*context = (void *)(uintptr_t)(device + 1);
	return OK;
}

PUBLIC int cuDevicePrimaryCtxRelease_v2(int device)
{
	pthread_mutex_lock(&lock);
	state.contexts[device]--;
	pthread_mutex_unlock(&lock);
	return OK;
}

PUBLIC int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
	pthread_mutex_lock(&lock);
	*flags = 0;
	*active = state.contexts[device] > 0;
	pthread_mutex_unlock(&lock);
	return OK;
}

PUBLIC int cuCtxSetCurrent(void *context)
{
	CHECK_FAILURES();
	current = (int)(uintptr_t)context;
	return OK;
}

static void *real(uint64_t device)
{
	return (void *)(uintptr_t)(device & ~TAG);
}

/* As memset. What a kernel streams through is large and nobody looks at: sanitizers would keep account of every byte of it. */
static void fill(void *memory, unsigned char value, size_t bytes)
{
#if defined(__x86_64__)
	if (bytes > UNSEEN_BYTES) {
		__asm__ volatile("rep stosb" : "+D"(memory), "+c"(bytes) : "a"(value) : "memory");
		return;
	}
#endif
	memset(memory, value, bytes);
}

PUBLIC int cuMemAlloc_v2(uint64_t *address, size_t bytes)
{
	void *memory;

	CHECK_FAILURES();
	if (!current)
		return INVALID_CONTEXT;
	memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
	if (!memory)
		return OUT_OF_MEMORY;
	fill(memory, 0x5a, bytes < UNSEEN_BYTES ? bytes : UNSEEN_BYTES); /* as if left there by others */
	*address = (uint64_t)(uintptr_t)memory | TAG;
	pthread_mutex_lock(&lock);
	state.allocations++;
	pthread_mutex_unlock(&lock);
	return OK;
}

PUBLIC int cuMemFree_v2(uint64_t address)
{
	free(real(address));
	pthread_mutex_lock(&lock);
	state.allocations--;
	pthread_mutex_unlock(&lock);
	return OK;
}

PUBLIC int cuMemHostRegister_v2(void *host, size_t bytes, unsigned flags)
{
	struct range *range;

	(void)flags;
	CHECK_FAILURES();
	if (!current)
		return INVALID_CONTEXT;
	range = malloc(sizeof(*range));
	pthread_mutex_lock(&lock);
	*range = (struct range){host, bytes, pinned};
	pinned = range;
	state.pinned++;
	pthread_mutex_unlock(&lock);
	return OK;
}

PUBLIC int cuMemHostUnregister(void *host)
{
	int rc = INVALID_VALUE;

	pthread_mutex_lock(&lock);
	for (struct range **r = &pinned; *r; r = &(*r)->next) {
		if ((*r)->at == host) {
			struct range *gone = *r;

			*r = gone->next;
			free(gone);
			state.pinned--;
			rc = OK;
			break;
		}
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

/* Under the lock. */
static bool is_pinned(const char *host, size_t bytes)
{
	for (const struct range *r = pinned; r; r = r->next)
		if (host >= (const char *)r->at && host + bytes <= (const char *)r->at + r->bytes)
			return true;
	return false;
}

PUBLIC int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes)
{
	CHECK_FAILURES();
	if (!current)
		return INVALID_CONTEXT;
	/* A word may be one that gpuio_work looks at meanwhile. */
	if (bytes == sizeof(uint32_t))
		__atomic_store_n((uint32_t *)real(to), *(const uint32_t *)from, __ATOMIC_RELAXED);
	else
		memcpy(real(to), from, bytes);
	return OK;
}

PUBLIC int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
	CHECK_FAILURES();
	if (!current)
		return INVALID_CONTEXT;
	memcpy(to, real(from), bytes);
	return OK;
}

PUBLIC int cuMemsetD8_v2(uint64_t to, unsigned char value, size_t bytes)
{
	CHECK_FAILURES();
	if (!current)
		return INVALID_CONTEXT;
	fill(real(to), value, bytes);
	return OK;
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

static bool sector_good(const uint64_t *words, uint64_t place)
{
	if (words[0] != mix(place))
		return false;
	for (uint64_t i = 2; i < 64; i++) {
		uint64_t x = words[1] + i * UINT64_C(0x9e3779b97f4a7c15);

		x = (x ^ (x >> 32)) * UINT64_C(0xd6e8feb86659fd93);
		if (words[i] != (x ^ (x >> 32)))
			return false;
	}
	return true;
}

/* buf, offset, place, sectors, ticket, slot, found: see src/kernels.h. */
static void run_check(const uint64_t *a)
{
	uint64_t *slot = real(a[5]), *found = real(a[6]);

	for (uint64_t s = 0; s < a[3]; s++) {
		uint64_t offset = a[1] + s * 512;

		if (sector_good((const uint64_t *)real(a[0]) + s * 64, a[2] + offset))
			continue;
		if (offset < found[1])
			found[1] = offset;
		if (*slot != a[4])
			found[0]++;
		*slot = a[4];
	}
}

static void run_stamp(const uint64_t *a)
{
	for (uint64_t s = 0; s < a[3]; s++)
		((uint64_t *)real(a[0]))[s * 64] = mix(a[2] + a[1] + s * 512);
}

/* arena, vectors, rounds, stop */
static void run_work(const uint64_t *a)
{
	const volatile uint32_t *stop = real(a[3]);

	for (uint64_t done = 0; done < a[2] && !__atomic_load_n(stop, __ATOMIC_RELAXED); done += 50) {
		uint64_t rounds = a[2] - done < 50 ? a[2] - done : 50;

		usleep((useconds_t)((double)rounds * ROUND_US * __atomic_load_n(&times, __ATOMIC_RELAXED)));
	}
}

static void perform(const struct op *op)
{
	if (delay_us)
		usleep((useconds_t)delay_us);
	if (op->kind == COPY_IN && !op->lost)
		memcpy(real(op->device), op->host, op->bytes);
	else if (op->kind == COPY_OUT && !op->lost)
		memcpy(op->host, real(op->device), op->bytes);
	else if (op->kind == CHECK)
		run_check(op->args);
	else if (op->kind == STAMP)
		run_stamp(op->args);
	else if (op->kind == WORK)
		run_work(op->args);
}

static void *serve(void *arg)
{
	struct stream *s = arg;

	pthread_mutex_lock(&lock);
	for (;;) {
		struct op *op;

		while (!s->first && !s->quit)
			pthread_cond_wait(&s->work, &lock);
		op = s->first;
		if (!op)
			break;
		s->first = op->next;
		if (!s->first)
			s->last = &s->first;
		s->busy = true;
		pthread_mutex_unlock(&lock);
		perform(op);
		pthread_mutex_lock(&lock);
		s->busy = false;
		if (op->event) {
			op->event->pending = false;
			clock_gettime(CLOCK_MONOTONIC, &op->event->at);
		}
		free(op);
		pthread_cond_broadcast(&done);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

PUBLIC int cuStreamCreate(struct stream **out, unsigned flags)
{
	struct stream *s;

	(void)flags;
	CHECK_FAILURES();
	if (!current)
		return INVALID_CONTEXT;
	s = calloc(1, sizeof(*s));
	s->last = &s->first;
	pthread_cond_init(&s->work, NULL);
	pthread_create(&s->thread, NULL, serve, s);
	pthread_mutex_lock(&lock);
	state.streams++;
	pthread_mutex_unlock(&lock);
	*out = s;
	return OK;
}

PUBLIC int cuStreamDestroy_v2(struct stream *s)
{
	pthread_mutex_lock(&lock);
	s->quit = true;
	state.streams--;
	pthread_cond_signal(&s->work);
	pthread_mutex_unlock(&lock);
	pthread_join(s->thread, NULL);
	pthread_cond_destroy(&s->work);
	free(s);
	return OK;
}

PUBLIC int cuStreamSynchronize(struct stream *s)
{
	CHECK_FAILURES();
	pthread_mutex_lock(&lock);
	while (s->first || s->busy)
		pthread_cond_wait(&done, &lock);
	pthread_mutex_unlock(&lock);
	return OK;
}

/* Under the lock. */
static void enqueue(struct stream *s, struct op op)
{
	struct op *copy = malloc(sizeof(*copy));

	*copy = op;
	copy->next = NULL;
	*s->last = copy;
	s->last = &copy->next;
	pthread_cond_signal(&s->work);
}

static int copy(int kind, void *host, uint64_t device, size_t bytes, struct stream *s)
{
	int rc = OK;

	if (!current)
		return INVALID_CONTEXT;
	pthread_mutex_lock(&lock);
	if (!is_pinned(host, bytes)) {
		rc = INVALID_VALUE;
	} else {
		bool lost = ++copies % (lose ? lose : UINT64_MAX) == 0;

		enqueue(s, (struct op){.kind = kind, .host = host, .device = device, .bytes = bytes, .lost = lost});
		state.copies_in += kind == COPY_IN;
		state.copies_out += kind == COPY_OUT;
		state.bytes_in += kind == COPY_IN ? bytes : 0;
		state.bytes_out += kind == COPY_OUT ? bytes : 0;
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

PUBLIC int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, struct stream *s)
{
	CHECK_FAILURES();
	return copy(COPY_IN, (void *)(uintptr_t)from, to, bytes, s);
}

PUBLIC int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, struct stream *s)
{
	CHECK_FAILURES();
	return copy(COPY_OUT, to, from, bytes, s);
}

PUBLIC int cuEventCreate(struct event **out, unsigned flags)
{
	(void)flags;
	CHECK_FAILURES();
	*out = calloc(1, sizeof(**out));
	pthread_mutex_lock(&lock);
	state.events++;
	pthread_mutex_unlock(&lock);
	return OK;
}

PUBLIC int cuEventDestroy_v2(struct event *event)
{
	pthread_mutex_lock(&lock);
	state.events--;
	pthread_mutex_unlock(&lock);
	free(event);
	return OK;
}

PUBLIC int cuEventRecord(struct event *event, struct stream *s)
{
	CHECK_FAILURES();
	pthread_mutex_lock(&lock);
	event->pending = true;
	enqueue(s, (struct op){.kind = RECORD, .event = event});
	pthread_mutex_unlock(&lock);
	return OK;
}

PUBLIC int cuEventQuery(struct event *event)
{
	bool pending;

	CHECK_FAILURES();
	pthread_mutex_lock(&lock);
	pending = event->pending;
	pthread_mutex_unlock(&lock);
	return pending ? NOT_READY : OK;
}

PUBLIC int cuEventSynchronize(struct event *event)
{
	CHECK_FAILURES();
	pthread_mutex_lock(&lock);
	while (event->pending)
		pthread_cond_wait(&done, &lock);
	pthread_mutex_unlock(&lock);
	return OK;
}

PUBLIC int cuEventElapsedTime(float *milliseconds, struct event *from, struct event *to)
{
	CHECK_FAILURES();
	pthread_mutex_lock(&lock);
	*milliseconds = (float)((double)(to->at.tv_sec - from->at.tv_sec) * 1e3 + (double)(to->at.tv_nsec - from->at.tv_nsec) / 1e6);
	pthread_mutex_unlock(&lock);
	return from->pending || to->pending ? NOT_READY : OK;
}

PUBLIC int cuModuleLoadData(void **module, const void *image)
{
	CHECK_FAILURES();
	if (!strstr(image, ".entry gpuio_check") || !strstr(image, ".entry gpuio_stamp"))
		return INVALID_VALUE;
	pthread_mutex_lock(&lock);
	state.modules++;
	pthread_mutex_unlock(&lock);
	*module = (void *)(uintptr_t)1;
	return OK;
}

PUBLIC int cuModuleUnload(void *module)
{
	(void)module;
	pthread_mutex_lock(&lock);
	state.modules--;
	pthread_mutex_unlock(&lock);
	return OK;
}

PUBLIC int cuModuleGetFunction(void **function, void *module, const char *name)
{
	(void)module;
	CHECK_FAILURES();
	*function = (void *)(uintptr_t)(strcmp(name, "gpuio_check") == 0 ? CHECK : strcmp(name, "gpuio_stamp") == 0 ? STAMP : WORK);
	return OK;
}

PUBLIC int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
			  unsigned shared, struct stream *s, void **params, void **extra)
{
	int kind = (int)(uintptr_t)function;
	/* Which of the parameters has 32 bits. */
	int count = kind == CHECK ? 7 : 4, narrow = kind == WORK ? 1 : 3;
	struct op op = {.kind = kind};

	(void)gy, (void)gz, (void)by, (void)bz, (void)shared, (void)extra;
	CHECK_FAILURES();
	if (!current || gx == 0 || bx == 0)
		return INVALID_VALUE;
	for (int i = 0; i < count; i++)
		op.args[i] = i == narrow ? *(const uint32_t *)params[i] : *(const uint64_t *)params[i];
	pthread_mutex_lock(&lock);
	enqueue(s, op);
	state.kernels++;
	pthread_mutex_unlock(&lock);
	return OK;
}
