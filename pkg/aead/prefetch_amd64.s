// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// Both walk the lines from the one that holds the first byte to the one that
// holds the last. An empty slice asks for nothing.

// func Prefetch(p []byte)
TEXT ·Prefetch(SB), NOSPLIT|NOFRAME, $0-24
	MOVQ p_base+0(FP), AX
	MOVQ p_len+8(FP), CX
	TESTQ CX, CX
	JEQ done
	ADDQ AX, CX      // first byte behind p
	ANDQ $~63, AX
line:
	PREFETCHT0 (AX)
	ADDQ $64, AX
	CMPQ AX, CX
	JCS line
done:
	RET

// func PrefetchWrite(p []byte)
TEXT ·PrefetchWrite(SB), NOSPLIT|NOFRAME, $0-24
	MOVQ p_base+0(FP), AX
	MOVQ p_len+8(FP), CX
	TESTQ CX, CX
	JEQ done
	ADDQ AX, CX
	ANDQ $~63, AX
line:
	// PREFETCHW (AX), which the assembler has no name for. Every 64-bit
	// processor takes it, the oldest as a no-op.
	BYTE $0x0F; BYTE $0x0D; BYTE $0x08
	ADDQ $64, AX
	CMPQ AX, CX
	JCS line
done:
	RET
