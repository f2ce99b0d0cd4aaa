// SPDX-License-Identifier: Apache-2.0

package testlab_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ovpn-xdp/ovpn-xdp/internal/netdev"
	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

func prefixes(s ...string) (out []netip.Prefix) {
	for _, p := range s {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

func pair(lab *testlab.Lab, v testlab.Veth) (a, b *testlab.Namespace) {
	a, b = lab.Namespace("a"), lab.Namespace("b")
	v.A = testlab.End{Namespace: a, Name: "eth0", Addresses: prefixes("192.0.2.1/24", "2001:db8::1/64")}
	v.B = testlab.End{Namespace: b, Name: "eth0", Addresses: prefixes("192.0.2.2/24", "2001:db8::2/64")}
	lab.Veth(v)
	return a, b
}

func TestPairCarriesBothFamilies(t *testing.T) {
	for _, v := range []testlab.Veth{
		{}, {Queues: 2, MTU: 1400, WireLike: true}, {NoNeighbours: true},
	} {
		lab := testlab.New(t)
		a, b := pair(lab, v)
		for _, addr := range []string{"192.0.2.2", "2001:db8::2"} {
			// Bound at once: no tentative state.
			var server net.PacketConn
			b.Do(func() {
				var err error
				server, err = net.ListenPacket("udp", net.JoinHostPort(addr, "7777"))
				if err != nil {
					t.Fatal(err)
				}
			})
			var client net.Conn
			a.Do(func() {
				var err error
				client, err = net.Dial("udp", net.JoinHostPort(addr, "7777"))
				if err != nil {
					t.Fatal(err)
				}
			})
			if _, err := client.Write([]byte("hello")); err != nil {
				t.Fatal(err)
			}
			server.SetReadDeadline(time.Now().Add(5 * time.Second))
			buf := make([]byte, 16)
			n, from, err := server.ReadFrom(buf)
			if err != nil || string(buf[:n]) != "hello" {
				t.Fatalf("%s: got %q from %v, error %v", addr, buf[:n], from, err)
			}
			client.Close()
			server.Close()
		}
		if !v.NoNeighbours {
			if out := a.Output("ip", "neigh", "show", "dev", "eth0"); strings.Count(out, "PERMANENT") != 2 {
				t.Errorf("neighbours of eth0: %q", out)
			}
		}
		link := a.Link("eth0")
		if v.Queues != 0 && (link.RxQueues != v.Queues || link.NumTxQueues != v.Queues) {
			t.Errorf("queues %d/%d, want %d", link.RxQueues, link.NumTxQueues, v.Queues)
		}
		if v.MTU != 0 && link.MTU != v.MTU {
			t.Errorf("mtu %d, want %d", link.MTU, v.MTU)
		}
		if err := lab.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Kernels without 802.1Q devices exist, so the pair either works or says so.
func TestVLANPair(t *testing.T) {
	lab := testlab.New(t)
	a, b := lab.Namespace("a"), lab.Namespace("b")
	err := lab.AddVeth(testlab.Veth{
		A:    testlab.End{Namespace: a, Name: "eth0", Addresses: prefixes("192.0.2.1/24")},
		B:    testlab.End{Namespace: b, Name: "eth0", Addresses: prefixes("192.0.2.2/24")},
		VLAN: 7, WireLike: true,
	})
	if errors.Is(err, unix.EOPNOTSUPP) {
		if !strings.Contains(err.Error(), "eth0.7") {
			t.Errorf("error does not name the device: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	link := a.Link("eth0.7")
	if link.Kind != "vlan" || link.Lower != a.Link("eth0").Index {
		t.Errorf("got %+v", link)
	}
	if out := a.Output("ip", "neigh", "show", "dev", "eth0.7"); strings.Count(out, "PERMANENT") != 1 {
		t.Errorf("neighbours of eth0.7: %q", out)
	}
}

func TestWireLikeFeatures(t *testing.T) {
	lab := testlab.New(t)
	a, b := pair(lab, testlab.Veth{WireLike: true})
	for _, ns := range []*testlab.Namespace{a, b} {
		var features map[string]bool
		ns.Do(func() {
			var err error
			if features, err = netdev.Features("eth0"); err != nil {
				t.Fatal(err)
			}
		})
		for name, want := range map[string]bool{
			"tx-tcp-segmentation": false, "tx-tcp6-segmentation": false, "tx-generic-segmentation": false,
			"tx-udp-segmentation": false, "rx-gro": true,
		} {
			if got, ok := features[name]; !ok || got != want {
				t.Errorf("%s: %s is %v (known: %v), want %v", ns.Name(), name, got, ok, want)
			}
		}
	}
}

func TestNothingStaysBehind(t *testing.T) {
	lab := testlab.New(t)
	ns := lab.Namespace("gone")
	process := ns.Start("sleep", "1000")
	if err := lab.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-process.Done():
	default:
		t.Error("process still runs")
	}
	if _, err := os.Stat(ns.Path()); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", ns.Path(), err)
	}
	if err := lab.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	if _, err := lab.AddNamespace("late"); err == nil {
		t.Error("a closed lab makes namespaces")
	}
	if _, err := os.Stat(testlab.Directory + "/" + lab.ID() + "-late"); !os.IsNotExist(err) {
		t.Errorf("late namespace is still there: %v", err)
	}
}

func TestDoReturnsToOwnNamespace(t *testing.T) {
	lab := testlab.New(t)
	ns := lab.Namespace("in")
	// Locked, since two looks of an unlocked goroutine may be at two threads.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, inside := netns(t), ""
	ns.Do(func() { inside = netns(t) })
	after := netns(t)
	if inside == before {
		t.Error("did not enter the namespace")
	}
	if after != before {
		t.Errorf("ended in %s, began in %s", after, before)
	}
}

func TestOpenWithoutTest(t *testing.T) {
	testlab.RequireRoot(t)
	lab, err := testlab.Open("ovx")
	if err != nil {
		t.Fatal(err)
	}
	defer lab.Close()
	ns, err := lab.AddNamespace("x")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(ns.Name(), lab.ID()) {
		t.Errorf("namespace %s in lab %s", ns.Name(), lab.ID())
	}
	if _, err := lab.AddNamespace("x"); err == nil {
		t.Error("two namespaces of one name")
	}
	if err := ns.SetSysctl("net.ipv4.no_such_thing", "1"); err == nil {
		t.Error("an unknown variable was set")
	}
	defer func() {
		if recover() == nil {
			t.Error("a failing call without an error result did not panic")
		}
	}()
	ns.Sysctl("net.ipv4.no_such_thing", "1")
}

func netns(t *testing.T) string {
	t.Helper()
	id, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	return id
}
