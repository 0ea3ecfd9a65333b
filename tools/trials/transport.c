// Measures the cost of a FUSE request over /dev/fuse and over io_uring, both with a file system in memory.
//
// transport [--rounds N] [--files N] [--mib N] [--only NAME,..] [--json FILE] [--patience S]    measures the transports in turn (root)
//
// --beside DIRECTORY also measures a mounted file system in turn: the cost of whole requests there.
// Patience: for how many seconds the run may wait for other programs to become idle, and repeat disturbed measurements.
//
// The server keeps names and content in memory and asks the kernel for the same things as a mount of Strongroom by default: OPEN,
// CREATE and FLUSH are refused once, names and attributes are kept for good, the kernel checks permissions, extended attributes are
// offered. So a new file is LOOKUP, GETATTR, MKNOD, GETXATTR and WRITE, its removal GETATTR and UNLINK, the rest one request each.
// Both transports copy content once on its way, as sealing and opening do. The mount is in a separate mount namespace and
// ends with this process, however that ends.
// The client is this program again, in a second process; it checks what it reads.
#define _GNU_SOURCE
#include "transport_server.h"

// ---- The client: one workload as a process of its own, whose seconds come back.

static uint64_t files = 10000, big_mib = 256;
static const char *place;

static uint64_t stamp(uint64_t page) { return page * 0x9e3779b97f4a7c15ULL + 1; }

static void check(bool holds, const char *what) {
    if (!holds) fail("client: %s: %m", what);
}

static const char *small_name(uint64_t index) {
    static char path[512];
    snprintf(path, sizeof path, "%s/file%07lu", place, index);
    return path;
}

static const char *big_name(void) {
    static char path[512];
    snprintf(path, sizeof path, "%s/big", place);
    return path;
}

static void do_create(void) {
    static char content[SMALL_BYTES];
    for (uint64_t index = 0; index < files; index++) {
        int file = open(small_name(index), O_CREAT | O_EXCL | O_WRONLY, 0644);
        check(file >= 0, "create");
        check(write(file, content, sizeof content) == sizeof content, "write");
        check(!close(file), "close");
    }
}

// Names that are not there, and that nobody asked for before.
static void do_look_up(void) {
    struct stat found;
    char path[512];
    for (uint64_t index = 0; index < files; index++) {
        snprintf(path, sizeof path, "%s/none%d-%lu", place, getpid(), index);
        check(stat(path, &found) < 0 && errno == ENOENT, "look-up");
    }
}

static void do_unlink(void) {
    for (uint64_t index = 0; index < files; index++) check(!unlink(small_name(index)), "unlink");
}

static void do_write(void) {
    char *content = memory(MIB);
    int file = open(big_name(), O_CREAT | O_EXCL | O_WRONLY, 0644);
    check(file >= 0, "create");
    for (uint64_t page = 0; page < big_mib * 256;) {
        for (int at = 0; at < MIB; at += 4096) *(uint64_t *)(content + at) = stamp(page++);
        check(write(file, content, MIB) == MIB, "write");
    }
    check(!close(file), "close");
}

static void do_read(void) {
    char *content = memory(MIB);
    int file = open(big_name(), O_RDONLY);
    check(file >= 0 && !posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED), "open");
    for (uint64_t page = 0; page < big_mib * 256;) {
        check(read(file, content, MIB) == MIB, "read");
        for (int at = 0; at < MIB; at += 4096) check(*(uint64_t *)(content + at) == stamp(page++), "content");
    }
    close(file);
}

static void *random_reads(void *thread) {
    char content[4096] __attribute__((aligned(8)));
    uint64_t pages = big_mib * 256, first = (uint64_t)(uintptr_t)thread * RANDOM_READS;
    int file = open(big_name(), O_RDONLY);
    check(file >= 0 && !posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM), "open");
    if (!first) check(!posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED), "forgetting");
    for (uint64_t index = first; index < first + RANDOM_READS; index++) {
        uint64_t page = index * 40503 % pages;  // an odd factor, and a power of two of pages: none comes twice
        check(pread(file, content, 4096, (off_t)(page * 4096)) == 4096 && *(uint64_t *)content == stamp(page), "random read");
    }
    close(file);
    return NULL;
}

static void do_random(void) { random_reads((void *)0); }

static void do_random_four(void) {
    pthread_t threads[4];
    for (uintptr_t index = 0; index < 4; index++) check(!pthread_create(&threads[index], NULL, random_reads, (void *)index), "thread");
    for (int index = 0; index < 4; index++) pthread_join(threads[index], NULL);
}

static void do_remove(void) { check(!unlink(big_name()), "unlink"); }

// In order. `fresh`: begins on a new mount, with empty caches. No unit: not a figure.
struct workload { const char *name, *unit; void (*work)(void); bool fresh; };
static const struct workload workloads[] = {
    {"write", "MB/s", do_write, true},         {"read", "MB/s", do_read, true},
    {"random", "reads/s", do_random, true},    {"random-four", "reads/s", do_random_four, true},
    {"remove", NULL, do_remove, false},        {"create", "files/s", do_create, true},
    {"look-up", "names/s", do_look_up, false}, {"unlink", "files/s", do_unlink, false},
};
enum { WORKLOADS = sizeof workloads / sizeof *workloads };

static double items(int workload) {
    void (*work)(void) = workloads[workload].work;
    if (work == do_write || work == do_read) return (double)big_mib * MIB / 1e6;
    if (work == do_random) return RANDOM_READS;
    return work == do_random_four ? 4.0 * RANDOM_READS : (double)files;
}

static int client(char **arguments) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    place = arguments[1], files = strtoull(arguments[2], NULL, 10), big_mib = strtoull(arguments[3], NULL, 10);
    double start = now_s();
    workloads[atoi(arguments[0])].work();
    printf("%.9f\n", now_s() - start);
    return 0;
}

static double run_client(int workload, const char *directory) {
    char numbers[3][24];
    snprintf(numbers[0], 24, "%d", workload);
    snprintf(numbers[1], 24, "%lu", files);
    snprintf(numbers[2], 24, "%lu", big_mib);
    char *arguments[] = {"transport", "--client", numbers[0], (char *)directory, numbers[1], numbers[2], NULL};
    int ends[2], status = -1;
    if (pipe2(ends, O_CLOEXEC)) fail("pipe: %m");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    pid_t process;
    if (posix_spawn(&process, "/proc/self/exe", &actions, NULL, arguments, environ)) fail("starting the client: %m");
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    char words[64] = "";
    ssize_t len = read(ends[0], words, sizeof words - 1);
    close(ends[0]);
    if (waitpid(process, &status, 0) < 0 || status || len <= 0) fail("%s failed", workloads[workload].name);
    return strtod(words, NULL);
}

// ---- Rounds and figures.

enum { ROUNDS_MAX = 64 };
static const struct variant variants[] = {
    {.name = "dev-1", .loops = 1},
    {.name = "dev-2", .loops = 2},
    {.name = "dev-4", .loops = 4},
    {.name = "dev-1-spin", .loops = 1, .spin_us = 50},
    {.name = "dev-2-spin", .loops = 2, .spin_us = 50},
    {.name = "dev-4-spin", .loops = 4, .spin_us = 50},
    {.name = "ring", .ring = true},
    {.name = "ring-defer", .ring = true, .setup = SINGLE_ISSUER | DEFER_TASKRUN},
    {.name = "ring-spin", .ring = true, .spin_us = 50},
    {.name = "ring-free", .ring = true, .shift = -1},
    {.name = "ring-across", .ring = true, .shift = 1},
    {.name = "dev-2-halting", .loops = 2, .halted = true},
    {.name = "dev-2-spin-halting", .loops = 2, .spin_us = 50, .halted = true},
    {.name = "ring-halting", .ring = true, .halted = true},
    {.name = "ring-free-halting", .ring = true, .shift = -1, .halted = true},
    {.name = "beside", .beside = true, .halted = true},  // what it does about halting is its own affair
};
enum { VARIANTS = sizeof variants / sizeof *variants };
struct figure { double seconds[ROUNDS_MAX], server_cpu[ROUNDS_MAX], others[ROUNDS_MAX]; };
static struct figure figures[VARIANTS][WORKLOADS];
static const char *beside;
static double patience_s;  // how long the whole run may still wait for others to be quiet

static double cpu_s(int whose) {
    struct rusage used;
    getrusage(whose, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

// Processor time of everybody but this program and its clients, since the start of the machine.
static double others_s(void) {
    unsigned long user, nice, system, idle, waiting, irq, soft, steal;
    FILE *counts = fopen("/proc/stat", "re");
    if (!counts || fscanf(counts, "cpu %lu %lu %lu %lu %lu %lu %lu %lu", &user, &nice, &system, &idle, &waiting, &irq, &soft, &steal) != 8)
        fail("/proc/stat: %m");
    fclose(counts);
    double all = (double)(user + nice + system + irq + soft + steal) / (double)sysconf(_SC_CLK_TCK);
    return all - cpu_s(RUSAGE_SELF) - cpu_s(RUSAGE_CHILDREN);
}

// What part of the machine others had since `start_s`, when their time was `before`.
static double share_of_others(double start_s, double before) {
    double share = (others_s() - before) / (now_s() - start_s) / get_nprocs();
    return share > 0 ? share : 0;
}

static const double QUIET = 0.1;

// Sleeps until others are quiet, while patience lasts.
static void wait_for_quiet(void) {
    while (patience_s > 0) {
        double start = now_s(), before = others_s();
        usleep(300000);
        if (share_of_others(start, before) <= QUIET) return;
        patience_s -= now_s() - start;
    }
}

// While the descriptor is open, idle processors poll instead of halting.
static int keep_awake(bool halted) {
    int device = halted ? -1 : open("/dev/cpu_dma_latency", O_WRONLY | O_CLOEXEC);
    int32_t latency_us = 0;
    if (device >= 0 && write(device, &latency_us, sizeof latency_us) != sizeof latency_us) fail("cpu_dma_latency: %m");
    return device;
}

// Keeps a figure if others disturbed it less than the one of an earlier try. Gives whether it will do.
static bool keep(struct figure *figure, int round, double seconds, double server_cpu, double others) {
    if (!figure->seconds[round] || others < figure->others[round]) {
        figure->seconds[round] = seconds;
        figure->server_cpu[round] = server_cpu;
        figure->others[round] = others;
    }
    return figure->others[round] <= QUIET;
}

// Gives whether nothing was disturbed.
static bool run_variant(int index, int round) {
    struct server server;
    bool mounted = false, quiet = true;
    if (round >= 0) wait_for_quiet();
    double begin = now_s();
    int awake = keep_awake(variants[index].halted);
    for (int workload = 0; workload < WORKLOADS; workload++) {
        if (mounted && workloads[workload].fresh) detach(&server), mounted = false;
        if (!mounted && !variants[index].beside) attach(&server, &variants[index]), mounted = true;
        double start = now_s(), others = others_s(), cpu = cpu_s(RUSAGE_SELF);
        double seconds = run_client(workload, variants[index].beside ? beside : mount_point);
        cpu = cpu_s(RUSAGE_SELF) - cpu;
        if (round >= 0 && workloads[workload].unit)
            quiet &= keep(&figures[index][workload], round, seconds, cpu, share_of_others(start, others));
    }
    if (mounted) detach(&server);
    if (awake >= 0) close(awake);
    if (variants[index].beside) return true;  // its server counts as one of the others
    if (!quiet) patience_s -= now_s() - begin;
    return quiet;
}

static int by_value(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

// `part` 0.5 is the median; values between two measured ones are interpolated.
static double quantile(const double *values, int count, double part) {
    double sorted[ROUNDS_MAX];
    memcpy(sorted, values, sizeof *sorted * (size_t)count);
    qsort(sorted, (size_t)count, sizeof *sorted, by_value);
    double at = part * (count - 1);
    int below = (int)at;
    return below + 1 < count ? sorted[below] + (at - below) * (sorted[below + 1] - sorted[below]) : sorted[below];
}

static void print_table(const bool *chosen, int rounds) {
    printf("\nmedian of %d rounds [lower, upper quartile], in microseconds per item (a MB, a read, a file)", rounds);
    puts(";\nthen the server's processor time per item, and what part of the machine others had meanwhile");
    for (int workload = 0; workload < WORKLOADS; workload++) {
        if (!workloads[workload].unit) continue;
        printf("\n%s\n", workloads[workload].name);
        for (int index = 0; index < VARIANTS; index++) {
            if (!chosen[index]) continue;
            const double *seconds = figures[index][workload].seconds;
            double each = 1e6 / items(workload), middle = quantile(seconds, rounds, 0.5);
            printf("  %-20s %8.2f [%8.2f, %8.2f] %10.0f %s", variants[index].name, middle * each, quantile(seconds, rounds, 0.25) * each,
                   quantile(seconds, rounds, 0.75) * each, items(workload) / middle, workloads[workload].unit);
            printf("   cpu %8.2f   others %2.0f %%\n", quantile(figures[index][workload].server_cpu, rounds, 0.5) * each,
                   100 * quantile(figures[index][workload].others, rounds, 0.5));
        }
    }
}

static void write_json(const char *path, const bool *chosen, int rounds) {
    FILE *out = fopen(path, "w");
    if (!out) fail("%s: %m", path);
    fprintf(out, "{\"rounds\": %d, \"files\": %lu, \"big_mib\": %lu, \"processors\": %d, \"figures\": [", rounds, files, big_mib, get_nprocs_conf());
    const char *before = "\n";
    for (int index = 0; index < VARIANTS; index++)
        for (int workload = 0; workload < WORKLOADS; workload++) {
            if (!chosen[index] || !workloads[workload].unit) continue;
            fprintf(out, "%s{\"transport\": \"%s\", \"workload\": \"%s\", \"items\": %.0f, \"seconds\": [", before, variants[index].name, workloads[workload].name, items(workload));
            for (int round = 0; round < rounds; round++) fprintf(out, "%s%.6f", round ? ", " : "", figures[index][workload].seconds[round]);
            fputs("], \"server_cpu_seconds\": [", out);
            for (int round = 0; round < rounds; round++) fprintf(out, "%s%.6f", round ? ", " : "", figures[index][workload].server_cpu[round]);
            fputs("], \"share_of_others\": [", out);
            for (int round = 0; round < rounds; round++) fprintf(out, "%s%.3f", round ? ", " : "", figures[index][workload].others[round]);
            fputs("]}", out);
            before = ",\n";
        }
    fputs("\n]}\n", out);
    if (fclose(out)) fail("%s: %m", path);
}

static bool is_listed(const char *list, const char *name) {
    size_t len = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at += len)
        if ((at == list || at[-1] == ',') && (!at[len] || at[len] == ',')) return true;
    return false;
}

static void take_turns(const bool *chosen, int rounds) {
    small_content = memory((size_t)NODES * SMALL_ROOM);
    big_room = big_mib * MIB;
    big_content = memory(big_room);
    if (!mkdtemp(mount_point)) fail("%s: %m", mount_point);
    // Private: nobody else sees these mounts, and they end with the last process in here.
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) fail("a mount namespace needs root: %m");
    atexit(clean_up);
    for (const int *number = (const int[]){SIGINT, SIGTERM, SIGHUP, 0}; *number; number++) signal(*number, on_signal);
    for (int round = -1; round < rounds; round++) {  // the first one warms up
        fprintf(stderr, "round %d of %d\n", round + 1, rounds);
        for (int turn = 0; turn < VARIANTS; turn++) {
            int index = round % 2 ? VARIANTS - 1 - turn : turn;
            while (chosen[index] && !run_variant(index, round) && patience_s > 0) continue;
        }
    }
}

int main(int count, char **arguments) {
    if (count == 6 && !strcmp(arguments[1], "--client")) return client(arguments + 2);
    const char *only = NULL, *json = NULL;
    int rounds = 7;
    for (int at = 1; at < count; at += 2) {
        const char *option = arguments[at], *value = at + 1 < count ? arguments[at + 1] : "";
        if (!strcmp(option, "--rounds")) rounds = atoi(value);
        else if (!strcmp(option, "--files")) files = strtoull(value, NULL, 10);
        else if (!strcmp(option, "--mib")) big_mib = strtoull(value, NULL, 10);
        else if (!strcmp(option, "--only")) only = value;
        else if (!strcmp(option, "--json")) json = value;
        else if (!strcmp(option, "--beside")) beside = value;
        else if (!strcmp(option, "--patience")) patience_s = atof(value);
        else fail("unknown option %s; the head of transport.c names all", option);
    }
    if (rounds < 1 || rounds > ROUNDS_MAX || files < 1 || files > 10000 || big_mib < 128 || big_mib > 1024 || big_mib & (big_mib - 1))
        fail("rounds 1 to %d, files 1 to 10000, mib 128, 256, 512 or 1024", ROUNDS_MAX);
    bool chosen[VARIANTS];
    for (int index = 0; index < VARIANTS; index++)
        chosen[index] = variants[index].beside ? beside != NULL : !only || is_listed(only, variants[index].name);
    take_turns(chosen, rounds);
    print_table(chosen, rounds);
    if (json) write_json(json, chosen, rounds);
    return 0;
}
