// SPDX-License-Identifier: Apache-2.0

package control

import (
	"crypto/tls"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/keyex"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/session"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/verify"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wrap"
	"github.com/ovpn-xdp/ovpn-xdp/internal/ovpnconf"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
)

// client is who is at the other end of a session, and what was agreed with
// them.
type client struct {
	key      *wrap.ClientKey // of tls-crypt-v2; nil otherwise
	identity verify.Identity
	hasCert  bool
	username string // checked by somebody; "": none
	name     string // common name, or what stands for it
	known    bool   // identity, username and name are locked from here on

	info    keyex.PeerInfo
	options string // the client's own options string
	tls     string // version and suite, for the log

	cipher    aead.Cipher
	ekm       bool // keys come from the TLS exporter
	dynamic   bool // renegotiations are wrapped dynamically
	asks      bool // waits for a PUSH_REQUEST
	asked     bool // has sent one
	pushed    time.Time
	reply     []string // PUSH_REPLY in its parts
	since     time.Time
	answers   chan string      // to challenges, while authentication waits; nil before
	token     string           // auth token that the client has; "": none
	conf      *ovpnconf.Client // from client-config-dir and client-connect
	fromFile  string           // see describe
	lease     *lease
	joining   bool          // on its way in, beside the workers
	connected bool          // client-connect has run: client-disconnect must
	departed  bool          // it has left, see leave
	learning  chan struct{} // closed when learn-address has heard of all addresses; nil: it need not

	keyID   uint8     // the newest key in use
	renegAt time.Time // a new key is due
	expires time.Time // no new key came in time

	budgetAt                 time.Time // reneg-bytes and reneg-pkts are looked at
	spentBytes, spentPackets uint64    // when the newest key was installed

	timeoutAt     time.Time // session-timeout
	tokenAt       time.Time // the client gets a new auth token
	inactive      time.Duration
	inactiveBytes int64
	activeUntil   time.Time
	activeBytes   uint64 // at the beginning of that time
}

// meet takes down what the first key's exchange tells of a client.
func (c *client) meet(e session.Event) {
	c.info = keyex.ParsePeerInfo(e.Message.PeerInfo)
	c.options = e.Message.Options
	c.tls = tlsDescription(e.TLS)
}

// locked compares a renegotiation with what is locked, and returns what a
// client tried to change, or "". checked says that somebody looks at usernames.
func (c *client) locked(a *attempt, checked bool) string {
	if !c.known {
		return ""
	}
	switch {
	case a.hasCert != c.hasCert:
		return "the client came without the certificate that it had before, or with one that it had not"
	case a.hasCert && a.identity.CommonName != c.identity.CommonName:
		return "the client attempted to change its common name from " + c.identity.CommonName + " to " + a.identity.CommonName
	case a.hasCert && a.identity.Chain != c.identity.Chain:
		return "the client attempted to change its certificate"
	case checked && a.username != c.username:
		return "the client attempted to change its username"
	}
	return ""
}

// tlsDescription names a TLS connection's version and suite.
func tlsDescription(cs tls.ConnectionState) string {
	return tls.VersionName(cs.Version) + " " + tls.CipherSuiteName(cs.CipherSuite)
}
