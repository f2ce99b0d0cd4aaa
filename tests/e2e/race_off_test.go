// SPDX-License-Identifier: Apache-2.0

//go:build !race

package e2e

const raceEnabled = false
