// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wrap"
)

func TestPrefix(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.7":             "192.0.2.7/32",
		"::ffff:192.0.2.7":      "192.0.2.7/32",
		"2001:db8:1:2:3:4:5:6":  "2001:db8:1:2::/64",
		"fe80::1%eth7":          "fe80::/64",
		"2001:db8:1:2:ffff::":   "2001:db8:1:2::/64",
		"::ffff:0:192.0.2.7":    "::/64",
		"2001:db8:1:3:3:4:5:6":  "2001:db8:1:3::/64",
		"2001:db8:1:3::":        "2001:db8:1:3::/64",
		"255.255.255.255":       "255.255.255.255/32",
		"64:ff9b::192.0.2.7":    "64:ff9b::/64",
		"2001:db8:ffff:c000::1": "2001:db8:ffff:c000::/64",
	} {
		a := netip.MustParseAddr(addr)
		if got := Prefix(a); got.String() != want {
			t.Errorf("%s: %v, want %s", addr, got, want)
		}
		if got := key(a) == key(netip.MustParsePrefix(want).Addr()); !got {
			t.Errorf("%s is counted apart from %s", addr, want)
		}
	}
}

func TestRate(t *testing.T) {
	r := newRates(Rate{Count: 100, Per: 10 * time.Second})
	a, b := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8:0:1::1")
	neighbour := netip.MustParseAddr("2001:db8::2")
	take := func(a netip.Addr, now time.Time) (n int) {
		for !r.spent(a, now) {
			if !r.allow(a, now) {
				t.Fatalf("not spent and not allowed after %d", n)
			}
			n++
		}
		if r.allow(a, now) {
			t.Fatalf("spent and allowed after %d", n)
		}
		return n
	}
	for _, v := range []struct {
		addr netip.Addr
		now  time.Time
		want int
	}{
		{a, moment, 100},
		{neighbour, moment, 0},
		{b, moment, 100},
		{a, moment.Add(time.Second), 10},
		{a, moment.Add(99 * time.Second / 10), 89},
		{b, moment.Add(time.Hour), 100},
		{b, moment.Add(-time.Hour), 0}, // the clock was set back
		{b, moment.Add(-time.Hour + 10*time.Second), 100},
		{a, moment.Add(-time.Hour), 0},
	} {
		if got := take(v.addr, v.now); got != v.want {
			t.Errorf("%v at %v: %d, want %d", v.addr, v.now.Sub(moment), got, v.want)
		}
	}
}

// TestRateClockSetBack: a prefix is locked out for no longer than a whole budget takes.
func TestRateClockSetBack(t *testing.T) {
	r := newRates(Rate{Count: 100, Per: 10 * time.Second})
	a := home.Addr()
	r.allow(a, moment)
	back := moment.Add(-time.Hour)
	n := 0
	for s := range 200 { // a reset each second
		if r.allow(a, back.Add(time.Duration(s)*time.Second)) {
			n++
		}
	}
	if n < 180 {
		t.Errorf("%d of 200 resets after the clock was set back", n)
	}
}

func TestNoRate(t *testing.T) {
	for _, rate := range []Rate{{}, {Count: 5}, {Per: time.Second}} {
		r := newRates(rate)
		for range 1000 {
			if r.spent(home.Addr(), moment) || !r.allow(home.Addr(), moment) {
				t.Fatalf("%+v is a limit", rate)
			}
		}
	}
}

// TestFloodFromEverywhere: more prefixes than the table holds lock nobody out, and
// a client among them handshakes.
func TestFloodFromEverywhere(t *testing.T) {
	g := newGate(t, Config{Static: wrap.Plain, Rate: Rate{Count: 2, Per: time.Hour}})
	reset := []byte("\x38CLIENTID\x00\x00\x00\x00\x00")
	for n := range 3 * sets * ways {
		if d := g.Datagram(from(n), reset, moment); d.Verdict != Reply {
			t.Fatalf("sender %d: %+v", n, d)
		}
	}
	l := lab{t: t, gate: g, wrap: wrap.Plain(), reset: wire.ControlHardResetClientV2}
	l.ask(moment)
	if d := g.Datagram(home, l.seal(wire.ControlV1, l.hello()), moment); d.Verdict != Accept {
		t.Errorf("%+v", d)
	}
}

// TestFloodFromOnePrefix: the prefix is answered at its rate, without harm to those
// whose handshake is under way or who come from elsewhere.
func TestFloodFromOnePrefix(t *testing.T) {
	for name, l := range labs(t) {
		l.cfg.Rate = Rate{Count: 100, Per: 10 * time.Second}
		l.gate = newGate(t, l.cfg)
		l.ask(moment)
		hello := l.seal(l.first(), l.hello())
		reset := l.seal(l.reset, wire.Body{})
		answered := 0
		for port := range 10000 {
			switch d := l.gate.Datagram(netip.AddrPortFrom(home.Addr(), uint16(port)), reset, moment); {
			case d.Verdict == Reply:
				answered++
			case d.Reason != ReasonRate:
				t.Fatalf("%s: %+v", name, d)
			}
		}
		if answered != 99 {
			t.Errorf("%s: %d answered, want the 99 that were left", name, answered)
		}
		if d := l.gate.Datagram(from(0), reset, moment); d.Verdict != Reply {
			t.Errorf("%s: another prefix: %+v", name, d)
		}
		if d := l.gate.Datagram(home, hello, moment); d.Verdict != Accept {
			t.Errorf("%s: a handshake under way: %+v", name, d)
		}
	}
}
