// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

// connected is what every release writes once its tunnel is usable.
const connected = "Initialization Sequence Completed"

// client is a stock OpenVPN client in a namespace; its device there is tun0.
type client struct {
	t       *testing.T
	ns      *testlab.Namespace
	name    string
	release string
	openvpn string
	config  string // file
	procs   []*testlab.Process
}

// transport is how a client reaches the server.
type transport struct {
	tcp, ipv6 bool
}

func (n transport) String() string {
	family, protocol := "4", "udp"
	if n.ipv6 {
		family = "6"
	}
	if n.tcp {
		protocol = "tcp"
	}
	return protocol + family
}

// remote is the line of a client's configuration.
func (n transport) remote() string {
	at, protocol := outer4, n.String()
	if n.ipv6 {
		at = outer6
	}
	if n.tcp {
		protocol += "-client"
	}
	return fmt.Sprintf("remote %s %d %s", at, port, protocol)
}

// newClient describes a client whose certificate is id's (none if that has none).
// lines are added to its configuration.
func (d *bed) newClient(i int, release string, a *authority, id identity, n transport, lines ...string) *client {
	d.t.Helper()
	c := &client{t: d.t, ns: d.clients[i], name: fmt.Sprintf("client%d", i), release: release,
		openvpn: testlab.RequireStockOpenVPN(d.t, release)}
	config := []string{
		"client", "dev tun0", n.remote(), "remote-cert-tls server", "verb 4",
		// The default in 2.6 and later; 5 s in 2.5.
		"connect-retry 1",
		inline("ca", a.pem),
	}
	if release == "2.7" {
		// What the server pushes about names is not for this machine.
		config = append(config, "dns-updown disable")
	}
	if id.cert != "" {
		config = append(config, inline("cert", id.cert), inline("key", id.key))
	}
	text := strings.Join(append(config, lines...), "\n") + "\n"
	if !strings.Contains(text, "\nlport ") {
		text += "nobind\n"
	}
	dir := folder(d.t, fmt.Sprintf("%s-c%d", d.lab.ID(), serial.Add(1)))
	c.config = write(d.t, dir, "client.conf", text)
	d.t.Cleanup(func() {
		for n, p := range c.procs {
			p.Stop()
			keep(d.t, fmt.Sprintf("%s-%s-%d", c.name, c.release, n), p.Output())
		}
	})
	return c
}

// start runs the client.
func (c *client) start(args ...string) *client {
	c.t.Helper()
	c.procs = append(c.procs, c.ns.Start(c.openvpn, append([]string{"--cd", filepath.Dir(c.config), "--config", c.config}, args...)...))
	return c
}

// up runs the client and waits for its tunnel.
func (c *client) up(args ...string) *client {
	c.t.Helper()
	return c.start(args...).wait(1)
}

// wait waits until the tunnel has been up n times since the client's start.
func (c *client) wait(n int) *client {
	c.t.Helper()
	c.says(connected, n)
	return c
}

// says waits until the log has a text n times.
func (c *client) says(text string, n int) {
	c.t.Helper()
	for deadline := time.Now().Add(limit); c.count(text) < n; time.Sleep(10 * time.Millisecond) {
		select {
		case <-c.proc().Done():
			if c.count(text) < n {
				c.t.Fatalf("%s ended (%v) before it said %q", c.name, c.proc().Wait(), text)
			}
		default:
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%s did not say %q %d times in %s", c.name, text, n, limit)
		}
	}
}

func (c *client) proc() *testlab.Process { return c.procs[len(c.procs)-1] }

// log is what the client wrote since its last start.
func (c *client) log() string { return c.proc().Output() }

// count is how often the log has a text.
func (c *client) count(text string) int { return strings.Count(c.log(), text) }

// stop ends the client in order, which includes a goodbye if it was configured.
func (c *client) stop() {
	c.t.Helper()
	c.proc().Signal(unix.SIGTERM)
	c.ended()
}

// kill ends the client as a crash does.
func (c *client) kill() {
	c.t.Helper()
	c.proc().Signal(unix.SIGKILL)
	c.ended()
}

// ended waits for the process's end.
func (c *client) ended() {
	c.t.Helper()
	select {
	case <-c.proc().Done():
	case <-time.After(limit):
		c.t.Fatalf("%s did not end in %s", c.name, limit)
	}
}

// addresses are those of the tunnel's device; not valid: none of the family.
func (c *client) addresses() (v4, v6 netip.Addr) {
	c.t.Helper()
	c.ns.Do(func() {
		list, err := netdev.LinkAddresses("tun0")
		if err != nil {
			c.t.Fatal(err)
		}
		for _, a := range list {
			switch {
			case a.Is4():
				v4 = a
			case !a.IsLinkLocalUnicast():
				v6 = a
			}
		}
	})
	return v4, v6
}

// faults are what a client's log must not have when nothing was tampered with.
var faults = []string{
	"TLS Error", "TLS_ERROR", "Authenticate/Decrypt packet error", "AEAD Decrypt error", "out of sync", "not initialized (yet)",
	"bad packet ID", "Unrecognized option", "OPTIONS ERROR", "Options error", "is used inconsistently", "is present in local config but",
	"is present in remote config but", "Bad compression", "Replay", "replay-window backtrack", "packet dropped",
}

// clean checks the log for faults, except those that are expected.
func (c *client) clean(expected ...string) {
	c.t.Helper()
next:
	for line := range strings.Lines(c.log()) {
		for _, e := range expected {
			if strings.Contains(line, e) {
				continue next
			}
		}
		for _, f := range faults {
			if strings.Contains(line, f) {
				c.t.Errorf("%s, OpenVPN %s: %s", c.name, c.release, strings.TrimSpace(line))
			}
		}
	}
}
