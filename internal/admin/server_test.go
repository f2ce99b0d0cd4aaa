// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestAnswers sends lines as another program would and compares whole
// answers.
func TestAnswers(t *testing.T) {
	f := newFake()
	_, path := serve(t, f, nil)
	conn := dialRaw(t, path)
	r := bufio.NewReader(conn)
	var block Secret
	block[0], block[255] = 0xfb, 0xff
	b64 := base64.StdEncoding.EncodeToString(block[:])
	for _, tc := range []struct{ name, in, want string }{
		{"peer added", `{"version":1,"id":1,"method":"peer.add","params":{"id":7,"remote":"[::ffff:192.0.2.1]:1194","routes":["10.9.0.2/32"],"keepalive":{"interval":10,"timeout":60}}}`,
			`{"version":1,"id":1,"result":{}}`},
		{"peer exists", `{"version":1,"id":"a","method":"peer.add","params":{"id":7}}`,
			`{"version":1,"id":"a","error":{"code":"exists","message":"add peer: peer 7 exists already"}}`},
		{"peer shown, address not mapped", `{"version":1,"id":2,"method":"peer.get","params":{"id":7}}`,
			`{"version":1,"id":2,"result":{"id":7,"transport":"","remote":"192.0.2.1:1194","local":"","routes":["10.9.0.2/32"],"keepalive":{"interval":10,"timeout":60},"keys":[],` +
				`"in":{"records":0,"bytes":0},"out":{"records":0,"bytes":0},"link_in":{"records":0,"bytes":0},"link_out":{"records":0,"bytes":0}}}`},
		{"no id", `{"version":1,"method":"detach","params":{"nic":"eth0"}}`, `{"version":1,"result":{}}`},
		{"peer id missing is not peer 0", `{"version":1,"method":"peer.del"}`,
			`{"version":1,"error":{"code":"invalid","message":"params: \"id\" is missing"}}`},
		{"peer id null is not peer 0", `{"version":1,"method":"peer.del","params":{"id":null}}`,
			`{"version":1,"error":{"code":"invalid","message":"params: \"id\" is missing"}}`},
		{"peer id too large", `{"version":1,"method":"peer.del","params":{"id":16777215}}`,
			`{"version":1,"error":{"code":"invalid","message":"peer 16777215: ids are 0 to 16777214"}}`},
		{"peer id negative", `{"version":1,"method":"peer.del","params":{"id":-1}}`,
			`{"version":1,"error":{"code":"invalid","message":"params: \"id\" cannot be a number"}}`},
		{"unknown peer", `{"version":1,"method":"peer.get","params":{"id":8}}`,
			`{"version":1,"error":{"code":"not_found","message":"peer 8: no such peer"}}`},
		{"misspelt parameter", `{"version":1,"method":"peer.set","params":{"id":7,"routse":[]}}`,
			`{"version":1,"error":{"code":"invalid","message":"params: unknown field \"routse\""}}`},
		{"nothing to set", `{"version":1,"method":"peer.set","params":{"id":7}}`,
			`{"version":1,"error":{"code":"invalid","message":"peer 7: nothing to set"}}`},
		{"host bits", `{"version":1,"method":"peer.add","params":{"id":9,"routes":["10.9.0.2/24"]}}`,
			`{"version":1,"error":{"code":"invalid","message":"peer 9: route 10.9.0.2/24: host bits are set; the prefix is 10.9.0.0/24"}}`},
		{"half a keepalive", `{"version":1,"method":"peer.add","params":{"id":9,"keepalive":{"interval":10,"timeout":0}}}`,
			`{"version":1,"error":{"code":"invalid","message":"peer 9: keepalive 10:0: interval and timeout are both given or both 0"}}`},
		{"key added, slashes escaped", `{"version":1,"method":"key.add","params":{"peer":7,"slot":"primary","key_id":0,"cipher":"aes-128-gcm","role":"server","block":"` + strings.ReplaceAll(b64, "/", `\/`) + `"}}`,
			`{"version":1,"result":{}}`},
		{"key shown, no bytes", `{"version":1,"method":"key.show","params":{"peer":7}}`,
			`{"version":1,"result":{"keys":[{"slot":"primary","key_id":0,"cipher":"AES-128-GCM","next_packet_id":0,"highest_received":0}]}}`},
		{"no keys", `{"version":1,"method":"key.show","params":{"peer":8}}`, `{"version":1,"result":{"keys":[]}}`},
		{"key too short", `{"version":1,"method":"key.add","params":{"peer":7,"slot":"primary","key_id":0,"cipher":"AES-128-GCM","role":"server","block":"AAAA"}}`,
			`{"version":1,"error":{"code":"invalid","message":"params: key block has 3 bytes, not 256"}}`},
		{"key not base64", `{"version":1,"method":"key.add","params":{"peer":7,"slot":"primary","key_id":0,"cipher":"AES-128-GCM","role":"server","block":"geheim!"}}`,
			`{"version":1,"error":{"code":"invalid","message":"params: key block is not base64"}}`},
		{"key id 8", `{"version":1,"method":"key.add","params":{"peer":7,"slot":"primary","key_id":8,"cipher":"AES-128-GCM","role":"server","block":"` + b64 + `"}}`,
			`{"version":1,"error":{"code":"invalid","message":"peer 7: key id 8: key ids are 0 to 7"}}`},
		{"cipher unknown", `{"version":1,"method":"key.add","params":{"peer":7,"slot":"primary","key_id":0,"cipher":"BF-CBC","role":"server","block":"` + b64 + `"}}`,
			`{"version":1,"error":{"code":"invalid","message":"peer 7: cipher \"BF-CBC\": one of AES-128-GCM, AES-192-GCM, AES-256-GCM, CHACHA20-POLY1305"}}`},
		{"slot unknown", `{"version":1,"method":"key.del","params":{"peer":7,"slot":"third"}}`,
			`{"version":1,"error":{"code":"invalid","message":"slot \"third\": primary or secondary"}}`},
		{"plain error", `{"version":1,"method":"key.del","params":{"peer":7,"slot":"secondary"}}`,
			`{"version":1,"error":{"code":"failed","message":"plain error"}}`},
		{"slot held", `{"version":1,"method":"attach","params":{"nic":"eth9"}}`,
			"{\"version\":1,\"error\":{\"code\":\"busy\",\"message\":\"eth9: XDP slot held by program 42 `xdp_dispatcher` (link 7); use --mode tc\"}}"},
		{"mode unknown", `{"version":1,"method":"attach","params":{"nic":"eth0","mode":"dpdk"}}`,
			`{"version":1,"error":{"code":"invalid","message":"mode \"dpdk\": one of auto, xdp-zerocopy, xdp, tc, xdp-generic"}}`},
		{"attached", `{"version":1,"method":"attach","params":{"nic":"eth0","mode":"xdp"}}`,
			`{"version":1,"result":{"name":"eth0","rung":"xdp","xdp_mode":"","copy":false,"queues":0,"missing_queues":[],"why_not_higher":"","pins":"","state":"attached","verdicts":{},"rings":[]}}`},
		{"garbage", `}{`, `{"version":1,"error":{"code":"invalid","message":"request: invalid character '}' looking for beginning of value"}}`},
		{"two objects", `{"version":1}{"version":1}`, `{"version":1,"error":{"code":"invalid","message":"request: invalid character '{' after top-level value"}}`},
		{"a number", `1`, `{"version":1,"error":{"code":"invalid","message":"request: not an object"}}`},
		{"version 2", `{"version":2,"id":3,"method":"status"}`,
			`{"version":1,"id":3,"error":{"code":"version","message":"version 2: this gateway speaks version 1"}}`},
		{"no version", `{"method":"status"}`,
			`{"version":1,"error":{"code":"version","message":"version 0: this gateway speaks version 1"}}`},
		{"method unknown", `{"version":1,"method":"peer.new"}`,
			`{"version":1,"error":{"code":"not_found","message":"method \"peer.new\": this gateway has none of this name"}}`},
		{"params not an object", `{"version":1,"method":"status","params":[]}`,
			`{"version":1,"error":{"code":"invalid","message":"params: not an object"}}`},
		{"id not a scalar", `{"version":1,"id":{},"method":"status"}`,
			`{"version":1,"error":{"code":"invalid","message":"request: \"id\" is a number or a short string"}}`},
	} {
		if _, err := fmt.Fprintf(conn, "\n%s\r\n", tc.in); err != nil {
			t.Fatal(err)
		}
		got, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if got = strings.TrimSuffix(got, "\n"); got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.name, got, tc.want)
		}
	}
	if f.block != block {
		t.Error("the handler got another key block")
	}
	if got := f.keys[7][0].Block; *got != (Secret{}) {
		t.Error("the key block was not cleared after the request")
	}
}

func TestOversizedLineIsRefusedAndTheNextOneAnswered(t *testing.T) {
	_, path := serve(t, newFake(), nil)
	conn := dialRaw(t, path)
	go func() {
		junk := bytes.Repeat([]byte("x"), 64<<10)
		for range 3 * MaxLine / len(junk) {
			if _, err := conn.Write(junk); err != nil {
				return
			}
		}
		_, _ = conn.Write([]byte("\n{\"version\":1,\"id\":2,\"method\":\"peer.list\"}\n"))
	}()
	r := bufio.NewReader(conn)
	for _, want := range []string{
		`{"version":1,"error":{"code":"too_large","message":"a request has at most 1048576 bytes"}}`,
		`{"version":1,"id":2,"result":{"peers":[]}}`,
	} {
		got, err := r.ReadString('\n')
		if err != nil || strings.TrimSpace(got) != want {
			t.Errorf("got %s (%v), want %s", got, err, want)
		}
	}
}

func TestLineLimitIsExact(t *testing.T) {
	for size, want := range map[int]error{99: nil, 100: nil, 101: errTooLong} {
		line := strings.Repeat("a", size-1) + "\n"
		r := bufio.NewReaderSize(strings.NewReader(line+"next\n"), 16)
		got, err := readLine(r, 100)
		if !errors.Is(err, want) || want == nil && len(got) != size-1 {
			t.Errorf("%d bytes: %d bytes, %v", size, len(got), err)
		}
		if got, err := readLine(r, 100); string(got) != "next" || err != nil {
			t.Errorf("after %d bytes: %q, %v", size, got, err)
		}
	}
	r := bufio.NewReader(strings.NewReader("last"))
	if got, err := readLine(r, 100); string(got) != "last" || err != nil {
		t.Errorf("line without newline: %q, %v", got, err)
	}
	if _, err := readLine(r, 100); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

func TestOnlyTheOwnerGetsIn(t *testing.T) {
	_, path := serve(t, newFake(), func(s *Server) { s.allowed = func(uint32) bool { return false } })
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket has mode %v, %v", info.Mode(), err)
	}
	if info, err = os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder has mode %v, %v", info.Mode(), err)
	}
	c := dial(t, path)
	_, err = c.Status(t.Context())
	if CodeOf(err) != CodeDenied || !strings.Contains(err.Error(), fmt.Sprintf("user %d may not ask", os.Geteuid())) {
		t.Errorf("a stranger got %v", err)
	}
}

func TestListenRefusesUnsafeFolders(t *testing.T) {
	open := filepath.Join(t.TempDir(), "open")
	if err := os.Mkdir(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := listen(open + "/gw.sock"); err == nil || !strings.Contains(err.Error(), "mode 0755 lets others in; chmod 0700") {
		t.Errorf("open folder: %v", err)
	}
	if info, _ := os.Stat(open); info.Mode().Perm() != 0o755 {
		t.Errorf("the folder's mode became %v", info.Mode())
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	if _, err := listen(link + "/gw.sock"); err == nil || !strings.Contains(err.Error(), "not a folder") {
		t.Errorf("symbolic link: %v", err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	if err := MakeDir(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/gw.sock", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listen(dir + "/gw.sock"); err == nil || !strings.Contains(err.Error(), "something else is there") {
		t.Errorf("a file in the socket's place: %v", err)
	}
}

func TestListenReplacesAStaleSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "gw.sock")
	for range 3 {
		l, err := listen(path)
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false) // as after kill -9
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	l, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

func TestPanicEndsTheConnectionOnly(t *testing.T) {
	_, path := serve(t, newFake(), nil)
	c := dial(t, path)
	if err := c.Call(t.Context(), MethodKeySwap, KeyRef{Peer: 7}, nil); err == nil {
		t.Error("a panicking handler answered")
	}
	if _, err := dial(t, path).Status(t.Context()); err != nil {
		t.Errorf("the next connection: %v", err)
	}
}

func TestConcurrentRequests(t *testing.T) {
	f := newFake()
	_, path := serve(t, f, nil)
	const clients, each = 16, 25
	var wg sync.WaitGroup
	for n := range clients {
		wg.Go(func() {
			c, err := Dial(t.Context(), path)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			for i := range each {
				id := uint32(n*each + i)
				add := PeerAdd{ID: id, Remote: netip.MustParseAddrPort("192.0.2.1:1194")}
				if err := c.Call(t.Context(), MethodPeerAdd, add, nil); err != nil {
					t.Error(err)
				}
				var p Peer
				if err := c.Call(t.Context(), MethodPeerGet, PeerRef{ID: id}, &p); err != nil || p.ID != id {
					t.Errorf("peer %d: got %d, %v", id, p.ID, err)
				}
			}
		})
	}
	wg.Wait()
	var list PeerList
	if err := dial(t, path).Call(t.Context(), MethodPeerList, nil, &list); err != nil || len(list.Peers) != clients*each {
		t.Errorf("%d peers, %v", len(list.Peers), err)
	}
}

func TestConnectionLimit(t *testing.T) {
	_, path := serve(t, newFake(), nil)
	for range maxConns {
		c := dial(t, path)
		if _, err := c.Status(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	_, err := dial(t, path).Status(t.Context())
	if CodeOf(err) != CodeBusy {
		t.Errorf("connection %d got %v", maxConns+1, err)
	}
}

func TestCloseEndsRequestsAndStreams(t *testing.T) {
	f := newFake()
	f.wait = make(chan struct{})
	s, path := serve(t, f, nil)
	results := make(chan error, 3)
	waiting, streaming, idle := dial(t, path), dial(t, path), dial(t, path)
	go func() { _, err := waiting.Status(t.Context()); results <- err }()
	go func() { results <- streaming.Events(t.Context(), func([]byte, *Event) error { return nil }) }()
	waitFor(t, func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.conns) == 3 })
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := <-results; err == nil {
			t.Error("a request outlived the server without an error")
		}
	}
	if _, err := idle.Status(t.Context()); err == nil {
		t.Error("an idle connection outlived the server")
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

func TestSecretIsNeverPrinted(t *testing.T) {
	var s Secret
	for i := range s {
		s[i] = 0xa5
	}
	k := KeyAdd{Peer: 7, Block: &s}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%x", "%q", "%d"} {
		for _, v := range []any{&s, k, &k} {
			got := fmt.Sprintf(format, v)
			if strings.Contains(strings.ToLower(got), "a5a5") || strings.Contains(got, "165 165") || strings.Contains(got, "0xa5, 0xa5") {
				t.Errorf("%s of %T prints %.80s", format, v, got)
			}
		}
	}
	raw, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	var back KeyAdd
	if err := json.Unmarshal(raw, &back); err != nil || *back.Block != s {
		t.Errorf("round trip: %v", err)
	}
}

// waitFor polls until cond holds; the test's own deadline ends it.
func waitFor(t *testing.T, cond func() bool) {
	t.Helper()
	for !cond() {
		if t.Context().Err() != nil {
			t.Fatal("context ended")
		}
		time.Sleep(time.Millisecond)
	}
}
