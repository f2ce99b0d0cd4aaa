// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/keyex"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/session"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wire"
	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wrap"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/statickey"
)

// loadResult is what the load process prints.
type loadResult struct {
	Handshakes uint64  `json:"handshakes"`
	Failures   uint64  `json:"failures"`
	Seconds    float64 `json:"seconds"`
}

// peerInfo is what a stock 2.6 client sends.
const peerInfo = "IV_VER=2.6.14\nIV_PLAT=linux\nIV_TCPNL=1\nIV_MTU=1600\nIV_NCP=2\nIV_CIPHERS=AES-256-GCM:AES-128-GCM:CHACHA20-POLY1305\nIV_PROTO=990\n"

const clientOptions = "V4,dev-type tun,link-mtu 1549,tun-mtu 1500,proto UDPv4,auth [null-digest],keysize 256,key-method 2,tls-client"

// clients dial a server.
type clients struct {
	server string
	tls    *tls.Config
	key    [statickey.Size]byte
}

func newClients(server, dir string) (*clients, error) {
	cert, err := tls.LoadX509KeyPair(dir+"/client.pem", dir+"/client.key")
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(dir + "/tc.key")
	if err != nil {
		return nil, err
	}
	c := &clients{server: server, tls: &tls.Config{
		Certificates: []tls.Certificate{cert},
		// What the client checks is not what is measured.
		InsecureSkipVerify: true,
		CurvePreferences:   []tls.CurveID{tls.X25519}, // what stock clients of OpenSSL before 3.5 offer
	}}
	if c.key, err = statickey.Parse(b); err != nil {
		return nil, err
	}
	return c, nil
}

var errGaveUp = errors.New("no PUSH_REPLY in time")

// dial goes through one handshake from a new port; leave says goodbye at once.
func (c *clients) dial(ctx context.Context, leave bool) (net.Conn, error) {
	conn, err := net.Dial("udp", c.server)
	if err != nil {
		return nil, err
	}
	ok := false
	defer func() {
		if !ok || leave {
			conn.Close()
		}
	}()
	var id wire.SessionID
	_, _ = rand.Read(id[:])
	s := session.New(session.Config{Role: session.Client, TLS: c.tls, Wrap: wrap.TLSCrypt(&c.key, wrap.Client), Static: &c.key, Local: id,
		Hello: func(uint8, *keyex.Message, bool) keyex.Message {
			return keyex.Message{Options: clientOptions, PeerInfo: peerInfo}
		},
	}, time.Now())
	defer s.Close()
	buf := make([]byte, 4096)
	limit := time.Now().Add(20 * time.Second)
	for {
		for _, b := range s.Outgoing() {
			if _, err := conn.Write(b); err != nil && ctx.Err() != nil {
				return nil, err
			}
		}
		if ok {
			return conn, nil
		}
		now := time.Now()
		if ctx.Err() != nil || now.After(limit) {
			return nil, errGaveUp
		}
		next := s.Next()
		if next.IsZero() || next.After(limit) {
			next = limit
		}
		_ = conn.SetReadDeadline(next)
		n, err := conn.Read(buf)
		now = time.Now()
		if err == nil {
			s.Datagram(buf[:n], now)
		}
		s.Tick(now)
		for _, e := range s.Events() {
			switch e.Type {
			case session.Failed:
				return nil, e.Err
			case session.Message:
				if strings.HasPrefix(e.Text, keyex.PushReply) {
					ok = true
					if leave {
						_ = s.Send(keyex.Exit, now)
					}
				}
			}
		}
	}
}

// load dials from so many places at once until the time is over.
func (c *clients) load(seconds float64, parallel int) loadResult {
	ctx, stop := context.WithTimeout(context.Background(), time.Duration(seconds*float64(time.Second)))
	defer stop()
	var r loadResult
	var wg sync.WaitGroup
	start := time.Now()
	for range parallel {
		wg.Go(func() {
			for ctx.Err() == nil {
				_, err := c.dial(ctx, true)
				switch {
				case err == nil:
					atomic.AddUint64(&r.Handshakes, 1)
				case ctx.Err() == nil:
					atomic.AddUint64(&r.Failures, 1)
				}
			}
		})
	}
	<-ctx.Done()
	r.Seconds = time.Since(start).Seconds()
	wg.Wait()
	return r
}

// hold connects n clients, prints, and keeps their ports until it is killed.
func (c *clients) hold(n, parallel int) error {
	var left atomic.Int64
	left.Store(int64(n))
	var mu sync.Mutex
	var open []net.Conn
	var wg sync.WaitGroup
	for range parallel {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if conn, err := c.dial(context.Background(), false); err == nil {
					mu.Lock()
					open = append(open, conn)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if err := json.NewEncoder(os.Stdout).Encode(loadResult{Handshakes: uint64(len(open)), Failures: uint64(n - len(open))}); err != nil {
		return err
	}
	_, _ = fmt.Scanln() // until stdin ends
	return nil
}
