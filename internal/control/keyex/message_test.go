// SPDX-License-Identifier: Apache-2.0

package keyex

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func sample(fromClient bool) Message {
	m := Message{Options: "V4,dev-type tun,tls-client", PeerInfo: "IV_VER=2.6.14\nIV_PROTO=990\n"}
	for i := range m.Random1 {
		m.Random1[i], m.Random2[i] = byte(i+1), byte(i+101)
	}
	if fromClient {
		for i := range m.PreMaster {
			m.PreMaster[i] = byte(200 - i)
		}
		m.HasUser, m.Username, m.Password = true, "joe", strings.Repeat("p", MaxCredential-1)
	}
	return m
}

// TestParserTakesAnyCut reads a client's message cut in every place.
func TestParserTakesAnyCut(t *testing.T) {
	want := sample(true)
	raw := want.Append(nil, true)
	tail := []byte("PUSH_REQUEST\x00")
	for cut := 0; cut <= len(raw); cut += 1 + cut/64 {
		p := NewParser(true)
		done, rest, err := p.Write(raw[:cut])
		if err != nil || len(rest) > 0 || done != (cut == len(raw)) {
			t.Fatalf("cut at %d: done %v, %d left, %v", cut, done, len(rest), err)
		}
		if done {
			rest = tail
		} else if done, rest, err = p.Write(append(bytes.Clone(raw[cut:]), tail...)); err != nil || !done {
			t.Fatalf("rest after %d: done %v, %v", cut, done, err)
		}
		if p.Message() != want || !bytes.Equal(rest, tail) {
			t.Fatalf("cut at %d: %d bytes left of what follows", cut, len(rest))
		}
	}
}

func TestParserByteByByte(t *testing.T) {
	want := sample(true)
	raw := want.Append(nil, true)
	p := NewParser(true)
	for i, b := range raw {
		done, _, err := p.Write([]byte{b})
		if err != nil || done != (i == len(raw)-1) {
			t.Fatalf("byte %d of %d: done %v, %v", i, len(raw), done, err)
		}
	}
	if p.Message() != want {
		t.Error("another message came out")
	}
}

// TestServerMessage has all forms that servers send.
func TestServerMessage(t *testing.T) {
	m := sample(false)
	m.PeerInfo = ""
	full := m.Append(nil, false)
	for name, raw := range map[string][]byte{
		"with empty user and password":     full,
		"without user and password":        full[:len(full)-4],
		"with empty peer-info":             append(bytes.Clone(full), 0, 0),
		"with flags beside the key method": func() []byte { b := bytes.Clone(full); b[4] |= 0x10; return b }(),
	} {
		p := NewParser(false)
		done, rest, err := p.Write(raw)
		if err != nil || !done || len(rest) > 0 || p.Message() != m {
			t.Errorf("%s: done %v, %d left, %v, %+v", name, done, len(rest), err, p.Message().Options)
		}
	}
}

func TestParserRefuses(t *testing.T) {
	for name, v := range map[string]struct {
		edit func(b []byte) []byte
		want error
	}{
		"key method 1":     {func(b []byte) []byte { b[4] = 1; return b }, ErrKeyMethod},
		"long options":     {func(b []byte) []byte { b[5+48+64], b[5+48+65] = 0xff, 0xff; return b }, ErrTooLong},
		"options of 513 B": {func(b []byte) []byte { b[5+48+64], b[5+48+65] = 2, 1; return b }, ErrTooLong},
	} {
		m := sample(true)
		if _, _, err := NewParser(true).Write(v.edit(m.Append(nil, true))); !errors.Is(err, v.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	m := sample(true)
	m.Password = strings.Repeat("x", MaxCredential)
	if _, _, err := NewParser(true).Write(m.Append(nil, true)); !errors.Is(err, ErrTooLong) {
		t.Errorf("password of 4,096 bytes: %v", err)
	}
}

// TestLongestStrings: everything as long as its length can say is taken, and what
// comes behind is left.
func TestLongestStrings(t *testing.T) {
	want := sample(true)
	want.Options = strings.Repeat("o", MaxOptions-1)
	want.Username = strings.Repeat("u", MaxCredential-1)
	want.PeerInfo = strings.Repeat("UV_A=b\n", MaxPeerInfo/7)
	tail := bytes.Repeat([]byte("UV_A=b\n"), 5000)
	p := NewParser(true)
	done, rest, err := p.Write(append(want.Append(nil, true), tail...))
	if err != nil || !done || p.Message() != want || !bytes.Equal(rest, tail) {
		t.Errorf("done %v, %d left, %v", done, len(rest), err)
	}
}

// TestLengthsLie: a length beyond what follows is waited for, without room being
// made for it, and one within the string cuts it.
func TestLengthsLie(t *testing.T) {
	m := sample(true)
	m.HasUser, m.Username, m.Password, m.PeerInfo = false, "", "", ""
	raw := m.Append(nil, true)
	promise := append(bytes.Clone(raw[:len(raw)-2]), 0xff, 0xff, 'I', 'V')
	p := NewParser(true)
	done, _, err := p.Write(promise)
	if err != nil || done || cap(p.data) > 64 {
		t.Errorf("65,535 bytes are promised: done %v, room for %d, %v", done, cap(p.data), err)
	}
	at := 5 + preMasterLen + 2*randomLen
	raw[at+1] -= 4
	p = NewParser(true)
	if done, _, err := p.Write(raw); done && err == nil && p.Message().Options == m.Options {
		t.Error("the options string is longer than its length says")
	}
	without := sample(true)
	b := without.Append(nil, true)
	for _, n := range []int{0, 1, 4, 5, at, at + 1, at + 2, len(b) - 1} {
		if done, _, err := NewParser(true).Write(b[:n]); done || err != nil {
			t.Errorf("%d bytes: done %v, %v", n, done, err)
		}
	}
}

// TestStringsEndAtNUL: what stands behind a NUL inside a string is not part of it.
func TestStringsEndAtNUL(t *testing.T) {
	m := sample(true)
	m.Username = "joe\x00root"
	p := NewParser(true)
	if done, _, err := p.Write(m.Append(nil, true)); err != nil || !done || p.Message().Username != "joe" {
		t.Errorf("%v, %q", err, p.Message().Username)
	}
}

func FuzzParser(f *testing.F) {
	m := sample(true)
	f.Add(m.Append(nil, true), true, 100)
	m = sample(false)
	f.Add(m.Append(nil, false), false, 3)
	f.Fuzz(func(t *testing.T, raw []byte, fromClient bool, cut int) {
		whole, parts := NewParser(fromClient), NewParser(fromClient)
		done, rest, err := whole.Write(raw)
		if err == nil && done && len(rest) > len(raw) {
			t.Fatal("more left than there was")
		}
		if !fromClient {
			return // what is left out shows only at the end of a Write
		}
		cut = max(0, min(cut, len(raw)))
		if done2, _, err2 := parts.Write(raw[:cut]); err2 == nil && !done2 {
			done2, rest2, err2 := parts.Write(raw[cut:])
			if done != done2 || (err == nil) != (err2 == nil) || err == nil && done && (!bytes.Equal(rest, rest2) || whole.Message() != parts.Message()) {
				t.Fatalf("cut at %d: %v %v, whole %v %v", cut, done2, err2, done, err)
			}
		}
	})
}
