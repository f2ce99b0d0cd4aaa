// SPDX-License-Identifier: Apache-2.0

//go:build race

package wrap

func init() { raced = true }
