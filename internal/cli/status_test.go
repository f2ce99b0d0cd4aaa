// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/admin"
)

var update = flag.Bool("update", false, "write golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func sampleStatus() *admin.Status {
	return &admin.Status{
		Version: 1, Name: "gw", Software: "v1.2.3", PID: 4711, Dev: "tun0", MTU: 1420, MSSFix: 1420, Mode: "auto",
		Started: noon.Add(-100 * time.Hour), UptimeSeconds: 360000,
		Listeners: []admin.Listener{{Addr: netip.MustParseAddrPort("192.0.2.2:1194")},
			{Addr: netip.MustParseAddrPort("[::]:1194"), Local: []netip.Addr{netip.MustParseAddr("2001:db8::2"), netip.MustParseAddr("fe80::1")}}},
		NICs: []admin.NIC{{Name: "eth0", Rung: "xdp", XDPMode: "native", Copy: true, Queues: 2, State: admin.NICAttached,
			WhyNotHigher: "zero-copy: operation not supported", Pins: "/sys/fs/bpf/ovpn-xdp/gw/eth0",
			Verdicts: map[string]admin.Verdict{"steered": {Packets: 12345678, Bytes: 17000000000}, "not_udp": {Packets: 77}, "fragment": {}, "unknown_peer": {Packets: 9}},
			Rings:    []admin.Ring{{Queue: 0, Received: 6000000}, {Queue: 1, Received: 6345678, RingFull: 12}}}},
		Tun:     admin.Tun{Queues: 2, TSO: true, Why: "USO: not offered by this kernel"},
		UDP:     admin.UDP{GSO: true, GRO: true},
		Workers: []admin.Worker{{Name: "in0", NIC: "eth0", Bursts: 10, Records: 600}},
		Totals: admin.Totals{
			In:      admin.TotalsIn{Steered: 12345678, Socket: 4321, Batches: 300000, MeanBatch: 41.166, Delivered: 12340000, DeliveredBytes: 16543210987, TunWrites: 301234, Keepalive: 36000, InFlight: 3},
			Out:     admin.TotalsOut{Packets: 9876543, Bytes: 1234567890, TunReads: 200000, Sends: 180000, Keepalive: 36001},
			Drops:   map[string]uint64{"auth": 12, "replay": 345, "no_key": 0, "unknown_peer": 9, "bad_record": 0, "spoofed_source": 0, "ring_full": 12},
			Control: admin.Control{Datagrams: 57, Bytes: 9000, Dropped: 57},
		},
		Peers: []admin.Peer{
			{ID: 7, Remote: netip.MustParseAddrPort("192.0.2.1:1194"), Routes: []netip.Prefix{netip.MustParsePrefix("10.9.0.2/32"), netip.MustParsePrefix("fd00:9::2/128")},
				Keepalive: admin.Keepalive{Interval: 10, Timeout: 60}, Keys: []admin.Key{{Slot: admin.Primary, KeyID: 1, Cipher: "AES-128-GCM"}, {Slot: admin.Secondary, KeyID: 0, Cipher: "AES-128-GCM"}},
				In: admin.Traffic{Records: 12340000, Bytes: 16543210987}, Out: admin.Traffic{Records: 9876543, Bytes: 1234567890},
				LinkIn: admin.Traffic{Records: 12376000, Bytes: 16840000000}, LinkOut: admin.Traffic{Records: 9912544, Bytes: 1472000000},
				LastReceived: noon.Add(-2 * time.Second), LastSent: noon.Add(-time.Second)},
			{ID: 8, Keys: []admin.Key{{Slot: admin.Secondary, KeyID: 0, Cipher: "CHACHA20-POLY1305"}}},
		},
	}
}

// earlier is the sample a second and a half before.
func earlier() *admin.Status {
	s := sampleStatus()
	s.Totals.In.Steered -= 1500000
	s.Totals.In.Batches -= 30000
	s.Totals.In.Delivered -= 1499000
	s.Totals.In.DeliveredBytes -= 2000000000
	s.Totals.In.TunWrites -= 33000
	s.Totals.Out.Packets -= 15
	s.Totals.Out.Bytes -= 15000
	s.Totals.Drops["replay"] -= 3
	s.NICs[0].Verdicts["steered"] = admin.Verdict{Packets: 12345678 - 1500000}
	s.Peers[0].In.Bytes -= 2000000000
	return s
}

func TestStatusTexts(t *testing.T) {
	idle := &admin.Status{Version: 1, Name: "lab", Software: "v1.2.3", PID: 2, Dev: "tun1", MTU: 1400, P2P: true,
		Listeners: []admin.Listener{{Addr: netip.MustParseAddrPort("0.0.0.0:1194"), Local: []netip.Addr{netip.MustParseAddr("192.0.2.2")}}}}
	troubled := sampleStatus()
	troubled.NICs = append(troubled.NICs,
		admin.NIC{Name: "bond0", Rung: "tc", XDPMode: "", Copy: true, Queues: 1, State: admin.NICAttached, WhyNotHigher: "xdp: XDP slot held by program 42 `xdp_dispatcher` (link 7)"},
		admin.NIC{Name: "eth2", Rung: "xdp-zerocopy", XDPMode: "native", Queues: 3, MissingQueues: []int{3, 4, 5, 7}, State: admin.NICAttached},
		admin.NIC{Name: "eth3", Rung: "socket", State: admin.NICAbsent, WhyNotHigher: "no device of this name"})
	troubled.UDP = admin.UDP{GRO: false, GSO: true, Why: "UDP_GRO is off while a tc rung is attached"}
	crowd := sampleStatus()
	for i := range uint32(60) {
		crowd.Peers = append(crowd.Peers, admin.Peer{ID: 100 + i, LastReceived: noon.Add(-time.Duration(i) * time.Minute)})
	}
	for name, tc := range map[string]struct {
		s *admin.Status
		v view
	}{
		"busy":     {sampleStatus(), view{now: noon, peers: maxPeers}},
		"idle":     {idle, view{now: noon, peers: maxPeers}},
		"troubled": {troubled, view{now: noon, peers: maxPeers}},
		"crowd":    {crowd, view{now: noon, peers: 5}},
		"rates":    {sampleStatus(), view{now: noon, prev: earlier(), elapsed: 1500 * time.Millisecond, peers: maxPeers}},
		"restart":  {earlier(), view{now: noon, prev: sampleStatus(), elapsed: time.Second, peers: maxPeers}},
	} {
		golden := filepath.Join("testdata", "status-"+name+".txt")
		got := statusText(tc.s, tc.v)
		if *update {
			if err := os.MkdirAll("testdata", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s:\ngot\n%s\nwant\n%s", name, got, want)
		}
	}
}

func TestRequire(t *testing.T) {
	with := func(rungs ...string) *admin.Status {
		s := &admin.Status{}
		for i, r := range rungs {
			s.NICs = append(s.NICs, admin.NIC{Name: fmt.Sprintf("eth%d", i), Rung: r})
		}
		return s
	}
	for _, tc := range []struct {
		s       *admin.Status
		require string
		below   string // part of the text; "": not below
	}{
		{with("xdp"), "", ""},
		{with("xdp"), "xdp", ""},
		{with("xdp-zerocopy"), "xdp", ""},
		{with("tc"), "xdp", "below xdp: eth0 tc"},
		{with("xdp", "tc"), "xdp", "below xdp: eth1 tc"},
		{with("xdp-generic"), "tc", "below tc: eth0 xdp-generic"},
		{with("tc"), "xdp-generic", ""},
		{with("socket"), "socket", ""},
		{with("socket"), "xdp-generic", "below xdp-generic: eth0 socket"},
		{with(), "socket", ""},
		{with(), "tc", "no NIC is attached, and tc is required"},
		{with("something-new"), "socket", "below socket: eth0 something-new"},
	} {
		err := checkRung(tc.s, tc.require)
		if (err == nil) != (tc.below == "") || err != nil && !strings.HasPrefix(err.Error(), tc.below) {
			t.Errorf("%v, require %q: %v, want %q", tc.s.NICs, tc.require, err, tc.below)
		}
	}
}

// Where stdout is no terminal, --watch repeats the text under the time, with
// rates from the second one on.
func TestWatchWithoutTerminal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	start(t, dir, "gw")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := &untilWriter{until: 3, done: cancel}
	code := Run(ctx, Deps{}, []string{"status", "--watch", "--interval", "100ms", "--run-dir", dir}, nil, w, &w.stderr)
	text := w.text.String()
	if code != 0 || w.stderr.Len() > 0 || strings.Contains(text, "\x1b") {
		t.Fatalf("exit code %d, stderr %q, stdout %q", code, &w.stderr, text)
	}
	screens := strings.Split(strings.TrimSpace(text), "\n\n2")
	if len(screens) < 3 || !strings.Contains(screens[0], "12,345,678 records steered") {
		t.Fatalf("%d screens: %s", len(screens), text)
	}
	for _, s := range screens[1:] {
		if !strings.Contains(s, "/s records steered, 0/s by socket") {
			t.Errorf("no rates: %s", s)
		}
	}
}

// On a terminal it overwrites in place and never writes more than fits.
func TestWatchOnTerminal(t *testing.T) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	const rows, columns = 10, 60
	if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}); err != nil {
		t.Fatal(err)
	}
	a := &app{stdout: slave}
	if err := a.draw(sampleStatus(), view{now: noon, peers: maxPeers}); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 16384)
	got := ""
	for !strings.HasSuffix(got, "\x1b[J") {
		n, err := master.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		got += string(buf[:n])
	}
	if !strings.HasPrefix(got, "\x1b[Hgateway    gw on tun0") {
		t.Errorf("begins with %.40q", got)
	}
	lines := strings.Split(strings.TrimSuffix(strings.TrimPrefix(got, "\x1b[H"), "\x1b[J"), "\n")
	if len(lines) != rows { // the last is empty
		t.Errorf("%d lines on %d rows", len(lines), rows)
	}
	for _, line := range lines {
		text := strings.TrimRight(line, "\r")
		if text = strings.TrimSuffix(text, "\x1b[K"); len(text) > columns {
			t.Errorf("%d columns: %q", len(text), text)
		}
	}
}

// untilWriter ends the command after a number of writes.
type untilWriter struct {
	text, stderr bytes.Buffer
	until        int
	done         func()
}

func (w *untilWriter) Write(b []byte) (int, error) {
	if w.until--; w.until <= 0 {
		w.done()
	}
	return w.text.Write(b)
}

func TestNumbers(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", 1<<64 - 1: "18,446,744,073,709,551,615"} {
		if got := count(n); got != want {
			t.Errorf("count(%d) = %q, want %q", n, got, want)
		}
	}
	for x, want := range map[float64]string{0: "0 B", 1: "1 B", 999: "999 B", 999.6: "1.00 kB", 1000: "1.00 kB", 12345: "12.3 kB", 123456: "123 kB", 16543210987: "16.5 GB", 2e18: "2000 PB", 0.5: "0.50 B"} {
		if got := scaled(x, "B"); got != want {
			t.Errorf("scaled(%g) = %q, want %q", x, got, want)
		}
	}
	for d, want := range map[time.Duration]string{-1: "0s", 0: "0s", 59 * time.Second: "59s", 61 * time.Second: "1m 1s", 3 * time.Hour: "3h 0m", 100 * time.Hour: "4d 4h"} {
		if got := span(d); got != want {
			t.Errorf("span(%s) = %q, want %q", d, got, want)
		}
	}
	for n, want := range map[uint64]string{0: "0 queues", 1: "1 queue", 2: "2 queues"} {
		if got := number(n, "queue"); got != want {
			t.Errorf("number(%d) = %q, want %q", n, got, want)
		}
	}
	if got := ranges([]int{0, 2, 3, 4, 7}); got != "0,2-4,7" {
		t.Errorf("ranges: %q", got)
	}
}

func TestEventLines(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
	peer := uint32(7)
	for _, tc := range []struct {
		e    admin.Event
		want string
	}{
		{admin.Event{Type: admin.EventPeerGone, Peer: &peer, Reason: "expired"}, "peer 7 peer gone: expired"},
		{admin.Event{Type: admin.EventFloat, Peer: &peer, Previous: netip.MustParseAddrPort("192.0.2.1:1194"), Remote: netip.MustParseAddrPort("[2001:db8::1]:5000")}, "peer 7 float 192.0.2.1:1194 -> [2001:db8::1]:5000"},
		{admin.Event{Type: admin.EventKeyWanted, Peer: &peer, Key: &admin.EventKey{Slot: admin.Primary, KeyID: 3}, Reason: "packet_id", Lost: 4}, "(4 events lost) peer 7 key wanted primary key 3: packet_id"},
		{admin.Event{Type: admin.EventNIC, NIC: "eth0", Rung: "socket", Reason: "absent"}, "eth0 nic socket: absent"},
		{admin.Event{Type: "something_new", Peer: &peer}, "peer 7 something new"},
	} {
		tc.e.Time = at
		if got := eventLine(&tc.e, time.UTC); got != "2026-01-02 03:04:05.678 "+tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}

func TestLogIsLimitedPerMessage(t *testing.T) {
	l := &limiter{seen: map[string]*budget{}}
	now := noon
	admitted := 0
	for range 1000 {
		if _, ok := l.admit("a", now); ok {
			admitted++
		}
	}
	if _, ok := l.admit("b", now); !ok || admitted != logBurst {
		t.Errorf("%d lines admitted, other message admitted: %v", admitted, ok)
	}
	if n, ok := l.admit("a", now.Add(logPeriod)); !ok || n != 1000-logBurst {
		t.Errorf("after the period: %d suppressed, %v", n, ok)
	}
	for i := range 10 * logMessages {
		l.admit(fmt.Sprint(i), now)
	}
	if len(l.seen) > logMessages {
		t.Errorf("%d messages remembered", len(l.seen))
	}
	var b bytes.Buffer
	log := newLogger(&b, "text", slog.LevelInfo).With("nic", "eth0")
	for range 3 * logBurst {
		log.Info("forged records")
		log.Debug("not shown")
	}
	if got := strings.Count(b.String(), "forged records"); got != logBurst || strings.Contains(b.String(), "not shown") {
		t.Errorf("%d lines", got)
	}
}
