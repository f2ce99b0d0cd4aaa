// SPDX-License-Identifier: Apache-2.0

package keystore

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// holdDir makes the test binary a process that claims one key of that store and
// holds it until its standard input ends.
const holdDir = "KEYSTORE_TEST_HOLD"

var held = Fingerprint{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}

func TestMain(m *testing.M) {
	dir := os.Getenv(holdDir)
	if dir == "" {
		os.Exit(m.Run())
	}
	s, err := Open(dir)
	if err == nil {
		var c *Claim
		if c, err = s.Claim(held, 1); err == nil {
			fmt.Println("claimed", c.Ceiling())
			_, _ = io.Copy(io.Discard, os.Stdin)
			return
		}
	}
	fmt.Println(err)
	os.Exit(1)
}

// hold starts such a process and returns the line it says.
func hold(t *testing.T, dir string) (kill func(), said string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holdDir+"="+dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := false
	kill = func() {
		if !done {
			done = true
			cmd.Process.Kill()
			cmd.Wait()
			in.Close()
		}
	}
	t.Cleanup(kill)
	said, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("process said %q, %v", said, err)
	}
	return kill, strings.TrimSpace(said)
}

// A key that another process sends with cannot be claimed, from no id; when that
// process is killed, it can be from the first id on that it had not marked.
func TestTwoProcesses(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	kill, said := hold(t, dir)
	if said != "claimed 16777217" {
		t.Fatalf("process said %q", said)
	}
	for _, first := range []uint32{1, Ahead + 1, 1<<32 - 1} {
		refused(t, s, held, first, ErrLive, "in use by another gateway of this host; delete it there first")
	}
	kill()
	// The kernel drops the lock before the process can be waited for.
	refused(t, s, held, Ahead, ErrUsed, "16777217 or more")
	c := claim(t, s, held, Ahead+1)

	// And the other way round.
	kill, said = hold(t, dir)
	kill()
	if !strings.Contains(said, ErrLive.Error()) {
		t.Errorf("process said %q", said)
	}
	release(t, s, Released{c, Ahead + 5})
	_, said = hold(t, dir)
	if !strings.Contains(said, ErrUsed.Error()) {
		t.Errorf("process said %q", said)
	}
}

// A claim does not wait for a lock that another one holds.
func TestRefusalIsImmediate(t *testing.T) {
	dir := t.TempDir()
	s, other := open(t, dir), open(t, dir)
	claim(t, s, held, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		refused(t, other, held, 1, ErrLive, "")
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("claim of a live key hangs")
	}
}

func TestPlace(t *testing.T) {
	for f, want := range map[Fingerprint]int64{
		{}: 0, {0, 0, 0, 0, 0, 0, 0, 7}: 1, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}: 1<<62 - 1,
	} {
		if got := place(f); got != want {
			t.Errorf("place of %x is %d, want %d", f[:8], got, want)
		}
	}
}
