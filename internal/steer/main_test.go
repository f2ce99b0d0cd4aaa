// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

// holdRung makes the test binary a process that attaches and holds on: the
// rung's name in rungs, or "tun" for the queue selection of a TUN.
const (
	holdRung   = "STEER_TEST_HOLD_RUNG"
	holdPinDir = "STEER_TEST_HOLD_PIN_DIR"
)

func TestMain(m *testing.M) {
	if rung := os.Getenv(holdRung); rung != "" {
		if err := hold(rung, os.Getenv(holdPinDir)); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func hold(rung, pinDir string) error {
	a, err := Attach(context.Background(), rungs(&network{pinDir: pinDir})[rung])
	if err != nil {
		return err
	}
	if err := a.SetListener(local4); err != nil {
		return err
	}
	if err := a.SetPeer(Peer{ID: testPeer4, Remote: remote4, KeyIDs: 0xff}); err != nil {
		return err
	}
	if err := a.Accept(true); err != nil {
		return err
	}
	fmt.Println("attached")
	for range time.Tick(100 * time.Millisecond) {
		if err := a.Heartbeat(); err != nil {
			return err
		}
	}
	return nil
}

// A gateway that is killed leaves nothing that takes traffic, and the next start
// replaces the rest; three times.
func TestKilledAndStartedAgain(t *testing.T) {
	for name := range rungs(&network{}) {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t, testlab.Veth{})
			w := n.wire(remote4, local4)
			for range 3 {
				cmd := n.host.Command(os.Args[0])
				cmd.Env = append(os.Environ(), holdRung+"="+name, holdPinDir+"="+n.pinDir)
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				line, err := bufio.NewReader(out).ReadString('\n')
				if strings.TrimSpace(line) != "attached" {
					cmd.Process.Kill()
					cmd.Wait()
					t.Fatalf("process said %q, %v", line, err)
				}
				w.write(numbered(testPeer4, 1, 100))
				w.nothingMore()
				if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				if err := cmd.Wait(); err == nil {
					t.Fatal("process was not killed")
				}
				// Links end a moment after the process, a clsact filter passes
				// everything a second after the last heartbeat.
				n.eventually("records reach the UDP socket", func() bool {
					w.write(numbered(testPeer4, 2, 100))
					return w.has()
				})
				w.flush()
				if name != "clsact" && n.host.Link("eth0").XDP.Attached {
					t.Error("XDP program survived its process")
				}
			}
			a := n.attach(rungs(n)[name])
			w.write(numbered(testPeer4, 3, 100))
			fromSockets(t, a.Sockets(), 1)
			n.detach(a)
			n.mustBeClean()
		})
	}
}

// has says whether a datagram comes within 50 ms.
func (w *wire) has() bool {
	w.listen.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	_, err := w.listen.Read(make([]byte, 2048))
	return err == nil
}

func (w *wire) flush() {
	for w.has() {
	}
}
