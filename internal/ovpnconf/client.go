// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
)

// Client is what a file in client-config-dir, or the file that a client-connect
// command wrote, says about one client.
type Client struct {
	// Disable: the client may not connect.
	Disable bool
	// Address4 is the address of ifconfig-push with the mask it is told;
	// invalid: from the pool.
	Address4 netip.Prefix
	// Address6 is the address of ifconfig-ipv6-push with its prefix length;
	// Gateway6 the remote address, invalid: the server's own.
	Address6 netip.Prefix
	Gateway6 netip.Addr
	// Routes are iroute and iroute-ipv6: networks behind the client, host bits zero.
	Routes []netip.Prefix
	// Untold4 and Untold6: the client is not told its address (push-remove ifconfig,
	// ifconfig-ipv6), which it has all the same.
	Untold4, Untold6 bool
	// Timers given for this client; nil: as for all.
	Ping, PingRestart, Inactive, SessionTimeout *time.Duration
	InactiveBytes                               int64
	// Ciphers and Fallback are the data ciphers of this client; nil and 0: as for all.
	Ciphers  []aead.Cipher
	Fallback aead.Cipher

	push []pushStep
}

// pushStep is a push, push-reset or push-remove, in order of the file.
type pushStep struct {
	kind pushKind
	Push
}

type pushKind uint8

const (
	pushAdd pushKind = iota
	pushReset
	pushRemove
)

// Pushes returns what the client is told when everybody is told global: push,
// push-reset and push-remove are applied in the order of the file. global is not
// changed. For a client with several files, one's result is the next one's global.
func (c *Client) Pushes(global []Push) []Push {
	out := slices.Clone(global)
	for _, s := range c.push {
		switch s.kind {
		case pushAdd:
			out = append(out, s.Push)
		case pushReset:
			out = out[:0]
		case pushRemove:
			out = slices.DeleteFunc(out, func(p Push) bool { return strings.HasPrefix(p.Text, s.Text) })
		}
	}
	return out
}

// ReadClient reads the file at path for one client of s. The error is about
// reading it; fs.ErrNotExist means that there is no such file. A line that is
// refused is without effect; stock logs it and lets the client in.
func ReadClient(path string, s *Server) (*Client, []Finding, error) {
	r := &loader{left: maxRead}
	lines, err := r.file(path, 1)
	if err != nil {
		return nil, nil, err
	}
	c, findings := checkClient(lines, s)
	return c, findings, nil
}

// ParseClient reads the text of such a file without opening any other; name
// stands for it in findings.
func ParseClient(name, text string, s *Server) (*Client, []Finding) {
	return checkClient(Parse(name, text), s)
}

// clientReader collects what a client's file says.
type clientReader struct {
	c *Client
	s *Server
}

type clientHandler = func(*clientReader, Line) answer

func checkClient(lines []Line, s *Server) (*Client, []Finding) {
	if s == nil {
		s = &Server{}
	}
	r := &clientReader{c: &Client{}, s: s}
	findings := make([]Finding, 0, len(lines))
	for _, l := range lines {
		a := r.judge(l)
		findings = append(findings, Finding{Line: l, Verdict: a.verdict, Why: a.why, Remedy: a.remedy})
	}
	return r.c, findings
}

func (r *clientReader) judge(l Line) answer {
	if l.fault != nil {
		return refuse(l.fault.remedy, "%s", l.fault.why)
	}
	d := byName[l.Option]
	if d == nil {
		return unknown(l.Option)
	}
	if d.Place&InClientFile == 0 {
		return refuse("put it into the server's configuration", "it is not about one client")
	}
	if bad := d.checkArgs(l); bad != nil {
		return *bad
	}
	if a, ok := controlCharacters(l); !ok {
		return a
	}
	if d.client == nil {
		return answer{verdict: d.Verdict, why: whyUnlessHonoured(d), remedy: d.Remedy}
	}
	a := d.client(r, l)
	if a.verdict == Honoured && d.Verdict != Honoured {
		a = answer{d.Verdict, cmp.Or(a.why, d.Text), cmp.Or(a.remedy, d.Remedy)}
	}
	return a
}

func clientIgnores(_ *clientReader, l Line) answer { return ignore("%s", byName[l.Option].Text) }

func clientConfig(*clientReader, Line) answer { return fine }

func clientPush(r *clientReader, l Line) answer {
	a := checkPush(l.Args[0])
	if a.verdict != Refused {
		r.c.push = append(r.c.push, pushStep{pushAdd, Push{Text: l.Args[0], Line: l}})
	}
	return a
}

func clientPushReset(r *clientReader, l Line) answer {
	r.c.push = append(r.c.push, pushStep{pushReset, Push{Line: l}})
	return note("route-gateway, topology and ping are gone too; push them again, clients need them")
}

func clientPushRemove(r *clientReader, l Line) answer {
	if l.Args[0] == "" {
		return refuse("write push-reset for everything", "it names no option")
	}
	switch l.Args[0] {
	case "ifconfig":
		r.c.Untold4 = true
	case "ifconfig-ipv6":
		r.c.Untold6 = true
	}
	r.c.push = append(r.c.push, pushStep{pushRemove, Push{Text: l.Args[0], Line: l}})
	return fine
}

func clientAddress4(r *clientReader, l Line) answer {
	a, err := parseIPv4(l.Args[0])
	if err != nil {
		return refuse("write ifconfig-push ADDRESS NETMASK", "%v", err)
	}
	n := r.s.Network4
	if a == n.Own {
		return refuse("give another one", "%s is the gateway's own address", a)
	}
	bits, ok := parseNetmask(l.Args[1])
	if !ok {
		peer, err := parseIPv4(l.Args[1])
		if err != nil {
			return refuse("write ifconfig-push ADDRESS NETMASK", "%v", err)
		}
		if !n.Prefix.Contains(a) {
			return refuse("write ifconfig-push ADDRESS NETMASK", "%s is no netmask but the other half of a net30 pair, and %s is not in the tunnel's network", peer, a)
		}
		r.c.Address4 = netip.PrefixFrom(a, n.Prefix.Bits())
		return note("%s is no netmask but the other half of a net30 pair; the client gets %s with %s. Write ifconfig-push %s %s", peer, a, netmask(n.Prefix.Bits()), a, netmask(n.Prefix.Bits()))
	}
	if a.IsMulticast() || a.IsUnspecified() || a.IsLoopback() {
		return refuse("give another one", "%s is not an address that a client can have", a)
	}
	r.c.Address4 = netip.PrefixFrom(a, bits)
	switch {
	case !n.Prefix.IsValid():
	case !n.Prefix.Contains(a):
		return note("%s is not in the tunnel's network %s; a `route` for it is needed, and the client needs a gateway that it can reach", a, n.Prefix)
	case a == n.Prefix.Addr() || a == lastOf(n.Prefix):
		return note("%s is the first or last address of the tunnel's network, which most systems do not take", a)
	}
	if len(l.Args) == 3 {
		return note("the alias for NAT is not used")
	}
	return fine
}

func clientAddress6(r *clientReader, l Line) answer {
	p, err := parsePrefix6(l.Args[0], 64, 128)
	if err != nil {
		return refuse("write ifconfig-ipv6-push ADDRESS/BITS [REMOTE]", "%v", err)
	}
	if p.Addr() == r.s.Network6.Own {
		return refuse("give another one", "%s is the gateway's own address", p.Addr())
	}
	if len(l.Args) == 2 {
		if r.c.Gateway6, err = parseIPv6(l.Args[1]); err != nil {
			return refuse("write ifconfig-ipv6-push ADDRESS/BITS [REMOTE]", "%v", err)
		}
	} else if !r.s.Network6.Own.IsValid() {
		return refuse("add server-ipv6 to the server's configuration, or a remote address here", "the tunnel has no IPv6 address of its own")
	}
	r.c.Address6 = p
	return fine
}

func clientRoute4(r *clientReader, l Line) answer {
	a, err := parseIPv4(l.Args[0])
	if err != nil {
		return refuse("write iroute NETWORK NETMASK", "%v", err)
	}
	bits := 32
	if len(l.Args) == 2 {
		var ok bool
		if bits, ok = parseNetmask(l.Args[1]); !ok {
			return refuse("write iroute NETWORK NETMASK", "%q is not a netmask", printable(l.Args[1]))
		}
	}
	return r.route(netip.PrefixFrom(a, bits))
}

func clientRoute6(r *clientReader, l Line) answer {
	p, err := parsePrefix6(l.Args[0], 0, 128)
	if err != nil {
		return refuse("write iroute-ipv6 PREFIX/BITS", "%v", err)
	}
	return r.route(p)
}

func (r *clientReader) route(p netip.Prefix) answer {
	m := p.Masked()
	if slices.Contains(r.c.Routes, m) {
		return note("it stands above already")
	}
	if limit := cmp.Or(r.s.Clients.MaxRoutes, 256); len(r.c.Routes) >= limit {
		return refuse("raise max-routes-per-client", "the client has %d networks already", limit)
	}
	r.c.Routes = append(r.c.Routes, m)
	if m != p {
		return note("%s has bits behind the mask; %s is meant", p, m)
	}
	return fine
}

func clientSeconds(at func(*Client) **time.Duration) clientHandler {
	return func(r *clientReader, l Line) answer {
		d, err := parseSeconds(l.Args[0], 0)
		if err != nil {
			return refuse("give whole seconds", "%v", err)
		}
		*at(r.c) = &d
		return fine
	}
}

func clientInactive(r *clientReader, l Line) answer {
	d, bytes, a := inactiveOf(l)
	if a.verdict != Refused {
		r.c.Inactive, r.c.InactiveBytes = &d, bytes
	}
	return a
}

func clientCiphers(r *clientReader, l Line) answer {
	c, a := ciphersOf(l)
	if a.verdict != Refused {
		r.c.Ciphers = c
	}
	return a
}

func clientFallback(r *clientReader, l Line) answer {
	c, a := fallbackOf(l)
	r.c.Fallback = c
	return a
}

// clientCompress is about data that the client would not understand.
func clientCompress(_ *clientReader, l Line) answer {
	if len(l.Args) == 1 && (l.Args[0] == "no" || l.Args[0] == "migrate") {
		return ignore("compression is not spoken")
	}
	return refuse(fmt.Sprintf("remove %s here and from the client", l.Option), "compression is not spoken")
}
