// SPDX-License-Identifier: Apache-2.0

package management

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

// same are commands that a server without clients answers as OpenVPN does.
var same = []string{
	"version", "status", "status 1", "status 2", "status 3", "status 4", "status x", "status 2 3", "state", "state 1", "state on", "state off", "state x",
	"state on 1", "state on x", "log", "log x", "log 0", "log -3", "log off", "echo", "echo all", "echo on", "echo off", "bytecount", "bytecount 2", "bytecount 2 3",
	"bytecount 0", "load-stats", "nclients", "verb", "mute", "hold", "hold off", "hold release", "signal", "signal SIGX", "signal sigterm", "kill",
	"kill nobody", "kill 'no body'", "kill no body", "kill 192.0.2.1", "kill 192.0.2.1:5", "client-kill", "client-kill x", "client-kill 99", "client-kill 99 HALT x",
	"foo", "STATUS", "version 2", "", "   ", "pid x",
}

// changing is what differs between two servers: times, process ids.
var changing = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|\b\d{10}\b|pid=\d+`)

func TestRepliesAreOpenVPNs(t *testing.T) {
	stock := testlab.RequireStockOpenVPN(t, "2.6")
	ns := testlab.New(t).Namespace("m")
	path, ca, cert, key := socketPath(t), filepath.Join(t.TempDir(), "ca"), filepath.Join(t.TempDir(), "cert"), filepath.Join(t.TempDir(), "key")
	certificate(t, ca, cert, key)
	p := ns.Start(stock, "--dev", "tun", "--topology", "subnet", "--server", "10.8.0.0", "255.255.255.0", "--dh", "none", "--ca", ca, "--cert", cert, "--key", key,
		"--verb", "3", "--disable-dco", "--management", path, "unix")
	theirs := await(t, p, path)
	for theirs.ask("state")[0] == "END" || !strings.Contains(theirs.ask("state")[0], "CONNECTED") {
		time.Sleep(20 * time.Millisecond)
	}

	title := strings.TrimPrefix(theirs.ask("version")[0], "OpenVPN Version: ")
	s := serve(t, Config{Source: &source{}}, func(s *Server) {
		s.cfg.Title = title
		s.cfg.Source = empty{title}
	})
	s.SetState(State{Time: moment, Name: "CONNECTED", Detail: "SUCCESS", Tunnel4: netip.MustParseAddr("10.8.0.1")})
	ours := call(t, s)
	for _, command := range same {
		got, want := ours.ask(command), theirs.ask(command)
		for _, reply := range [][]string{got, want} {
			for i := range reply {
				reply[i] = changing.ReplaceAllString(reply[i], "#")
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n%q\nOpenVPN:\n%q", command, got, want)
		}
	}
}

// await connects as soon as the server listens.
func await(t *testing.T, p *testlab.Process, path string) *caller {
	t.Helper()
	for {
		conn, err := net.Dial("unix", path)
		if err == nil {
			conn.Close()
			break
		}
		select {
		case <-p.Done():
			t.Fatal(p.Output())
		case <-time.After(20 * time.Millisecond):
		}
	}
	c := dial(t, "unix", path)
	c.expect(">INFO:OpenVPN Management Interface Version 5 -- type 'help' for more info")
	return c
}

// certificate writes a CA and a server's certificate and key.
func certificate(t *testing.T, ca, cert, key string) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	// One self-signed certificate is both: nobody connects.
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "server"}, BasicConstraintsValid: true, IsCA: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &secret.PublicKey, secret)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{
		ca: {Type: "CERTIFICATE", Bytes: der}, cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
