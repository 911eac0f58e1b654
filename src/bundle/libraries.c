/* SPDX-License-Identifier: Apache-2.0 */
#include <archive.h>
#include <openssl/crypto.h>
#include <zlib.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/buf.h"
#include "bundle/bundle.h"

void bundle_libraries(struct buf *out)
{
    char pcre2[64] = "";
    (void)pcre2_config(PCRE2_CONFIG_VERSION, pcre2);
    buf_printf(out, "%s, OpenSSL %u.%u.%u, zlib %s, PCRE2 %s", archive_version_string(),
               OPENSSL_version_major(), OPENSSL_version_minor(), OPENSSL_version_patch(),
               zlibVersion(), pcre2);
}
