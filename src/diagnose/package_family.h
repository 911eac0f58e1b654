/* SPDX-License-Identifier: Apache-2.0 */
/*
 * package_family_to_facts(): a list of installed packages in which parts of one family have versions that were
 * not released together (torch 2.7 beside torchaudio 2.8), as msg.family_mismatch. Pure.
 */
#ifndef DIAGNOSE_PACKAGE_FAMILY_H
#define DIAGNOSE_PACKAGE_FAMILY_H

#include <stddef.h>

struct facts;

void package_family_to_facts(struct facts *, const char *data, size_t len, const char *source);

#endif
