// SPDX-License-Identifier: Apache-2.0

package keyex

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestPushInOneMessage(t *testing.T) {
	var p Push
	for _, o := range []string{"route-gateway 10.8.0.1", "topology subnet", "peer-id 0"} {
		p.Must(o)
	}
	if got := p.Messages(); !slices.Equal(got, []string{"PUSH_REPLY,route-gateway 10.8.0.1,topology subnet,peer-id 0"}) {
		t.Errorf("%q", got)
	}
	if got := new(Push).Messages(); !slices.Equal(got, []string{"PUSH_REPLY"}) {
		t.Errorf("empty: %q", got)
	}
}

func TestPushIsSplit(t *testing.T) {
	var p Push
	var want []string
	for i := range 300 {
		o := fmt.Sprintf("route 10.%d.%d.0 255.255.255.0", i/250, i%250)
		want = append(want, o)
		p.Must(o)
	}
	var got []string
	messages := p.Messages()
	for n, text := range messages {
		if len(text) > 1024 {
			t.Errorf("message %d has %d bytes", n, len(text))
		}
		if last := n == len(messages)-1; strings.HasSuffix(text, ",push-continuation 1") != last || strings.HasSuffix(text, ",push-continuation 2") == last {
			t.Errorf("message %d of %d ends in %q", n, len(messages), text[len(text)-22:])
		}
		options, more, ok := ParsePushReply(text)
		if !ok || more != (n < len(messages)-1) {
			t.Errorf("message %d: more %v, ok %v", n, more, ok)
		}
		got = append(got, options...)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d options came out of %d", len(got), len(want))
	}
}

func TestPushRefuses(t *testing.T) {
	var p Push
	if err := p.Add("dhcp-option DNS 1.1.1.1,route 0.0.0.0"); !errors.Is(err, ErrComma) {
		t.Errorf("comma: %v", err)
	}
	for _, o := range []string{"", "a\nb", strings.Repeat("x", 256)} {
		if p.Add(o) == nil {
			t.Errorf("%.20q was taken", o)
		}
	}
	if got := p.Messages(); len(got) != 1 || got[0] != PushReply {
		t.Errorf("%q", got)
	}
	if err := p.Add(strings.Repeat("x", 255)); err != nil {
		t.Errorf("255 bytes: %v", err)
	}
}

func TestProtocolFlags(t *testing.T) {
	for _, v := range []struct {
		proto        Proto
		ekm, dynamic bool
		want         []string
	}{
		{990, true, true, []string{"protocol-flags cc-exit tls-ekm dyn-tls-crypt"}},
		{8094, true, true, []string{"protocol-flags cc-exit tls-ekm dyn-tls-crypt"}},
		{990, false, false, []string{"protocol-flags cc-exit"}},
		{6, false, false, nil},
		{6 | ProtoTLSKeyExport, true, true, []string{"key-derivation tls-ekm"}},
		{6 | ProtoTLSKeyExport, false, false, nil},
	} {
		if got := ProtocolFlags(&PeerInfo{Proto: v.proto}, v.ekm, v.dynamic); !slices.Equal(got, v.want) {
			t.Errorf("bits %d, ekm %v: %q", v.proto, v.ekm, got)
		}
	}
}

func TestAuthPending(t *testing.T) {
	if got := AuthPending(&PeerInfo{Proto: 990}, 120, "WEB_AUTH::https://x"); !slices.Equal(got, []string{"AUTH_PENDING,timeout 120", "INFO_PRE,WEB_AUTH::https://x"}) {
		t.Errorf("2.6: %q", got)
	}
	if got := AuthPending(&PeerInfo{Proto: 6}, 120, ""); !slices.Equal(got, []string{"AUTH_PENDING"}) {
		t.Errorf("2.5: %q", got)
	}
}

// FuzzPushReply: options that are read can be sent again, in messages that fit a
// client's buffer, and come out the same.
func FuzzPushReply(f *testing.F) {
	f.Add("PUSH_REPLY,route 10.0.0.0 255.0.0.0,push-continuation 2")
	f.Add("PUSH_REPLY")
	f.Add("PUSH_REPLY" + strings.Repeat(",route 10.0.0.0 255.0.0.0", 90))
	f.Fuzz(func(t *testing.T, s string) {
		options, _, ok := ParsePushReply(s)
		if !ok {
			return
		}
		var p Push
		var want, got []string
		for _, o := range options {
			if p.Add(o) == nil {
				want = append(want, o)
			}
		}
		for _, text := range p.Messages() {
			if len(text) > 1024 {
				t.Fatalf("a message of %d bytes", len(text))
			}
			again, _, _ := ParsePushReply(text)
			got = append(got, again...)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q became %q", want, got)
		}
	})
}
