// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/record"
)

// TestReadersDuringChanges reads as the packet path does while everything is
// changed, and asks of each answer only what must hold at any time.
func TestReadersDuringChanges(t *testing.T) {
	for name, p2p := range map[string]bool{"peers": false, "point-to-point": true} {
		t.Run(name, func(t *testing.T) {
			table, _ := newTable(p2p)
			home := mustAdd(t, table, Config{ID: 1}, 0)
			steady := newKey(t, 0, aead.AES128GCM)
			if !p2p {
				mustSet(t, home, Primary, steady)
			}
			stop := make(chan struct{})
			var readers, writers sync.WaitGroup
			for range 2 {
				readers.Go(func() {
					for i := uint32(0); ; i++ {
						select {
						case <-stop:
							return
						default:
						}
						readOnce(t, table, i%300, int64(i))
						if !p2p && (table.Lookup(1) != home || home.PrimaryKey() != steady) {
							t.Error("a peer that nobody touches is missing")
							return
						}
					}
				})
			}
			for w := range uint32(2) {
				writers.Go(func() { changeAll(t, table, w) })
			}
			writers.Wait()
			close(stop)
			readers.Wait()
		})
	}
}

// readOnce does once what the packet path does for a batch in and one out.
func readOnce(t *testing.T, table *Table, id uint32, now int64) {
	addr := netip.AddrFrom4([4]byte{10, 9, byte(id >> 8), byte(id)})
	if p := table.Route(addr); p != nil {
		if e := p.Endpoint(); e != nil && !e.Remote.IsValid() {
			t.Error("an endpoint without an address")
		}
		if k := p.PrimaryKey(); k != nil {
			_, use, why := k.Reserve(3, 10)
			p.Used(k, use, why)
		}
	}
	p := table.Lookup(id)
	if p == nil {
		return
	}
	if p.ID != id {
		t.Errorf("looked up %d, found %d", id, p.ID)
	}
	k := p.KeyByID(uint8(id) & record.MaxKeyID)
	if k == nil {
		return
	}
	if k.ID != uint8(id)&record.MaxKeyID {
		t.Errorf("looked up key id %d, found %d", id&record.MaxKeyID, k.ID)
	}
	p.Used(k, k.Failed(1), WhyFailures)
	p.Used(k, k.Opened(1, 10), WhyUsage)
	ok := [1]bool{true}
	if accepted, _ := k.Commit([]uint32{uint32(now)}, ok[:], now); accepted > 0 {
		p.Received(now)
		p.Moved(netip.AddrPortFrom(addr, uint16(now)), ours, true, now)
		p.AllowsSource(addr)
	}
}

// changeAll adds, changes and removes peers 2 to 299 and their keys.
func changeAll(t *testing.T, table *Table, w uint32) {
	keys := make([]*Key, 0, 8)
	for i := range uint8(8) {
		keys = append(keys, newKey(t, i, aead.ChaCha20Poly1305))
	}
	for i := range uint32(250) {
		id := 2 + (i*7+w*150)%298
		prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 9, byte(id >> 8), byte(id)}), 32)
		c := Config{ID: id, Interval: time.Second, Timeout: time.Hour}
		if !table.P2P() {
			c.Prefixes = []netip.Prefix{prefix}
		}
		p, err := table.Add(c, 0)
		if err != nil {
			p = table.Lookup(id)
		}
		if p == nil {
			continue // the other writer removed it just now
		}
		_ = p.SetKey(Primary, newKey(t, uint8(id)&7, aead.AES128GCM))
		_ = p.SetKey(Secondary, keys[(id+1)&7])
		p.SwapKeys()
		_, _ = table.Set(id, Change{Interval: ptr(2 * time.Second)}, int64(i))
		table.Tick(int64(i), func(*Peer) {})
		switch i % 4 {
		case 0:
			_ = p.DeleteKey(Secondary)
		case 1:
			_ = table.Remove(id, ReasonUser)
		case 2:
			if k := p.PrimaryKey(); k != nil {
				p.KillKey(k, WhyUsage)
			}
		}
	}
}
