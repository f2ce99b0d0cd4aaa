// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/cryptotest"
	"time"
)

// raced says that the race detector is on.
var raced bool

const (
	// handshakes is how many first handshakes TestLossyNetwork runs; every
	// third is followed by renegotiations, of which there are two on the
	// average.
	handshakes = 10_000
	// fewHandshakes is how many it runs with -short, and under the race
	// detector, which makes them ten times slower though all run in one
	// goroutine.
	fewHandshakes = 500
	// patience is the network's hand-window: so long that ten repetitions have
	// their time, and with a fifth of all packets lost even the whole test
	// meets no time-out that is just bad luck: 0.2^9 * 10 packets * 10,000 <
	// 0.1.
	patience = 20 * time.Minute
)

// TestLossyNetwork runs handshakes and renegotiations over networks that lose
// up to a fifth of all packets. All chance, TLS's included, comes from seeds.
func TestLossyNetwork(t *testing.T) {
	n := handshakes
	if raced || testing.Short() {
		n = fewHandshakes
	}
	for version, name := range map[uint16]string{tls.VersionTLS12: "1.2", tls.VersionTLS13: "1.3"} {
		for _, crypt := range []bool{false, true} {
			for _, cookie := range []bool{false, true} {
				t.Run(fmt.Sprintf("tls=%s,crypt=%v,cookie=%v", name, crypt, cookie), func(t *testing.T) {
					cryptotest.SetGlobalRandom(t, 1)
					pki := ecdsaPKI()
					for seed := range uint64(n / 8) {
						o := options{version: version, crypt: crypt, pki: pki, edit: func(c *Config) { c.HandWindow = patience }}
						if err := simulate(o, cookie, seed); err != nil {
							t.Fatalf("seed %d: %v", seed, err)
						}
					}
				})
			}
		}
	}
}

// simulate runs one handshake and what follows it.
func simulate(o options, cookie bool, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 2))
	server, client := o.configs()
	n := &network{
		rng: rng, now: began, config: server, cookie: cookie, static: server.Static,
		loss: rng.Float64() / 5, twin: rng.Float64() / 5,
		delay: time.Millisecond << rng.IntN(11),
	}
	n.client = &end{Session: New(client, began)}
	defer n.client.Close()
	defer func() {
		if n.server != nil {
			n.server.Close()
		}
	}()
	quiet := func() bool {
		for _, e := range []*end{n.client, n.server} {
			if e == nil || e.established == nil || e.negotiating != nil || !e.wantReset.IsZero() {
				return false
			}
		}
		return n.client.established.id == n.server.established.id
	}
	if err := n.until(2*patience, quiet); err != nil {
		return fmt.Errorf("first key: %w", err)
	}
	if err := n.agree(0); err != nil {
		return err
	}
	rounds := 0
	if rng.IntN(3) == 0 {
		rounds = 1 + rng.IntN(3)
		if rng.IntN(2) == 0 {
			for _, e := range []*end{n.client, n.server} {
				if err := e.UseDynamicWrap(); err != nil {
					return err
				}
			}
		}
	}
	for range rounds {
		before := n.client.established.id
		by := rng.IntN(3) // client, server, or both at about the same time
		if by != 1 && !n.client.Renegotiate(n.now) {
			return fmt.Errorf("client does not renegotiate")
		}
		if by != 0 {
			n.after(time.Duration(rng.Int64N(int64(n.delay))), func() { n.server.Renegotiate(n.now) })
		}
		for range 4 {
			n.after(time.Duration(rng.Int64N(int64(4*n.delay))), func() { n.say() })
		}
		if err := n.until(2*patience, func() bool { return len(n.coming) == 0 && quiet() }); err != nil {
			return fmt.Errorf("renegotiation: %w", err)
		}
		keyID := n.client.established.id
		if keyID == before {
			return fmt.Errorf("still at key %d", keyID)
		}
		if err := n.agree(keyID); err != nil {
			return err
		}
	}
	// Now that no renegotiation disturbs, messages get through.
	for range 10 {
		n.say()
	}
	last := fmt.Sprint(n.order)
	if err := n.until(patience, func() bool {
		for _, e := range []*end{n.client, n.server} {
			if texts := e.texts(); len(texts) == 0 || texts[len(texts)-1] != last {
				return false
			}
		}
		return true
	}); err != nil {
		return fmt.Errorf("messages: %w", err)
	}
	return n.inOrder()
}

// say has both sides send a message with a number that goes up.
func (n *network) say() {
	n.order++
	for _, e := range []*end{n.client, n.server} {
		if err := e.Send(fmt.Sprint(n.order), n.now); err != nil {
			n.err = err
		}
	}
}

// inOrder checks that messages came in order and once.
func (n *network) inOrder() error {
	for _, e := range []*end{n.client, n.server} {
		before := 0
		for _, text := range e.texts() {
			var number int
			if _, err := fmt.Sscan(text, &number); err != nil || number <= before {
				return fmt.Errorf("message %q after %d", text, before)
			}
			before = number
		}
	}
	return nil
}

// agree checks that both sides derive the same key.
func (n *network) agree(keyID uint8) error {
	for _, ekm := range []bool{false, true} {
		a, errA := n.server.Derive(keyID, ekm)
		b, errB := n.client.Derive(keyID, ekm)
		if errA != nil || errB != nil || *a != *b {
			return fmt.Errorf("key blocks %d differ: %v, %v", keyID, errA, errB)
		}
	}
	return nil
}
