// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// Both walk the lines from the one that holds the first byte to the one that
// holds the last. An empty slice asks for nothing.

// func Prefetch(p []byte)
TEXT ·Prefetch(SB), NOSPLIT|NOFRAME, $0-24
	MOVD p_base+0(FP), R0
	MOVD p_len+8(FP), R1
	CBZ  R1, done
	ADD  R0, R1          // first byte behind p
	AND  $~63, R0
line:
	PRFM (R0), PLDL1KEEP
	ADD  $64, R0
	CMP  R1, R0
	BLO  line
done:
	RET

// func PrefetchWrite(p []byte)
TEXT ·PrefetchWrite(SB), NOSPLIT|NOFRAME, $0-24
	MOVD p_base+0(FP), R0
	MOVD p_len+8(FP), R1
	CBZ  R1, done
	ADD  R0, R1
	AND  $~63, R0
line:
	PRFM (R0), PSTL1KEEP
	ADD  $64, R0
	CMP  R1, R0
	BLO  line
done:
	RET
