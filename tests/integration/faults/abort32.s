# SPDX-License-Identifier: Apache-2.0
# A 32-bit program without any library: writes "32 bits" to stderr and reads address 16.
.code32
.globl _start
_start:
    movl $4, %eax
    movl $2, %ebx
    movl $text, %ecx
    movl $8, %edx
    int $0x80
    movl 16, %eax
.data
text: .ascii "32 bits\n"
