// A FUSE server in memory, over /dev/fuse or over io_uring; a part of transport.c.
//
// Takes   a variant: the transport, the number of loops, spinning or not
// Gives   `attach`, which makes a served mount, and `detach`
// Never   leaves the mount after the process ends
#pragma once
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

struct variant { const char *name; bool ring; int loops; int spin_us; int shift; bool halted; unsigned setup; bool beside; };
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
