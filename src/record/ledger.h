/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger: shared memory in which the library inside the target (src/inject) records GPU memory.
 *
 * One memfd of fixed size, made by the supervisor, mapped MAP_SHARED by each process of the target
 * that the library is in; the recorder copies it to `ledger` of the run directory. It holds nothing
 * but data (no pointers, no locks), so it survives the death of any writer by any signal. A writer
 * that dies in the middle of an entry leaves LEDGER_WRITING behind: readers skip it.
 *
 * Reading: a copy (of the run directory, or of a live one) is read with plain loads, state words
 * first. Records for which there was no room are counted in `lost`. Bytes are as the kernel charges
 * them (whole pages of 4 KiB); `size` is what was asked for. Times are CLOCK_MONOTONIC; those of
 * allocations and frees have the resolution of the kernel's tick (1 to 10 ms).
 */
#ifndef RECORD_LEDGER_H
#define RECORD_LEDGER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LEDGER_MAGIC 0x7265676465636f72u /* "rocedger" */
#define LEDGER_VERSION 1u

#define LEDGER_PROCESSES 512
#define LEDGER_GPUS 128
#define LEDGER_ACCOUNTS 2048
#define LEDGER_SIZES 2048
#define LEDGER_POWERS 48
#define LEDGER_LIVE (1u << 17)
#define LEDGER_EVENTS (1u << 14)
#define LEDGER_REFUSALS 2048     /* the first half is kept, the rest is a ring */
#define LEDGER_HIP_REFUSALS 512  /* the same */
#define LEDGER_MODELS 128
#define LEDGER_MODEL_PATH 480

#define LEDGER_NO_GPU 0xffu
#define LEDGER_NO_PROCESS 0xffffu

/* The kind of memory: KFD's by the flags of the ioctl, DRM's (GEM) by the domain asked for. */
enum ledger_kind {
    LEDGER_VRAM,
    LEDGER_GTT,
    LEDGER_USERPTR,  /* host memory made visible: hipHostMalloc, hipHostRegister */
    LEDGER_DOORBELL,
    LEDGER_MMIO,
    LEDGER_GEM_VRAM,
    LEDGER_GEM_GTT,
    LEDGER_GEM_USERPTR,
    LEDGER_GEM_OTHER, /* GDS, GWS, OA, doorbells, CPU */
    LEDGER_IMPORT,    /* a dmabuf of another owner's buffer: charges nothing, size 0 */
    LEDGER_KINDS,
};

/* State words: the low 8 bits. Above them a counter that changes at each use of the slot. */
enum ledger_state {
    LEDGER_EMPTY,   /* never used */
    LEDGER_WRITING, /* being written; stays so if its writer died */
    LEDGER_USED,    /* valid. In live[]: allocated */
    LEDGER_FREEING, /* live[]: valid, the free ioctl has not returned */
    LEDGER_FREED,   /* live[]: the slot may be used again; not valid */
};
#define LEDGER_STATE(word) ((word) & 0xffu)

enum ledger_process_state {
    LEDGER_ALIVE,  /* as far as known: see ended_ns */
    LEDGER_EXECED, /* replaced itself by another program: the kernel freed what it held */
    LEDGER_ENDED,  /* found dead: the kernel freed what it held */
};

/* A process image that used a GPU or opened a model file; in order of appearance. */
struct ledger_process {
    _Atomic uint32_t state; /* enum ledger_state */
    _Atomic uint32_t life;  /* enum ledger_process_state */
    int32_t pid;            /* as the process itself sees it */
    uint16_t parent;        /* slot of its parent at fork, LEDGER_NO_PROCESS = not in the ledger */
    uint16_t forks;         /* forks between its exec and itself */
    uint64_t start_ticks;   /* field 22 of /proc/PID/stat: tells apart processes that had the same
                             * pid */
    uint64_t seen_ns;       /* CLOCK_MONOTONIC, of its first entry */
    _Atomic uint64_t ended_ns; /* when its end was noticed; 0 = not noticed */
    char comm[16];
    /* The first two may miss some when threads allocate at the same moment; the accounts do not. */
    _Atomic uint64_t allocations, frees, refusals, hip_refusals;
    _Atomic uint64_t unknown_frees; /* of handles that are not in live[] */
    uint64_t pid_namespace; /* inode; if it differs from the ledger's, pid has no meaning outside */
    uint64_t reserved[2];
};

/*
 * A GPU, by its KFD gpu_id, its render minor, or both where AMDKFD_IOC_ACQUIRE_VM joined them. Each
 * of the two may have got an entry of its own before they were joined: `same_as` then leads from
 * the one to the other. live and peak are the sums over all processes of the tree; the end of a
 * process is noticed late (recorder, once a second; the next process; the next new peak).
 */
struct ledger_gpu {
    _Atomic uint32_t state;
    _Atomic uint32_t kfd_gpu_id;   /* 0 = not known */
    _Atomic uint32_t render_minor; /* 128 ..., 0 = not known */
    _Atomic uint32_t same_as;      /* index + 1 of the other entry, 0 = none */
    _Atomic int64_t live[LEDGER_KINDS];
    _Atomic int64_t peak[LEDGER_KINDS];
    _Atomic uint64_t peak_ns[LEDGER_KINDS];
};

/* The memory of one kind that one process has on one GPU. After the end of the process, `live`
 * stays what it held then. */
struct ledger_account {
    _Atomic uint32_t state;
    uint16_t process;
    uint8_t gpu, kind;
    _Atomic int64_t live, peak; /* bytes; exact unless threads allocate at the same moment */
    _Atomic uint64_t peak_ns;
    _Atomic uint64_t allocations, frees;
    _Atomic uint64_t allocated_bytes; /* ever */
    _Atomic uint64_t refusals;
    _Atomic uint32_t gone; /* 1 = taken out of gpus[].live because the process ended */
    uint32_t reserved;
};

/* Counts for each exact size, by process, GPU and kind. A leaked size is allocated far more often
 * than freed. */
struct ledger_size {
    _Atomic uint32_t state;
    uint16_t process;
    uint8_t gpu, kind;
    uint64_t bytes;
    _Atomic uint64_t allocations, frees;
    uint64_t first_ns;
    _Atomic uint64_t last_ns;
    uint64_t reserved[2];
};

/* Allocations without a row in sizes[]: class i holds 2^i <= bytes < 2^(i+1), of all processes. */
struct ledger_power {
    _Atomic uint64_t allocations, frees, allocated_bytes, freed_bytes;
};

/* One buffer that is allocated, or was when its process ended. Unordered: sort by address. */
struct ledger_entry {
    _Atomic uint32_t state; /* LEDGER_USED or LEDGER_FREEING are valid */
    uint16_t process;
    uint8_t gpu, kind;
    uint64_t handle;  /* KFD: unique in the process. GEM: unique in the open file `file` */
    uint64_t address; /* GPU virtual address; 0 = not known (GEM) */
    uint64_t size;    /* as asked */
    uint64_t bytes;   /* as charged */
    uint64_t time_ns;
    uint32_t flags;   /* KFD_IOC_ALLOC_MEM_FLAGS_* or AMDGPU_GEM_CREATE_* */
    int32_t file;     /* descriptor of the render node, -1 for KFD */
    int32_t tid;
    uint32_t mapped;  /* 1 = AMDKFD_IOC_MAP_MEMORY_TO_GPU succeeded */
};

enum ledger_event_type {
    LEDGER_EVENT_ALLOC = 1,
    LEDGER_EVENT_FREE,
    LEDGER_EVENT_REFUSED,
};

/* The last events: number n lies in slot n % LEDGER_EVENTS and is valid when that slot says n. */
struct ledger_event {
    _Atomic uint64_t number; /* 1 ..., written last; 0 = empty or being written */
    uint64_t time_ns;
    uint64_t address, size;
    uint64_t handle;
    uint16_t process;
    uint8_t gpu, kind;
    uint8_t type; /* enum ledger_event_type */
    uint8_t reserved;
    uint16_t error; /* errno */
    int32_t tid;
    uint32_t flags;
};

enum ledger_operation {
    LEDGER_OP_ALLOC,  /* the allocating ioctl failed */
    LEDGER_OP_MAP,    /* AMDKFD_IOC_MAP_MEMORY_TO_GPU failed */
    LEDGER_OP_IMPORT, /* a dmabuf could not be imported */
    LEDGER_OP_MMAP,   /* the ioctl succeeded, mmap() of its memory failed */
};

/*
 * A refusal. Numbers count from 1; number n lies in refusals[n - 1] up to LEDGER_REFUSALS / 2,
 * later ones in turn in the upper half. ROCr tries twice and PyTorch again after emptying its
 * cache: retry_of is the first of such a row (same thread, GPU, kind and size, within a second).
 */
struct ledger_refusal {
    _Atomic uint64_t number; /* written last; 0 = empty */
    uint64_t time_ns;
    uint64_t size, address;
    uint64_t retry_of;             /* number of the first of the row, 0 = this is the first */
    _Atomic uint64_t satisfied_ns; /* the same thread then got this size; 0 = it did not */
    int64_t live, gpu_live;        /* bytes of this kind then: of the process, of all processes on
                                    * the GPU */
    uint64_t counters_ns;          /* when the sampler had read the counters, 0 = it was not
                                    * asked */
    uint32_t flags;
    int32_t tid;
    uint16_t process;
    uint8_t gpu, kind;
    uint16_t error;    /* errno */
    uint8_t operation; /* enum ledger_operation */
    uint8_t reserved;
    uint32_t fds, fds_limit;           /* open descriptors and RLIMIT_NOFILE; 0 = not counted */
    uint32_t mappings, mappings_limit; /* lines of maps and vm.max_map_count; 0 = not counted */
    uint64_t reserved2[2];
};

/*
 * A HIP function that failed. kernel_refusals 0: no ioctl of the thread was refused meanwhile, so HIP refused it itself
 * (a request above the device's size, or above its largest allocation).
 */
struct ledger_hip_refusal {
    _Atomic uint64_t number; /* as in struct ledger_refusal, with LEDGER_HIP_REFUSALS */
    uint64_t time_ns;
    uint64_t size;           /* bytes requested; width x height x depth for pitched and 3D allocations */
    uint64_t width, height, depth; /* 0 = the function has none */
    uint32_t flags;
    int32_t error;           /* hipError_t: 2 = hipErrorOutOfMemory */
    int32_t device;          /* HIP's number of the device, as the thread set it; 0 is HIP's
                              * default */
    int32_t tid;
    uint16_t process;
    uint16_t reserved;
    uint32_t kernel_refusals;
    uint64_t kernel_refusal; /* number of the last kernel refusal */
    char function[24];
    uint64_t reserved2[2];
};

/* A file with the name of a model (.gguf, .safetensors ...), once per process and file. */
struct ledger_model {
    _Atomic uint32_t state;
    uint16_t process;
    uint16_t error;  /* errno when it could not be opened, 0 = open */
    uint64_t time_ns;
    uint64_t device, inode; /* 0 = not known */
    char path[LEDGER_MODEL_PATH]; /* absolute if that could be determined; cut if longer */
};

/* Programs that were started without the library, counted by reason (inject/preload.h). */
#define LEDGER_LEFT_OUT_MAX 16

/* Counts of records that were lost for lack of room. */
struct ledger_lost {
    _Atomic uint64_t processes, gpus, accounts, sizes, models;
    _Atomic uint64_t live, live_bytes; /* no slot in live[]; the accounts have them */
    _Atomic uint64_t reserved[4];
};

/* A request to the sampler to read all counters: a page of the run's memory (record/shared.h). */
struct ledger_counters {
    _Atomic uint32_t request; /* the asker increments it and wakes (futex) */
    _Atomic uint32_t answer;  /* the last request that was served, woken by the sampler */
    _Atomic int32_t pid;      /* whose */
};

struct ledger {
    uint64_t magic;
    uint32_t version;
    uint32_t size;       /* of this structure */
    uint64_t nonce[2];   /* of this run: a descriptor of another one is not ours */
    uint64_t start_ns;   /* CLOCK_MONOTONIC */
    int32_t owner_pid;   /* the supervisor, ... */
    int32_t shared_fd;   /* ... its descriptor of the run's memory, where the words of ... */
    uint64_t counters_at; /* ... struct ledger_counters lie */
    uint64_t pid_namespace;

    _Atomic uint32_t processes_used, gpus_used; /* slots are taken from 0 up */
    _Atomic uint64_t attached;      /* process images that mapped this */
    _Atomic uint64_t events_head;   /* numbers given so far */
    _Atomic uint64_t refusals_head;
    _Atomic uint64_t hip_refusals_head;
    _Atomic uint32_t models_used;
    _Atomic uint32_t hip_runtimes;  /* libamdhip64 libraries that were found in processes */
    _Atomic uint64_t left_out[LEDGER_LEFT_OUT_MAX];
    struct ledger_lost lost;

    /* Waiting for the sampler at a refusal. */
    _Atomic uint64_t counters_asked_ns; /* the last time */
    _Atomic uint32_t counters_asked;    /* how often */
    _Atomic uint32_t counters_late;     /* how often it did not answer in time; from then on nobody asks */
    _Atomic uint64_t counters_waited_ns; /* in all */
    _Atomic uint64_t settled_ns;         /* when dead processes were last looked for */
    uint64_t reserved[14];

    struct ledger_process processes[LEDGER_PROCESSES];
    struct ledger_gpu gpus[LEDGER_GPUS];
    struct ledger_account accounts[LEDGER_ACCOUNTS];
    struct ledger_power powers[LEDGER_POWERS];
    struct ledger_size sizes[LEDGER_SIZES];
    struct ledger_refusal refusals[LEDGER_REFUSALS];
    struct ledger_hip_refusal hip_refusals[LEDGER_HIP_REFUSALS];
    struct ledger_model models[LEDGER_MODELS];
    struct ledger_event events[LEDGER_EVENTS];
    struct ledger_entry live[LEDGER_LIVE];
};

/* The index of the refusal, or HIP refusal, with that number; `capacity` is the size of the
 * array. */
static inline uint32_t ledger_slot_of(uint64_t number, uint32_t capacity)
{
    uint64_t kept = capacity / 2;
    return (uint32_t)(number <= kept ? number - 1 : kept + (number - 1 - kept) % kept);
}

/* Does the process still hold its memory? Otherwise `live` is what it held at its end. */
static inline int ledger_is_alive(const struct ledger_process *process)
{
    return process->life == LEDGER_ALIVE;
}

struct rc_err;

/* Make the memfd (close-on-exec) and map it; NULL and *err on failure. */
struct ledger *ledger_create(int *ret_fd, struct rc_err *err);
/* Map a ledger, or a copy in a file, for reading; NULL and *err if it is no ledger. */
const struct ledger *ledger_open(int fd, struct rc_err *err);
void ledger_close(const struct ledger *ledger);
/* Why this was not written by the library alone: the program overwrote it, on purpose or not. NULL = nothing speaks for that. */
const char *ledger_damage(const struct ledger *ledger);
/* Refusals since then after which no retry succeeded: by the kernel, or by HIP itself for lack of
 * memory. */
bool ledger_has_allocations(const struct ledger *ledger); /* of GPU memory, by any process */
uint32_t ledger_final_refusals(const struct ledger *ledger, uint64_t since_ns);

#endif
