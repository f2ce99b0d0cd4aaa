// SPDX-License-Identifier: Apache-2.0

package status_test

import (
	"bytes"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/status"
)

var (
	connected = time.Date(2026, 12, 1, 4, 18, 31, 0, time.UTC)
	written   = time.Date(2026, 12, 1, 4, 18, 36, 0, time.UTC)
	alice     = netip.MustParseAddrPort("10.99.0.2:55142")
	bob       = netip.MustParseAddrPort("[fd99::2]:52852")
)

// report is what a server of OpenVPN 2.6.14 said in the files in testdata, which
// its management interface wrote in one second. Alice had come to a dual-stack socket.
func report() status.Report {
	route := func(prefix, cn string, real netip.AddrPort) status.Route {
		return status.Route{Prefix: netip.MustParsePrefix(prefix), CommonName: cn, Real: real, LastRef: connected}
	}
	return status.Report{
		Title: "OpenVPN 2.6.14 x86_64-pc-linux-gnu [SSL (OpenSSL)] [LZO] [LZ4] [EPOLL] [PKCS11] [MH/PKTINFO] [AEAD] [DCO]",
		Time:  written,
		Clients: []status.Client{
			{
				CommonName: "bob", Real: bob, Virtual4: netip.MustParseAddr("10.8.0.3"), Virtual6: netip.MustParseAddr("fd08::1001"),
				BytesReceived: 2033, BytesSent: 2051, Since: connected, ClientID: 1, PeerID: 1, Cipher: "AES-256-GCM",
			},
			{
				CommonName: "alice", Real: netip.AddrPortFrom(netip.AddrFrom16(alice.Addr().As16()), alice.Port()), TCP: true,
				Virtual4: netip.MustParseAddr("10.8.0.2"), Virtual6: netip.MustParseAddr("fd08::1000"),
				BytesReceived: 2041, BytesSent: 2052, Since: connected, Username: "user", Cipher: "AES-256-GCM",
			},
		},
		Routes: []status.Route{
			route("fd77::/64", "alice", alice), route("192.168.77.0/24", "alice", alice), route("10.8.0.2/32", "alice", alice),
			route("fd08::1001/128", "bob", bob), route("10.8.0.3/32", "bob", bob), route("fd08::1000/128", "alice", alice),
		},
		MaxBcast: 2,
	}
}

func TestWriteIsWhatOpenVPNWrites(t *testing.T) {
	for version, file := range map[int]string{1: "openvpn-2.6.14.v1", 2: "openvpn-2.6.14.v2", 3: "openvpn-2.6.14.v3"} {
		want, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := status.Write(&got, version, report()); err != nil {
			t.Fatal(err)
		}
		if got.String() != string(want) {
			t.Errorf("version %d:\n%s\nwant\n%s", version, got.String(), want)
		}
	}
}

func TestVersions(t *testing.T) {
	for _, version := range []int{-1, 0, 4} {
		var got bytes.Buffer
		if err := status.Write(&got, version, report()); !errors.Is(err, status.ErrVersion) || got.Len() > 0 {
			t.Errorf("version %d: error %v, %d bytes written", version, err, got.Len())
		}
	}
}

// A client with nothing but its address still has all its columns.
func TestMissingValues(t *testing.T) {
	at := time.Unix(0, 0).UTC()
	r := status.Report{Title: "ovpn-xdp", Time: at, Clients: []status.Client{{Real: alice, Since: at}}, Routes: []status.Route{{LastRef: at}}}
	const want = "TITLE,ovpn-xdp\n" +
		"TIME,1970-01-01 00:00:00,0\n" +
		"HEADER,CLIENT_LIST,Common Name,Real Address,Virtual Address,Virtual IPv6 Address,Bytes Received,Bytes Sent,Connected Since,Connected Since (time_t),Username,Client ID,Peer ID,Data Channel Cipher\n" +
		"CLIENT_LIST,UNDEF,10.99.0.2:55142,,,0,0,1970-01-01 00:00:00,0,UNDEF,0,0,\n" +
		"HEADER,ROUTING_TABLE,Virtual Address,Common Name,Real Address,Last Ref,Last Ref (time_t)\n" +
		"ROUTING_TABLE,,UNDEF,,1970-01-01 00:00:00,0\n" +
		"GLOBAL_STATS,Max bcast/mcast queue length,0\n" +
		"GLOBAL_STATS,dco_enabled,0\n" +
		"END\n"
	got, err := status.Append(nil, 2, r)
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
}
