// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// limit bounds every wait for something that has to happen. It says nothing
// about how fast that should be: emulated machines and the race detector are slow.
const limit = 60 * time.Second

// scratch holds binaries, keys and the gateways' folders. Its path is short,
// since a Unix socket's has to fit 107 bytes.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "ovx-e2e-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(scratch)
	os.Exit(code)
}

// program is the binary under test.
var program = sync.OnceValues(func() (string, error) {
	for _, name := range []string{"OVPN_XDP_BINARY", "OVPN_XDP_BIN"} {
		if path := os.Getenv(name); path != "" {
			return filepath.Abs(path)
		}
	}
	return build("ovpn-xdp", raceEnabled)
})

func build(name string, race bool) (string, error) {
	out := filepath.Join(scratch, name)
	args := []string{"build", "-o", out}
	if race {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "github.com/ovpn-xdp/ovpn-xdp/cmd/ovpn-xdp")...)
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build ovpn-xdp: %w\n%s", err, text)
	}
	return out, nil
}

func mustProgram(t *testing.T) string {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// long marks a test that is not part of the short suite.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("not part of the short suite")
	}
}

// eventually waits until ok returns true, or fails with what describe says.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("did not happen in %s: %s", limit, what)
		}
	}
}
