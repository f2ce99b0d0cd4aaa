// SPDX-License-Identifier: Apache-2.0

//go:build amd64 || arm64

package aead

// Prefetch asks for every cache line of p to be brought into the first-level
// cache for reading. It is a hint: it waits for nothing, changes nothing and
// cannot fault. A line is taken to be 64 bytes; with larger ones (some arm64)
// a line is asked for twice, which is harmless.
//
//go:noescape
func Prefetch(p []byte)

// PrefetchWrite is Prefetch for lines that will be written.
//
//go:noescape
func PrefetchWrite(p []byte)
