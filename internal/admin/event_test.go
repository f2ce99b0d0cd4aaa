// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func (h *Hub) subscribers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.subs)
}

func TestEventsAreStreamed(t *testing.T) {
	f := newFake()
	_, path := serve(t, f, nil)
	c := dial(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	type got struct {
		line string
		e    Event
	}
	events := make(chan got)
	done := make(chan error, 1)
	go func() {
		done <- c.Events(ctx, func(line []byte, e *Event) error {
			events <- got{string(line), *e}
			return nil
		})
	}()
	waitFor(t, func() bool { return f.subscribers() == 1 })
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	e := PeerEvent(EventFloat, 7, "")
	e.Time = at
	e.Previous, e.Remote = netip.MustParseAddrPort("192.0.2.1:1194"), netip.MustParseAddrPort("[2001:db8::1]:5000")
	f.Publish(e)
	f.Publish(Event{Time: at, Type: EventKeyWanted, Reason: KeyPacketID, Key: &EventKey{Slot: Primary, KeyID: 0}})
	first, second := <-events, <-events
	if want := `{"version":1,"time":"2026-01-02T03:04:05Z","type":"float","peer":7,"remote":"[2001:db8::1]:5000","previous":"192.0.2.1:1194"}`; first.line != want {
		t.Errorf("got %s\nwant %s", first.line, want)
	}
	if want := `{"version":1,"time":"2026-01-02T03:04:05Z","type":"key_wanted","reason":"packet_id","key":{"slot":"primary","key_id":0}}`; second.line != want {
		t.Errorf("got %s\nwant %s", second.line, want)
	}
	if first.e.Remote != e.Remote || *first.e.Peer != 7 {
		t.Errorf("parsed: %+v", first.e)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("stream ended with %v", err)
	}
	_ = c.Close()
	waitFor(t, func() bool { return f.subscribers() == 0 })
}

// A shell pipe shuts its sending side down and goes on listening.
func TestEventsAfterHalfClose(t *testing.T) {
	f := newFake()
	_, path := serve(t, f, nil)
	conn := dialRaw(t, path)
	if _, err := conn.Write([]byte(`{"version":1,"method":"events"}`)); err != nil {
		t.Fatal(err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	if line, err := r.ReadString('\n'); err != nil || line != "{\"version\":1,\"result\":{}}\n" {
		t.Fatalf("%q, %v", line, err)
	}
	f.Publish(PeerEvent(EventOCCExit, 3, ""))
	if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, `"type":"occ_exit","peer":3`) {
		t.Errorf("%q, %v", line, err)
	}
	_ = conn.Close()
	waitFor(t, func() bool { return f.subscribers() == 0 })
}

// A subscriber that does not read neither holds up the gateway nor grows; it
// learns how much it missed, and loses the oldest.
func TestSlowSubscriber(t *testing.T) {
	var h Hub
	slow := h.Subscribe()
	defer slow.Close()
	fast := h.Subscribe()
	const published = QueueLen + 1000
	for i := range uint32(published) {
		h.Publish(PeerEvent(EventPeerGone, i, GoneExpired))
		if e, err := fast.Next(t.Context()); err != nil || *e.Peer != i || e.Lost != 0 {
			t.Fatalf("fast subscriber at %d: %+v, %v", i, e, err)
		}
	}
	var read, lost uint64
	for read+lost < published {
		e, err := slow.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if read == 0 && (*e.Peer != 1000 || e.Lost != 1000) {
			t.Errorf("first event: peer %d, lost %d; want 1000 and 1000", *e.Peer, e.Lost)
		}
		read, lost = read+1, lost+e.Lost
	}
	if read != QueueLen || read+lost != published {
		t.Errorf("read %d, lost %d of %d", read, lost, published)
	}
	fast.Close()
	fast.Close()
	if _, err := fast.Next(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestStalledClientDoesNotBlockPublish(t *testing.T) {
	f := newFake()
	s, path := serve(t, f, nil)
	conn := dialRaw(t, path)
	if _, err := conn.Write([]byte("{\"version\":1,\"method\":\"events\"}\n")); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return f.subscribers() == 1 })
	for i := range uint32(20000) { // 2 MB: more than any socket buffer here
		f.Publish(PeerEvent(EventPeerGone, i, GoneExpired))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if n, err := io.Copy(io.Discard, conn); n == 0 {
		t.Errorf("nothing was delivered: %v", err)
	}
}

func TestFind(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if _, err := Find(dir, ""); err == nil || !strings.Contains(err.Error(), "no gateway is running") || !strings.Contains(err.Error(), "ovpn-xdp run") {
		t.Errorf("no folder: %v", err)
	}
	start := func(name string) string {
		l, err := listen(filepath.Join(dir, name+".sock"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l.Addr().String()
	}
	one := start("one")
	if got, err := Find(dir, ""); err != nil || got != one {
		t.Errorf("the only one: %q, %v", got, err)
	}
	stale, err := listen(filepath.Join(dir, "stale.sock"))
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	_ = stale.Close()
	if err := os.WriteFile(filepath.Join(dir, "one.lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Find(dir, ""); err != nil || got != one {
		t.Errorf("beside a stale socket: %q, %v", got, err)
	}
	start("two")
	if _, err := Find(dir, ""); err == nil || err.Error() != "several gateways are running: one, two; choose one with --name" {
		t.Errorf("several: %v", err)
	}
	if got, err := Find(dir, "one"); err != nil || got != one {
		t.Errorf("by name: %q, %v", got, err)
	}
	if _, err := Find(dir, "stale"); err == nil || err.Error() != "gateway stale is not running; running: one, two" {
		t.Errorf("stale: %v", err)
	}
}
