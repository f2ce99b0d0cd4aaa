// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"unicode"
)

const (
	// maxName bounds a name in the file, in bytes. Common names have at most 64 characters by
	// X.520; usernames may have thousands.
	maxName = 512
	// maxLine bounds a line: a name, two addresses of at most 39 bytes, commas.
	maxLine = 1024
	// maxComplaints bounds what is said about one file.
	maxComplaints = 20
)

// Load reads which name has which address: lines of `name,IPv4,IPv6`, where one
// of the two may be missing. Where they don't belong together the IPv4 address is
// the one that counts, as with stock OpenVPN. A line of which nothing can be
// used costs only itself. The complaints name lines by number; there are at most
// 21. It is called before the first Acquire.
func (p *Pool) Load(r io.Reader) (complaints []string) {
	more := 0
	complain := func(n int, why string) {
		if len(complaints) == maxComplaints {
			more++
			return
		}
		complaints = append(complaints, fmt.Sprintf("line %d: %s", n, why))
	}
	in := bufio.NewReaderSize(r, maxLine)
	for n := 1; ; n++ {
		line, err := in.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n')
		}
		if long {
			complain(n, fmt.Sprintf("longer than %d bytes", maxLine))
		} else if why := p.loadLine(strings.TrimRight(string(line), "\r\n")); why != "" {
			complain(n, why)
		}
		if err == nil {
			continue
		}
		if more > 0 {
			complaints = append(complaints, fmt.Sprintf("%d more lines have faults", more))
		}
		if !errors.Is(err, io.EOF) {
			complaints = append(complaints, fmt.Sprintf("line %d: %v", n, err))
		}
		return complaints
	}
}

// loadLine uses a line; why says what is wrong with it, also when half of it was used.
func (p *Pool) loadLine(text string) (why string) {
	if strings.TrimSpace(text) == "" || text[0] == '#' || text[0] == ';' {
		return ""
	}
	fields := strings.Split(text, ",")
	if len(fields) < 2 || len(fields) > 3 {
		return "want name,address or name,address,address"
	}
	name := fields[0]
	if !storable(name) {
		return fmt.Sprintf("%.64q cannot be a name", name)
	}
	at, why := p.loadPlace(fields[1:])
	if at < 0 {
		return why
	}
	if x := p.places[at]; x != nil {
		return fmt.Sprintf("the address belongs to %.64q already", x.name)
	}
	if _, ok := p.byName[name]; ok {
		return "the name is there already"
	}
	x := p.add(at)
	p.remember(x, name)
	if p.cfg.Fixed {
		x.fixed = true
		p.fixed++
	} else {
		p.free.insert(x)
	}
	return why
}

// loadPlace returns the place that addresses mean, or -1, and what is wrong with them.
func (p *Pool) loadPlace(fields []string) (at int, why string) {
	at = -1
	var used netip.Addr
	for _, f := range fields {
		if f = strings.TrimSpace(f); f == "" {
			continue
		}
		addr, err := netip.ParseAddr(f)
		if err != nil {
			why = fmt.Sprintf("%.64q is no address", f)
			continue
		}
		n, ok := p.index(addr)
		switch {
		case !ok:
			why = fmt.Sprintf("%s is not in the pool", addr)
		case at < 0 || at != n && addr.Is4() && !used.Is4():
			if at >= 0 {
				why = fmt.Sprintf("%s and %s have different places in their ranges; %s counts", used, addr, addr)
			}
			at, used = n, addr
		case at != n:
			why = fmt.Sprintf("%s and %s have different places in their ranges; %s counts", used, addr, used)
		}
	}
	if at < 0 && why == "" {
		why = "no address"
	}
	return at, why
}

// storable reports whether a name can stand in the file without being read as
// something else: no comma and no control character, and not the beginning of a comment.
func storable(name string) bool {
	return name != "" && len(name) <= maxName && name[0] != '#' && name[0] != ';' &&
		!strings.ContainsFunc(name, func(r rune) bool { return r == ',' || unicode.IsControl(r) })
}

// Dump writes what Load reads, in the order of addresses. Names that cannot stand in
// the file are left out: those with a comma or a control character, that begin with # or ;, or
// that have more than 512 bytes. After a restart their clients get an address by chance.
func (p *Pool) Dump() []byte {
	var b bytes.Buffer
	for _, at := range slices.Sorted(maps.Keys(p.places)) {
		name := p.places[at].name
		if !storable(name) {
			continue
		}
		a := p.addresses(at)
		fmt.Fprintf(&b, "%s,%s,%s\n", name, text(a.V4), text(a.V6))
	}
	return b.Bytes()
}

func text(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}
