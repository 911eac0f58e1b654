# SPDX-License-Identifier: Apache-2.0
# INPUT without its examples and comments, which only its tests and its readers need, as an array of bytes in OUTPUT
# (a string literal that long is not standard C).
file(READ ${INPUT} text)
string(REGEX REPLACE "\n[ \t]*(match |never |#)[^\n]*" "" text "\n${text}")
string(HEX "${text}" bytes)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "(0x0a,)" "\\1\n" bytes "${bytes}")
file(WRITE ${OUTPUT} "/* Made from templates/redaction.rules. */
#include <stddef.h>
#include \"bundle/redact_rules.h\"
const unsigned char redact_builtin_rules[] = {\n${bytes}};
const size_t redact_builtin_rules_len = sizeof redact_builtin_rules;
")
