// What a FUSE request costs over /dev/fuse and over io_uring, with a file system in memory behind both.
//
// transport [--rounds N] [--files N] [--mib N] [--only NAME,..] [--json FILE] [--patience S]    the transports, in turns (root)
// transport --on DIRECTORY [...]                                              the same workloads on a mounted file system
//
// Patience: how many seconds the run may wait for other programs to be quiet, and repeat what they disturbed.
//
// The server keeps names and content in memory and asks the kernel for the same things as a mount of Strongroom by default: OPEN,
// CREATE and FLUSH are refused once, names and attributes are kept for good, the kernel checks permissions, extended attributes are
// offered. So a new file is LOOKUP, GETATTR, MKNOD, GETXATTR and WRITE, its removal GETATTR and UNLINK, the rest one request each.
// Both transports copy content once on its way, as sealing and opening do. The mount lives in a mount namespace of its own and goes away with this process, however that ends.
// The client is this program again, as a process of its own; it checks what it reads.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// Of protocol 7.42, for headers that are older.
#define OVER_IO_URING (1ULL << 41)
enum { RING_REGISTER = 1, RING_COMMIT_AND_FETCH = 2 };
struct ring_header {
    char in_out[128];  // fuse_in_header of a request, fuse_out_header of its reply
    char op_in[128];   // the request's own header
    uint64_t flags, commit_id;
    uint32_t payload_len, padding;
    uint64_t reserved;
};
struct ring_command { uint64_t flags, commit_id; uint16_t queue; uint8_t padding[6]; };
struct wide_sqe { struct io_uring_sqe sqe; char more[64]; };  // IORING_SETUP_SQE128; the command begins at byte 48
enum { SUBMIT_ALL = 1 << 7, SINGLE_ISSUER = 1 << 12, DEFER_TASKRUN = 1 << 13 };

enum {
    MIB = 1 << 20,
    REQUEST_BYTES_MAX = MIB,
    BUFFER_BYTES = REQUEST_BYTES_MAX + 4096,
    SMALL_BYTES = 5000,
    SMALL_ROOM = 8192,
    NODES = 16384,  // numbers grow for ever; a node lies at its number modulo NODES
    BUCKETS = 1 << 15,
    THREADS_MAX = 64,
    RING_DEPTH = 8,
    RANDOM_READS = 5000,
    NAME_MAX_HERE = 31,
    FOREVER_S = 1 << 28,
};

static void fail(const char *format, ...) {
    va_list words;
    va_start(words, format);
    fputs("transport: ", stderr);
    vfprintf(stderr, format, words);
    fputc('\n', stderr);
    exit(1);
}

static void *memory(size_t len) {
    void *found = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (found == MAP_FAILED) fail("no memory: %m");
    return found;
}

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

// ---- The file system: one directory of files in memory.

struct node { uint64_t number; uint64_t next; uint64_t len; char name[NAME_MAX_HERE + 1]; };
static struct node nodes[NODES];
static uint64_t buckets[BUCKETS], last_number, big_number;
static char *small_content, *big_content;
static uint64_t big_room;
static pthread_mutex_t names = PTHREAD_MUTEX_INITIALIZER;

static struct node *node_of(uint64_t number) {
    struct node *node = &nodes[number % NODES];
    return node->number == number && number > FUSE_ROOT_ID ? node : NULL;
}

static uint64_t *bucket_of(const char *name) {
    uint32_t hash = 2166136261u;
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 16777619u;
    return &buckets[hash % BUCKETS];
}

// The place that holds the number of the node with this name, or 0.
static uint64_t *place_of(const char *name) {
    uint64_t *place = bucket_of(name);
    for (struct node *node; (node = node_of(*place)) && strcmp(node->name, name);) place = &node->next;
    return place;
}

static struct node *create(const char *name) {
    uint64_t number = last_number++ + FUSE_ROOT_ID + 1, *place = place_of(name);
    struct node *node = &nodes[number % NODES];
    if (*place || node->number || strlen(name) > NAME_MAX_HERE) return NULL;
    *node = (struct node){.number = number};
    strcpy(node->name, name);
    if (!strcmp(name, "big")) big_number = number;
    *place = number;
    return node;
}

static bool unlink_name(const char *name) {
    uint64_t *place = place_of(name);
    struct node *node = node_of(*place);
    if (!node) return false;
    *place = node->next;
    node->number = 0;
    return true;
}

// Where `len` bytes from `offset` of this file lie; NULL beyond its room.
static char *content_of(struct node *node, uint64_t offset, uint64_t len) {
    bool big = node->number == big_number;
    if (offset + len > (big ? big_room : SMALL_ROOM)) return NULL;
    return (big ? big_content : small_content + (node->number % NODES) * SMALL_ROOM) + offset;
}

static struct fuse_attr attributes(const struct node *node) {
    struct fuse_attr attr = {.ino = node ? node->number : FUSE_ROOT_ID, .blksize = 65536};
    attr.mode = node ? S_IFREG | 0644 : S_IFDIR | 0755;
    attr.nlink = node ? 1 : 2;
    attr.size = node ? node->len : 0;
    attr.blocks = (attr.size + 511) / 512;
    return attr;
}

// ---- Requests, the same for both transports.

// Bytes of each request's own header, which the ring carries apart from what follows.
static size_t op_len(uint32_t opcode) {
    switch (opcode) {
    case FUSE_MKNOD: return sizeof(struct fuse_mknod_in);
    case FUSE_GETATTR: return sizeof(struct fuse_getattr_in);
    case FUSE_READ: return sizeof(struct fuse_read_in);
    case FUSE_WRITE: return sizeof(struct fuse_write_in);
    case FUSE_GETXATTR: return sizeof(struct fuse_getxattr_in);
    default: return 0;
    }
}

static void entry(const struct node *node, void *out, size_t *out_len) {
    struct fuse_entry_out *reply = out;
    *reply = (struct fuse_entry_out){.entry_valid = FOREVER_S, .attr_valid = FOREVER_S};
    if (node) reply->nodeid = node->number, reply->attr = attributes(node);
    *out_len = sizeof *reply;
}

static int read_content(struct node *node, const struct fuse_read_in *read, char *out, size_t *out_len) {
    uint64_t left = read->offset < node->len ? node->len - read->offset : 0;
    *out_len = read->size < left ? read->size : left;
    char *content = content_of(node, read->offset, *out_len);
    if (!content || *out_len > REQUEST_BYTES_MAX) return EIO;
    memcpy(out, content, *out_len);
    return 0;
}

static int write_content(struct node *node, const struct fuse_write_in *write, const char *data, char *out, size_t *out_len) {
    char *content = content_of(node, write->offset, write->size);
    if (!content) return EFBIG;
    memcpy(content, data, write->size);
    if (write->offset + write->size > node->len) node->len = write->offset + write->size;
    *(struct fuse_write_out *)out = (struct fuse_write_out){.size = write->size};
    *out_len = sizeof(struct fuse_write_out);
    return 0;
}

static int on_names(uint32_t opcode, const char *name, char *out, size_t *out_len) {
    pthread_mutex_lock(&names);
    int error = 0;
    if (opcode == FUSE_UNLINK) {
        error = unlink_name(name) ? 0 : ENOENT;
    } else {
        struct node *node = opcode == FUSE_MKNOD ? create(name) : node_of(*place_of(name));
        if (!node && opcode == FUSE_MKNOD) error = EEXIST;
        else entry(node, out, out_len);
    }
    pthread_mutex_unlock(&names);
    return error;
}

// Carries out one request. `op` is its own header, `data` what follows; `out` may be where `data` lies.
// Gives an error number, 0, or -1 if no reply is due.
static int answer(const struct fuse_in_header *in, const void *op, const char *data, char *out, size_t *out_len) {
    struct node *node = node_of(in->nodeid);
    *out_len = 0;
    switch (in->opcode) {
    case FUSE_LOOKUP: case FUSE_MKNOD: case FUSE_UNLINK:
        return on_names(in->opcode, data, out, out_len);
    case FUSE_GETATTR:
        if (!node && in->nodeid != FUSE_ROOT_ID) return ENOENT;
        *(struct fuse_attr_out *)out = (struct fuse_attr_out){.attr_valid = FOREVER_S, .attr = attributes(node)};
        *out_len = sizeof(struct fuse_attr_out);
        return 0;
    case FUSE_READ: return node ? read_content(node, op, out, out_len) : EIO;
    case FUSE_WRITE: return node ? write_content(node, op, data, out, out_len) : EIO;
    case FUSE_FORGET: case FUSE_BATCH_FORGET: case FUSE_INTERRUPT: return -1;
    case FUSE_GETXATTR: return ENODATA;
    default: return ENOSYS;
    }
}

// ---- Transport (a): read and write on /dev/fuse.

struct variant { const char *name; bool ring; int loops; int spin_us; int shift; bool halted; unsigned setup; };
struct server {
    const struct variant *variant;
    int device;
    int thread_count;
    pthread_t threads[THREADS_MAX];
    pthread_barrier_t ready;
    atomic_ulong over_device, over_ring;
};
struct loop { struct server *server; int device; int spin_us; int queue; };

static void reply_on_device(int device, uint64_t unique, int error, void *out, size_t out_len) {
    struct fuse_out_header header = {.len = (uint32_t)(sizeof header + out_len), .error = -error, .unique = unique};
    struct iovec parts[2] = {{&header, sizeof header}, {out, out_len}};
    // ENOENT: who asked was interrupted. ENODEV: the mount ended.
    if (writev(device, parts, 2) < 0 && errno != ENOENT && errno != ENODEV) fail("reply: %m");
}

// Looks for a request for `spin_us`, then sleeps until one comes. The descriptor does not block.
static ssize_t read_spinning(int device, char *buffer, int spin_us) {
    double end = now_s() + spin_us / 1e6;
    for (;;) {
        ssize_t len = read(device, buffer, BUFFER_BYTES);
        if (len >= 0 || errno != EAGAIN) return len;
        if (now_s() >= end) break;
    }
    struct pollfd wait = {.fd = device, .events = POLLIN};
    poll(&wait, 1, -1);
    return read(device, buffer, BUFFER_BYTES);
}

static void *device_loop(void *argument) {
    struct loop loop = *(struct loop *)argument;
    free(argument);
    char *buffer = memory(BUFFER_BYTES), *out = memory(BUFFER_BYTES);
    for (;;) {
        ssize_t len = loop.spin_us ? read_spinning(loop.device, buffer, loop.spin_us) : read(loop.device, buffer, BUFFER_BYTES);
        if (len < 0 && errno == ENODEV) break;
        if (len < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOENT)) continue;
        struct fuse_in_header *in = (void *)buffer;
        if (len < (ssize_t)sizeof *in) fail("reading a request: %m");
        char *op = buffer + sizeof *in;
        size_t out_len;
        int error = answer(in, op, op + op_len(in->opcode), out, &out_len);
        if (error < 0) continue;
        loop.server->over_device++;
        reply_on_device(loop.device, in->unique, error, out, out_len);
    }
    if (loop.device != loop.server->device) close(loop.device);
    munmap(buffer, BUFFER_BYTES);
    munmap(out, BUFFER_BYTES);
    return NULL;
}

// ---- Transport (b): a ring per processor.

struct ring {
    int descriptor;
    unsigned *sq_tail, *sq_array, sq_mask, to_submit;
    unsigned *cq_head, *cq_tail, cq_mask;
    struct io_uring_cqe *completions;
    struct wide_sqe *entries;
    void *maps[2];
    size_t map_lens[2];
};
struct slot { struct ring_header *header; char *payload; struct iovec parts[2]; };

static void *map_ring(struct ring *ring, int index, size_t len, off_t what) {
    ring->map_lens[index] = len;
    ring->maps[index] = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring->descriptor, what);
    if (ring->maps[index] == MAP_FAILED) fail("mapping a ring: %m");
    return ring->maps[index];
}

static void open_ring(struct ring *ring, unsigned setup, int device) {
    struct io_uring_params params = {.flags = IORING_SETUP_SQE128 | IORING_SETUP_CQSIZE | SUBMIT_ALL | setup, .cq_entries = 2 * RING_DEPTH};
    *ring = (struct ring){.descriptor = (int)syscall(SYS_io_uring_setup, RING_DEPTH, &params)};
    if (ring->descriptor < 0) fail("io_uring_setup: %m");
    size_t sq_len = params.sq_off.array + params.sq_entries * sizeof(unsigned);
    size_t cq_len = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
    char *rings = map_ring(ring, 0, sq_len > cq_len ? sq_len : cq_len, IORING_OFF_SQ_RING);
    ring->entries = map_ring(ring, 1, params.sq_entries * sizeof(struct wide_sqe), IORING_OFF_SQES);
    ring->sq_tail = (void *)(rings + params.sq_off.tail);
    ring->sq_array = (void *)(rings + params.sq_off.array);
    ring->sq_mask = params.sq_entries - 1;
    ring->cq_head = (void *)(rings + params.cq_off.head);
    ring->cq_tail = (void *)(rings + params.cq_off.tail);
    ring->cq_mask = params.cq_entries - 1;
    ring->completions = (void *)(rings + params.cq_off.cqes);
    if (syscall(SYS_io_uring_register, ring->descriptor, IORING_REGISTER_FILES, &device, 1) < 0) fail("registering the device: %m");
}

// Never more than RING_DEPTH are under way, so there is always room.
static void push(struct ring *ring, unsigned command, const struct slot *slot, unsigned index, int queue) {
    unsigned tail = *ring->sq_tail, at = tail & ring->sq_mask;
    struct wide_sqe *entry = &ring->entries[at];
    memset(entry, 0, sizeof *entry);
    entry->sqe.opcode = IORING_OP_URING_CMD;
    entry->sqe.flags = IOSQE_FIXED_FILE;
    entry->sqe.off = command;  // cmd_op: the lower half of this field
    entry->sqe.user_data = index;
    if (command == RING_REGISTER) entry->sqe.addr = (uintptr_t)slot->parts, entry->sqe.len = 2;
    struct ring_command *request = (void *)((char *)entry + 48);
    request->commit_id = command == RING_REGISTER ? 0 : slot->header->commit_id;
    request->queue = (uint16_t)queue;
    ring->sq_array[at] = at;
    __atomic_store_n(ring->sq_tail, tail + 1, __ATOMIC_RELEASE);
    ring->to_submit++;
}

static void enter(struct ring *ring, unsigned wanted) {
    unsigned flags = wanted ? IORING_ENTER_GETEVENTS : 0;
    long done = syscall(SYS_io_uring_enter, ring->descriptor, ring->to_submit, wanted, flags, NULL, 0);
    if (done < 0 && errno != EINTR && errno != EAGAIN) fail("io_uring_enter: %m");
    if (done > 0) ring->to_submit -= (unsigned)done;
}

static bool has_completion(const struct ring *ring) {
    return __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE) != *ring->cq_head;
}

// Submits what is prepared, and waits for a completion: looking for `spin_us`, then asleep.
static void wait_for_completion(struct ring *ring, int spin_us) {
    if (spin_us) {
        if (ring->to_submit) enter(ring, 0);
        for (double end = now_s() + spin_us / 1e6; !has_completion(ring) && now_s() < end;) __builtin_ia32_pause();
    }
    if (ring->to_submit || !has_completion(ring)) enter(ring, has_completion(ring) ? 0 : 1);
}

static void answer_on_ring(struct server *server, struct slot *slot) {
    struct fuse_in_header in = *(struct fuse_in_header *)slot->header->in_out;
    size_t out_len;
    // A write's data lies where the reply goes: it is used up before.
    int error = answer(&in, slot->header->op_in, slot->payload, slot->payload, &out_len);
    if (error < 0) fail("opcode %u came over the ring", in.opcode);
    struct fuse_out_header header = {.len = (uint32_t)(sizeof header + out_len), .error = -error, .unique = in.unique};
    memcpy(slot->header->in_out, &header, sizeof header);
    slot->header->payload_len = (uint32_t)out_len;
    server->over_ring++;
}

static void pin(int processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    if (sched_setaffinity(0, sizeof set, &set)) fail("pinning to processor %d: %m", processor);
}

static void *ring_loop(void *argument) {
    struct loop loop = *(struct loop *)argument;
    free(argument);
    const struct variant *variant = loop.server->variant;
    int processors = get_nprocs_conf();
    if (variant->shift >= 0) pin((loop.queue + variant->shift) % processors);
    struct ring ring;
    open_ring(&ring, variant->setup, loop.device);
    struct slot slots[RING_DEPTH];
    char *headers = memory(RING_DEPTH * 4096), *payloads = memory((size_t)RING_DEPTH * REQUEST_BYTES_MAX);
    for (unsigned index = 0; index < RING_DEPTH; index++) {
        struct slot *slot = &slots[index];
        slot->header = (void *)(headers + index * 4096);
        slot->payload = payloads + (size_t)index * REQUEST_BYTES_MAX;
        slot->parts[0] = (struct iovec){slot->header, sizeof *slot->header};
        slot->parts[1] = (struct iovec){slot->payload, REQUEST_BYTES_MAX};
        push(&ring, RING_REGISTER, slot, index, loop.queue);
    }
    enter(&ring, 0);
    pthread_barrier_wait(&loop.server->ready);
    for (int alive = RING_DEPTH; alive > 0;) {
        wait_for_completion(&ring, variant->spin_us);
        for (; has_completion(&ring); __atomic_store_n(ring.cq_head, *ring.cq_head + 1, __ATOMIC_RELEASE)) {
            const struct io_uring_cqe *done = &ring.completions[*ring.cq_head & ring.cq_mask];
            struct slot *slot = &slots[done->user_data];
            if (done->res == -ENOTCONN || done->res == -ECONNABORTED) { alive--; continue; }
            if (done->res) fail("the ring says: %s", strerror(-done->res));
            answer_on_ring(loop.server, slot);
            push(&ring, RING_COMMIT_AND_FETCH, slot, (unsigned)done->user_data, loop.queue);
        }
    }
    munmap(headers, RING_DEPTH * 4096);
    munmap(payloads, (size_t)RING_DEPTH * REQUEST_BYTES_MAX);
    munmap(ring.maps[0], ring.map_lens[0]);
    munmap(ring.maps[1], ring.map_lens[1]);
    close(ring.descriptor);
    return NULL;
}

// ---- Mounting.

static char mount_point[] = "/tmp/transport-trial.XXXXXX";

// The mount would go with the process; the folder would not.
static void clean_up(void) {
    umount2(mount_point, MNT_DETACH);
    rmdir(mount_point);
}

static void on_signal(int number) {
    clean_up();
    _exit(128 + number);
}

static void agree(struct server *server) {
    char buffer[8192] __attribute__((aligned(8)));
    while (read(server->device, buffer, sizeof buffer) < 0)
        if (errno != EINTR) fail("reading INIT: %m");
    struct fuse_in_header *in = (void *)buffer;
    struct fuse_init_in *offer = (void *)(in + 1);
    if (in->opcode != FUSE_INIT) fail("the first request is no INIT");
    uint64_t offered = offer->flags | (uint64_t)offer->flags2 << 32;
    uint64_t wanted = FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_MAX_PAGES | FUSE_PARALLEL_DIROPS | FUSE_NO_OPEN_SUPPORT |
        FUSE_EXPLICIT_INVAL_DATA | FUSE_HANDLE_KILLPRIV_V2 | FUSE_INIT_EXT | (server->variant->ring ? OVER_IO_URING : 0);
    if (server->variant->ring && !(offered & OVER_IO_URING))
        fail("the kernel does not offer FUSE over io_uring: echo 1 > /sys/module/fuse/parameters/enable_uring");
    wanted &= offered;
    struct fuse_init_out reply = {.major = FUSE_KERNEL_VERSION, .minor = offer->minor < 42 ? offer->minor : 42,
        .max_readahead = offer->max_readahead, .flags = (uint32_t)wanted, .flags2 = (uint32_t)(wanted >> 32),
        .max_background = 64, .congestion_threshold = 48, .max_write = REQUEST_BYTES_MAX, .time_gran = 1,
        .max_pages = REQUEST_BYTES_MAX / 4096};
    reply_on_device(server->device, in->unique, 0, &reply, sizeof reply);
}

static void start_thread(struct server *server, void *(*work)(void *), struct loop loop) {
    struct loop *own = malloc(sizeof *own);
    *own = loop;
    if (server->thread_count == THREADS_MAX || pthread_create(&server->threads[server->thread_count++], NULL, work, own))
        fail("no thread: %m");
}

static int cloned(int device, bool spins) {
    int clone = open("/dev/fuse", O_RDWR | O_CLOEXEC | (spins ? O_NONBLOCK : 0));
    if (clone < 0 || ioctl(clone, FUSE_DEV_IOC_CLONE, &device)) fail("cloning /dev/fuse: %m");
    return clone;
}

static void raise_read_ahead(void) {
    struct stat found;
    char path[64];
    if (stat(mount_point, &found)) fail("stat of the mount: %m");
    snprintf(path, sizeof path, "/sys/class/bdi/%u:%u/read_ahead_kb", major(found.st_dev), minor(found.st_dev));
    int setting = open(path, O_WRONLY | O_CLOEXEC);
    if (setting < 0 || write(setting, "4096", 4) != 4) fail("%s: %m", path);
    close(setting);
}

static void attach(struct server *server, const struct variant *variant) {
    *server = (struct server){.variant = variant, .device = open("/dev/fuse", O_RDWR | O_CLOEXEC)};
    char options[128];
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0,default_permissions", server->device);
    if (server->device < 0 || mount("trial", mount_point, "fuse.trial", MS_NOSUID | MS_NODEV, options)) fail("mounting: %m");
    agree(server);
    int rings = variant->ring ? get_nprocs_conf() : 0;
    pthread_barrier_init(&server->ready, NULL, (unsigned)rings + 1);
    for (int queue = 0; queue < rings; queue++) start_thread(server, ring_loop, (struct loop){server, server->device, 0, queue});
    pthread_barrier_wait(&server->ready);
    // With rings this one remains for FORGET, which the kernel sends here only.
    for (int loop = 0; loop < (variant->ring ? 1 : variant->loops); loop++) {
        int spin_us = variant->ring ? 0 : variant->spin_us;
        start_thread(server, device_loop, (struct loop){server, cloned(server->device, spin_us > 0), spin_us, 0});
    }
    raise_read_ahead();
}

static void detach(struct server *server) {
    if (umount2(mount_point, 0)) fail("unmounting: %m");
    for (int thread = 0; thread < server->thread_count; thread++) pthread_join(server->threads[thread], NULL);
    close(server->device);
    // INIT aside, a ring that did not carry the work would measure the wrong thing.
    if (server->variant->ring && server->over_device > 64) fail("%lu requests went around the ring", server->over_device);
}

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

static void do_stat(void) {
    struct stat found;
    for (uint64_t index = 0; index < files; index++)
        check(!stat(small_name(index), &found) && found.st_size == SMALL_BYTES, "stat");
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
    check(file >= 0, "open");
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

// In order. `fresh`: begins on a new mount, whose caches are empty. No unit: not a figure.
struct workload { const char *name, *unit; void (*work)(void); bool fresh; };
static const struct workload workloads[] = {
    {"write", "MB/s", do_write, true},         {"read", "MB/s", do_read, true},
    {"random", "reads/s", do_random, true},    {"random-four", "reads/s", do_random_four, true},
    {"remove", NULL, do_remove, false},        {"create", "files/s", do_create, true},
    {"stat", "files/s", do_stat, true},        {"unlink", "files/s", do_unlink, false},
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
};
enum { VARIANTS = sizeof variants / sizeof *variants };
struct figure { double seconds[ROUNDS_MAX], server_cpu[ROUNDS_MAX], others[ROUNDS_MAX]; };
static struct figure figures[VARIANTS][WORKLOADS];
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
    wait_for_quiet();
    double begin = now_s();
    int awake = keep_awake(variants[index].halted);
    for (int workload = 0; workload < WORKLOADS; workload++) {
        if (mounted && workloads[workload].fresh) detach(&server), mounted = false;
        if (!mounted) attach(&server, &variants[index]), mounted = true;
        double start = now_s(), others = others_s(), cpu = cpu_s(RUSAGE_SELF), seconds = run_client(workload, mount_point);
        cpu = cpu_s(RUSAGE_SELF) - cpu;
        if (round >= 0 && workloads[workload].unit)
            quiet &= keep(&figures[index][workload], round, seconds, cpu, share_of_others(start, others));
    }
    detach(&server);
    if (awake >= 0) close(awake);
    if (!quiet) patience_s -= now_s() - begin;
    return quiet;
}

static void run_directory(const char *directory, int round) {
    for (int workload = 0; workload < WORKLOADS; workload++) {
        int setting = workloads[workload].fresh ? open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC) : -1;
        sync();
        if (setting >= 0 && write(setting, "3", 1) != 1) fail("dropping caches: %m");
        if (setting >= 0) close(setting);
        double seconds = run_client(workload, directory);
        if (round >= 0) figures[0][workload].seconds[round] = seconds;
    }
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

static void print_table(const bool *chosen, const char *const *titles, int rounds, bool with_cpu) {
    printf("\nmedian of %d rounds [lower, upper quartile], in microseconds per item (a MB, a read, a file)", rounds);
    puts(with_cpu ? ";\nthen the server's processor time per item, and what part of the machine others had meanwhile" : "");
    for (int workload = 0; workload < WORKLOADS; workload++) {
        if (!workloads[workload].unit) continue;
        printf("\n%s\n", workloads[workload].name);
        for (int index = 0; index < VARIANTS; index++) {
            if (!chosen[index]) continue;
            const double *seconds = figures[index][workload].seconds;
            double each = 1e6 / items(workload), middle = quantile(seconds, rounds, 0.5);
            printf("  %-20s %8.2f [%8.2f, %8.2f] %10.0f %s", titles[index], middle * each, quantile(seconds, rounds, 0.25) * each,
                   quantile(seconds, rounds, 0.75) * each, items(workload) / middle, workloads[workload].unit);
            if (with_cpu)
                printf("   cpu %8.2f   others %2.0f %%", quantile(figures[index][workload].server_cpu, rounds, 0.5) * each,
                       100 * quantile(figures[index][workload].others, rounds, 0.5));
            puts("");
        }
    }
}

static void write_json(const char *path, const bool *chosen, const char *const *titles, int rounds) {
    FILE *out = fopen(path, "w");
    if (!out) fail("%s: %m", path);
    fprintf(out, "{\"rounds\": %d, \"files\": %lu, \"big_mib\": %lu, \"processors\": %d, \"figures\": [", rounds, files, big_mib, get_nprocs_conf());
    const char *before = "\n";
    for (int index = 0; index < VARIANTS; index++)
        for (int workload = 0; workload < WORKLOADS; workload++) {
            if (!chosen[index] || !workloads[workload].unit) continue;
            fprintf(out, "%s{\"transport\": \"%s\", \"workload\": \"%s\", \"items\": %.0f, \"seconds\": [", before, titles[index], workloads[workload].name, items(workload));
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
    const char *only = NULL, *json = NULL, *directory = NULL, *titles[VARIANTS];
    int rounds = 7;
    for (int at = 1; at < count; at += 2) {
        const char *option = arguments[at], *value = at + 1 < count ? arguments[at + 1] : "";
        if (!strcmp(option, "--rounds")) rounds = atoi(value);
        else if (!strcmp(option, "--files")) files = strtoull(value, NULL, 10);
        else if (!strcmp(option, "--mib")) big_mib = strtoull(value, NULL, 10);
        else if (!strcmp(option, "--only")) only = value;
        else if (!strcmp(option, "--json")) json = value;
        else if (!strcmp(option, "--on")) directory = value;
        else if (!strcmp(option, "--patience")) patience_s = atof(value);
        else fail("unknown option %s; the head of transport.c names all", option);
    }
    if (rounds < 1 || rounds > ROUNDS_MAX || files < 1 || files > 10000 || big_mib < 128 || big_mib > 1024 || big_mib & (big_mib - 1))
        fail("rounds 1 to %d, files 1 to 10000, mib 128, 256, 512 or 1024", ROUNDS_MAX);
    bool chosen[VARIANTS];
    for (int index = 0; index < VARIANTS; index++) {
        titles[index] = directory ? "directory" : variants[index].name;
        chosen[index] = directory ? index == 0 : !only || is_listed(only, variants[index].name);
    }
    if (directory) for (int round = -1; round < rounds; round++) run_directory(directory, round);
    else take_turns(chosen, rounds);
    print_table(chosen, titles, rounds, !directory);
    if (json) write_json(json, chosen, titles, rounds);
    return 0;
}
