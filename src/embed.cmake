# SPDX-License-Identifier: Apache-2.0
# INPUT as an array of bytes NAME in OUTPUT, with a NUL after it (a string literal that long is not
# standard C).
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
string(REGEX REPLACE "('.x0a',)" "\\1\n" bytes "${bytes}")
get_filename_component(file ${INPUT} NAME)
file(WRITE ${OUTPUT} "/* Made from templates/${file}. */
extern const char ${NAME}[];
const char ${NAME}[] = {\n${bytes}0};
")
