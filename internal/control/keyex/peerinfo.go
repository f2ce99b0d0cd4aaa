// SPDX-License-Identifier: Apache-2.0

package keyex

import (
	"strconv"
	"strings"
)

// Proto is IV_PROTO: what a peer is able to, a bit each.
type Proto uint32

// The bits of IV_PROTO.
const (
	ProtoDataV2        Proto = 1 << 1
	ProtoRequestPush   Proto = 1 << 2 // wants PUSH_REPLY without asking
	ProtoTLSKeyExport  Proto = 1 << 3 // keys can come from a TLS exporter
	ProtoAuthPendingKW Proto = 1 << 4 // AUTH_PENDING with keywords
	ProtoNCPP2P        Proto = 1 << 5
	ProtoDNSOption     Proto = 1 << 6
	ProtoCCExit        Proto = 1 << 7 // EXIT by the control channel; knows protocol-flags
	ProtoAuthFailTemp  Proto = 1 << 8 // AUTH_FAILED,TEMP
	ProtoDynTLSCrypt   Proto = 1 << 9
	ProtoDataEpoch     Proto = 1 << 10
	ProtoDNSOptionV2   Proto = 1 << 11
	ProtoPushUpdate    Proto = 1 << 12
)

const (
	maxPeerInfoLines    = 256
	maxEnvLine          = 255 // bytes of NAME=value in an environment, as stock cuts it
	maxAnnouncedCiphers = 64
)

// PeerInfo is what a client tells of itself. Its strings are as the client sent
// them: printable or not, and up to MaxPeerInfo long.
type PeerInfo struct {
	Proto    Proto
	Version  string   // IV_VER
	Platform string   // IV_PLAT
	GUI      string   // IV_GUI_VER
	SSO      string   // IV_SSO
	Ciphers  []string // IV_CIPHERS
	NCP      int      // IV_NCP
	MTU      int      // IV_MTU: the largest tun-mtu it accepts; 0: it doesn't take any
	env      []Variable
}

// Variable is a name and a value for a script's environment.
type Variable struct{ Name, Value string }

// Has reports whether the client has all bits.
func (p *PeerInfo) Has(bits Proto) bool { return p.Proto&bits == bits }

// ParsePeerInfo reads peer-info, lines of NAME=value. What isn't understood is
// skipped, and so are lines beyond the 256th.
func ParsePeerInfo(s string) (p PeerInfo) {
	for range maxPeerInfoLines {
		var line string
		line, s, _ = strings.Cut(s, "\n")
		name, value, found := strings.Cut(strings.TrimSuffix(line, "\r"), "=")
		if found && isName(name) {
			p.take(name, value)
		}
		if s == "" {
			break
		}
	}
	return p
}

func (p *PeerInfo) take(name, value string) {
	switch name {
	case "IV_PROTO":
		p.Proto = Proto(number(value))
	case "IV_VER":
		p.Version = strings.Clone(value)
	case "IV_PLAT":
		p.Platform = strings.Clone(value)
	case "IV_GUI_VER":
		p.GUI = strings.Clone(value)
	case "IV_SSO":
		p.SSO = strings.Clone(value)
	case "IV_CIPHERS":
		// The last part is what is left over when there are too many.
		all := strings.SplitN(strings.Clone(value), ":", maxAnnouncedCiphers+1)
		p.Ciphers = all[:min(len(all), maxAnnouncedCiphers)]
	case "IV_NCP":
		p.NCP = int(number(value))
	case "IV_MTU":
		p.MTU = int(number(value))
	}
	room := maxEnvLine - len(name) - len("=")
	if room >= 0 && (strings.HasPrefix(name, "IV_") || strings.HasPrefix(name, "UV_")) {
		p.env = append(p.env, Variable{strings.Clone(name), envValue(value[:min(len(value), room)])})
	}
}

// number reads a number of at most 31 bits; anything else counts as 0.
func number(s string) uint32 {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0
	}
	return uint32(n)
}

func isName(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return s != ""
}

// envValue makes a value harmless in an environment: `_` for spaces, for what
// is not printable, and for what a shell expands inside quotes.
func envValue(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c <= ' ' || c > '~' || c == '$' || c == '(' || c == '`' {
			b[i] = '_'
		}
	}
	return string(b)
}

// Env returns the variables that scripts see: IV_ and UV_ ones, cut to 255 bytes
// with their names and made harmless. A name may be there twice; the last one counts.
func (p *PeerInfo) Env() []Variable { return p.env }
