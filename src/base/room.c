/* SPDX-License-Identifier: Apache-2.0 */
#include "base/room.h"

#include <sys/mman.h>

void *room_for(size_t bytes)
{
    void *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return room != MAP_FAILED ? room : NULL;
}
