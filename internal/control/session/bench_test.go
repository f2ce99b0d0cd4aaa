// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/tls"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
)

// serve carries datagrams to and fro until there are none, and returns the time
// the server took.
func (p *pair) serve() (took time.Duration) {
	for {
		out := p.client.act(p.now)
		if len(out) == 0 {
			return took
		}
		begin := time.Now()
		for _, b := range out {
			p.server.Datagram(b, p.now)
		}
		answers := p.server.act(p.now)
		took += time.Since(begin)
		for _, b := range answers {
			p.client.Datagram(b, p.now)
		}
	}
}

// BenchmarkHandshake runs whole handshakes, from reset to key, client and
// server in turn. server-us/op is the server's part.
func BenchmarkHandshake(b *testing.B) {
	for name, pki := range map[string]*pki{"ecdsa": ecdsaPKI(), "rsa": rsaPKI()} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			for _, crypt := range []bool{false, true} {
				b.Run(fmt.Sprintf("%s/%s/crypt=%v", name, tls.VersionName(version), crypt), func(b *testing.B) {
					o := options{version: version, pki: pki, crypt: crypt}
					b.ReportAllocs()
					var took time.Duration
					for b.Loop() {
						server, client := o.configs()
						p := &pair{t: b, now: began, server: &end{Session: New(server, began)}, client: &end{Session: New(client, began)}}
						took += p.serve()
						if p.server.established == nil || p.client.established == nil {
							b.Fatal("not established")
						}
						p.server.Close()
						p.client.Close()
					}
					b.ReportMetric(float64(took.Microseconds())/float64(b.N), "server-us/op")
				})
			}
		}
	}
}

// BenchmarkMemory measures what a server session keeps, in bytes: B/session of
// heap, and stack-B/session.
func BenchmarkMemory(b *testing.B) {
	for _, phase := range []struct {
		name string
		run  func(p *pair)
	}{
		{"reset", func(p *pair) { p.server.Datagram(forge(7, 0, wire.Body{}), p.now); p.server.Outgoing() }},
		{"handshaking", func(p *pair) {
			p.drop = func(fromClient bool, b []byte) bool { return !fromClient && b[0]>>3 == wire.ControlV1 }
			p.exchange()
		}},
		{"idle", func(p *pair) { p.exchange() }},
		{"renegotiated", func(p *pair) {
			for range 3 {
				p.exchange()
				p.client.Renegotiate(p.now)
			}
			p.exchange()
		}},
	} {
		b.Run(phase.name, func(b *testing.B) {
			const sessions = 500
			o := options{crypt: true}
			server, _ := o.configs()
			config := server.TLS // one for all, as a gateway has it
			var heap, stack float64
			for b.Loop() {
				var before, after runtime.MemStats
				keep := make([]*Session, sessions)
				runtime.GC()
				runtime.GC()
				runtime.ReadMemStats(&before)
				for i := range keep {
					server, client := o.configs()
					server.TLS = config
					p := &pair{t: b, now: began, server: &end{Session: New(server, began)}, client: &end{Session: New(client, began)}}
					phase.run(p)
					p.client.Close()
					keep[i] = p.server.Session
				}
				runtime.GC()
				runtime.GC()
				runtime.ReadMemStats(&after)
				heap += float64(after.HeapAlloc) - float64(before.HeapAlloc)
				stack += float64(after.StackInuse) - float64(before.StackInuse)
				for _, s := range keep {
					s.Close()
				}
			}
			b.ReportMetric(heap/sessions/float64(b.N), "B/session")
			b.ReportMetric(stack/sessions/float64(b.N), "stack-B/session")
		})
	}
}
