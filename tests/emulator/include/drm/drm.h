/* SPDX-License-Identifier: Apache-2.0 */
/* linux/kfd_ioctl.h includes <drm/drm.h>; Debian ships that file as libdrm/drm.h only. */
#include <libdrm/drm.h>
