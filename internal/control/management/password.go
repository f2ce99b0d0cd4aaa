// SPDX-License-Identifier: Apache-2.0

package management

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxPassword is the most bytes of a password: what a line of the protocol holds.
const maxPassword = maxLine

// ReadPassword returns the first line of a password file, as the third word of the
// management option names it. A file without one is an error: it would let everybody in.
func ReadPassword(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read management password: %w", err)
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, maxPassword+2)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read management password: %w", err)
	}
	line = strings.TrimRight(line, "\r\n")
	switch {
	case line == "":
		return "", fmt.Errorf("read management password: the first line of %s is empty", path)
	case len(line) > maxPassword:
		return "", fmt.Errorf("read management password: the first line of %s has more than %d bytes", path, maxPassword)
	}
	return line, nil
}
