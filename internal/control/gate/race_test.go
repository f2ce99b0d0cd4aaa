// SPDX-License-Identifier: Apache-2.0

//go:build race

package gate

func init() { raced = true }
