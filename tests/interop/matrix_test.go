// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// combination is one way to connect. Each field is a factor of the matrix.
type combination struct {
	release  string
	wrapping string
	tls      string
	cipher   string
	net      string
	keys     kind
}

// factors are the values of each field of a combination, in its order.
var factors = [][]string{
	{"2.5", "2.6", "2.7"},
	{"none", "tls-auth", "tls-auth both ways SHA512", "tls-crypt", "tls-crypt-v2"},
	{"1.2", "1.3"},
	{"AES-256-GCM", "AES-192-GCM", "AES-128-GCM", "CHACHA20-POLY1305"},
	{"udp4", "udp6", "tcp4", "tcp6"},
	{string(p256), string(rsa2048)},
}

func (c combination) String() string {
	return strings.Join([]string{c.release, c.wrapping, "TLS " + c.tls, c.cipher, c.net, string(c.keys)}, ", ")
}

// pairwise returns rows of values in which every value of a factor meets every
// value of every other one. It is the same for the same factors: of fifty random
// rows it takes the one with most new pairs, until none is left.
func pairwise(factors [][]string) (rows [][]string) {
	random := rand.New(rand.NewPCG(1, 2))
	type pair struct {
		f, g int
		a, b string
	}
	open := map[pair]bool{}
	each := func(row []string, visit func(pair)) {
		for f := range row {
			for g := f + 1; g < len(row); g++ {
				visit(pair{f, g, row[f], row[g]})
			}
		}
	}
	for f := range factors {
		for g := f + 1; g < len(factors); g++ {
			for _, a := range factors[f] {
				for _, b := range factors[g] {
					open[pair{f, g, a, b}] = true
				}
			}
		}
	}
	for len(open) > 0 {
		var best []string
		most := 0
		for range 50 {
			row := make([]string, len(factors))
			for f, values := range factors {
				row[f] = values[random.IntN(len(values))]
			}
			gain := 0
			each(row, func(p pair) {
				if open[p] {
					gain++
				}
			})
			if gain > most {
				best, most = row, gain
			}
		}
		if best == nil {
			continue
		}
		each(best, func(p pair) { delete(open, p) })
		rows = append(rows, best)
	}
	return rows
}

// TestMatrix connects clients of every release in ways of which any two values
// of any two factors meet, and passes traffic of both families both ways.
func TestMatrix(t *testing.T) {
	t.Parallel()
	rows := pairwise(factors)
	if testing.Short() {
		rows = rows[:3]
	}
	t.Logf("%d combinations", len(rows))
	for _, row := range rows {
		c := combination{row[0], row[1], row[2], row[3], row[4], kind(row[5])}
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			c.connect(t)
		})
	}
}

func (c combination) connect(t *testing.T) {
	d := newBed(t, 1)
	a, keys, w := mustAuthority(t, c.keys), mustKeys(t), wrappingNamed(t, c.wrapping)
	n := transport{tcp: strings.HasPrefix(c.net, "tcp"), ipv6: strings.HasSuffix(c.net, "6")}
	ciphers := "data-ciphers " + c.cipher
	s := d.newServer(d.configure(a, n, nil, w.server(keys), ciphers))
	s.start()
	version := "tls-version-min 1.3"
	if c.tls == "1.2" {
		version = "tls-version-max 1.2"
	}
	cl := d.newClient(0, c.release, a, a.issue(t, "client", leaf{}), n, w.client(keys), ciphers, version).up()
	for _, want := range []string{"TLSv" + c.tls, c.cipher} {
		if cl.count(want) == 0 {
			t.Errorf("the client's log does not tell of %s", want)
		}
	}
	cl.carries()
	v4, v6 := cl.addresses()
	transfer(t, cl.ns, d.server, v4, inner4, 1<<20)
	transfer(t, d.server, cl.ns, inner6, v6, 1<<20)
	up, down := cl.flows(d.server, 400)
	up.advance(200)
	down.advance(200)
	up.whole()
	down.whole()
	if !s.stock() {
		// A stock server's own options string differs from some of these clients'.
		cl.clean()
	}
	if n, ok := s.steered(); ok && strings.HasPrefix(c.net, "udp") && n == 0 {
		t.Error("no record came by AF_XDP")
	}
	if got := fmt.Sprint(names(t, s)); got != "[client]" {
		eventually(t, "status file names the client", func() bool { return fmt.Sprint(names(t, s)) == "[client]" })
	}
	cl.stop()
	s.stop()
}
