// SPDX-License-Identifier: Apache-2.0

package testlab

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// RequireStockOpenVPN returns a command that runs a stock OpenVPN of a release,
// "2.5", "2.6" or "2.7", in any namespace. hack/stock-openvpn.sh fetches a release
// that this machine has never had (15 MB); the test ends when that fails. May be
// called concurrently.
func RequireStockOpenVPN(t testing.TB, release string) (command string) {
	t.Helper()
	command, err := stockOpenVPN(release)
	if err != nil {
		Unmet(t, "OpenVPN %s: %v", release, err)
	}
	return command
}

var stock struct {
	sync.Mutex
	commands map[string]string
	errors   map[string]error
}

// stockOpenVPN asks the script once per release and process.
func stockOpenVPN(release string) (string, error) {
	stock.Lock()
	defer stock.Unlock()
	if command, ok := stock.commands[release]; ok {
		return command, stock.errors[release]
	}
	command, err := findStockOpenVPN(release)
	if stock.commands == nil {
		stock.commands, stock.errors = map[string]string{}, map[string]error{}
	}
	stock.commands[release], stock.errors[release] = command, err
	return command, err
}

func findStockOpenVPN(release string) (string, error) {
	// Virtual machines have the releases and no script.
	if dir := os.Getenv("OVPN_XDP_STOCK"); dir != "" {
		command := filepath.Join(dir, release, "openvpn")
		_, err := os.Stat(command)
		return command, err
	}
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	cmd := exec.Command(filepath.Join(root, "hack", "stock-openvpn.sh"), release)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("run %s: %w\n%s", cmd.Path, err, errs.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
}

// moduleRoot is the folder of go.mod, in or above the one that a test runs in.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no go.mod in or above %s", dir)
		}
	}
}
