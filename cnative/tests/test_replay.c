/* SPDX-License-Identifier: Apache-2.0 */
/* Records: each is done once with its own bytes, in an order that barriers, chains, times and the consumer allow. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"

#define MAX_RECORDS 4096u
#define MAX_GROUPS 1024u
#define FILE_BYTES (UINT64_C(4) << 20)
#define NEVER UINT64_MAX

/* All of this into GPU memory, with a stand-in for the CUDA driver. */
static bool into_gpu;

static struct gpuio_record records[MAX_RECORDS];
static struct gpuio_group groups[MAX_GROUPS];
static struct gpuio_group_result results[MAX_GROUPS];
static uint64_t random_state = 88172645463325252u;

static unsigned random_below(unsigned n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (unsigned)(random_state >> 33) % n;
}

struct set {
	struct fixture f;
	int32_t fds[2];
	uint64_t seeds[2];
	struct gpuio_replay_spec *spec;
};

/* Two files, of pattern seeds 7 and 8. */
static void open_set(struct set *s, const char *engine, uint32_t jobs, uint32_t depth)
{
	char name[] = "second-XXXXXX";

	fixture_open(&s->f, FILE_BYTES);
	s->fds[0] = s->f.fd;
	s->fds[1] = mkstemp(name);
	CHECK(s->fds[1] >= 0);
	unlink(name);
	fixture_lay_out(s->fds[1], FILE_BYTES, 8);
	s->seeds[0] = 7;
	s->seeds[1] = 8;
	s->f.spec.engine = engine;
	s->f.spec.jobs = jobs;
	s->f.spec.depth = depth;
	s->f.spec.block = 65536;
	s->f.spec.verify = 1;
	if (into_gpu) {
		static const int32_t first_gpu[4];

		s->f.spec.gpu = (struct gpuio_gpu_spec){.ordinals = first_gpu, .library = "./standin_libcuda.so", .wait = GPUIO_WAIT_SPIN};
	}
	s->spec = &s->f.spec.replay;
	*s->spec = (struct gpuio_replay_spec){
		.records = records, .groups = groups, .fds = s->fds, .seeds = s->seeds, .n_files = 2, .n_chains = 1};
	memset(records, 0, sizeof(records));
	memset(groups, 0, sizeof(groups));
	memset(results, 0, sizeof(results));
}

static void close_set(struct set *s)
{
	close(s->fds[1]);
	fixture_close(&s->f);
}

/* One group of n records behind those there are; its number. */
static uint32_t add_group(struct set *s, uint32_t n, uint32_t chain, int64_t time_ns)
{
	struct gpuio_group *g = &groups[s->spec->n_groups];

	CHECK(s->spec->n_groups < MAX_GROUPS && s->spec->n_records + n <= MAX_RECORDS);
	*g = (struct gpuio_group){.first = s->spec->n_records, .time_ns = time_ns, .chain = chain};
	for (uint32_t i = 0; i < n; i++)
		records[s->spec->n_records + i] =
			(struct gpuio_record){.offset = (s->spec->n_records + i) * 4096 % FILE_BYTES, .length = 4096};
	s->spec->n_records += n;
	if (chain >= s->spec->n_chains)
		s->spec->n_chains = chain + 1;
	return s->spec->n_groups++;
}

static struct gpuio_window replay(struct set *s, struct gpuio_run *run, uint32_t first, uint32_t n)
{
	struct gpuio_window w;
	int rc = gpuio_replay(run, first, n, results, &w, &s->f.why);

	if (rc) {
		fprintf(stderr, "gpuio_replay: %d, %s\n", rc, s->f.why.text);
		exit(1);
	}
	return w;
}

static uint64_t bytes_of(const struct set *s)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < s->spec->n_records; i++)
		sum += records[i].length;
	return sum;
}

/* ---- every engine: the right bytes ---- */

static void reads_what_it_should(const char *engine, uint32_t jobs, uint32_t depth)
{
	bool moves = strcmp(engine, "null") != 0;
	struct gpuio_window w;
	struct gpuio_run *run;
	uint64_t checked, bad, first_bad, whole = 0;
	struct set s;

	open_set(&s, engine, jobs, depth);
	for (uint32_t g = 0; g < 100; g++)
		add_group(&s, 1 + random_below(20), g, -1);
	for (uint64_t i = 0; i < s.spec->n_records; i++) {
		records[i].length = 1 + random_below(65536);
		records[i].offset = random_below((unsigned)(FILE_BYTES - records[i].length));
		records[i].file = (uint16_t)random_below(2);
		/* Whole sectors are what can be checked. */
		whole += records[i].length >= 1023;
	}
	run = fixture_run(&s.f);
	for (int repeat = 0; repeat < 2; repeat++) {
		w = replay(&s, run, 0, s.spec->n_groups);
		CHECK_EQ(w.ios, s.spec->n_records);
		CHECK_EQ(w.reads, s.spec->n_records);
		CHECK_EQ(w.bytes, bytes_of(&s));
		CHECK_EQ(w.errors + w.short_ios + w.bad, 0);
		CHECK(!moves || w.verified >= whole);
		CHECK_EQ(gpuio_lat(run)->count, s.spec->n_records);
		CHECK_EQ(gpuio_lag(run)->count, 0);
		for (uint32_t g = 0; g < s.spec->n_groups; g++)
			CHECK(results[g].start_ns <= results[g].end_ns && results[g].end_ns <= w.end_ns - w.start_ns + 1000);
		CHECK_EQ(gpuio_sweep(run, &checked, &bad, &first_bad, &s.f.why), 0);
		CHECK_EQ(bad, 0);
		CHECK(!moves || checked > 0);
	}
	CHECK_EQ(gpuio_close(run), 0);
	close_set(&s);
}

/* A record that reads another file than it says must be found out: the seeds are told the other way round. */
static void notices_the_wrong_file(void)
{
	struct gpuio_window w;
	struct gpuio_run *run;
	struct set s;

	open_set(&s, "psync", 1, 1);
	add_group(&s, 8, 0, -1);
	s.seeds[0] = 8;
	run = fixture_run(&s.f);
	w = replay(&s, run, 0, 1);
	CHECK_EQ(w.bad, 8);
	CHECK_EQ(gpuio_close(run), 0);
	close_set(&s);
}

static void writes_what_it_should(const char *engine, uint32_t jobs, uint32_t depth)
{
	static unsigned char before[2][FILE_BYTES], after[FILE_BYTES];
	static bool written[2][FILE_BYTES / 512];
	struct gpuio_window w;
	struct gpuio_run *run;
	uint64_t checked, bad, first_bad;
	struct set s;

	open_set(&s, engine, jobs, depth);
	s.f.spec.read_percent = 50;
	memset(written, 0, sizeof(written));
	for (uint32_t g = 0; g < 20; g++) {
		uint32_t n = 1 + random_below(10);

		add_group(&s, n, g, -1);
		for (uint64_t i = groups[g].first; i < s.spec->n_records; i++) {
			struct gpuio_record *r = &records[i];

			r->op = random_below(4) ? GPUIO_WRITE : GPUIO_READ;
			r->length = 512 * (1 + random_below(128));
			r->offset = 512 * random_below((unsigned)((FILE_BYTES - r->length) / 512));
			r->file = (uint16_t)random_below(2);
			for (uint64_t at = 0; r->op == GPUIO_WRITE && at < r->length; at += 512)
				written[r->file][(r->offset + at) / 512] = true;
		}
		records[s.spec->n_records++] = (struct gpuio_record){.op = GPUIO_FSYNC, .file = (uint16_t)(g % 2)};
	}
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pread(s.fds[i], before[i], FILE_BYTES, 0), FILE_BYTES);
	run = fixture_run(&s.f);
	w = replay(&s, run, 0, s.spec->n_groups);
	CHECK_EQ(w.ios, s.spec->n_records - 20);
	CHECK_EQ(w.bytes, bytes_of(&s));
	CHECK_EQ(w.syncs, strcmp(engine, "null") ? 20 : 0);
	CHECK_EQ(w.errors + w.short_ios, 0);
	CHECK_EQ(gpuio_sweep(run, &checked, &bad, &first_bad, &s.f.why), 0);
	CHECK_EQ(gpuio_close(run), 0);
	/* Sector by sector: written ones are valid and new, the others as they were. */
	for (int i = 0; i < 2 && strcmp(engine, "null"); i++) {
		CHECK_EQ(pread(s.fds[i], after, FILE_BYTES, 0), FILE_BYTES);
		CHECK_EQ(gpuio_pattern_check(after, FILE_BYTES, 0, s.seeds[i], &first_bad), 0);
		for (uint64_t at = 0; at < FILE_BYTES; at += 512)
			CHECK_EQ(memcmp(after + at, before[i] + at, 512) != 0, written[i][at / 512]);
	}
	close_set(&s);
}

/* ---- the recorder: the right order ---- */

struct diary_entry {
	atomic_uint began, ended, times;
};

static struct diary_entry *diary;
static atomic_uint *diary_clock;

static void open_diary(void)
{
	const struct gpuio_engine *engine;
	struct gpuio_why why;
	void *handle;

	CHECK_EQ(gpuio_engine_load("./recorder.so", &engine, &why), 0);
	handle = dlopen("./recorder.so", RTLD_NOW | RTLD_NOLOAD);
	CHECK(handle);
	diary = dlsym(handle, "recorder_diary");
	diary_clock = dlsym(handle, "recorder_clock");
	CHECK(diary && diary_clock);
}

static void clear_diary(void)
{
	memset(diary, 0, MAX_RECORDS * sizeof(*diary));
	atomic_store(diary_clock, 0);
}

static bool in_order(uint64_t earlier, uint64_t later)
{
	return atomic_load(&diary[later].began) > atomic_load(&diary[earlier].ended);
}

static uint64_t last_of(const struct set *s, uint32_t group)
{
	return (group + 1 < s->spec->n_groups ? groups[group + 1].first : s->spec->n_records) - 1;
}

/* Any barrier or fsync: all that lies before it in the group has ended before it or what is behind an fsync begins. */
static void check_barriers(const struct set *s)
{
	for (uint32_t g = 0; g < s->spec->n_groups; g++)
		for (uint64_t i = groups[g].first + 1; i <= last_of(s, g); i++) {
			bool waits = records[i].flags & GPUIO_RECORD_BARRIER || records[i].op == GPUIO_FSYNC ||
				     records[i - 1].op == GPUIO_FSYNC;

			for (uint64_t k = groups[g].first; waits && records[i].op != GPUIO_FSYNC && k < i; k++)
				CHECK(records[k].op == GPUIO_FSYNC || in_order(k, i));
		}
}

/* Group j of a chain begins after the end of group j - 1 (prefetch 0), or of group j - prefetch. */
static void check_chains(const struct set *s)
{
	for (uint32_t g = 0; g < s->spec->n_groups; g++) {
		uint32_t steps = groups[g].prefetch ? groups[g].prefetch : 1, h = g;

		while (h > 0 && steps > 0)
			steps -= groups[--h].chain == groups[g].chain;
		if (steps > 0 || h == g)
			continue;
		for (uint64_t i = groups[g].first; i <= last_of(s, g); i++)
			for (uint64_t k = groups[h].first; k <= last_of(s, h); k++)
				if (records[i].op != GPUIO_FSYNC && records[k].op != GPUIO_FSYNC)
					CHECK(in_order(k, i));
	}
}

static unsigned most_chains_at_once(const struct set *s)
{
	unsigned end = atomic_load(diary_clock), most = 0;

	for (unsigned t = 1; t <= end; t++) {
		unsigned open = 0;

		for (uint32_t c = 0; c < s->spec->n_chains; c++) {
			unsigned from = UINT32_MAX, to = 0;

			for (uint32_t g = 0; g < s->spec->n_groups; g++)
				for (uint64_t i = groups[g].first; groups[g].chain == c && i <= last_of(s, g); i++) {
					if (records[i].op == GPUIO_FSYNC)
						continue;
					if (atomic_load(&diary[i].began) < from)
						from = atomic_load(&diary[i].began);
					if (atomic_load(&diary[i].ended) > to)
						to = atomic_load(&diary[i].ended);
				}
			open += from <= t && t <= to;
		}
		if (open > most)
			most = open;
	}
	return most;
}

/* Consumption and due times as the header defines them, worked out anew from the ends and the graph. */
static void check_consumer(const struct set *s)
{
	for (uint32_t c = 0; c < s->spec->n_chains; c++) {
		uint32_t row[MAX_GROUPS], n = 0;
		uint64_t free_at = 0;

		for (uint32_t g = 0; g < s->spec->n_groups; g++)
			if (groups[g].chain == c)
				row[n++] = g;
		for (uint32_t j = 0; j < n; j++) {
			const struct gpuio_group_result *r = &results[row[j]];
			uint64_t consume = r->end_ns > free_at ? r->end_ns : free_at, from = 0, time = 0;
			uint32_t prefetch = groups[row[j]].prefetch;

			/* To the rounding of ticks. */
			CHECK(llabs((long long)(r->consume_ns - consume)) <= 2 + (long long)j);
			if (j > 0 && prefetch == 0)
				from = free_at;
			else if (prefetch > 0 && j >= prefetch)
				from = results[row[j - prefetch]].consume_ns;
			if (groups[row[j]].time_ns >= 0)
				time = (uint64_t)groups[row[j]].time_ns;
			if (time > from)
				from = time;
			/* The first ones may go when their chain is taken up, at the earliest. */
			if (j >= (prefetch ? prefetch : 1))
				CHECK(llabs((long long)(r->due_ns - from)) <= 2 + (long long)j);
			CHECK(r->due_ns + 2 + j >= from);
			CHECK(r->start_ns + 2 >= r->due_ns);
			free_at = r->consume_ns + groups[row[j]].compute_ns;
		}
	}
}

static void keeps_the_order(uint32_t jobs, uint32_t concurrency, uint32_t chains, uint32_t prefetch, bool timed)
{
	struct gpuio_window w;
	struct gpuio_run *run;
	struct set s;
	uint64_t moved = 0;

	open_set(&s, "recorder", jobs, 1);
	s.f.spec.read_percent = 50;
	s.spec->concurrency = concurrency;
	for (uint32_t g = 0; g < 60; g++) {
		uint32_t chain = g < chains ? g : random_below(chains), n = 1 + random_below(8);

		add_group(&s, n, chain, timed && g % 3 == 0 ? (int64_t)g * 100000 : -1);
		groups[g].prefetch = prefetch;
		groups[g].compute_ns = random_below(3) * 100000;
		for (uint64_t i = groups[g].first; i < s.spec->n_records; i++) {
			records[i].flags = random_below(4) ? 0 : GPUIO_RECORD_BARRIER;
			if (random_below(8) == 0)
				records[i] = (struct gpuio_record){.op = GPUIO_FSYNC, .offset = records[i].offset};
			moved += records[i].op != GPUIO_FSYNC;
		}
	}
	run = fixture_run(&s.f);
	for (int repeat = 0; repeat < 2; repeat++) {
		clear_diary();
		w = replay(&s, run, 0, s.spec->n_groups);
		CHECK_EQ(w.ios, moved);
		for (uint64_t i = 0; i < s.spec->n_records; i++)
			CHECK_EQ(atomic_load(&diary[i].times), records[i].op != GPUIO_FSYNC);
		check_barriers(&s);
		check_chains(&s);
		check_consumer(&s);
		CHECK(concurrency == 0 || most_chains_at_once(&s) <= concurrency);
		CHECK_EQ(w.scheduled, timed ? 20 : 0);
		CHECK_EQ(gpuio_lag(run)->count, w.scheduled);
		CHECK_EQ(gpuio_response(run)->count, timed ? moved : 0);
	}
	CHECK_EQ(gpuio_close(run), 0);
	close_set(&s);
}

/* Workers share a group: one group of many records, each of which takes a while, is over sooner with four. */
static void shares_a_group(void)
{
	unsigned most = 0, open = 0, end;
	struct gpuio_run *run;
	struct set s;

	open_set(&s, "recorder", 4, 1);
	add_group(&s, 200, 0, -1);
	run = fixture_run(&s.f);
	clear_diary();
	replay(&s, run, 0, 1);
	end = atomic_load(diary_clock);
	for (unsigned t = 1; t <= end; t++)
		for (unsigned i = 0; i < 200; i++) {
			open += atomic_load(&diary[i].began) == t;
			most = open > most ? open : most;
			open -= atomic_load(&diary[i].ended) == t;
		}
	CHECK(most >= 2 && most <= 4);
	CHECK_EQ(gpuio_close(run), 0);
	close_set(&s);
}

static void runs_slices(void)
{
	struct gpuio_window w;
	struct gpuio_run *run;
	struct set s;

	open_set(&s, "recorder", 2, 1);
	for (uint32_t g = 0; g < 30; g++) {
		add_group(&s, 2, g % 3, 1000000000 + (int64_t)g * 1000000);
		groups[g].prefetch = 1;
	}
	run = fixture_run(&s.f);
	clear_diary();
	w = replay(&s, run, 10, 5);
	CHECK_EQ(w.ios, 10);
	CHECK_EQ(w.scheduled, 5);
	for (uint64_t i = 0; i < s.spec->n_records; i++)
		CHECK_EQ(atomic_load(&diary[i].times), i >= 20 && i < 30);
	/* Times count from the slice's own first one. */
	CHECK(results[0].due_ns < 1000);
	CHECK(results[4].due_ns >= 3999998 && results[4].start_ns >= 3999998);
	CHECK_EQ(gpuio_replay(run, 29, 2, results, &w, &s.f.why), -EINVAL);
	CHECK(mentions(&s.f.why, "groups 29 to 31 of 30"));
	CHECK_EQ(gpuio_replay(run, 0, 0, results, &w, &s.f.why), -EINVAL);
	CHECK_EQ(gpuio_window(run, 10, &w, &s.f.why), -EINVAL);
	CHECK(mentions(&s.f.why, "replays records"));
	CHECK_EQ(gpuio_close(run), 0);
	close_set(&s);
}

/* ---- what goes wrong ---- */

static void counts_failures(void)
{
	struct gpuio_window w;
	struct gpuio_run *run;
	struct set s;

	open_set(&s, "psync", 2, 1);
	for (uint32_t g = 0; g < 10; g++)
		add_group(&s, 3, g % 2, -1);
	records[4].offset = FILE_BYTES - 100; /* short */
	run = fixture_run(&s.f);
	w = replay(&s, run, 0, 10);
	CHECK_EQ(w.short_ios, 1);
	CHECK_EQ(w.ios, 29);
	CHECK_EQ(w.bytes, UINT64_C(29) * 4096);
	CHECK_EQ(gpuio_close(run), 0);
	close_set(&s);
}

/* Every request fails: the window ends early, nobody waits for groups that no one will end. */
static void gives_up_after_errors(const char *engine, uint32_t depth)
{
	struct gpuio_window w;
	struct gpuio_run *run;
	struct set s;
	int blind = open("/dev/null", O_WRONLY);

	open_set(&s, engine, 3, depth);
	for (uint32_t g = 0; g < 500; g++)
		add_group(&s, 2, g % 5, -1);
	s.fds[1] = blind;
	for (uint64_t i = 0; i < s.spec->n_records; i++)
		records[i].file = 1;
	run = fixture_run(&s.f);
	w = replay(&s, run, 0, 500);
	CHECK(w.errors >= 64 && w.errors < 1000);
	CHECK_EQ(w.first_error, -EBADF);
	CHECK_EQ(results[499].end_ns, NEVER);
	CHECK_EQ(gpuio_close(run), 0);
	close(blind);
	fixture_close(&s.f);
}

static void stops(void)
{
	uint32_t stop = 1;
	struct gpuio_window w;
	struct gpuio_run *run;
	struct set s;

	open_set(&s, "psync", 3, 1);
	add_group(&s, 3, 0, 0);
	add_group(&s, 3, 0, INT64_C(3600) * 1000000000);
	s.f.spec.stop = &stop;
	run = fixture_run(&s.f);
	w = replay(&s, run, 0, 2);
	CHECK_EQ(w.stopped, 1);
	CHECK_EQ(results[1].end_ns, NEVER);
	CHECK_EQ(gpuio_close(run), 0);
	close_set(&s);
}

/* An hour's rest inside a window of a quarter of a second. */
static void knows_its_deadline(void)
{
	struct gpuio_window w;
	struct gpuio_run *run;
	struct set s;

	open_set(&s, "psync", 2, 1);
	add_group(&s, 3, 0, 0);
	add_group(&s, 3, 0, INT64_C(3600) * 1000000000);
	s.f.spec.timeout_ns = 250000000;
	run = fixture_run(&s.f);
	CHECK_EQ(gpuio_replay(run, 0, 2, results, &w, &s.f.why), -ETIMEDOUT);
	CHECK_EQ(w.stuck_worker, -1);
	CHECK_EQ(w.ios, 3);
	CHECK_EQ(gpuio_close(run), 0);
	close_set(&s);
}

static void refuses(const char *words, void (*spoil)(struct set *))
{
	struct gpuio_run *run;
	struct set s;

	open_set(&s, "psync", 1, 1);
	add_group(&s, 2, 0, 5);
	add_group(&s, 2, 1, 6);
	spoil(&s);
	CHECK(gpuio_open(&s.f.spec, &run, &s.f.why) < 0);
	CHECK(mentions(&s.f.why, words));
	close_set(&s);
}

static void wrong_file(struct set *s) { (void)s; records[1].file = 2; }
static void wrong_op(struct set *s) { (void)s; records[1].op = 3; }
static void wrong_length(struct set *s) { (void)s; records[2].length = 65537; }
static void no_length(struct set *s) { (void)s; records[2].length = 0; }
static void far_away(struct set *s) { (void)s; records[2].offset = (uint64_t)INT64_MAX; }
static void unsaid_write(struct set *s) { (void)s; records[0].op = GPUIO_WRITE; }
static void part_write(struct set *s)
{
	s->f.spec.read_percent = 0;
	records[0].op = GPUIO_WRITE;
	records[0].length = 1000;
}
static void back_in_time(struct set *s) { (void)s; groups[1].time_ns = 4; }
static void late_first(struct set *s) { (void)s; groups[0].first = 1; }
static void empty_group(struct set *s) { (void)s; groups[1].first = 0; }
static void wrong_chain(struct set *s) { (void)s; groups[1].chain = 9; }
static void no_groups(struct set *s) { s->spec->groups = NULL; }
static void closed_file(struct set *s) { close(s->fds[1]); }
static void with_arrivals(struct set *s)
{
	static const uint64_t one;

	s->f.spec.arrivals = &one;
	s->f.spec.n_arrivals = 1;
}

/* A copy that moves nothing and says it did leaves what another record brought. */
static void notices_lost_copies(void)
{
	struct gpuio_window w;
	struct gpuio_run *run;
	struct set s;

	setenv("STANDIN_CUDA_LOSE", "7", 1);
	open_set(&s, "psync", 1, 1);
	add_group(&s, 100, 0, -1);
	run = fixture_run(&s.f);
	w = replay(&s, run, 0, 1);
	CHECK_EQ(w.verified, 100);
	CHECK(w.copies >= 7 && w.bad >= w.copies / 7 && w.bad < 100);
	CHECK_EQ(gpuio_close(run), 0);
	close_set(&s);
	unsetenv("STANDIN_CUDA_LOSE");
}

int main(int argc, char **argv)
{
	static const char *const async[] = {"libaio", "io_uring", "io_uring_sqpoll"};

	into_gpu = argc > 1 && strcmp(argv[1], "gpu") == 0;
	open_diary();
	reads_what_it_should("psync", 3, 1);
	reads_what_it_should("mmap", 2, 1);
	reads_what_it_should("null", 2, 4);
	writes_what_it_should("psync", 1, 1);
	writes_what_it_should("mmap", 1, 1);
	writes_what_it_should("null", 1, 4);
	for (size_t i = 0; i < sizeof(async) / sizeof(async[0]); i++) {
		struct gpuio_why why;

		if (gpuio_engine_probe(async[i], NULL, &why) != 0) {
			printf("not run: %s: %s\n", async[i], why.text);
			continue;
		}
		reads_what_it_should(async[i], 1, 8);
		reads_what_it_should(async[i], 2, 3);
		writes_what_it_should(async[i], 1, 8);
		gives_up_after_errors(async[i], 4);
	}
	notices_the_wrong_file();
	if (into_gpu)
		notices_lost_copies();
	for (uint32_t jobs = 1; jobs <= 4; jobs++) {
		keeps_the_order(jobs, 0, 7, 0, false);
		keeps_the_order(jobs, 2, 7, 0, false);
		keeps_the_order(jobs, 0, 1, 2, false);
		keeps_the_order(jobs, 0, 3, 1, true);
		keeps_the_order(jobs, 0, 60, 0, true);
		keeps_the_order(jobs, 3, 60, 4, false);
	}
	shares_a_group();
	runs_slices();
	counts_failures();
	gives_up_after_errors("psync", 1);
	stops();
	knows_its_deadline();
	refuses("record 1 is about file 2 of 2", wrong_file);
	refuses("record 1 has op 3", wrong_op);
	refuses("record 2 has 65537 bytes", wrong_length);
	refuses("record 2 has 0 bytes", no_length);
	refuses("record 2 ends beyond any file", far_away);
	refuses("record 0 writes, but the run is said to read only", unsaid_write);
	refuses("not whole 512-byte sectors", part_write);
	refuses("group 1 at 4 ns comes before the one in front of it at 5 ns", back_in_time);
	refuses("begins with record 1 instead of 0", late_first);
	refuses("group 0 holds records 0 to 0", empty_group);
	refuses("group 1 is of chain 9 of 2", wrong_chain);
	refuses("records need groups", no_groups);
	refuses("of file 1 is not open", closed_file);
	refuses("give no arrivals with them", with_arrivals);
	return 0;
}
