// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
)

func TestPacketPathAllocatesNothing(t *testing.T) {
	table := NewTable(false, nil)
	at := addrPort("192.0.2.1:1194")
	p := mustAdd(t, table, Config{ID: 7, Remote: at, Prefixes: prefixes("10.9.0.0/24", "fd00::/64"), Interval: time.Hour, Timeout: time.Hour}, 0)
	k := newKey(t, 3, aead.AES128GCM)
	mustSet(t, p, Primary, k)
	mustSet(t, p, Secondary, newKey(t, 4, aead.AES128GCM))
	p.Moved(at, ours, true, 0)
	four, six := netip.MustParseAddr("10.9.0.7"), netip.MustParseAddr("fd00::7")
	ids, ok := make([]uint32, 64), make([]bool, 64)
	now, next := int64(0), uint32(0)
	for name, f := range map[string]func() bool{
		"Lookup":       func() bool { return table.Lookup(7) == p && table.Lookup(8) == nil },
		"LookupRemote": func() bool { return table.LookupRemote(at) == p },
		"Route":        func() bool { return table.Route(four) == p && table.Route(six) == p },
		"AllowsSource": func() bool { return p.AllowsSource(four) && p.AllowsSource(six) },
		"KeyByID":      func() bool { return p.KeyByID(3) == k && p.KeyByID(4) != nil && p.KeyByID(5) == nil },
		"PrimaryKey":   func() bool { return p.PrimaryKey() == k },
		"Endpoint":     func() bool { return p.Endpoint().Remote == at },
		"Reserve": func() bool {
			first, use, why := k.Reserve(64, 64*89)
			p.Used(k, use, why)
			return first > 0 && use == Fine
		},
		"Commit": func() bool {
			for i := range ids {
				next++
				ids[i], ok[i] = next, true
			}
			accepted, highest := k.Commit(ids, ok, now)
			return accepted == 64 && highest
		},
		"Opened": func() bool {
			use := k.Opened(64, 64*89)
			p.Used(k, use, WhyUsage)
			return use == Fine
		},
		"Failed": func() bool {
			use := k.Failed(1)
			p.Used(k, use, WhyFailures)
			return use == Fine && k.Failures() > 0
		},
		"Suspect":  func() bool { now += second; return k.Suspect(now) },
		"Received": func() bool { p.Received(now); return p.LastReceived.Load() == now },
		"Moved":    func() bool { return !p.Moved(at, ours, true, now) },
		"Counters": func() bool {
			before := p.In.Bytes.Load()
			p.In.Add(64, 64*1420)
			return p.In.Bytes.Load() == before+64*1420 && p.In.Records.Load()*1420 == p.In.Bytes.Load()
		},
		"KeyIDs": func() bool { return p.KeyIDs() == 1<<3|1<<4 },
	} {
		right := true
		if n := testing.AllocsPerRun(200, func() { right = f() && right }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
		if !right {
			t.Errorf("%s: wrong answer", name)
		}
	}
}
