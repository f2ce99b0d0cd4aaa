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
	ProtoDataV2         Proto = 1 << 1
	ProtoRequestPush    Proto = 1 << 2 // wants PUSH_REPLY without asking
	ProtoTLSKeyExport   Proto = 1 << 3 // keys can come from a TLS exporter
	ProtoAuthPendingKW  Proto = 1 << 4 // AUTH_PENDING with keywords
	ProtoNCPP2P         Proto = 1 << 5
	ProtoDNSOption      Proto = 1 << 6
	ProtoCCExit         Proto = 1 << 7 // EXIT by the control channel; knows protocol-flags
	ProtoAuthFailTemp   Proto = 1 << 8 // AUTH_FAILED,TEMP
	ProtoDynTLSCrypt    Proto = 1 << 9
	ProtoDataEpoch      Proto = 1 << 10
	ProtoDNSOptionV2    Proto = 1 << 11
	ProtoPushUpdate     Proto = 1 << 12
	maxPeerInfoLines          = 256
	maxEnvValue               = 255
	maxAnnouncedCiphers       = 64
)

// PeerInfo is what a client tells of itself. Its strings are as the client sent
// them: printable or not.
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
		n, _ := strconv.ParseUint(value, 10, 32)
		p.Proto = Proto(n)
	case "IV_VER":
		p.Version = value
	case "IV_PLAT":
		p.Platform = value
	case "IV_GUI_VER":
		p.GUI = value
	case "IV_SSO":
		p.SSO = value
	case "IV_CIPHERS":
		if all := strings.Split(value, ":"); len(all) <= maxAnnouncedCiphers {
			p.Ciphers = all
		} else {
			p.Ciphers = all[:maxAnnouncedCiphers]
		}
	case "IV_NCP":
		p.NCP, _ = strconv.Atoi(value)
	case "IV_MTU":
		p.MTU, _ = strconv.Atoi(value)
	}
	if strings.HasPrefix(name, "IV_") || strings.HasPrefix(name, "UV_") {
		p.env = append(p.env, Variable{name, envValue(value)})
	}
}

func isName(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return s != ""
}

// envValue makes a value harmless in an environment: at most 255 bytes, and
// `_` for spaces, for what is not printable, and for what a shell would act on.
func envValue(s string) string {
	b := []byte(s[:min(len(s), maxEnvValue)])
	for i, c := range b {
		if c <= ' ' || c > '~' || c == '$' || c == '(' || c == '`' {
			b[i] = '_'
		}
	}
	return string(b)
}

// Env returns the variables that scripts see: IV_ and UV_ ones, with their
// values made harmless.
func (p *PeerInfo) Env() []Variable { return p.env }
