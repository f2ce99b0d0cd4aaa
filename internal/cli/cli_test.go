// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/admin"
	"github.com/ovpn-xdp/ovpn-xdp/internal/config"
)

// gateway is a running gateway's admin side that only keeps books.
type gateway struct {
	admin.Hub
	mu     sync.Mutex
	status admin.Status
	asked  []string
	block  admin.Secret
}

func (g *gateway) note(format string, args ...any) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, fmt.Sprintf(format, args...))
	return nil
}

func (g *gateway) last() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.asked) == 0 {
		return ""
	}
	return g.asked[len(g.asked)-1]
}

func (g *gateway) Status(context.Context) (*admin.Status, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.status
	g.status.Totals.In.Steered += 1000
	return &s, nil
}

func (g *gateway) PeerAdd(_ context.Context, p admin.PeerAdd) error {
	if p.ID == 99 {
		return admin.Errorf(admin.CodeExists, "peer 99 exists already; change it with peer set")
	}
	tx := "-"
	if p.TxID != nil {
		tx = fmt.Sprint(*p.TxID)
	}
	return g.note("add %d tx %s remote %s local %s routes %v keepalive %d:%d", p.ID, tx, p.Remote, p.Local, p.Routes, p.Keepalive.Interval, p.Keepalive.Timeout)
}

func (g *gateway) PeerSet(_ context.Context, p admin.PeerSet) error {
	var parts []string
	if p.Remote != nil {
		parts = append(parts, "remote "+p.Remote.String())
	}
	if p.Local != nil {
		parts = append(parts, "local "+p.Local.String())
	}
	if p.Routes != nil {
		parts = append(parts, fmt.Sprintf("routes %v", *p.Routes))
	}
	if p.Keepalive != nil {
		parts = append(parts, fmt.Sprintf("keepalive %d:%d", p.Keepalive.Interval, p.Keepalive.Timeout))
	}
	return g.note("set %d %s", p.ID, strings.Join(parts, " "))
}

func (g *gateway) PeerDel(_ context.Context, id uint32) error { return g.note("del %d", id) }

func (g *gateway) PeerGet(_ context.Context, id uint32) (*admin.Peer, error) {
	for _, p := range g.status.Peers {
		if p.ID == id {
			return &p, nil
		}
	}
	return nil, admin.Errorf(admin.CodeNotFound, "peer %d: no such peer; see peer list", id)
}

func (g *gateway) PeerList(context.Context) ([]admin.Peer, error) { return g.status.Peers, nil }

func (g *gateway) KeyAdd(_ context.Context, k *admin.KeyAdd) error {
	g.mu.Lock()
	g.block = *k.Block
	g.mu.Unlock()
	return g.note("key add %d %s %d %s %s next %d", k.Peer, k.Slot, k.KeyID, k.Cipher, k.Role, k.NextPacketID)
}

func (g *gateway) KeySwap(_ context.Context, peer uint32) error { return g.note("key swap %d", peer) }

func (g *gateway) KeyDel(_ context.Context, peer uint32, slot admin.Slot) error {
	return g.note("key del %d %s", peer, slot)
}

func (g *gateway) KeyShow(_ context.Context, peer uint32) ([]admin.Key, error) {
	if peer != 7 {
		return nil, nil
	}
	return []admin.Key{
		{Slot: admin.Primary, KeyID: 1, Cipher: "AES-128-GCM", NextPacketID: 1234, HighestReceived: 99, Fingerprint: "0123456789abcdef0123456789abcdef"},
		{Slot: admin.Secondary, KeyID: 0, Cipher: "AES-128-GCM", NextPacketID: 1 << 32, HighestReceived: 4},
	}, nil
}

func (g *gateway) Attach(_ context.Context, nic, mode string) (*admin.NIC, error) {
	if nic == "eth9" {
		return nil, admin.Errorf(admin.CodeBusy, "eth9: XDP slot held by program 42 `xdp_dispatcher` (link 7); use --mode tc")
	}
	_ = g.note("attach %s %q", nic, mode)
	return &admin.NIC{Name: nic, Rung: "xdp", XDPMode: "native", Copy: true, Queues: 2, State: admin.NICAttached, WhyNotHigher: "zero-copy: operation not supported"}, nil
}

func (g *gateway) Detach(_ context.Context, nic string) error { return g.note("detach %s", nic) }

func start(t *testing.T, dir, name string) *gateway {
	t.Helper()
	g := &gateway{status: *sampleStatus()}
	s, err := admin.Listen(filepath.Join(dir, name+".sock"), g, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return g
}

// textReport is a probe's result.
type textReport struct {
	NIC string `json:"nic"`
}

func (r textReport) WriteText(w io.Writer) error {
	_, err := fmt.Fprintf(w, "nic %s\n", r.NIC)
	return err
}

type outcome struct {
	code           int
	stdout, stderr string
	cfg            *config.Run
}

func invoke(t *testing.T, stdin string, args ...string) outcome {
	t.Helper()
	var o outcome
	deps := Deps{
		Version: "v1.2.3",
		Run: func(_ context.Context, cfg config.Run, log *slog.Logger) error {
			o.cfg = &cfg
			if cfg.Name == "broken" {
				return errors.New("open tun0: operation not permitted: CAP_NET_ADMIN is missing")
			}
			return nil
		},
		Probe: func(_ context.Context, nic string) (ProbeReport, error) {
			if nic == "none" {
				return nil, errors.New("none: no such device")
			}
			return textReport{nic}, nil
		},
	}
	var stdout, stderr bytes.Buffer
	o.code = Run(t.Context(), deps, args, strings.NewReader(stdin), &stdout, &stderr)
	o.stdout, o.stderr = stdout.String(), stderr.String()
	return o
}

const usageHint = "' for usage.\n"

func TestCommandLines(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	g := start(t, dir, "gw")
	key := filepath.Join(t.TempDir(), "peer7.key")
	generated := invoke(t, "", "key", "generate")
	if generated.code != 0 || generated.stderr != "" || !strings.HasPrefix(generated.stdout, "#\n# 2048 bit OpenVPN static key\n#\n-----BEGIN OpenVPN Static key V1-----\n") {
		t.Fatalf("key generate: %+v", generated)
	}
	if err := os.WriteFile(key, []byte(generated.stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(t.TempDir(), "open.key")
	if err := os.WriteFile(open, []byte(generated.stdout), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args   string
		code   int
		asked  string // what the gateway was asked; "" is nothing
		stdout string // part of it
		stderr string // part of it; "": has to be empty
	}{
		{"", 2, "", "", "no command given"},
		{"staus", 2, "", "", "unknown command \"staus\""},
		{"peer", 2, "", "", "ovpn-xdp peer: no subcommand given"},
		{"peer frob", 2, "", "", "unknown command \"frob\" for \"ovpn-xdp peer\""},
		{"peer add", 2, "", "", "accepts 1 arg(s), received 0"},
		{"peer add --help", 0, "", "interval:timeout", ""},
		{"version", 0, "", "ovpn-xdp v1.2.3 (go", ""},
		{"version --json", 0, "", "{\n  \"version\": 1,\n  \"software\": \"v1.2.3\"", ""},
		{"--version", 0, "", "ovpn-xdp v1.2.3\n", ""},
		{"version x", 2, "", "", "unknown command \"x\""},

		{"peer add 7 --remote 192.0.2.1 --route 10.9.0.2 --route fd00:9::2/128 --keepalive 10:60 --tx-id 12", 0,
			"add 7 tx 12 remote 192.0.2.1:1194 local invalid IP routes [10.9.0.2/32 fd00:9::2/128] keepalive 10:60", "", ""},
		{"peer add 0x10 --local 192.0.2.9", 0, "add 16 tx - remote invalid AddrPort local 192.0.2.9 routes [] keepalive 0:0", "", ""},
		{"peer add 99", 1, "", "", "ovpn-xdp: peer 99 exists already; change it with peer set\n"},
		{"peer add x", 2, "", "", "peer \"x\": ids are 0 to 16777214"},
		{"peer add 16777215", 2, "", "", "ids are 0 to 16777214"},
		{"peer add 7 --remote gw.example:1194", 2, "", "", "not an address with a port"},
		{"peer add 7 --remote 192.0.2.1:1194 --local 2001:db8::1", 2, "", "", "are of different families"},
		{"peer add 7 --route 10.9.0.2/24", 2, "", "", "write 10.9.0.0/24"},
		{"peer add 7 --keepalive 60:10", 2, "", "", "the timeout has to be longer than the interval"},
		{"peer add 7 --keepalive 10", 2, "", "", "such as 10:60, or off"},
		{"peer set 7 --keepalive off --local auto", 0, "set 7 local invalid IP keepalive 0:0", "", ""},
		{"peer set 7 --route 10.9.0.0/24", 0, "set 7 routes [10.9.0.0/24]", "", ""},
		{"peer set 7 --no-routes", 0, "set 7 routes []", "", ""},
		{"peer set 7 --no-routes --route 10.9.0.0/24", 2, "", "", "exclude each other"},
		{"peer set 7", 2, "", "", "peer 7: nothing to set"},
		{"peer del 7", 0, "del 7", "", ""},
		{"peer get 7", 0, "", "remote     192.0.2.1:1194\n", ""},
		{"peer get 7 --json", 0, "", "{\n  \"version\": 1,\n  \"peer\": {\n    \"id\": 7,", ""},
		{"peer get 9", 1, "", "", "peer 9: no such peer; see peer list"},
		{"peer list", 0, "", "PEER  REMOTE", ""},
		{"peer list --json", 0, "", "{\n  \"version\": 1,\n  \"peers\": [", ""},

		{"key add 7 --key-file " + key + " --role server --cipher aes-128-gcm --key-id 3", 0, "key add 7 primary 3 AES-128-GCM server next 0", "", ""},
		{"key add 7 --key-file " + key + " --role client --slot secondary --next-packet-id 5000", 0, "key add 7 secondary 0 AES-256-GCM client next 5000", "", ""},
		{"key add 7 --key-file " + open + " --role server", 0, "key add 7 primary 0 AES-256-GCM server next 0", "", "mode 0644 lets others read it"},
		{"key add 7 --key-file " + key, 2, "", "", "required flag(s) \"role\" not set"},
		{"key add 7 --role server", 2, "", "", "required flag(s) \"key-file\" not set"},
		{"key add 7 --key-file " + key + " --role peer", 2, "", "", "one of server, client"},
		{"key add 7 --key-file " + key + " --role server --cipher BF-CBC", 2, "", "", "one of AES-128-GCM, AES-192-GCM, AES-256-GCM, CHACHA20-POLY1305"},
		{"key add 7 --key-file " + key + " --role server --key-id 8", 2, "", "", "key id 8: key ids are 0 to 7"},
		{"key add 7 --key-file /no/such/file --role server", 1, "", "", "read key file: open /no/such/file: no such file or directory"},
		{"key add 7 --key-file ../replay/testdata/README.md --role server", 1, "", "", "read key file ../replay/testdata/README.md: not an OpenVPN static key"},
		{"key swap 7", 0, "key swap 7", "", ""},
		{"key del 7 --slot secondary", 0, "key del 7 secondary", "", ""},
		{"key del 7", 2, "", "", "required flag(s) \"slot\" not set"},
		{"key show 7", 0, "", "primary    1       AES-128-GCM  1234            99                0123456789abcdef\n", ""},
		{"key show 7", 0, "", "none left", ""},
		{"key show 8", 0, "", "no keys", ""},
		{"key show 7 --json", 0, "", "{\n  \"version\": 1,\n  \"peer\": 7,\n  \"keys\": [", ""},

		{"attach eth0", 0, "attach eth0 \"\"", "eth0 xdp native copy, 2 queues; why not higher: zero-copy: operation not supported\n", ""},
		{"attach eth0 --mode XDP", 0, "attach eth0 \"xdp\"", "", ""},
		{"attach eth0 --json", 0, "attach eth0 \"\"", "{\n  \"version\": 1,\n  \"nic\": {", ""},
		{"attach eth9", 1, "", "", "ovpn-xdp: eth9: XDP slot held by program 42 `xdp_dispatcher` (link 7); use --mode tc\n"},
		{"attach eth0 --mode socket", 2, "", "", "one of auto, xdp-zerocopy, xdp, tc, xdp-generic"},
		{"attach a/b", 2, "", "", "not a name the kernel takes"},
		{"detach eth0", 0, "detach eth0", "", ""},

		{"probe eth0", 0, "", "nic eth0\n", ""},
		{"probe eth0 --json", 0, "", "{\n  \"version\": 1,\n  \"nic\": \"eth0\"\n}\n", ""},
		{"probe none", 1, "", "", "ovpn-xdp: none: no such device\n"},

		{"status", 0, "", "gateway    gw on tun0", ""},
		{"status --json", 0, "", "{\n  \"version\": 1,\n  \"name\": \"gw\",", ""},
		{"status --require xdp", 0, "", "gateway", ""},
		{"status --require xdp-zerocopy", 3, "", "gateway", "ovpn-xdp: below xdp-zerocopy: eth0 xdp native copy, 2 queues; why not higher: zero-copy: operation not supported\n"},
		{"status --json --require xdp-zerocopy", 3, "", "\"name\": \"gw\"", "below xdp-zerocopy"},
		{"status --require dpdk", 2, "", "", "one of xdp-zerocopy, xdp, tc, xdp-generic, socket"},
		{"status --json --watch", 2, "", "", "exclude each other"},
		{"status --name gw", 0, "", "gateway    gw", ""},
		{"status --name other", 1, "", "", "gateway other is not running; running: gw\n"},
		{"status --name a/b", 2, "", "", "only letters, digits"},
		{"completion bash", 0, "", "bash completion", ""},
	} {
		t.Run(tc.args, func(t *testing.T) {
			g.mu.Lock()
			g.asked = nil
			g.mu.Unlock()
			o := invoke(t, "", append([]string{"--run-dir", dir}, strings.Fields(tc.args)...)...)
			if o.code != tc.code {
				t.Errorf("exit code %d, want %d; stderr %s", o.code, tc.code, o.stderr)
			}
			if !strings.Contains(o.stdout, tc.stdout) || tc.code != 0 && tc.stdout == "" && o.stdout != "" {
				t.Errorf("stdout %q, want %q", o.stdout, tc.stdout)
			}
			if !strings.Contains(o.stderr, tc.stderr) || tc.stderr == "" && o.stderr != "" {
				t.Errorf("stderr %q, want %q", o.stderr, tc.stderr)
			}
			if got := strings.HasSuffix(o.stderr, usageHint); got != (tc.code == 2) {
				t.Errorf("usage hint: %v, stderr %q", got, o.stderr)
			}
			if asked := g.last(); asked != tc.asked {
				t.Errorf("the gateway was asked %q, want %q", asked, tc.asked)
			}
		})
	}
	if g.block == (admin.Secret{}) {
		t.Error("no key arrived")
	}
}

func TestKeyFromStdin(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	g := start(t, dir, "gw")
	text := invoke(t, "", "key", "generate").stdout
	o := invoke(t, text, "key", "add", "7", "--key-file", "-", "--role", "client", "--run-dir", dir)
	if o.code != 0 || o.stderr != "" || g.block == (admin.Secret{}) {
		t.Errorf("%+v", o)
	}
	if strings.Contains(invoke(t, strings.Repeat("x", 1<<20), "key", "add", "7", "--key-file", "-", "--role", "client", "--run-dir", dir).stderr, "xxx") {
		t.Error("what is no key was printed")
	}
}

func TestNoGateway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	o := invoke(t, "", "status", "--run-dir", dir)
	if o.code != 1 || o.stderr != "ovpn-xdp: no gateway is running (no socket answers in "+dir+"); start one with `ovpn-xdp run`\n" {
		t.Errorf("%+v", o)
	}
	start(t, dir, "a")
	start(t, dir, "b")
	o = invoke(t, "", "peer", "list", "--run-dir", dir)
	if o.code != 1 || o.stderr != "ovpn-xdp: several gateways are running: a, b; choose one with --name\n" {
		t.Errorf("%+v", o)
	}
}

func TestRunOptions(t *testing.T) {
	o := invoke(t, "", "run")
	if o.code != 0 || o.cfg == nil {
		t.Fatalf("%+v", o)
	}
	want := config.Defaults()
	want.Complete()
	want.Software = "v1.2.3"
	if fmt.Sprintf("%+v", *o.cfg) != fmt.Sprintf("%+v", want) {
		t.Errorf("without flags:\n got %+v\nwant %+v", *o.cfg, want)
	}
	o = invoke(t, "", strings.Fields("run --nic eth0 --nic eth1 --listen 192.0.2.2 --listen [2001:db8::2]:443 --dev ovpn0 --address 10.9.0.1/24 "+
		"--address fd00:9::1/64 --mode tc --name gw --p2p --mark 0x420 --mtu 1400 --mssfix 1300 --queues 0,2-3 --ring-size 511 --batch 32 --prefetch 4 "+
		"--workers 3 --no-tun-offload --no-udp-gso --no-udp-gro --pin-dir /bpf --state-dir /var/lib/x --run-dir /run/x --ready-file /tmp/r --log-level debug --log-format json")...)
	if o.code != 0 || o.cfg == nil {
		t.Fatalf("%+v", o)
	}
	want = config.Run{
		Name: "gw", NICs: []string{"eth0", "eth1"}, Dev: "ovpn0", Mode: "tc", P2P: true, Mark: 0x420, MTU: 1400, MSSFix: 1300,
		Listen:    []netip.AddrPort{netip.MustParseAddrPort("192.0.2.2:1194"), netip.MustParseAddrPort("[2001:db8::2]:443")},
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.9.0.1/24"), netip.MustParsePrefix("fd00:9::1/64")},
		Queues:    []int{0, 2, 3}, RingSize: 512, Batch: 32, Prefetch: 4, Workers: 3, NoTunOffload: true, NoUDPGSO: true, NoUDPGRO: true,
		PinDir: "/bpf", StateDir: "/var/lib/x", RunDir: "/run/x", ReadyFile: "/tmp/r", LogLevel: slog.LevelDebug, LogFormat: "json", Software: "v1.2.3",
	}
	if fmt.Sprintf("%+v", *o.cfg) != fmt.Sprintf("%+v", want) {
		t.Errorf("with all flags:\n got %+v\nwant %+v", *o.cfg, want)
	}
	if !strings.Contains(o.stderr, `"msg":"ring size 511 is not a power of two: using 512"`) {
		t.Errorf("rounding was not said: %q", o.stderr)
	}
}

func TestRunErrors(t *testing.T) {
	for args, want := range map[string]string{
		"--mtu 20":              "mtu 20: 68 to 65451 bytes",
		"--ring-size 0":         "ring size 0: 64 to 32768",
		"--ring-size 1048576":   "ring size 1048576",
		"--name b/c":            "only letters, digits",
		"--listen :99999":       "ports are 1 to 65535",
		"--mode fast":           "one of auto, xdp-zerocopy, xdp, tc, socket, xdp-generic",
		"--mode xdp":            "mode xdp needs a NIC: give --nic",
		"--batch 65":            "batch 65: 1 to 64",
		"--queues 3-1":          "is not a queue or a range",
		"--mark -1":             "a number from 0 to 4294967295",
		"--log-level loud":      "debug, info, warn or error",
		"--frobnicate":          "unknown flag: --frobnicate",
		"--nic eth0 --nic eth0": "nic eth0 is given twice",
		"extra":                 "unknown command \"extra\"",
	} {
		o := invoke(t, "", append([]string{"run"}, strings.Fields(args)...)...)
		if o.code != 2 || o.cfg != nil || !strings.Contains(o.stderr, want) || o.stdout != "" {
			t.Errorf("run %s: %+v, want %q", args, o, want)
		}
	}
	if o := invoke(t, "", "run", "--name", "broken"); o.code != 1 || o.stderr != "ovpn-xdp: open tun0: operation not permitted: CAP_NET_ADMIN is missing\n" {
		t.Errorf("%+v", o)
	}
}

func TestEvents(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	g := start(t, dir, "gw")
	for _, asJSON := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		r, w := io.Pipe()
		done := make(chan int, 1)
		args := []string{"events", "--run-dir", dir}
		if asJSON {
			args = append(args, "--json")
		}
		go func() {
			done <- Run(ctx, Deps{}, args, nil, w, io.Discard)
			_ = w.Close()
		}()
		stop := make(chan struct{})
		go func() { // until it listens
			for {
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Millisecond):
					g.Publish(admin.PeerEvent(admin.EventPeerGone, 7, admin.GoneExpired))
				}
			}
		}()
		line := make([]byte, 512)
		n, err := r.Read(line)
		close(stop)
		if err != nil {
			t.Fatal(err)
		}
		got, want := string(line[:n]), " peer 7 peer gone: expired\n"
		if asJSON {
			want = `"type":"peer_gone","peer":7,"reason":"expired"}` + "\n"
			if !strings.HasPrefix(got, `{"version":1,"time":"`) {
				t.Errorf("got %q", got)
			}
		}
		if !strings.HasSuffix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		cancel()
		go func() { _, _ = io.Copy(io.Discard, r) }()
		if code := <-done; code != 0 {
			t.Errorf("interrupted: exit code %d", code)
		}
	}
}

func TestReplayCommand(t *testing.T) {
	const data = "../replay/testdata/"
	for _, name := range []string{"hostile-aes-128-gcm", "aes-128-gcm-reneg"} {
		o := invoke(t, "", "replay", "--pcap", data+name+".pcap", "--keys", data+name+".json", "--json")
		want, err := os.ReadFile(data + name + ".expected.json")
		if err != nil {
			t.Fatal(err)
		}
		if o.code != 0 || o.stdout != string(want) || o.stderr != "" {
			t.Errorf("%s: %+v", name, o)
		}
	}
	inner := filepath.Join(t.TempDir(), "inner.pcap")
	o := invoke(t, "", "replay", "--pcap", data+"aes-128-gcm.pcap", "--keys", data+"aes-128-gcm.json", "--write-inner", inner)
	if info, err := os.Stat(inner); o.code != 0 || err != nil || info.Size() < 300000 || !strings.Contains(o.stdout, "opened               260               249") {
		t.Errorf("%+v, %v", o, err)
	}
	for args, want := range map[string]string{
		"--pcap /no/such --keys " + data + "aes-128-gcm.json":                  "read capture: open /no/such",
		"--pcap " + data + "README.md --keys " + data + "aes-128-gcm.json":     "read capture: ",
		"--pcap " + data + "aes-128-gcm.pcap --keys " + data + "README.md":     "README.md: read keys: not JSON",
		"--pcap " + data + "aes-128-gcm.pcap --keys /no/such":                  "read keys: open /no/such",
		"--pcap x --keys " + data + "aes-128-gcm.json --write-inner /no/such/": "read capture: open x",
	} {
		o := invoke(t, "", append([]string{"replay"}, strings.Fields(args)...)...)
		if o.code != 1 || o.stdout != "" || !strings.Contains(o.stderr, want) {
			t.Errorf("%s: %+v, want %q", args, o, want)
		}
	}
	if o := invoke(t, "", "replay"); o.code != 2 || !strings.Contains(o.stderr, `required flag(s) "pcap", "keys" not set`) {
		t.Errorf("%+v", o)
	}
}
