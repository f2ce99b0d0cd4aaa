// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
	"github.com/ovpn-xdp/ovpn-xdp/pkg/reason"
)

// The layout that docs/bpf-maps.md describes. A change here is a change of the ABI.
func TestLayout(t *testing.T) {
	var (
		e ingressEndpoint
		l ingressListener
		p ingressPeer
		s ingressPeerTraffic
		v ingressTally
		c ingressControlState
		h handoverHandoverTally
	)
	for _, f := range []struct {
		name      string
		got, want uintptr
	}{
		{"endpoint", unsafe.Sizeof(e), 20},
		{"endpoint.port", unsafe.Offsetof(e.Port), 2},
		{"endpoint.addr", unsafe.Offsetof(e.Addr), 4},
		{"listener", unsafe.Sizeof(l), 4},
		{"peer", unsafe.Sizeof(p), 28},
		{"peer.state", unsafe.Offsetof(p.State), 20},
		{"peer.key_ids", unsafe.Offsetof(p.KeyIds), 24},
		{"peer_traffic", unsafe.Sizeof(s), 16},
		{"peer_traffic.bytes", unsafe.Offsetof(s.Bytes), 8},
		{"tally", unsafe.Sizeof(v), 24},
		{"tally.bytes", unsafe.Offsetof(v.Bytes), 8},
		{"tally.reason", unsafe.Offsetof(v.Reason), 16},
		{"control_state", unsafe.Sizeof(c), 24},
		{"control_state.accepting", unsafe.Offsetof(c.Accepting), 4},
		{"control_state.heartbeat_ns", unsafe.Offsetof(c.HeartbeatNs), 8},
		{"control_state.incomplete", unsafe.Offsetof(c.Incomplete), 16},
		{"handover_tally", unsafe.Sizeof(h), 24},
		{"handover_tally.fate", unsafe.Offsetof(h.Fate), 16},
		{"route4_key", unsafe.Sizeof(tunQueueRoute4Key{}), 8},
		{"route6_key", unsafe.Sizeof(tunQueueRoute6Key{}), 20},
	} {
		if f.got != f.want {
			t.Errorf("%s is %d, want %d", f.name, f.got, f.want)
		}
	}
	for name, load := range map[string]func() (*ebpf.CollectionSpec, error){"ingress": loadIngress, "tc": loadTc} {
		spec, err := load()
		if err != nil {
			t.Fatal(err)
		}
		var version uint32
		if err := spec.Variables["abi_version"].Get(&version); err != nil || version != ABIVersion {
			t.Errorf("%s: ABI version %d, %v, want %d", name, version, err, ABIVersion)
		}
	}
}

// Both objects hold the same maps, so that one set of Go types serves both.
func TestObjectsAgree(t *testing.T) {
	ingress, err := loadIngress()
	if err != nil {
		t.Fatal(err)
	}
	tc, err := loadTc()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"listeners", "peers", "peer_stats", "endpoints", "verdicts", "control"} {
		a, b := ingress.Maps[name], tc.Maps[name]
		if a == nil || b == nil || a.Type != b.Type || a.KeySize != b.KeySize || a.ValueSize != b.ValueSize || a.MaxEntries != b.MaxEntries {
			t.Errorf("map %s: %v in ingress, %v in tc", name, a, b)
		}
	}
	for _, load := range []func() (*ebpf.CollectionSpec, error){loadIngress, loadTc, loadHandover, loadTunQueue} {
		spec, err := load()
		if err != nil {
			t.Fatal(err)
		}
		for name, m := range spec.Maps {
			if strings.HasPrefix(name, ".") {
				continue
			}
			if len(name) > 15 {
				t.Errorf("kernel cuts the map name %s", name)
			}
			if m.Key == nil || m.Value == nil {
				t.Errorf("map %s has no BTF", name)
			}
		}
		for name := range spec.Programs {
			if len(name) > 15 {
				t.Errorf("kernel cuts the program name %s", name)
			}
		}
	}
}

func TestReasonsAgree(t *testing.T) {
	spec, err := loadIngress()
	if err != nil {
		t.Fatal(err)
	}
	var enum *btf.Enum
	if err := spec.Types.TypeByName("reason", &enum); err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, v := range enum.Values {
		label := strings.ToLower(strings.TrimPrefix(v.Name, "REASON_"))
		switch label {
		case "program_last":
			continue
		case "program_count":
			if v.Value != reason.ProgramCount {
				t.Errorf("bpf/reasons.h has %d verdicts, pkg/reason %d", v.Value, reason.ProgramCount)
			}
			continue
		case "count":
			if v.Value != reason.Count {
				t.Errorf("bpf/reasons.h has %d reasons, pkg/reason %d", v.Value, reason.Count)
			}
			continue
		}
		found++
		if r, ok := reason.Lookup(label); !ok || uint64(r) != v.Value {
			t.Errorf("%s is %d in bpf/reasons.h, %d (known: %v) in pkg/reason", label, v.Value, r, ok)
		}
	}
	if found != reason.Count {
		t.Errorf("%d reasons in bpf/reasons.h, %d in pkg/reason", found, reason.Count)
	}
	if got := spec.Maps["verdicts"].MaxEntries; got != reason.ProgramCount {
		t.Errorf("verdicts has %d entries, want %d", got, reason.ProgramCount)
	}
}

// docs/bpf-maps.md lists every verdict under its number, and every map.
func TestDocumentIsComplete(t *testing.T) {
	text, err := os.ReadFile("../../docs/bpf-maps.md")
	if err != nil {
		t.Fatal(err)
	}
	for r := range reason.Reason(reason.ProgramCount) {
		if row := fmt.Sprintf("| %d | `%s` |", r, r); !bytes.Contains(text, []byte(row)) {
			t.Errorf("no row %q", row)
		}
	}
	for _, load := range []func() (*ebpf.CollectionSpec, error){loadIngress, loadTc, loadHandover, loadTunQueue} {
		spec, err := load()
		if err != nil {
			t.Fatal(err)
		}
		for name := range spec.Maps {
			if !strings.HasPrefix(name, ".") && !bytes.Contains(text, []byte("\n| `"+name+"` |")) {
				t.Errorf("no row for map %s", name)
			}
		}
		for name := range spec.Programs {
			if !bytes.Contains(text, []byte("`prog_"+name+"`")) {
				t.Errorf("no word of program %s", name)
			}
		}
	}
}

// bpftool reads the pinned maps with names for every field, and the same numbers.
func TestBpftoolReadsPins(t *testing.T) {
	testlab.RequireTool(t, "bpftool")
	n := newNetwork(t, testlab.Veth{})
	w := n.wire(remote4, local4)
	a := n.attach(n.options(ModeXDP))
	w.write(numbered(testPeer4, 1, 100), record(9, testKey, 100))
	fromSockets(t, a.Sockets(), 1)

	var verdicts []struct {
		Formatted struct {
			Key    int
			Values []struct {
				CPU   int
				Value struct {
					Packets, Bytes uint64
					Reason         string
				}
			}
		}
	}
	n.bpftool(&verdicts, "map", "dump", "pinned", filepath.Join(a.PinPath(), "verdicts"))
	own, err := a.Verdicts()
	if err != nil {
		t.Fatal(err)
	}
	if len(verdicts) != len(own) {
		t.Fatalf("bpftool shows %d verdicts, want %d", len(verdicts), len(own))
	}
	for _, v := range verdicts {
		r := reason.Reason(v.Formatted.Key)
		got := Verdict{Reason: r}
		for _, cpu := range v.Formatted.Values {
			got.Packets += cpu.Value.Packets
			got.Bytes += cpu.Value.Bytes
			if want := "REASON_" + strings.ToUpper(r.String()); cpu.Value.Reason != want {
				t.Errorf("verdict %d is named %s, want %s", r, cpu.Value.Reason, want)
			}
		}
		// Neighbour discovery and the like may come meanwhile.
		if (r == reason.Steered || r == reason.UnknownPeer) && got != own[r] {
			t.Errorf("bpftool shows %+v, want %+v", got, own[r])
		}
	}
	if own[reason.Steered].Packets != 1 || own[reason.UnknownPeer].Packets != 1 {
		t.Errorf("verdicts %+v", own)
	}

	var peers []struct {
		Formatted struct {
			Key   uint32
			Value struct {
				Remote struct {
					Family, Port int
					Addr         []json.RawMessage
				}
				State  string
				KeyIDs int `json:"key_ids"`
			}
		}
	}
	n.bpftool(&peers, "map", "dump", "pinned", filepath.Join(a.PinPath(), "peers"))
	if len(peers) != 2 {
		t.Fatalf("bpftool shows %d peers", len(peers))
	}
	for _, p := range peers {
		v := p.Formatted.Value
		if p.Formatted.Key == testPeer4 && (v.State != "PEER_STEER" || v.KeyIDs != 1<<testKey ||
			v.Remote.Family != 2 || v.Remote.Port != int(networkOrder(40000)) || len(v.Remote.Addr) != 16) {
			t.Errorf("bpftool shows peer %+v", v)
		}
	}
	for _, name := range []string{"listeners", "endpoints", "peer_stats", "control"} {
		var any []struct{ Formatted json.RawMessage }
		n.bpftool(&any, "map", "dump", "pinned", filepath.Join(a.PinPath(), name))
		if len(any) == 0 || len(any[0].Formatted) == 0 {
			t.Errorf("bpftool shows no named fields of %s", name)
		}
	}
}

func (n *network) bpftool(into any, args ...string) {
	n.t.Helper()
	out, err := exec.Command("bpftool", append([]string{"-j"}, args...)...).Output()
	if err != nil {
		n.t.Fatalf("bpftool %q: %v, %s", args, err, out)
	}
	if err := json.NewDecoder(bytes.NewReader(out)).Decode(into); err != nil {
		n.t.Fatalf("bpftool %q: %v: %s", args, err, out)
	}
}
