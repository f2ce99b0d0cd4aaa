// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var (
	clientID = SessionID([]byte("CLIENTID"))
	serverID = SessionID([]byte("SERVERID"))
)

func TestHeader(t *testing.T) {
	legal := map[uint8]bool{3: true, 4: true, 5: true, 7: true, 8: true, 10: true, 11: true}
	for opcode := range uint8(32) {
		b := append([]byte{opcode<<3 | 5}, clientID[:]...)
		h, ok := ParseHeader(b)
		if ok != legal[opcode] {
			t.Errorf("opcode %d: ok %v", opcode, ok)
		}
		if !ok {
			continue
		}
		if want := (Header{Opcode: opcode, KeyID: 5, Session: clientID}); h != want {
			t.Errorf("opcode %d: %+v, want %+v", opcode, h, want)
		}
		if got := h.Append([]byte("x")); !bytes.Equal(got[1:], b) || got[0] != 'x' {
			t.Errorf("opcode %d: appended %x, want 78%x", opcode, got, b)
		}
		if _, ok := ParseHeader(b[:HeaderLen-1]); ok {
			t.Errorf("opcode %d: accepted with %d bytes", opcode, HeaderLen-1)
		}
	}
}

func TestSessionID(t *testing.T) {
	if (SessionID{}).IsZero() != true || clientID.IsZero() {
		t.Error("IsZero is wrong")
	}
	if got := clientID.String(); got != "434c49454e544944" {
		t.Errorf("String is %q", got)
	}
}

func TestBody(t *testing.T) {
	for name, v := range map[string]struct {
		opcode uint8
		bytes  string
		want   Body
	}{
		"client's reset":     {ControlHardResetClientV2, "00 00000000", Body{Payload: []byte{}}},
		"server's reset":     {ControlHardResetServerV2, "01 00000000 434c49454e544944 00000000", Body{NAcks: 1, Remote: clientID, Payload: []byte{}}},
		"TLS record":         {ControlV1, "00 00000001 160301", Body{ID: 1, Payload: []byte{0x16, 3, 1}}},
		"TLS record and ack": {ControlV1, "01 00000000 5345525645524944 00000001 16", Body{NAcks: 1, Remote: serverID, ID: 1, Payload: []byte{0x16}}},
		"ack":                {AckV1, "02 00000003 00000001 5345525645524944", Body{Acks: [MaxAcks]uint32{3, 1}, NAcks: 2, Remote: serverID}},
		"eight acks": {AckV1, "08 00000007 00000006 00000005 00000004 00000003 00000002 00000001 ffffffff 5345525645524944",
			Body{Acks: [MaxAcks]uint32{7, 6, 5, 4, 3, 2, 1, 0xffffffff}, NAcks: 8, Remote: serverID}},
	} {
		t.Run(name, func(t *testing.T) {
			b := unhex(t, v.bytes)
			got, err := ParseBody(v.opcode, b)
			if err != nil || !reflect.DeepEqual(got, v.want) {
				t.Fatalf("parsed %+v, %v; want %+v", got, err, v.want)
			}
			if again := got.Append(v.opcode, nil); !bytes.Equal(again, b) {
				t.Errorf("appended %x, want %x", again, b)
			}
			for n := range b[:len(b)-len(v.want.Payload)] {
				if _, err := ParseBody(v.opcode, b[:n]); !errors.Is(err, ErrBody) {
					t.Errorf("%d bytes of it: %v, want ErrBody", n, err)
				}
			}
		})
	}
}

func TestTooManyAcks(t *testing.T) {
	b := append([]byte{MaxAcks + 1}, make([]byte, 4*(MaxAcks+1)+8+4)...)
	if _, err := ParseBody(ControlV1, b); !errors.Is(err, ErrBody) {
		t.Errorf("nine acks: %v, want ErrBody", err)
	}
}

func TestEarlyNegotiation(t *testing.T) {
	if got := AppendEarlyNegotiation(nil, ResendWKC); !bytes.Equal(got, unhex(t, "0001 0002 0001")) {
		t.Errorf("appended %x", got)
	}
	for _, v := range []struct {
		bytes string
		want  uint16
		bad   bool
	}{
		{"", 0, false},
		{"0001 0002 0001", ResendWKC, false},
		{"0007 0003 aabbcc 0001 0002 0001", ResendWKC, false}, // an unknown type in front
		{"0001 0002 0003 0009 0000", 3, false},                // an unknown flag, and a type behind
		{"00", 0, true},
		{"0001 00", 0, true},
		{"0001 0002 00", 0, true},
		{"0001 0001 01", 0, true},
		{"0007 ffff", 0, true},
		{"0001 0002 0001 00", 0, true},
	} {
		got, err := ParseEarlyNegotiation(unhex(t, v.bytes))
		if got != v.want || errors.Is(err, ErrBody) != v.bad {
			t.Errorf("%q: %d, %v", v.bytes, got, err)
		}
	}
}

func FuzzParseBody(f *testing.F) {
	f.Add(uint8(ControlHardResetClientV2), []byte{0, 0, 0, 0, 0})
	f.Add(uint8(ControlV1), []byte("\x01\x00\x00\x00\x00SERVERID\x00\x00\x00\x01\x16\x03\x01"))
	f.Add(uint8(AckV1), []byte("\x02\x00\x00\x00\x03\x00\x00\x00\x01SERVERID"))
	f.Add(uint8(ControlV1), []byte{9})
	f.Add(uint8(ControlV1), []byte{255, 1, 2, 3})
	f.Fuzz(func(t *testing.T, opcode uint8, b []byte) {
		body, err := ParseBody(opcode, b)
		if err != nil {
			return
		}
		again := body.Append(opcode, nil)
		if opcode == AckV1 {
			b = b[:min(len(b), len(again))] // what stands behind the acks is ignored
		}
		if !bytes.Equal(again, b) {
			t.Errorf("parsed %x, appended %x", b, again)
		}
	})
}

func FuzzParseHeader(f *testing.F) {
	f.Add([]byte("\x38CLIENTID"))
	f.Add([]byte("\x48\x00\x00\x05\x00\x00\x00\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, ok := ParseHeader(b); ok && !bytes.Equal(h.Append(nil), b[:HeaderLen]) {
			t.Errorf("parsed %x, appended %x", b[:HeaderLen], h.Append(nil))
		}
	})
}

func FuzzParseEarlyNegotiation(f *testing.F) {
	f.Add([]byte{0, 1, 0, 2, 0, 1})
	f.Add([]byte{0, 7, 0, 3, 1, 2, 3, 0, 1, 0, 2, 0, 1})
	f.Add([]byte{0, 1, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		flags, err := ParseEarlyNegotiation(b)
		if err != nil {
			return
		}
		// Flags behind what was parsed take the place of any in front.
		if got, err := ParseEarlyNegotiation(AppendEarlyNegotiation(bytes.Clone(b), ^flags)); err != nil || got != ^flags {
			t.Errorf("%x with flags %x behind: %x, %v", b, ^flags, got, err)
		}
	})
}
