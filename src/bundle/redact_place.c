/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a name in a text means the machine or the user. A machine called "vm" and a user
 * called "max" must not change /proc/sys/vm/max_map_count or max_split_size_mb: technical words are
 * hidden only where a host or a user is meant, and nothing is hidden inside a path of the kernel.
 */
#include "bundle/redact_internal.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define LOOK_BACK 400
#define KEY_MAX 24
#define INSIDE_WORDS_FROM 5

/* Technical words. Some are ours: "impact", "peak" and the like are values of facts.json. */
static const char *const trade_words[] = {
    "root", "user", "users", "home", "host", "localhost", "admin", "ubuntu", "debian", "fedora",
    "arch", "linux", "amd", "amdgpu", "gpu", "rocm", "hip", "hsa", "kfd", "torch", "pytorch",
    "python", "python3", "conda", "jupyter", "ollama", "llama", "vllm", "comfyui", "docker",
    "render", "video", "test", "nobody", "runner", "worker", "node", "server", "memory", "kernel",
    "error", "train", "model", "tensor", "cuda", "nvidia", "ray", "slurm", "spack", "build",
    "builder", "system", "device", "fault", "page", "process", "desktop", "laptop", "workstation",
    "none", "unknown", "default", "main", "data", "file", "line", "code", "size", "free", "used",
    "total", "peak", "impact", "static", "after", "before", "baseline", "stderr", "stdout",
    "output", "signal", "status", "source", "value", "name", "when", "reason", "target", "tracer",
    "failed", "present", "absent", "blind", "reserved", "cache", "graph", "alloc", "bytes", "split",
    "threshold", "limit", "queue", "ring", "debug", "class", "module", "driver", "firmware",
    "version", "command", "program", "thread", "max", "min", "dev", "run", "log", "api", "env",
    "tmp", "job", "cpu", "ram", "app", "sys", "mem", "pid", "new", "leak", "capacity", "hang",
    "proc", "cgroup", "mounts", "mark", "will", "lib", "usr", "bin", "etc", "var", "srv", "opt",
    "core", "block", "blocks", "layer", "layers", "weight", "weights", "batch", "head", "attention",
    "float", "double", "half", "char", "int", "long", "short", "null", "true", "false", "void",
    "json", "text", "info", "event", "events", "token", "tokens", "buffer", "pool", "group",
    "stream", "segment", "table", "tree", "bundle", "report", "image", "shader", "graphics",
    "compute", "runtime", "library", "allocator", "radeon", "instinct", "ryzen", "epyc",
    "threadripper", "intel", "xeon", "geforce", "tesla", "rtx", "navi", "vega", "polaris", "fiji",
    "hawaii", "tonga", "cezanne", "renoir", "phoenix", "strix", "halo", "arcturus", "aldebaran",
    "mi50", "mi60", "mi100", "mi200", "mi210", "mi250", "mi250x", "mi300", "mi300a", "mi300x",
    "mi325", "mi325x", "mi350", "mi355", "mi355x", "rdna", "cdna", "gcn", "apu", "dgpu", "igpu",
    "vram", "gtt", "ttm", "pci", "pcie", "xgmi", "sdma", "ras", "numa", "uma", "rocr", "rccl",
    "nccl", "miopen", "rocblas", "hipblas", "triton", "tensorflow", "keras", "jax", "xla", "flash",
    "mamba", "diffusion", "stable", "whisper", "qwen", "mistral", "mixtral", "falcon", "deepseek",
    "sglang", "lora", "blender", "steam", "mesa", "vulkan", "opencl", "windows", "wsl", "cluster",
    "cloud", "local", "remote", "master", "primary", "client", "peer", "login", "step", "loss",
    "epoch", "rank", "world", "crash", "panic", "reset", "abort", "dump", "trace", "stack", "frame",
    "exception", "warning", "fatal", "critical", "generic", "mainline", "framework", "nixos",
    "nixbld", "manjaro", "gentoo", "alpine", "rocky", "centos", "redhat", "rhel", "suse",
    "opensuse", "proxmox", "noble", "jammy", "bookworm", "asus", "asrock", "gigabyte", "msi",
    "sapphire", "dell", "lenovo", "supermicro", "transformer", "diffusers", "transformers",
    "torchrun",
};

/* Never a name: these words identify nobody. */
static const char *const common_words[] = {"root",    "localhost", "nobody", "none",
                                           "unknown", "user",      "host",   "default"};

static bool among(const char *const words[], size_t count, const char *value)
{
    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(words[i], value) == 0)
            return true;
    }
    return false;
}

bool redact_is_common(const char *value)
{
    return among(common_words, sizeof common_words / sizeof common_words[0], value) ||
           strspn(value, "0123456789.") == strlen(value);
}

bool redact_is_weak(const char *value, size_t short_up_to)
{
    size_t letters = 0;
    while (isalpha((unsigned char)value[letters]))
        letters++;
    return (letters <= short_up_to && value[letters] == '\0') ||
           strncasecmp(value, "gfx", 3) == 0 ||
           among(trade_words, sizeof trade_words / sizeof trade_words[0], value);
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static bool path_char(char c)
{
    return is_word(c) || (c != '\0' && strchr("/.-:@+,{}*", c) != NULL);
}

/* The path that `at` lies in, from its first slash; NULL when it lies in none. */
static const char *path_around(const struct redact_text *t, size_t at, size_t *ret_len)
{
    size_t from = at;
    while (from > 0 && at - from < LOOK_BACK && path_char(t->p[from - 1]))
        from--;
    while (from < at && t->p[from] != '/')
        from++;
    *ret_len = at - from;
    return from < at ? t->p + from : NULL;
}

static bool begins(const char *text, size_t len, const char *with)
{
    size_t n = strlen(with);
    return len >= n && memcmp(text, with, n) == 0;
}

/* /sys/fs/cgroup holds names that people gave: jobs, slices, pods. */
bool redact_in_kernel_path(const struct redact_text *t, size_t at)
{
    size_t len;
    const char *path = path_around(t, at, &len);
    return path != NULL && (begins(path, len, "/proc/") || begins(path, len, "/sys/")) &&
           memmem(path, len, "/cgroup/", 8) == NULL;
}

/* A part of a longer name: max_split_size_mb, --max-model-len, memory.max, v1.max. */
bool redact_is_joined(const struct redact_text *t, size_t at, size_t len)
{
    char before = at > 0 ? t->p[at - 1] : '\0';
    char after = redact_at(t, at + len);
    bool before_joins = is_word(before) || ((before == '.' || before == '-') && at > 1 &&
                                            (is_word(t->p[at - 2]) || t->p[at - 2] == '-'));
    bool after_joins =
        is_word(after) || ((after == '.' || after == '-') && is_word(redact_at(t, at + len + 1)));
    return before_joins || after_joins;
}

static size_t digits_at(const struct redact_text *t, size_t at)
{
    size_t n = 0;
    while (isdigit((unsigned char)redact_at(t, at + n)))
        n++;
    return n;
}

/* vm:/path, vm:29500, vm:1234:1240 (pid and thread, as NCCL has them); not gpu:0. */
static bool has_port(const struct redact_text *t, size_t end)
{
    if (redact_at(t, end) != ':')
        return false;
    char next = redact_at(t, end + 1);
    size_t n = digits_at(t, end + 1);
    bool pid_and_thread =
        n > 0 && redact_at(t, end + 1 + n) == ':' && digits_at(t, end + n + 2) > 0;
    return next == '/' || next == '~' || n == 4 || n == 5 || pid_and_thread;
}

/* "name: X", name="X": does the word before end in one of `keys`? */
static bool key_before(const struct redact_text *t, size_t at, const char *const keys[],
                       size_t count)
{
    bool sign = false;
    size_t end = at;
    while (end > 0 && at - end < 12 && strchr(" \t\"'`:=", t->p[end - 1]) != NULL &&
           t->p[end - 1]) {
        sign = sign || t->p[end - 1] == ':' || t->p[end - 1] == '=';
        end--;
    }
    size_t from = end;
    while (from > 0 && end - from < KEY_MAX && is_word(t->p[from - 1]))
        from--;
    for (size_t i = 0; sign && i < count; i++) {
        size_t n = strlen(keys[i]);
        if (end - from >= n && strncasecmp(t->p + end - n, keys[i], n) == 0)
            return true;
    }
    return false;
}

/* "Jan  7 10:00:00 vm kernel:", "2026-01-07T10:00:00.123+00:00 vm kernel:". */
static bool after_time(const struct redact_text *t, size_t at)
{
    size_t from = at > 0 && t->p[at - 1] == ' ' ? at - 1 : at;
    unsigned colons = 0;
    while (from > 0 && at - from < 40 && t->p[from - 1] != '\0' &&
           strchr("0123456789:.,+-TZ", t->p[from - 1]) != NULL) {
        colons += t->p[from - 1] == ':';
        from--;
    }
    return colons >= 2 && at - from >= 9 && isdigit((unsigned char)t->p[from]);
}

bool redact_stands_as_host(const struct redact_text *t, size_t at, size_t len)
{
    static const char *const keys[] = {"hostname", "host",   "node",    "nodename", "nodelist",
                                       "addr",     "server", "machine", "address"};
    char before = at > 0 ? t->p[at - 1] : '\0';
    char after = redact_at(t, at + len);
    if (is_word(before) || is_word(after))
        return false;
    if (at > 1 && before == '@' && (is_word(t->p[at - 2]) || t->p[at - 2] == '>'))
        return true;
    if (at > 2 && before == '/' && t->p[at - 2] == '/' && t->p[at - 3] == ':')
        return true;
    if (before == '/' || before == '.' || before == '-')
        return false;
    if (at > 5 && after == ' ' && memcmp(t->p + at - 6, "Linux ", 6) == 0)
        return true; /* uname -a */
    return has_port(t, at + len) || (after == ' ' && after_time(t, at)) ||
           key_before(t, at, keys, sizeof keys / sizeof keys[0]);
}

bool redact_stands_as_user(const struct redact_text *t, size_t at, size_t len)
{
    static const char *const keys[] = {"user", "username", "logname", "owner", "login"};
    char before = at > 0 ? t->p[at - 1] : '\0';
    char after = redact_at(t, at + len);
    if (is_word(before) || is_word(after) || before == '.' || before == '-')
        return false;
    if (after == '@' && isalnum((unsigned char)redact_at(t, at + len + 1)))
        return true;
    if (at > 1 && before == '(' && after == ')' && isdigit((unsigned char)t->p[at - 2]))
        return true; /* uid=1000(ray) */
    return key_before(t, at, keys, sizeof keys / sizeof keys[0]);
}

/* A name that a text has introduced: whole words of it, "job_marlowe_3" but not "unstable". */
static bool is_whole_word(const struct redact_text *t, size_t at, size_t len)
{
    char before = at > 0 ? t->p[at - 1] : '\0';
    char after = redact_at(t, at + len);
    bool escape = at > 1 && t->p[at - 2] == '\\';
    return (!isalnum((unsigned char)before) || escape) && !isalnum((unsigned char)after);
}

/* A word of a name that a program uses: between letters only if a capital begins a word. */
static bool is_identifier_word(const struct redact_text *t, size_t at, size_t len)
{
    char before = at > 0 ? t->p[at - 1] : '\0';
    char after = redact_at(t, at + len);
    bool begins = !isalpha((unsigned char)before) || (at > 1 && t->p[at - 2] == '\\') ||
                  (islower((unsigned char)before) && isupper((unsigned char)t->p[at])) ||
                  (at >= 3 && memcmp(t->p + at - 3, "lib", 3) == 0);
    bool ends = !isalpha((unsigned char)after) ||
                (isupper((unsigned char)after) && islower((unsigned char)t->p[at + len - 1]));
    return begins && ends;
}

static bool stands_for_it(const struct redact_name *name, const struct redact_text *t, size_t at)
{
    if (name->weak)
        return name->kind == REDACT_HOST ? redact_stands_as_host(t, at, name->len)
                                         : redact_stands_as_user(t, at, name->len);
    if (name->kind == REDACT_HOME)
        return !isalnum((unsigned char)redact_at(t, at + name->len));
    if (name->in_path && (at == 0 || (t->p[at - 1] != '/' && t->p[at - 1] != '\\')) &&
        redact_at(t, at + name->len) != '/')
        return false;
    if (name->part)
        return is_identifier_word(t, at, name->len);
    if (name->learned)
        return is_whole_word(t, at, name->len);
    return name->len >= INSIDE_WORDS_FROM || !redact_is_joined(t, at, name->len);
}

/* The look for a path is last: it goes back over all of it. */
bool redact_is_meant(const struct redact_name *name, const struct redact_text *t, size_t at)
{
    bool person_or_machine = name->kind == REDACT_USER || name->kind == REDACT_HOST;
    return stands_for_it(name, t, at) && !(person_or_machine && redact_in_kernel_path(t, at));
}
