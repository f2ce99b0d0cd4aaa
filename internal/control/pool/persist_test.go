// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestPersistence(t *testing.T) {
	p := newPool(t, "10.8.0.2", "10.8.0.19", "fd00::10")
	for _, name := range []string{"alice", "bad,name", "line\nbreak", "#no", "bob smith", " spaced ", strings.Repeat("x", 4095), ";no", "nul\x00"} {
		acquire(t, p, name)
	}
	text := string(p.Dump())
	if want := "alice,10.8.0.2,fd00::10\nbob smith,10.8.0.6,fd00::14\n spaced ,10.8.0.7,fd00::15\n"; text != want {
		t.Errorf("file\n%s, want\n%s", text, want)
	}
	q := newPool(t, "10.8.0.2", "10.8.0.19", "fd00::10")
	if why := q.Load(strings.NewReader(text)); why != nil {
		t.Errorf("complaints %q", why)
	}
	if a := acquire(t, q, "somebody"); a.V4 != addr("10.8.0.3") {
		t.Errorf("a stranger got %v, which is remembered for another", a.V4)
	}
	if a := acquire(t, q, " spaced "); a.V4 != addr("10.8.0.7") {
		t.Errorf("a name with spaces at its ends got %v", a.V4)
	}
	if a := acquire(t, q, "bob smith"); a.V4 != addr("10.8.0.6") || a.V6 != addr("fd00::14") {
		t.Errorf("bob smith got %v %v", a.V4, a.V6)
	}
}

// TestPersistenceOfOthers reads files as people and other programs leave them.
func TestPersistenceOfOthers(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	for _, test := range []struct {
		line, name string
		v4         string // what the name is given; "": what nobody had
		complaint  string
	}{
		{"alice,10.8.0.5", "alice", "10.8.0.5", ""},
		{"alice,10.8.0.5,", "alice", "10.8.0.5", ""},
		{"alice, 10.8.0.5 \r", "alice", "10.8.0.5", ""},
		{"alice,,fd00::13", "alice", "10.8.0.5", ""},
		{"alice,10.8.0.5,fd00::13", "alice", "10.8.0.5", ""},
		{"alice,10.8.0.5,fd00::17", "alice", "10.8.0.5", "line 1: 10.8.0.5 and fd00::17 have different places in their ranges; 10.8.0.5 counts"},
		{"alice,fd00::17,10.8.0.5", "alice", "10.8.0.5", "line 1: fd00::17 and 10.8.0.5 have different places in their ranges; 10.8.0.5 counts"},
		{"alice,10.8.0.5,fd01::1", "alice", "10.8.0.5", "line 1: fd01::1 is not in the pool"},
		{"alice,10.9.0.5,fd00::13", "alice", "10.8.0.5", "line 1: 10.9.0.5 is not in the pool"},
		{"alice,10.9.0.5", "alice", "", "line 1: 10.9.0.5 is not in the pool"},
		{"alice,10.8.0.1", "alice", "", "line 1: 10.8.0.1 is not in the pool"},
		{"alice,::ffff:10.8.0.5", "alice", "", "line 1: ::ffff:10.8.0.5 is not in the pool"},
		{"alice,x", "alice", "", `line 1: "x" is no address`},
		{"alice,,", "alice", "", "line 1: no address"},
		{"alice", "alice", "", "line 1: want name,address or name,address,address"},
		{"a,l,ice,10.8.0.5", "a", "", "line 1: want name,address or name,address,address"},
		{",10.8.0.5", "", "", `line 1: "" cannot be a name`},
		{"a\x00b,10.8.0.5", "a\x00b", "", `line 1: "a\x00b" cannot be a name`},
		{"\n# comment\n; another\n  \nalice,10.8.0.5", "alice", "10.8.0.5", ""},
		{"alice,10.8.0.5\nalice,10.8.0.6", "alice", "10.8.0.5", "line 2: the name is there already"},
		{"alice,10.8.0.5\nbob,10.8.0.5", "bob", "", `line 2: the address belongs to "alice" already`},
		{long + "\nalice,10.8.0.5", "alice", "10.8.0.5", "line 1: longer than 1024 bytes"},
		{long + ",10.8.0.6\nalice,10.8.0.5\n", "alice", "10.8.0.5", "line 1: longer than 1024 bytes"},
	} {
		p := newPool(t, "10.8.0.2", "10.8.0.9", "fd00::10")
		if got := strings.Join(p.Load(strings.NewReader(test.line)), "\n"); got != test.complaint {
			t.Errorf("%.60q: complaint %q, want %q", test.line, got, test.complaint)
		}
		want := test.v4
		if want == "" {
			want = "10.8.0.2"
		}
		if a := acquire(t, p, test.name); a.V4 != addr(want) {
			t.Errorf("%.60q: got %v, want %s", test.line, a.V4, want)
		}
	}
}

// TestManyFaults: a file that is something else does not fill the log.
func TestManyFaults(t *testing.T) {
	p := newPool(t, "10.8.0.2", "10.8.0.9", "")
	why := p.Load(strings.NewReader(strings.Repeat("x\n", 5000)))
	if len(why) != maxComplaints+1 || why[maxComplaints] != "4980 more lines have faults" {
		t.Errorf("%d complaints, the last %q", len(why), why[len(why)-1])
	}
}

func TestReadFails(t *testing.T) {
	p := newPool(t, "10.8.0.2", "10.8.0.9", "")
	in := io.MultiReader(strings.NewReader("alice,10.8.0.5\n"), iotest.ErrReader(errors.New("broken disk")))
	if why := p.Load(in); len(why) != 1 || !strings.Contains(why[0], "broken disk") {
		t.Errorf("complaints %q", why)
	}
	if a := acquire(t, p, "alice"); a.V4 != addr("10.8.0.5") {
		t.Errorf("alice got %v", a.V4)
	}
}

// TestFixed has a file that is only read: its addresses are for its names alone, as
// with OpenVPN, or rules by address would hold for strangers.
func TestFixed(t *testing.T) {
	const file = "alice,10.8.0.2,\nbob,10.8.0.3,\n"
	p, err := New(Config{First: addr("10.8.0.2"), Last: addr("10.8.0.4"), Fixed: true})
	if err != nil {
		t.Fatal(err)
	}
	if why := p.Load(strings.NewReader(file)); why != nil {
		t.Fatalf("complaints %q", why)
	}
	now := time.Unix(1, 0)
	if a := acquire(t, p, "mallory"); a.V4 != addr("10.8.0.4") {
		t.Errorf("mallory got %v", a.V4)
	}
	if a, err := p.Acquire("mallory2"); !errors.Is(err, ErrExhausted) || !strings.Contains(err.Error(), "2 kept for names") {
		t.Errorf("mallory2 got %v, error %v", a.V4, err)
	}
	// Neither what they do nor what is configured for others takes them away.
	alice := acquire(t, p, "alice")
	if a, err := p.Acquire("alice"); err == nil {
		t.Errorf("a second alice got %v", a.V4)
	}
	p.Release(alice, now)
	pushed, ok := p.Reserve(addr("10.8.0.2"), "eve")
	if !ok {
		t.Error("an address cannot be reserved for whom a configuration says")
	}
	p.Release(pushed, now)
	if a, err := p.Acquire("mallory2"); err == nil {
		t.Errorf("mallory2 got %v", a.V4)
	}
	for name, want := range map[string]string{"alice": "10.8.0.2", "bob": "10.8.0.3"} {
		if a := acquire(t, p, name); a.V4 != addr(want) {
			t.Errorf("%s got %v", name, a.V4)
		}
	}
}

// TestSameNameInFileOnce: two sessions of a name leave a file that Load takes.
func TestSameNameInFileOnce(t *testing.T) {
	p := newPool(t, "10.8.0.2", "10.8.0.9", "")
	acquire(t, p, "x")
	b := acquire(t, p, "x")
	if got, want := string(p.Dump()), "x,"+b.V4.String()+",\n"; got != want {
		t.Errorf("file %q, want %q", got, want)
	}
}

// FuzzLoad: whatever the file says, what is written after it is read without complaint and
// means the same, and no address is given twice.
func FuzzLoad(f *testing.F) {
	f.Add("alice,10.8.0.2,fd00::10\nbob,10.8.0.3\n", "carol", false)
	f.Add(" a ,10.8.0.9,fd00::11\r\n#x\n,,\nb,,fd00::17", "a,b\nc", true)
	f.Add(strings.Repeat("x", 1100)+"\nalice,10.8.0.5", strings.Repeat("y", 600), false)
	f.Fuzz(func(t *testing.T, text, name string, fixed bool) {
		c := Config{First: addr("10.8.0.2"), Last: addr("10.8.0.9"), Base: addr("fd00::10"), Fixed: fixed}
		p, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		if why := p.Load(strings.NewReader(text)); len(why) > maxComplaints+2 {
			t.Fatalf("%d complaints", len(why))
		}
		if _, err := p.Acquire(name); err != nil && p.fixed < p.Size() {
			t.Fatal(err)
		}
		dumped := p.Dump()
		q, _ := New(c)
		if why := q.Load(bytes.NewReader(dumped)); why != nil {
			t.Fatalf("our own file: %q\n%q", why, dumped)
		}
		if again := q.Dump(); !bytes.Equal(again, dumped) {
			t.Fatalf("%q became %q", dumped, again)
		}
		seen := map[netip.Addr]bool{}
		for range q.Size() - q.fixed {
			a, err := q.Acquire("")
			if err != nil || seen[a.V4] {
				t.Fatalf("%v %v", a.V4, err)
			}
			seen[a.V4] = true
		}
		if a, err := q.Acquire(""); err == nil {
			t.Fatalf("%v was given, and there was none left", a.V4)
		}
	})
}
