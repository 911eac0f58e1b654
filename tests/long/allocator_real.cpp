/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's own caching allocator, driven by commands on stdin (see allocator_real.py):
 *
 *   a NAME BYTES   allocate     f NAME   free     e   empty the cache     s   print the statistics
 *
 * Answers "ready FREE TOTAL", "stats ALLOCATED RESERVED RETRIES", and at a refusal
 * "refused ALLOCATED RESERVED FREE" with the message behind it; then it ends.
 */
#include <c10/hip/HIPCachingAllocator.h>
#include <c10/hip/HIPFunctions.h>
#include <hip/hip_runtime_api.h>

#include <iostream>
#include <string>
#include <unordered_map>

namespace allocator = c10::hip::HIPCachingAllocator;

static size_t device_free()
{
    size_t free_bytes = 0;
    size_t total = 0;
    (void)hipMemGetInfo(&free_bytes, &total);
    return free_bytes;
}

static void say(const char *what)
{
    auto stats = allocator::getDeviceStats(0);
    std::cout << what << " " << stats.allocated_bytes[0].current << " "
              << stats.reserved_bytes[0].current << " ";
}

static int run()
{
    std::unordered_map<long, void *> blocks;
    std::string command;
    long name = 0;
    size_t bytes = 0;
    while (std::cin >> command) {
        if (command == "a" && std::cin >> name >> bytes) {
            blocks[name] = allocator::raw_alloc(bytes);
        } else if (command == "f" && std::cin >> name) {
            allocator::raw_delete(blocks.at(name));
            blocks.erase(name);
        } else if (command == "e") {
            allocator::emptyCache();
        } else if (command == "s") {
            say("stats");
            std::cout << allocator::getDeviceStats(0).num_alloc_retries << "\n";
        }
    }
    return 0;
}

int main()
{
    int count = c10::hip::device_count();
    if (count == 0)
        return 3;
    allocator::get()->init(count);
    c10::hip::set_device(0);
    size_t total = 0;
    size_t free_bytes = 0;
    (void)hipMemGetInfo(&free_bytes, &total);
    std::cout << "ready " << free_bytes << " " << total << std::endl;
    try {
        return run();
    } catch (const c10::OutOfMemoryError &error) {
        say("refused");
        std::cout << device_free() << " " << error.what_without_backtrace() << std::endl;
        std::cerr << "torch.OutOfMemoryError: " << error.what_without_backtrace() << std::endl;
        return 1;
    }
}
