// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Find returns the path of a gateway's admin socket in runDir: that of name,
// or of the only one running when name is "".
func Find(runDir, name string) (string, error) {
	if name != "" {
		path := filepath.Join(runDir, name+".sock")
		err := knock(path)
		if err == nil {
			return path, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			return "", fmt.Errorf("gateway %s: %s: permission denied; run this as root or as the gateway's user", name, path)
		}
		if running, _ := gateways(runDir); len(running) > 0 {
			return "", fmt.Errorf("gateway %s is not running; running: %s", name, strings.Join(running, ", "))
		}
		return "", fmt.Errorf("gateway %s is not running (no answer at %s)", name, path)
	}
	running, err := gateways(runDir)
	switch {
	case err != nil:
		return "", err
	case len(running) == 0:
		return "", fmt.Errorf("no gateway is running (no socket answers in %s); start one with `ovpn-xdp run`", runDir)
	case len(running) > 1:
		return "", fmt.Errorf("several gateways are running: %s; choose one with --name", strings.Join(running, ", "))
	}
	return filepath.Join(runDir, running[0]+".sock"), nil
}

// gateways returns the names, in order, of those that answer.
func gateways(runDir string) ([]string, error) {
	entries, err := os.ReadDir(runDir)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("%s: permission denied; run this as root or as the gateway's user", runDir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look for gateways: %w", err)
	}
	var names []string
	for _, e := range entries {
		name, isSocket := strings.CutSuffix(e.Name(), ".sock")
		if isSocket && knock(filepath.Join(runDir, e.Name())) == nil {
			names = append(names, name)
		}
	}
	return names, nil
}

// knock connects and hangs up.
func knock(path string) error {
	conn, err := net.DialTimeout("unix", path, time.Second)
	if errors.Is(err, syscall.EAGAIN) {
		return nil // its backlog is full: somebody is there
	}
	if err != nil {
		return err
	}
	return conn.Close()
}
