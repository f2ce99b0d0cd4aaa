// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

var sessions = []string{"aes-128-gcm", "aes-256-gcm", "chacha20-poly1305-ipv6", "aes-128-gcm-reneg", "hostile-aes-128-gcm"}

func load(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func loadKeys(t testing.TB, session string) *Keys {
	t.Helper()
	k, err := ReadKeys(bytes.NewReader(load(t, session+".json")))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func mustRun(t testing.TB, o Options) *Result {
	t.Helper()
	r, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRecordedSessions compares with the expected results, however records
// are grouped.
func TestRecordedSessions(t *testing.T) {
	for _, name := range sessions {
		for _, grouping := range []struct{ batch, prefetch int }{{64, 2}, {1, 0}, {3, 7}} {
			r := mustRun(t, Options{Capture: bytes.NewReader(load(t, name+".pcap")), Keys: loadKeys(t, name), Batch: grouping.batch, Prefetch: grouping.prefetch})
			var want Result
			if err := json.Unmarshal(load(t, name+".expected.json"), &want); err != nil {
				t.Fatal(err)
			}
			r.Directions.ClientToServer.hash, r.Directions.ServerToClient.hash = nil, nil
			if !reflect.DeepEqual(*r, want) {
				t.Errorf("%s, %+v:\n got %+v\nwant %+v", name, grouping, *r, want)
			}
		}
	}
}

// rewrite makes another capture of the same packets.
func rewrite(t *testing.T, pcap []byte, link layers.LinkType, edit func(i int, frame []byte, at time.Time) ([]byte, time.Time)) []byte {
	t.Helper()
	in, err := pcapgo.NewReader(bytes.NewReader(pcap))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := pcapgo.NewWriterNanos(&out)
	if err := w.WriteFileHeader(1<<18, link); err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		data, ci, err := in.ReadPacketData()
		if err == io.EOF {
			return out.Bytes()
		}
		if err != nil {
			t.Fatal(err)
		}
		data, ci.Timestamp = edit(i, data, ci.Timestamp)
		if data == nil {
			continue
		}
		ci.CaptureLength, ci.Length = len(data), len(data)
		if err := w.WritePacket(ci, data); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLinkTypes(t *testing.T) {
	const name = "hostile-aes-128-gcm"
	pcap, keys := load(t, name+".pcap"), loadKeys(t, name)
	want := mustRun(t, Options{Capture: bytes.NewReader(pcap), Keys: keys, Batch: 64})
	cut := func(head func(frame []byte) []byte) func(int, []byte, time.Time) ([]byte, time.Time) {
		return func(_ int, frame []byte, at time.Time) ([]byte, time.Time) {
			return append(head(frame), frame[etherLen:]...), at
		}
	}
	for _, tc := range []struct {
		name string
		link layers.LinkType
		head func(frame []byte) []byte
	}{
		{"raw", layers.LinkTypeRaw, func([]byte) []byte { return nil }},
		{"raw IPv4", layers.LinkTypeIPv4, func([]byte) []byte { return nil }},
		{"raw, OpenBSD's number", 12, func([]byte) []byte { return nil }},
		{"Linux cooked", layers.LinkTypeLinuxSLL, func(f []byte) []byte { return append(make([]byte, 14), f[12:14]...) }},
		{"Linux cooked v2", linkTypeSLL2, func(f []byte) []byte { return append(append([]byte{}, f[12:14]...), make([]byte, 18)...) }},
		{"loopback", layers.LinkTypeNull, func([]byte) []byte { return []byte{2, 0, 0, 0} }},
		{"VLAN", layers.LinkTypeEthernet, func(f []byte) []byte {
			return append(append(append([]byte{}, f[:12]...), 0x81, 0, 0, 5), f[12:14]...)
		}},
	} {
		got := mustRun(t, Options{Capture: bytes.NewReader(rewrite(t, pcap, tc.link, cut(tc.head))), Keys: keys, Batch: 64})
		if got.Directions.ClientToServer.SHA256 != want.Directions.ClientToServer.SHA256 || got.Control != want.Control ||
			got.Directions.ServerToClient.Records != want.Directions.ServerToClient.Records {
			t.Errorf("%s: %+v", tc.name, got)
		}
	}
}

func TestPcapng(t *testing.T) {
	const name = "aes-128-gcm-reneg"
	pcap, keys := load(t, name+".pcap"), loadKeys(t, name)
	want := mustRun(t, Options{Capture: bytes.NewReader(pcap), Keys: keys, Batch: 64})
	in, err := pcapgo.NewReader(bytes.NewReader(pcap))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w, err := pcapgo.NewNgWriter(&out, layers.LinkTypeEthernet)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := w.AddInterface(pcapgo.NgInterface{LinkType: layers.LinkTypeRaw})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		data, ci, err := in.ReadPacketData()
		if err != nil {
			break
		}
		ci.InterfaceIndex = 0
		if i%2 == 1 { // every other packet as if from a second, layer 3 device
			data, ci.InterfaceIndex = data[etherLen:], raw
		}
		ci.CaptureLength, ci.Length = len(data), len(data)
		if err := w.WritePacket(ci, data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	got := mustRun(t, Options{Capture: &out, Keys: keys, Batch: 64})
	if got.Directions.ClientToServer.SHA256 != want.Directions.ClientToServer.SHA256 || got.Directions.ServerToClient.SHA256 != want.Directions.ServerToClient.SHA256 {
		t.Errorf("got %+v", got)
	}
}

// The 30 s rule of the replay window goes by the capture's time: a record that
// is late by more is refused, although it was never seen.
func TestCaptureTimeDecides(t *testing.T) {
	const name = "aes-128-gcm"
	pcap, keys := load(t, name+".pcap"), loadKeys(t, name)
	var late []byte
	hold := func(delay time.Duration) []byte {
		late = nil
		skipped := 0
		capture := rewrite(t, pcap, layers.LinkTypeEthernet, func(_ int, f []byte, at time.Time) ([]byte, time.Time) {
			toServer := len(f) > 42 && binary.BigEndian.Uint16(f[36:]) == 1194 && f[42]>>3 == 9
			if toServer && late == nil {
				if skipped++; skipped == 20 {
					late = bytes.Clone(f)
					return nil, at
				}
			}
			return f, at
		})
		if late == nil {
			t.Fatal("no record to hold back")
		}
		// The held record comes `delay` after the last packet.
		var last time.Time
		rewrite(t, capture, layers.LinkTypeEthernet, func(_ int, f []byte, at time.Time) ([]byte, time.Time) {
			last = at
			return f, at
		})
		var out bytes.Buffer
		out.Write(capture)
		end := last.Add(delay)
		header := make([]byte, 16)
		binary.LittleEndian.PutUint32(header[0:], uint32(end.Unix()))
		binary.LittleEndian.PutUint32(header[4:], uint32(end.Nanosecond()))
		binary.LittleEndian.PutUint32(header[8:], uint32(len(late)))
		binary.LittleEndian.PutUint32(header[12:], uint32(len(late)))
		out.Write(header)
		out.Write(late)
		return out.Bytes()
	}
	for delay, want := range map[time.Duration]uint64{time.Second: 0, time.Minute: 1} {
		r := mustRun(t, Options{Capture: bytes.NewReader(hold(delay)), Keys: keys, Batch: 64})
		if c := r.Directions.ClientToServer; c.Replay != want || c.Opened != 260-want {
			t.Errorf("late by %s: replay %d, opened %d", delay, c.Replay, c.Opened)
		}
	}
}

// TestInnerPackets compares what is written with what the server's TUN
// carried.
func TestInnerPackets(t *testing.T) {
	for _, name := range sessions[:4] {
		var out bytes.Buffer
		mustRun(t, Options{Capture: bytes.NewReader(load(t, name+".pcap")), Keys: loadKeys(t, name), Inner: &out, Batch: 64})
		got, times := readInner(t, out.Bytes())
		want, _ := readInner(t, load(t, name+"-inner.pcap"))
		// The TUN's capture saw each direction at its own moment, and not the
		// packets that only one end saw, so compare as sets per packet.
		counts := map[string]int{}
		for _, p := range want {
			counts[string(p)]++
		}
		missing := 0
		for _, p := range got {
			if onlyOnTheLink(p) {
				continue
			}
			if counts[string(p)] == 0 {
				missing++
			}
			counts[string(p)]--
		}
		if len(got) < 400 || missing > 0 {
			t.Errorf("%s: %d packets written, %d of them not in the TUN's %d", name, len(got), missing, len(want))
		}
		for i := 1; i < len(times); i++ {
			if times[i].Before(times[i-1]) {
				t.Errorf("%s: packet %d is earlier than the one before", name, i)
			}
		}
	}
}

// onlyOnTheLink names what the server's TUN did not carry in this form:
// SYN-ACKs, whose MSS option stock OpenVPN lowers before it seals them, and
// the client's router solicitation, sent before the TUN was captured.
func onlyOnTheLink(p []byte) bool {
	switch p[0] >> 4 {
	case 4:
		return p[9] == 6 && p[20+13]&2 != 0
	default:
		return p[6] == 58 && p[40] == 133
	}
}

func readInner(t *testing.T, pcap []byte) (packets [][]byte, times []time.Time) {
	t.Helper()
	r, err := pcapgo.NewReader(bytes.NewReader(pcap))
	if err != nil {
		t.Fatal(err)
	}
	if r.LinkType() != layers.LinkTypeRaw {
		t.Fatalf("link type %d", r.LinkType())
	}
	for {
		data, ci, err := r.ReadPacketData()
		if err == io.EOF {
			return packets, times
		}
		if err != nil {
			t.Fatal(err)
		}
		packets, times = append(packets, data), append(times, ci.Timestamp)
	}
}

// Both ends on one port: the handshake says who the server is.
func TestSamePortAtBothEnds(t *testing.T) {
	const name = "aes-128-gcm"
	pcap, keys := load(t, name+".pcap"), loadKeys(t, name)
	want := mustRun(t, Options{Capture: bytes.NewReader(pcap), Keys: keys, Batch: 64})
	same := rewrite(t, pcap, layers.LinkTypeEthernet, func(_ int, f []byte, at time.Time) ([]byte, time.Time) {
		binary.BigEndian.PutUint16(f[34:], 1194)
		binary.BigEndian.PutUint16(f[36:], 1194)
		return f, at
	})
	got := mustRun(t, Options{Capture: bytes.NewReader(same), Keys: keys, Batch: 64})
	if got.Directions.ClientToServer.SHA256 != want.Directions.ClientToServer.SHA256 || got.Directions.ServerToClient.SHA256 != want.Directions.ServerToClient.SHA256 {
		t.Errorf("got %+v", got)
	}
}

// More keys than slots: every key of the session opens its records.
func TestMoreThanTwoKeys(t *testing.T) {
	const name = "aes-128-gcm-reneg"
	keys := loadKeys(t, name)
	other := keys.Keys[0]
	other.ID = 5
	other.ClientToServer.Key = bytes.Repeat([]byte{1}, 16)
	keys.Keys = []Key{keys.Keys[0], other, keys.Keys[1]}
	r := mustRun(t, Options{Capture: bytes.NewReader(load(t, name+".pcap")), Keys: keys, Batch: 64})
	if r.Directions.ClientToServer.Opened != 264 || r.Directions.ServerToClient.Opened != 260 {
		t.Errorf("got %+v", r)
	}
}

func TestBadCaptures(t *testing.T) {
	keys, pcap := loadKeys(t, "aes-128-gcm"), load(t, "aes-128-gcm.pcap")
	r := mustRun(t, Options{Capture: bytes.NewReader(pcap[:len(pcap)/2]), Keys: keys, Batch: 64})
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "breaks off") || r.Directions.ClientToServer.Opened == 0 {
		t.Errorf("half a capture: %+v", r)
	}
	for name, data := range map[string][]byte{"empty": nil, "text": []byte("not a capture at all"), "two bytes": pcap[:2]} {
		if _, err := Run(Options{Capture: bytes.NewReader(data), Keys: keys, Batch: 64}); err == nil || !strings.HasPrefix(err.Error(), "read capture: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	cut := rewrite(t, pcap, layers.LinkTypeEthernet, func(i int, f []byte, at time.Time) ([]byte, time.Time) { return f[:min(len(f), 96)], at })
	r = mustRun(t, Options{Capture: bytes.NewReader(cut), Keys: keys, Batch: 64})
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "cut off by the capture") {
		t.Errorf("capture with a snap length of 96: %+v", r)
	}
}

func TestReadKeysErrors(t *testing.T) {
	good := string(load(t, "aes-128-gcm.json"))
	for _, tc := range []struct{ from, to, want string }{
		{"AES-128-GCM", "BF-CBC", "BF-CBC"},
		{"1194", "0", "server_port 0"},
		{`"peer_id": 0`, `"peer_id": 16777216`, "peer_id 16777216"},
		{`"key_id": 0`, `"key_id": 8`, "keys[0]: key_id is 0 to 7"},
		{`"key_id": 0,`, ``, "keys[0]: key_id is 0 to 7"},
		{"884bec5fc7e7a44c1d0098b80792800a", "884bec", "keys[0]: client_to_server: key is not the 32 hexadecimal digits of AES-128-GCM"},
		{"f9b947bf831131f3", "zz", "keys[0]: server_to_client: implicit_iv is not 16"},
		{`"server_port": 1194`, `"server_port": "x"`, `"server_port" has the wrong type`},
		{"{", "[", "not JSON"},
	} {
		_, err := ReadKeys(strings.NewReader(strings.Replace(good, tc.from, tc.to, 1)))
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "884bec") {
			t.Errorf("%s -> %s: %v", tc.from, tc.to, err)
		}
	}
	if _, err := ReadKeys(strings.NewReader(`{"cipher":"AES-128-GCM","server_port":1194,"keys":[]}`)); err == nil || !strings.Contains(err.Error(), "no keys") {
		t.Errorf("no keys: %v", err)
	}
}

// FuzzFrame feeds frames of any content: nothing panics and every record has
// one fate.
func FuzzFrame(f *testing.F) {
	in, err := pcapgo.NewReader(bytes.NewReader(load(f, "hostile-aes-128-gcm.pcap")))
	if err != nil {
		f.Fatal(err)
	}
	for i := range 60 {
		data, _, err := in.ReadPacketData()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint16(layers.LinkTypeEthernet), data)
		if i%10 == 0 {
			f.Add(uint16(layers.LinkTypeRaw), data[etherLen:])
		}
	}
	keys := loadKeys(f, "hostile-aes-128-gcm")
	f.Fuzz(func(t *testing.T, link uint16, data []byte) {
		var pcap bytes.Buffer
		w := pcapgo.NewWriterNanos(&pcap)
		if len(data) > 1<<16 || w.WriteFileHeader(1<<16, layers.LinkType(link)) != nil {
			return
		}
		for range 2 {
			if w.WritePacket(gopacket.CaptureInfo{Timestamp: time.Unix(1, 0), CaptureLength: len(data), Length: len(data)}, data) != nil {
				return
			}
		}
		r, err := Run(Options{Capture: &pcap, Keys: keys, Batch: 64, Prefetch: 2})
		if err != nil {
			return
		}
		for _, d := range []Direction{r.Directions.ClientToServer, r.Directions.ServerToClient} {
			if d.Records != d.Opened+d.BadRecord+d.UnknownPeer+d.NoKey+d.Auth+d.Replay {
				t.Errorf("records do not add up: %+v", d)
			}
			if d.Opened > 1 {
				t.Errorf("one record was opened twice: %+v", d)
			}
		}
	})
}
