// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wrap"
)

func TestStream(t *testing.T) {
	for name, l := range labs(t) {
		t.Run(name, func(t *testing.T) {
			b := l.seal(l.reset, wire.Body{})
			d := l.gate.Stream(home, b, moment)
			a := d.Accepted
			if d.Verdict != Accept || !a.SendReset || a.First != nil || a.Client != clientID || a.Server.IsZero() || a.NextRecv != 1 || a.NextSend != 0 ||
				(a.Key != nil) != (l.wkc != nil) || (a.Static == nil) != (l.wrap.Overhead() == 0) {
				t.Fatalf("%+v %+v", d, a)
			}
			if l.wkc != nil {
				b = b[:len(b)-len(l.wkc)]
			}
			if _, _, err := a.Wrap.Open(nil, b, moment); l.wrap.Overhead() > 0 && err != wrap.ErrReplay {
				t.Errorf("the reset again: %v, want ErrReplay", err)
			}
			h := wire.Header{Opcode: wire.ControlV1, Session: clientID}
			if _, _, err := a.Wrap.Open(nil, l.wrap.Seal(nil, h, []byte("body"), moment), moment); err != nil {
				t.Errorf("the next packet: %v", err)
			}
			if again := l.gate.Stream(home, l.seal(l.reset, wire.Body{}), moment); again.Accepted.Server == a.Server {
				t.Error("another connection has the same session id")
			}
			changed := l.seal(l.reset, wire.Body{ID: 1})
			for what, b := range map[string][]byte{
				"no reset": l.seal(wire.ControlV1, l.hello()), "reset 1": changed, "short": changed[:12], "empty": nil,
				"the server's": l.seal(wire.ControlHardResetServerV2, wire.Body{}),
			} {
				if d := l.gate.Stream(home, b, moment); d.Verdict != Drop || d.Reason == "" {
					t.Errorf("%s: %+v", what, d)
				}
			}
		})
	}
	all := labs(t)
	for _, v := range []struct{ lab, client, reason string }{
		{"plain", "tls-crypt-v2", ReasonNoV2},
		{"tls-crypt-v2", "plain", ReasonWrapping},
		{"tls-crypt", "tls-auth", ReasonShort}, // tls-auth with SHA1 is the shorter one
		{"tls-auth", "tls-crypt", ReasonAuth},
	} {
		c := all[v.client]
		if d := all[v.lab].gate.Stream(home, c.seal(c.reset, wire.Body{}), moment); d.Reason != v.reason {
			t.Errorf("%s at %s: %+v, want %q", v.client, v.lab, d, v.reason)
		}
	}
}

// TestStreamRate: connections are limited by where they come from, as resets are.
func TestStreamRate(t *testing.T) {
	g := newGate(t, Config{Static: wrap.Plain, Rate: Rate{Count: 2, Per: time.Hour}})
	reset := (&wire.Body{}).Append(wire.ControlHardResetClientV2, wire.Header{Opcode: wire.ControlHardResetClientV2, Session: clientID}.Append(nil))
	for n, want := range []Verdict{Accept, Accept, Drop, Drop} {
		if d := g.Stream(home, reset, moment); d.Verdict != want {
			t.Errorf("connection %d: %+v", n, d)
		}
	}
	if d := g.Stream(netip.MustParseAddrPort("192.0.2.8:40000"), reset, moment); d.Verdict != Accept {
		t.Errorf("from elsewhere: %+v", d)
	}
}
