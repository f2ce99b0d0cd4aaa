// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// PushReply is Line.File of pushed options.
const PushReply = "PUSH_REPLY"

// needed are pushed options without which, or with which misunderstood, the tunnel would
// carry nothing, or something else than the server means.
var needed = []string{
	"ifconfig", "ifconfig-ipv6", "topology", "peer-id", "cipher", "compress", "comp-lzo", "comp-noadapt", "fragment", "tun-mtu", "protocol-flags", "key-derivation",
	"block-ipv6", "redirect-gateway",
}

// Pulled returns the profile with the options of a PUSH_REPLY put in, in their order, and
// what is to be said about them. p is not changed. Options that are unknown or cannot be
// honoured are left out, as with stock; Unusable names those that cannot be.
func (p *Profile) Pulled(options []string) (*Profile, []Finding) {
	with := *p
	with.Routes = slices.Clone(p.Routes)
	with.Foreign, with.Scripts.Env = slices.Clone(p.Foreign), slices.Clone(p.Scripts.Env)
	with.DNS = DNS{slices.Clone(p.DNS.Servers), slices.Clone(p.DNS.Search), slices.Clone(p.DNS.Routing)}
	r := newReaderOf(profileByName)
	r.p, r.c, r.pulling = &with, &with.Common, true
	r.topology, r.gateway, r.gateway6, r.metric = p.kept.topology, p.kept.gateway, p.kept.gateway6, p.kept.metric
	for n, text := range options {
		l := Line{File: PushReply, Number: n + 1}
		words, f := splitWords(text)
		switch {
		case f != nil:
			l.Option, l.fault = printable(firstWord(text)), f
		case len(words) == 0:
			continue
		default:
			l.Option, l.Args = printable(bareName(words[0])), words[1:]
		}
		if a, ok := p.filtered(text, l.Option); !ok {
			r.findings = append(r.findings, Finding{Line: l, Verdict: a.verdict, Why: a.why, Remedy: a.remedy})
			continue
		}
		r.read(l)
	}
	r.clientAddresses()
	r.clientRoutes()
	return &with, slices.Concat(r.findings, r.aboutRun)
}

// filtered says what pull-filter and route-nopull have against a pushed option.
func (p *Profile) filtered(text, option string) (answer, bool) {
	for _, f := range p.Filters {
		if !strings.HasPrefix(text, f.Text) {
			continue
		}
		switch f.Action {
		case FilterIgnore:
			return ignore("pull-filter ignore %q", f.Text), false
		case FilterReject:
			return refuse(filterRemedy, "pull-filter reject %q", f.Text), false
		}
		break
	}
	if p.RouteNoPull {
		switch option {
		case "route", "route-ipv6", "route-gateway", "route-ipv6-gateway", "route-metric", "redirect-gateway", "redirect-private", "dhcp-option", "dns", "block-ipv6":
			return ignore("route-nopull"), false
		}
	}
	return fine, true
}

const filterRemedy = "the session ends, as pull-filter reject asks for"

// Unusable returns the finding of Pulled that makes a session unusable, or nil.
func Unusable(findings []Finding) *Finding {
	for i := range findings {
		f := &findings[i]
		if f.Verdict == Refused && (slices.Contains(needed, f.Line.Option) || f.Remedy == filterRemedy) {
			return f
		}
	}
	return nil
}

func readClientIfconfig6(r *reader, l Line) answer {
	p, err := parsePrefix6(l.Args[0], 0, 128)
	if err != nil {
		return refuse("write ifconfig-ipv6 fd00:8::2/64 fd00:8::1", "%v", err)
	}
	r.local6 = p
	return fine
}

func readPeerID(r *reader, l Line) answer {
	n, err := parseInt(l.Args[0], 0, 0xffffff)
	if err != nil {
		return refuse("", "%v", err)
	}
	id := uint32(n)
	r.p.Pushed.PeerID = &id
	return fine
}

func readProtocolFlags(r *reader, l Line) answer {
	var unknown []string
	for _, word := range l.Args {
		switch word {
		case "cc-exit":
			r.p.Pushed.CCExit = true
		case "tls-ekm":
			r.p.Pushed.EKM = true
		case "dyn-tls-crypt":
			r.p.Pushed.Dynamic = true
		case "aead-epoch":
			return refuse("", "the server wants aead-epoch, which was not announced")
		default:
			unknown = append(unknown, word)
		}
	}
	if unknown != nil {
		return note("not known and left out: %s", printable(strings.Join(unknown, " ")))
	}
	return fine
}

func readTokenUser(r *reader, l Line) answer {
	b, err := base64.StdEncoding.DecodeString(l.Args[0])
	if err != nil {
		return refuse("", "it is not base64")
	}
	r.p.Pushed.TokenUser = string(b)
	return fine
}

// readDHCPOption keeps what goes to resolvectl, and all of it for scripts.
func readDHCPOption(r *reader, l Line) answer {
	d := &r.p.DNS
	if len(l.Args) >= 2 {
		switch l.Args[0] {
		case "DNS", "DNS6":
			a, err := netip.ParseAddr(l.Args[1])
			if err != nil {
				return refuse("", "%q is not an address", printable(l.Args[1]))
			}
			d.Servers = append(d.Servers, netip.AddrPortFrom(a.Unmap(), 0))
		case "DOMAIN", "DOMAIN-SEARCH", "ADAPTER_DOMAIN_SUFFIX":
			if a := domain(l.Args[1]); a.verdict == Refused {
				return a
			}
			if !slices.Contains(d.Search, l.Args[1]) {
				d.Search = append(d.Search, l.Args[1])
			}
		}
	}
	r.p.Foreign = append(r.p.Foreign, "dhcp-option "+strings.Join(l.Args, " "))
	return fine
}

// domain refuses what is no name of a domain.
func domain(s string) answer {
	if s == "" || len(s) > 253 || s[0] == '-' || strings.ContainsFunc(s, func(c rune) bool {
		return c != '-' && c != '.' && c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c < 0x80
	}) {
		return refuse("", "%q is no name of a domain", printable(s))
	}
	return fine
}

func readDNS(r *reader, l Line) answer {
	d := &r.p.DNS
	if l.Args[0] == "search-domains" {
		for _, s := range l.Args[1:] {
			if a := domain(s); a.verdict == Refused {
				return a
			}
			d.Search = append(d.Search, s)
		}
		return fine
	}
	if l.Args[0] != "server" || len(l.Args) < 4 {
		return refuse("write dns server N address ADDRESS, or dns search-domains DOMAIN", "%q is not possible", printable(strings.Join(l.Args, " ")))
	}
	if _, err := parseInt(l.Args[1], -128, 127); err != nil {
		return refuse("give a priority from -128 to 127", "%v", err)
	}
	values := l.Args[3:]
	switch l.Args[2] {
	case "address":
		for _, s := range values {
			at, err := serverAddress(s)
			if err != nil {
				return refuse("write ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT", "%v", err)
			}
			d.Servers = append(d.Servers, at)
		}
	case "resolve-domains":
		for _, s := range values {
			if a := domain(s); a.verdict == Refused {
				return a
			}
			d.Routing = append(d.Routing, s)
		}
	case "dnssec", "sni":
		return ignore("resolvectl's own setting is left as it is")
	case "transport":
		if values[0] != "plain" {
			return ignore("names are asked for in plain DNS")
		}
	default:
		return refuse("address, resolve-domains, dnssec, transport or sni", "%q is not possible", printable(l.Args[2]))
	}
	return fine
}

func serverAddress(s string) (netip.AddrPort, error) {
	if at, err := netip.ParseAddrPort(s); err == nil {
		return netip.AddrPortFrom(at.Addr().Unmap(), at.Port()), nil
	}
	a, err := netip.ParseAddr(strings.Trim(s, "[]"))
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q is not an address", printable(s))
	}
	return netip.AddrPortFrom(a.Unmap(), 0), nil
}
