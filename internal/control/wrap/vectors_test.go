// SPDX-License-Identifier: Apache-2.0

package wrap

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// counting is the static key with the bytes 0 to 255.
func counting() *[256]byte {
	var k [256]byte
	for i := range k {
		k[i] = byte(i)
	}
	return &k
}

var (
	clientID = wire.SessionID([]byte("CLIENTID"))
	serverID = wire.SessionID([]byte("SERVERID"))
	moment   = time.Unix(0x60000000, 0)
)

// TestVectors compares with packets computed independently: a client's and a
// server's reset.
func TestVectors(t *testing.T) {
	sha1, err := ParseDigest("sha1")
	if err != nil {
		t.Fatal(err)
	}
	reset := wire.Body{}
	answer := wire.Body{NAcks: 1, Remote: clientID}
	for name, v := range map[string]struct {
		seal, open *Wrap
		h          wire.Header
		body       wire.Body
		want       string
	}{
		"tls-crypt client": {TLSCrypt(counting(), Client), TLSCrypt(counting(), Server),
			wire.Header{Opcode: wire.ControlHardResetClientV2, Session: clientID}, reset,
			"38 434c49454e544944 00000001 60000000 ec6464cc2c0cde635f390a90e4bd5180346f296727a508c2ebcd9d011718345d 7a0c158ea5"},
		"tls-crypt server": {TLSCrypt(counting(), Server), TLSCrypt(counting(), Client),
			wire.Header{Opcode: wire.ControlHardResetServerV2, Session: serverID}, answer,
			"40 5345525645524944 00000001 60000000 c20a6bca92b89810344ceb8761cfa9c88d5a5726be4f9b21d7bc32b105f8e63b 62524974b9270e3944314b09630c93c357"},
		"tls-auth client": {TLSAuth(counting(), sha1, Inverse), TLSAuth(counting(), sha1, Normal),
			wire.Header{Opcode: wire.ControlHardResetClientV2, Session: clientID}, reset,
			"38 434c49454e544944 40d56763ca0546683c366e8d35e29c25ffef0f28 00000001 60000000 00 00000000"},
	} {
		t.Run(name, func(t *testing.T) {
			body := v.body.Append(v.h.Opcode, nil)
			got := v.seal.Seal(nil, v.h, body, moment)
			if want := unhex(t, v.want); !bytes.Equal(got, want) {
				t.Fatalf("sealed\n%x, want\n%x", got, want)
			}
			if n := wire.HeaderLen + len(body) + v.seal.Overhead(); len(got) != n {
				t.Errorf("%d bytes, overhead says %d", len(got), n)
			}
			h, opened, err := v.open.Open(nil, got, moment)
			if err != nil || h != v.h || !bytes.Equal(opened, body) {
				t.Errorf("opened %v %x %v", h, opened, err)
			}
			if _, _, err := v.open.Open(nil, got, moment); err != ErrReplay {
				t.Errorf("second time: %v, want ErrReplay", err)
			}
		})
	}
}

func TestWrappedClientKey(t *testing.T) {
	server := newServerKey((*[serverKeyLen]byte)(counting()[:]))
	var kc [256]byte
	for i := range kc {
		kc[i] = byte(255 - i)
	}
	wkc, err := server.Wrap(&kc, []byte("\x00hello"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(wkc)
	if len(wkc) != 296 || hex.EncodeToString(sum[:]) != "0987b486da5aedae60ffba40d9b36fbae95edeb8894b91b5c79783e881eb0549" ||
		!bytes.Equal(wkc[:32], unhex(t, "9e42ce6f7413159ea116f61660df10c7319aa1518ba69b00e491cd016fafc1a9")) ||
		!bytes.Equal(wkc[288:], unhex(t, "c6898ac948660128")) {
		t.Errorf("wrapped key of %d bytes: %x", len(wkc), wkc)
	}
	c, err := server.Unwrap(wkc)
	if err != nil || c.Key != kc || c.Type != MetadataUser || string(c.Metadata) != "hello" {
		t.Errorf("unwrapped %+v, %v", c, err)
	}
	for i := range wkc {
		bad := bytes.Clone(wkc)
		bad[i] ^= 1
		if _, err := server.Unwrap(bad); err == nil {
			t.Fatalf("byte %d changed and still accepted", i)
		}
	}
}
