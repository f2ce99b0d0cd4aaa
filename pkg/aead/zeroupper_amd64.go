// SPDX-License-Identifier: Apache-2.0

package aead

import "golang.org/x/sys/cpu"

func vzeroupper()

// zeroUpper clears the upper halves of the vector registers, which
// only processors with AVX have.
func zeroUpper() {
	if cpu.X86.HasAVX {
		vzeroupper()
	}
}
