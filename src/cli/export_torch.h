/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_EXPORT_TORCH_H
#define CLI_EXPORT_TORCH_H

struct buf;
struct rc_err;

/* hook/snapshot.json as the pickle that PyTorch's viewers read (torch.cuda._memory_viz and
 * https://docs.pytorch.org/memory_viz). *ret_lumped: segments whose blocks the bundle has as sums only.
 * 0 or -errno with *err. */
int export_torch(const char *snapshot_json, struct buf *out, unsigned *ret_lumped, struct rc_err *err);

#endif
