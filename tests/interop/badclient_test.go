// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"crypto/x509"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestBadCertificate lets clients try whose certificates are not good. None gets
// in, the log says why, and a good client's traffic goes on meanwhile.
func TestBadCertificate(t *testing.T) {
	long(t)
	t.Parallel()
	a := mustAuthority(t, p256)
	stranger, err := newAuthority("Other CA", p256)
	if err != nil {
		t.Fatal(err)
	}
	revoked := a.issue(t, "revoked", leaf{})
	bad := []struct {
		id  identity
		why []string // one of them in the server's log
	}{
		{a.issue(t, "expired", leaf{notAfter: time.Now().Add(-time.Minute)}), []string{"expired"}},
		{a.issue(t, "early", leaf{notBefore: time.Now().Add(time.Hour)}), []string{"not yet valid"}},
		{revoked, []string{"revoked"}},
		{a.issue(t, "purpose", leaf{usage: x509.ExtKeyUsageServerAuth}), []string{"purpose", "key usage", "extended key usage"}},
		{a.issue(t, "unmarked", leaf{unmarked: true}), []string{"purpose", "eku error"}},
		{stranger.issue(t, "stranger", leaf{}), []string{"unable to get local issuer", "another CA", "not issued by", "unknown authority", "no CA"}},
	}
	for _, release := range []string{"2.5", "2.6", "2.7"} {
		for _, tls := range []string{"1.2", "1.3"} {
			t.Run(release+" TLS "+tls, func(t *testing.T) {
				t.Parallel()
				d := newBed(t, len(bad)+1)
				s := d.newServer(d.configure(a, transport{}, map[string]string{"crl.pem": a.revoked(t, revoked)},
					"crl-verify crl.pem", "remote-cert-tls client"))
				s.start()
				good := d.newClient(len(bad), release, a, a.issue(t, "good", leaf{}), transport{}).up()
				up, down := good.flows(d.server, 100)
				version := "tls-version-min 1.3"
				if tls == "1.2" {
					version = "tls-version-max 1.2"
				}
				for i, b := range bad {
					c := d.newClient(i, release, a, b.id, transport{}, version).start()
					at, _ := d.wire(i, 2)
					eventually(t, fmt.Sprintf("a line about %s names the fault of %s, one of %q", at, b.id.name, b.why), func() bool {
						return tells(s.log(), at.String()+":", b.why)
					})
					c.stop()
					if c.count(connected) > 0 {
						t.Errorf("%s got in", b.id.name)
					}
				}
				up.whole()
				down.whole()
				awaitNames(t, s, "good")
				s.stop()
			})
		}
	}
}

// tells reports whether a line of a log has the subject and one of the words, in any case.
func tells(log, subject string, words []string) bool {
	for line := range strings.Lines(log) {
		for _, word := range words {
			if strings.Contains(line, subject) && strings.Contains(strings.ToLower(line), strings.ToLower(word)) {
				return true
			}
		}
	}
	return false
}

// TestRevocation revokes a client's certificate while it is connected: the list is
// read again at the next handshake. A list that cannot be read lets nobody in.
func TestRevocation(t *testing.T) {
	long(t)
	t.Parallel()
	d := newBed(t, 2)
	a := mustAuthority(t, p256)
	s := d.newServer(d.configure(a, transport{}, map[string]string{"crl.pem": a.revoked(t)}, "crl-verify crl.pem", "reneg-sec 4"))
	s.start()
	id, other := a.issue(t, "soon revoked", leaf{}), a.issue(t, "other", leaf{})
	// A client whose handshake failed tries again when its hand-window is over.
	c := d.newClient(0, "2.6", a, id, transport{}, "hand-window 10").up()
	o := d.newClient(1, "2.6", a, other, transport{}, "hand-window 10").up()
	write(t, s.settings().dir, "crl.pem", a.revoked(t, id))
	eventually(t, "log tells of the revoked certificate", func() bool { return strings.Contains(s.log(), "revoked") })
	o.says("Control Channel: TLSv1", o.keyExchanges()+2)
	o.carries()
	c.kill()
	c.start()
	write(t, s.settings().dir, "crl.pem", "not a list\n")
	o.kill()
	o.start()
	time.Sleep(5 * time.Second)
	for _, k := range []*client{c, o} {
		if k.count(connected) > 0 {
			t.Errorf("%s got in", k.name)
		}
	}
	write(t, s.settings().dir, "crl.pem", a.revoked(t, id))
	o.wait(1)
	o.carries()
	s.stop()
}
