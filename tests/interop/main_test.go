// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// limit bounds every wait for something that has to happen. It says nothing
// about how fast that should be: emulated machines and the race detector are slow.
// A handshake that a peer begins anew after hand-window (60 s) still fits.
const limit = 120 * time.Second

// scratch holds binaries, keys and configurations. Its path is short, since a
// Unix socket's has to fit 107 bytes.
var scratch string

// serial tells folders below scratch apart.
var serial atomic.Int64

// parallel is how many tests run at once: they wait most of the time, for timers of
// OpenVPN's that have whole seconds, and not for a processor.
const parallel = 6

func TestMain(m *testing.M) {
	flag.Parse()
	explicit := false
	flag.Visit(func(f *flag.Flag) { explicit = explicit || f.Name == "test.parallel" })
	if !explicit {
		_ = flag.Set("test.parallel", strconv.Itoa(parallel))
	}
	var err error
	if scratch, err = os.MkdirTemp("", "ovx-interop-"); err != nil {
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
	out := filepath.Join(scratch, "ovpn-xdp")
	args := []string{"build", "-o", out}
	if raceEnabled {
		args = append(args, "-race")
	}
	if text, err := exec.Command("go", append(args, "github.com/ovpn-xdp/ovpn-xdp/cmd/ovpn-xdp")...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build ovpn-xdp: %w\n%s", err, text)
	}
	return out, nil
})

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

// run runs a program and returns its stdout.
func run(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("%s %q: %w: %s%s", name, args, err, out, errs.Bytes())
	}
	return string(out), nil
}

// exited is err unless it only says that a program ended with another code than 0.
func exited(err error) error {
	if _, isExit := errors.AsType[*exec.ExitError](err); isExit {
		return nil
	}
	return err
}

// folder makes a folder of the test's own below scratch.
func folder(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(scratch, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// write puts a file of mode 0600 into a folder and returns its path.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// keep tells the end of a failed test's log, and keeps the whole among its
// artifacts (go test -artifacts).
func keep(t *testing.T, name, log string) {
	t.Helper()
	if !t.Failed() {
		return
	}
	if err := os.WriteFile(filepath.Join(t.ArtifactDir(), name+".log"), []byte(log), 0o600); err != nil {
		t.Error(err)
	}
	const most = 6000
	if len(log) > most {
		log = "..." + log[len(log)-most:]
	}
	t.Logf("log of %s:\n%s", name, log)
}
