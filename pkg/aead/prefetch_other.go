// SPDX-License-Identifier: Apache-2.0

//go:build !amd64 && !arm64

package aead

// Prefetch does nothing on this architecture.
func Prefetch([]byte) {}

// PrefetchWrite does nothing on this architecture.
func PrefetchWrite([]byte) {}
