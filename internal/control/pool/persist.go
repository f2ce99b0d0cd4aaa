// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// maxLine bounds a line of the file, in bytes; longer ones end the reading.
const maxLine = 4096

// Load reads which name has which address: lines of `name,IPv4,IPv6`, where one
// of the two may be missing. Lines that cannot be used are skipped; complaints
// say which and why.
func (p *Pool) Load(r io.Reader) (complaints []string) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 512), maxLine)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' || text[0] == ';' {
			continue
		}
		if why := p.loadLine(text); why != "" {
			complaints = append(complaints, fmt.Sprintf("line %d: %s", n, why))
		}
	}
	if err := lines.Err(); err != nil {
		complaints = append(complaints, err.Error())
	}
	return complaints
}

func (p *Pool) loadLine(text string) (why string) {
	fields := strings.Split(text, ",")
	if len(fields) < 2 || len(fields) > 3 || fields[0] == "" {
		return "want name,address or name,address,address"
	}
	name, at, found := fields[0], 0, false
	for _, f := range fields[1:] {
		if f == "" {
			continue
		}
		addr, err := netip.ParseAddr(strings.TrimSpace(f))
		if err != nil {
			return fmt.Sprintf("%q is no address", f)
		}
		n, ok := p.place(addr)
		if !ok {
			return fmt.Sprintf("%s is not in the pool", addr)
		}
		if found && n != at {
			return "the two addresses have different places in their ranges"
		}
		at, found = n, true
	}
	if !found {
		return "no address"
	}
	if x := p.places[at]; x != nil {
		return fmt.Sprintf("the address belongs to %q already", x.name)
	}
	if _, ok := p.byName[name]; ok {
		return "the name is there already"
	}
	p.places[at] = &place{name: name}
	p.byName[name] = at
	return ""
}

// Dump writes what Load reads. Names with a comma or a line break, which would
// shift columns, are left out: their clients get an address by chance.
func (p *Pool) Dump() []byte {
	var b bytes.Buffer
	for _, n := range slices.Sorted(maps.Keys(p.places)) {
		x := p.places[n]
		if x.name == "" || strings.ContainsAny(x.name, ",\r\n") || x.name[0] == '#' || x.name[0] == ';' {
			continue
		}
		a := p.at(n)
		fmt.Fprintf(&b, "%s,%s,%s\n", x.name, text(a.V4), text(a.V6))
	}
	return b.Bytes()
}

func text(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}
