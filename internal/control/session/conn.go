// SPDX-License-Identifier: Apache-2.0

package session

import (
	"net"
	"time"
)

// pipe is the net.Conn under a TLS connection: bytes of messages received in
// order come in, bytes to be cut into messages go out.
//
// While the handshake runs in its coroutine, Read waits for input by giving
// control back to the session. Afterwards it returns errNoData, after which
// crypto/tls lets Read be called again.
type pipe struct {
	in, out []byte
	wait    func() bool // false: give up
}

func (p *pipe) Read(b []byte) (int, error) {
	for len(p.in) == 0 {
		if p.wait == nil {
			return 0, errNoData
		}
		if !p.wait() {
			return 0, net.ErrClosed
		}
	}
	n := copy(b, p.in)
	p.in = p.in[n:]
	if len(p.in) == 0 {
		p.in = nil
	}
	return n, nil
}

// take cuts up to n bytes off what is to be sent. They belong to the caller.
func (p *pipe) take(n int) []byte {
	n = min(n, len(p.out))
	b := append([]byte(nil), p.out[:n]...)
	p.out = p.out[n:]
	if len(p.out) == 0 {
		p.out = nil
	}
	return b
}

func (p *pipe) Write(b []byte) (int, error) {
	p.out = append(p.out, b...)
	return len(b), nil
}

func (p *pipe) Close() error                     { return nil }
func (p *pipe) LocalAddr() net.Addr              { return pipeAddr{} }
func (p *pipe) RemoteAddr() net.Addr             { return pipeAddr{} }
func (p *pipe) SetDeadline(time.Time) error      { return nil }
func (p *pipe) SetReadDeadline(time.Time) error  { return nil }
func (p *pipe) SetWriteDeadline(time.Time) error { return nil }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "openvpn" }
func (pipeAddr) String() string  { return "control channel" }

// errNoData is a temporary net.Error, the only kind of read error that doesn't
// break a tls.Conn.
var errNoData net.Error = noData{}

type noData struct{}

func (noData) Error() string   { return "no data yet" }
func (noData) Timeout() bool   { return true }
func (noData) Temporary() bool { return true }
