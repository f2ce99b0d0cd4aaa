// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/pkg/aead"
)

// reader collects what lines say. What several lines decide together is kept
// as it was written and put together by finish.
type reader struct {
	rows     map[string]*OptionDoc
	c        *Common // of s or p
	s        *Server // nil for a profile
	p        *Profile
	findings []Finding
	// last is the index of each option's last finding, by its row's name.
	last map[string]int
	// tolerated are names of ignore-unknown-option; all: setenv FORWARD_COMPATIBLE.
	tolerated map[string]bool
	all       bool

	port     uint16
	lport    uint16 // a profile's
	rport    uint16
	nobind   bool
	dials    []dial
	pulling  bool // pushed options are read
	proto    string
	v6only   bool
	locals   []local
	dev      string
	devType  string
	topology string
	mode     string
	server   *serverLine
	server6  netip.Prefix
	ifconfig []string
	local6   netip.Prefix
	pool     *Pool4
	pool6    netip.Prefix
	gateway  netip.Addr
	gateway6 netip.Addr
	metric   int
	ping     struct{ interval, timeout time.Duration } // keepalive
	tlsAuth  Source
	tlsCrypt Source
	nodelay  bool
	mtuGiven bool
	fixGiven bool
	aboutRun []Finding // about no line
}

// serverLine is what `server` said.
type serverLine struct {
	network, mask string
	nopool        bool
}

// local is one `local` line.
type local struct {
	host, port, proto string
	line              Line
}

func defaults() Common {
	return Common{
		Tunnel: Tunnel{MTU: defaultTunMTU, MTUMax: 1600, MaxPacket: 1250},
		TLS:    TLS{MinVersion: tls.VersionTLS12},
		Peers:  PeerChecks{UsernameFields: []string{"CN"}},
		Wrap:   Wrapping{Digest: "SHA1"},
		Data:   Data{Ciphers: []aead.Cipher{aead.AES256GCM, aead.AES128GCM, aead.ChaCha20Poly1305}},
		Timers: Timers{
			RenegMax: 3600 * time.Second, RenegMin: -1, HandWindow: 60 * time.Second,
			TranWindow: 3600 * time.Second, TLSTimeout: 2 * time.Second,
		},
		Scripts:    Scripts{Security: 1},
		Management: Management{LogCache: 250},
		Status:     Status{Every: 60 * time.Second, Version: 1},
		Log:        Log{Verb: 1},
	}
}

func newReader() *reader {
	r := newReaderOf(byName)
	r.s = &Server{
		Common:      defaults(),
		PoolPersist: PoolPersist{Every: 600 * time.Second},
		Clients:     Clients{Max: 1024, MaxRoutes: 256, Initial: Frequency{100, 10 * time.Second}},
	}
	r.c = &r.s.Common
	return r
}

// newReaderOf returns a reader that knows these options.
func newReaderOf(rows map[string]*OptionDoc) *reader {
	return &reader{
		rows: rows, last: make(map[string]int), tolerated: make(map[string]bool),
		port: 1194, lport: 1194, rport: 1194, proto: "udp", metric: -1,
	}
}

// Check gives every line its verdict. The findings stand in the order of the
// lines, what is about the whole file behind them. The Server is complete when
// Usable(findings), else it holds what could be understood. No file is opened.
func Check(lines []Line) (*Server, []Finding) {
	r := newReader()
	for _, l := range lines {
		r.read(l)
	}
	r.finish()
	return r.s, slices.Concat(r.findings, r.aboutRun)
}

// read gives one line its finding.
func (r *reader) read(l Line) {
	optional := false
	if l.fault == nil && l.Option == "setenv" && len(l.Args) > 1 && l.Args[0] == "opt" {
		l.Option, l.Args = printable(bareName(l.Args[1])), l.Args[2:]
		optional = true
	}
	d := r.rows[l.Option]
	name := l.Option
	if d != nil {
		name = d.Name
	}
	a := r.judge(l, d, optional)
	r.last[name] = len(r.findings)
	r.findings = append(r.findings, Finding{Line: l, Verdict: a.verdict, Why: a.why, Remedy: a.remedy})
}

func (r *reader) judge(l Line, d *OptionDoc, optional bool) answer {
	if l.fault != nil {
		return refuse(l.fault.remedy, "%s", l.fault.why)
	}
	if d == nil {
		switch {
		case r.tolerated[l.Option]:
			return ignore("unknown, and named by ignore-unknown-option")
		case optional:
			return ignore("unknown, and marked as optional by `setenv opt`")
		case r.all:
			return ignore("unknown, and `setenv FORWARD_COMPATIBLE 1` stands above")
		}
		return unknown(l.Option)
	}
	if r.pulling {
		if d.Place&InPush == 0 {
			return refuse("", "a server cannot push it")
		}
	} else if d.Place == InPush {
		return refuse("remove it", "only a server says it, in what it pushes")
	} else if d.Place&InFile == 0 {
		return refuse(cmp.Or(d.Remedy, "put it into a file of client-config-dir"), "it is about one client and belongs into that client's file")
	}
	if bad := d.checkArgs(l); bad != nil {
		return *bad
	}
	if a, ok := controlCharacters(l); !ok {
		return a
	}
	if d.read == nil {
		return answer{verdict: d.Verdict, why: whyUnlessHonoured(d), remedy: d.Remedy}
	}
	a := d.read(r, l)
	if a.verdict == Honoured && d.Verdict != Honoured {
		a = answer{verdict: d.Verdict, why: cmp.Or(a.why, d.Text), remedy: cmp.Or(a.remedy, d.Remedy)}
	}
	return a
}

func whyUnlessHonoured(d *OptionDoc) string {
	if d.Verdict == Honoured {
		return ""
	}
	return d.Text
}

func unknown(option string) answer {
	if near := suggest(option); near != "" {
		return refuse(fmt.Sprintf("did you mean %s?", near), "there is no such option")
	}
	return refuse("remove it, or name it in ignore-unknown-option above", "there is no such option")
}

// controlCharacters refuses them in arguments: none is of use, and they would
// reach logs, environments and pushed text.
func controlCharacters(l Line) (answer, bool) {
	for _, arg := range l.Args {
		if strings.ContainsFunc(arg, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			return refuse("remove it", "%q contains a control character", printable(arg)), false
		}
	}
	return fine, true
}

// amend changes the finding of the last line of an option; without such a line
// it adds one about the whole file. A refusal stays.
func (r *reader) amend(option string, a answer) {
	i, ok := r.last[option]
	if !ok {
		r.aboutRun = append(r.aboutRun, Finding{Line: Line{File: r.file(), Option: option}, Verdict: a.verdict, Why: a.why, Remedy: a.remedy})
		return
	}
	f := &r.findings[i]
	if f.Verdict == Refused {
		return
	}
	if f.Why != "" && a.verdict == f.Verdict {
		a.why = f.Why + "; " + a.why
	}
	f.Verdict, f.Why, f.Remedy = max(f.Verdict, a.verdict), a.why, cmp.Or(a.remedy, f.Remedy)
}

// given says whether an option was there and not refused.
func (r *reader) given(option string) bool {
	i, ok := r.last[option]
	return ok && r.findings[i].Verdict != Refused
}

// was says whether an option was there at all.
func (r *reader) was(option string) bool {
	_, ok := r.last[option]
	return ok
}

// file is the file that findings about the whole configuration name.
func (r *reader) file() string {
	for _, f := range slices.Backward(r.findings) {
		if f.Line.File != "" && f.Line.File != CommandLine {
			return f.Line.File
		}
	}
	return ""
}
