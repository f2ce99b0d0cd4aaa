// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
)

func complete(edit func(*Run)) (*Run, []string) {
	r := Defaults()
	edit(&r)
	notes := r.Complete()
	return &r, notes
}

func TestDefaultsAreValid(t *testing.T) {
	r, notes := complete(func(*Run) {})
	if err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	if len(notes) != 0 {
		t.Errorf("notes about defaults: %q", notes)
	}
	if r.Name != "tun0" || r.SocketPath() != "/run/ovpn-xdp/tun0.sock" || r.LockPath() != "/run/ovpn-xdp/tun0.lock" {
		t.Errorf("name %q, socket %q, lock %q", r.Name, r.SocketPath(), r.LockPath())
	}
	if got := fmt.Sprint(r.Listen); got != "[0.0.0.0:1194 [::]:1194]" {
		t.Errorf("listen %s", got)
	}
}

func TestValidate(t *testing.T) {
	addrs := func(list ...string) func(*Run) {
		return func(r *Run) {
			for _, s := range list {
				r.Addresses = append(r.Addresses, netip.MustParsePrefix(s))
			}
		}
	}
	listen := func(list ...string) func(*Run) {
		return func(r *Run) {
			for _, s := range list {
				r.Listen = append(r.Listen, netip.MustParseAddrPort(s))
			}
		}
	}
	for _, tc := range []struct {
		name string
		edit func(*Run)
		want string // part of the error; "": valid
	}{
		{"name too long", func(r *Run) { r.Name = "a-name-of-16-chr" }, "name \"a-name-of-16-chr\" has 16 characters: 1 to 15 are allowed"},
		{"name of 15", func(r *Run) { r.Name = "a_name-of-15-ch" }, ""},
		{"name with a slash", func(r *Run) { r.Name = "../x" }, "only letters, digits, '-' and '_'"},
		{"name with an umlaut", func(r *Run) { r.Name = "büro" }, "only letters, digits, '-' and '_'"},
		{"dev with a dot", func(r *Run) { r.Dev = "tun.1" }, "the default is the device's name, so give --name"},
		{"dev with a dot, named", func(r *Run) { r.Dev, r.Name = "tun.1", "one" }, ""},
		{"dev pattern", func(r *Run) { r.Dev, r.Name = "tun%d", "one" }, "give the whole name"},
		{"no dev", func(r *Run) { r.Dev = "" }, "device \"\" has 0 characters"},
		{"dev with a slash", func(r *Run) { r.Dev = "a/b" }, "not a name the kernel takes"},
		{"nic twice", func(r *Run) { r.NICs = []string{"eth0", "eth1", "eth0"} }, "nic eth0 is given twice"},
		{"nic is the tun", func(r *Run) { r.NICs = []string{"tun0"} }, "is also the TUN device"},
		{"nic too long", func(r *Run) { r.NICs = []string{"enp193s0f1np1v99"} }, "has 16 characters"},
		{"long run dir", func(r *Run) { r.RunDir = "/" + strings.Repeat("x", 120) }, "use a shorter --run-dir"},
		{"relative run dir", func(r *Run) { r.RunDir = "run" }, "run-dir \"run\": give an absolute path"},

		{"listen twice", listen("192.0.2.1:1194", "192.0.2.1:1194"), "listen 192.0.2.1:1194 is given twice"},
		{"listen on two ports", listen("192.0.2.1:1194", "192.0.2.1:1195"), ""},
		{"wildcard and address", listen("0.0.0.0:1194", "192.0.2.1:1194"), "overlap"},
		{"wildcards of both families", listen("0.0.0.0:1194", "[::]:1194"), ""},
		{"wildcard and other family", listen("[::]:1194", "192.0.2.1:1194"), ""},
		{"port 0", listen("192.0.2.1:0"), "ports are 1 to 65535"},
		{"multicast", listen("239.1.1.1:1194"), "not an address a host can have"},
		{"link-local without zone", listen("[fe80::1]:1194"), "[fe80::1%eth0]:1194"},

		{"mtu 67", func(r *Run) { r.MTU = 67 }, "mtu 67: 68 to 65451 bytes"},
		{"mtu 68", func(r *Run) { r.MTU = 68 }, ""},
		{"mtu 65452", func(r *Run) { r.MTU = 65452 }, "mtu 65452"},
		{"inner addresses", addrs("10.9.0.1/24", "fd00:9::1/64"), ""},
		{"IPv6 below 1280", func(r *Run) { addrs("fd00:9::1/64")(r); r.MTU = 1279 }, "IPv6 needs an mtu of 1280 bytes"},
		{"address twice", addrs("10.9.0.1/24", "10.9.0.1/16"), "address 10.9.0.1 is given twice"},
		{"multicast address", addrs("224.0.0.1/4"), "not an address a tunnel can have"},
		{"mssfix off", func(r *Run) { r.MSSFix = MSSFixOff }, ""},
		{"mssfix 255", func(r *Run) { r.MSSFix = 255 }, "mssfix 255"},

		{"ring 0", func(r *Run) { r.RingSize = 0 }, "ring size 0: 64 to 32768 descriptors"},
		{"ring negative", func(r *Run) { r.RingSize = -1 }, "ring size -1"},
		{"ring 511", func(r *Run) { r.RingSize = 511 }, ""},
		{"ring 2^15", func(r *Run) { r.RingSize = 32768 }, ""},
		{"ring 2^20", func(r *Run) { r.RingSize = 1 << 20 }, "ring size 1048576: 64 to 32768"},
		{"queues unordered", func(r *Run) { r.NICs, r.Queues = []string{"eth0"}, []int{1, 0} }, "not in ascending order"},
		{"queues without nic", func(r *Run) { r.Queues = []int{0} }, "need a NIC: give --nic"},

		{"mode unknown", func(r *Run) { r.Mode = "dpdk" }, "mode \"dpdk\": one of auto, xdp-zerocopy, xdp, tc, socket, xdp-generic"},
		{"mode xdp without nic", func(r *Run) { r.Mode = ModeXDP }, "mode xdp needs a NIC: give --nic"},
		{"mode socket without nic", func(r *Run) { r.Mode = ModeSocket }, ""},
		{"batch 0", func(r *Run) { r.Batch = 0 }, "batch 0: 1 to 64"},
		{"batch 65", func(r *Run) { r.Batch = 65 }, "batch 65"},
		{"prefetch -1", func(r *Run) { r.Prefetch = -1 }, "prefetch -1: 0 to 64"},
		{"prefetch 0", func(r *Run) { r.Prefetch = 0 }, ""},
		{"workers 65", func(r *Run) { r.Workers = 65 }, "workers 65"},
		{"log format", func(r *Run) { r.LogFormat = "xml" }, "log format \"xml\": text or json"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, _ := complete(tc.edit)
			err := r.Validate()
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.want != "" && err == nil:
				t.Errorf("accepted, want %q", tc.want)
			case tc.want != "" && !strings.Contains(err.Error(), tc.want):
				t.Errorf("error %q, want %q", err, tc.want)
			}
		})
	}
}

func TestRingSizeRoundsUpAndSaysSo(t *testing.T) {
	for _, tc := range []struct {
		in, out int
		said    bool
	}{
		{511, 512, true}, {512, 512, false}, {513, 1024, true}, {16385, 32768, true},
		{32768, 32768, false}, {0, 0, false}, {40000, 40000, false},
	} {
		r, notes := complete(func(r *Run) { r.RingSize = tc.in })
		if r.RingSize != tc.out || (len(notes) == 1) != tc.said {
			t.Errorf("%d became %d with notes %q", tc.in, r.RingSize, notes)
		}
	}
	_, notes := complete(func(r *Run) { r.RingSize = 511 })
	if want := "ring size 511 is not a power of two: using 512"; notes[0] != want {
		t.Errorf("note %q, want %q", notes[0], want)
	}
}

func TestParseListen(t *testing.T) {
	for in, want := range map[string]string{
		":1194":                  "[0.0.0.0:1194 [::]:1194]",
		"0.0.0.0:53":             "[0.0.0.0:53]",
		"[::]:1194":              "[[::]:1194]",
		"192.0.2.2":              "[192.0.2.2:1194]",
		"2001:db8::2":            "[[2001:db8::2]:1194]",
		"[2001:db8::2]":          "[[2001:db8::2]:1194]",
		"::":                     "[[::]:1194]",
		"[::ffff:192.0.2.2]:443": "[192.0.2.2:443]",
		"[fe80::1%eth0]:1194":    "[[fe80::1%eth0]:1194]",
	} {
		got, err := ParseListen(in)
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%q: %v, %v; want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"", ":", ":0", ":65536", ":x", "192.0.2.2:0", "192.0.2.2:", "gw.example:1194", "192.0.2.2:1194:1"} {
		if got, err := ParseListen(in); err == nil {
			t.Errorf("%q accepted as %v", in, got)
		} else if !strings.Contains(err.Error(), fmt.Sprintf("listen %q", in)) {
			t.Errorf("%q: error does not name it: %v", in, err)
		}
	}
}

func TestParseQueues(t *testing.T) {
	for in, want := range map[string][]int{
		"0": {0}, "0,2-3": {0, 2, 3}, "3,0-1,1": {0, 1, 3}, "5-5": {5}, "0, 1": {0, 1},
	} {
		got, err := ParseQueues(in)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, %v; want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "a", "-1", "1-", "3-1", "0,", "0-5000", "1-2-3"} {
		if got, err := ParseQueues(in); err == nil {
			t.Errorf("%q accepted as %v", in, got)
		}
	}
}

func TestParsePrefixAndRoute(t *testing.T) {
	if p, err := ParsePrefix("10.9.0.1/24"); err != nil || p.String() != "10.9.0.1/24" {
		t.Errorf("%v, %v", p, err)
	}
	if _, err := ParsePrefix("10.9.0.1"); err == nil || !strings.Contains(err.Error(), "10.9.0.1/24") {
		t.Errorf("error %v", err)
	}
	for in, want := range map[string]string{
		"10.9.0.2": "10.9.0.2/32", "fd00:9::2": "fd00:9::2/128", "10.9.0.0/24": "10.9.0.0/24", "0.0.0.0/0": "0.0.0.0/0", "::/0": "::/0",
	} {
		if p, err := ParseRoute(in); err != nil || p.String() != want {
			t.Errorf("%q: %v, %v", in, p, err)
		}
	}
	if _, err := ParseRoute("10.9.0.1/24"); err == nil || !strings.Contains(err.Error(), "write 10.9.0.0/24") {
		t.Errorf("host bits: error %v", err)
	}
	for _, in := range []string{"", "x", "10.9.0.0/33", "::ffff:10.0.0.0/104"} {
		if p, err := ParseRoute(in); err == nil {
			t.Errorf("%q accepted as %v", in, p)
		}
	}
}

func TestMSSFix(t *testing.T) {
	for in, want := range map[string]int{"auto": 1400, "off": 0, "1300": 1300} {
		n, err := ParseMSSFix(in)
		r, _ := complete(func(r *Run) { r.MTU, r.MSSFix = 1400, n })
		if err != nil || r.ClampSize() != want {
			t.Errorf("%q: clamp size %d, %v; want %d", in, r.ClampSize(), err, want)
		}
	}
	for _, in := range []string{"", "0", "-1", "255", "65536", "on"} {
		if n, err := ParseMSSFix(in); err == nil {
			t.Errorf("%q accepted as %d", in, n)
		}
	}
}
