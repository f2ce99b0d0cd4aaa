// SPDX-License-Identifier: Apache-2.0

//go:build !amd64

package aead

// zeroUpper has nothing to do where vector registers have no upper halves that
// slow down narrower instructions.
func zeroUpper() {}
