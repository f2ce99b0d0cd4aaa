// SPDX-License-Identifier: Apache-2.0

//go:build race

package session

func init() { raced = true }
