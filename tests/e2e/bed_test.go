// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/statickey"
)

// Addresses of the two ends of a bed: outside on eth0, inside on tun0.
var (
	outerA4, outerB4 = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	outerA6, outerB6 = netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	innerA4, innerB4 = netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("10.9.0.2")
	innerA6, innerB6 = netip.MustParseAddr("fd00:9::1"), netip.MustParseAddr("fd00:9::2")
)

const port = 1194

// bed is two namespaces joined by a veth pair whose ends are both called eth0.
type bed struct {
	t    *testing.T
	lab  *testlab.Lab
	a, b *testlab.Namespace
	veth testlab.Veth
}

// newBed lays one. v's ends are filled in.
func newBed(t *testing.T, v testlab.Veth) *bed {
	t.Helper()
	lab := testlab.New(t)
	d := &bed{t: t, lab: lab, a: lab.Namespace("a"), b: lab.Namespace("b"), veth: v}
	d.lay()
	return d
}

// lay joins the namespaces, anew after an end was deleted.
func (d *bed) lay() {
	d.t.Helper()
	v := d.veth
	v.A = testlab.End{Namespace: d.a, Name: "eth0", Addresses: []netip.Prefix{netip.PrefixFrom(outerA4, 24)}}
	v.B = testlab.End{Namespace: d.b, Name: "eth0", Addresses: []netip.Prefix{netip.PrefixFrom(outerB4, 24)}}
	// IPv6 is not to be had below its minimum MTU.
	if v.MTU == 0 || v.MTU >= 1280 {
		v.A.Addresses = append(v.A.Addresses, netip.PrefixFrom(outerA6, 64))
		v.B.Addresses = append(v.B.Addresses, netip.PrefixFrom(outerB6, 64))
	}
	d.lab.Veth(v)
}

// runA and runB describe the gateways of the two ends on a rung.
func (d *bed) runA(mode string, args ...string) *gateway {
	d.t.Helper()
	return newGateway(d.t, d.lab, d.a, "a", []string{"eth0"}, append([]string{"--mode", mode, "--listen", ":1194",
		"--address", innerA4.String() + "/24", "--address", innerA6.String() + "/64"}, args...)...)
}

func (d *bed) runB(mode string, args ...string) *gateway {
	d.t.Helper()
	return newGateway(d.t, d.lab, d.b, "b", []string{"eth0"}, append([]string{"--mode", mode, "--listen", ":1194",
		"--address", innerB4.String() + "/24", "--address", innerB6.String() + "/64"}, args...)...)
}

// newKey generates a key by the command line and returns its file.
func newKey(t *testing.T) string {
	t.Helper()
	f, err := os.CreateTemp(scratch, "key")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(generate(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(f.Name()) })
	return f.Name()
}

func generate(t *testing.T) string {
	t.Helper()
	out, err := run(mustProgram(t), "key", "generate")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// keyBlock reads a key file.
func keyBlock(t *testing.T, file string) [statickey.Size]byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		t.Fatal(err)
	}
	key, err := statickey.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// tunnel is one peer on each of two gateways, with a fresh key.
type tunnel struct {
	id             int
	cipher         string
	remoteA        netip.Addr // where B reaches A
	remoteB        netip.Addr
	keyID          int
	args           []string // of peer add on both ends
	routesA        []string // what A routes to B
	routesB        []string
	keyFile        string // made when empty
	slot           string
	withoutNewPeer bool
}

// connect makes the peers and installs the key: A is the server.
func (d *bed) connect(a, b *gateway, n tunnel) tunnel {
	d.t.Helper()
	if n.cipher == "" {
		n.cipher = "AES-128-GCM"
	}
	if n.slot == "" {
		n.slot = "primary"
	}
	if !n.remoteA.IsValid() {
		n.remoteA, n.remoteB = outerA4, outerB4
	}
	if n.routesA == nil {
		n.routesA = []string{innerB4.String(), innerB6.String()}
		n.routesB = []string{innerA4.String(), innerA6.String()}
	}
	if n.keyFile == "" {
		n.keyFile = newKey(d.t)
	}
	id := fmt.Sprint(n.id)
	for _, end := range []struct {
		g      *gateway
		remote netip.Addr
		routes []string
		role   string
	}{{a, n.remoteB, n.routesA, "server"}, {b, n.remoteA, n.routesB, "client"}} {
		if !n.withoutNewPeer {
			args := []string{"peer", "add", id, "--remote", netip.AddrPortFrom(end.remote, port).String()}
			for _, r := range end.routes {
				args = append(args, "--route", r)
			}
			end.g.do(append(args, n.args...)...)
		}
		end.g.do("key", "add", id, "--slot", n.slot, "--key-id", fmt.Sprint(n.keyID), "--cipher", n.cipher,
			"--key-file", n.keyFile, "--role", end.role)
	}
	return n
}

// rungs are those a veth pair can have.
func rungs() []string {
	if testing.Short() {
		return []string{"xdp", "tc", "socket"}
	}
	return []string{"xdp", "tc", "socket", "xdp-generic"}
}

// onRung checks that a NIC is on the rung that was asked for and says why no higher.
func (g *gateway) onRung(nic, rung string) {
	g.t.Helper()
	n := g.nic(g.status(), nic)
	if n.Rung != rung || n.State != "attached" {
		g.t.Errorf("%s: %s is %s on rung %s (%s), want attached on %s", g.name, nic, n.State, n.Rung, n.WhyNotHigher, rung)
	}
	if rung != "xdp-zerocopy" && n.WhyNotHigher == "" {
		g.t.Errorf("%s: status does not say why %s is on no higher rung than %s", g.name, nic, rung)
	}
	wantMode := map[string]string{"xdp": "native", "xdp-zerocopy": "native", "xdp-generic": "generic", "tc": "native", "socket": ""}[rung]
	if n.XDPMode != wantMode {
		g.t.Errorf("%s: xdp_mode %q on rung %s, want %q", g.name, n.XDPMode, rung, wantMode)
	}
	if rung == "socket" {
		return
	}
	entries, err := os.ReadDir(n.Pins)
	if err != nil || len(entries) == 0 || !strings.HasPrefix(n.Pins, pinRoot+"/"+g.name+"/") {
		g.t.Errorf("%s: pins at %q: %v, %v", g.name, n.Pins, entries, err)
	}
}
