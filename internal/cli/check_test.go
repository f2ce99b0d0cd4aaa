// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func writeConf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const (
	testCA = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"
	// checkedConf starts: a PKCS#12 file is not looked into.
	checkedConf = "port 1194\ndev tun\nca ca.crt\npkcs12 all.p12\ntopology subnet\nserver 10.8.0.0 255.255.255.0\ndh none\npersist-key\nclient-config-dir ccd\n"
)

func TestCheckUsable(t *testing.T) {
	dir := writeConf(t, map[string]string{
		"server.conf": checkedConf, "ca.crt": testCA, "all.p12": "x",
		"ccd/alice": "ifconfig-push 10.8.0.5 10.8.0.6\n", "ccd/bob": "iroute 10.7.0.0 255.255.0.0\n", "ccd/carol": "frobnicate\n",
	})
	o := invoke(t, "", "check", "--cd", dir, "server.conf")
	if o.code != 0 || o.stderr != "" {
		t.Fatalf("code %d, stderr %q, stdout:\n%s", o.code, o.stderr, o.stdout)
	}
	want := `LINE  VERDICT   OPTION
   1  honoured  port
   2  honoured  dev
   3  honoured  ca
   4  honoured  pkcs12
   5  honoured  topology
   6  honoured  server
   7  ignored   dh                 keys are agreed on by elliptic curves only (ECDHE)
   8  ignored   persist-key        addresses, keys and device are kept while the gateway runs
   9  honoured  client-config-dir

In files about clients:
`
	if !strings.HasPrefix(o.stdout, want) {
		t.Errorf("got:\n%s\nwant first:\n%s", o.stdout, want)
	}
	for _, part := range []string{
		"ccd/alice:1  honoured  ifconfig-push  10.8.0.6 is no netmask but the other half of a net30 pair",
		"ccd/carol:1  refused   frobnicate     there is no such option -> ",
		"server.conf: a gateway would start with it: 7 honoured, 2 ignored, 0 refused\n",
	} {
		if !strings.Contains(o.stdout, part) {
			t.Errorf("%q is missing in:\n%s", part, o.stdout)
		}
	}
	if strings.Contains(o.stdout, "ccd/bob") {
		t.Error("a client's file with nothing to say about is listed")
	}
}

func TestCheckRefuses(t *testing.T) {
	dir := writeConf(t, map[string]string{
		"server.conf": "dev tap\nca ca.crt\ncert s.crt\nconfig more.conf\nserver 10.8.0.0 255.255.255.0\n", "more.conf": "plugin openvpn-plugin-auth-pam.so\n", "ca.crt": testCA,
	})
	o := invoke(t, "", "check", "--cd", dir, "server.conf")
	if o.code != 1 || !strings.Contains(o.stderr, "server.conf: a gateway would not start with it: 3 honoured, 0 ignored, 4 refused\n") {
		t.Errorf("code %d, stderr %q", o.code, o.stderr)
	}
	for _, part := range []string{
		" 1  refused   dev     tap devices carry Ethernet frames, and the gateway routes IP packets -> use dev tun",
		"more.conf:1  refused   plugin  a static binary loads no shared objects",
		" 3  refused   cert    ",
		" -  refused   key     it is missing",
	} {
		if !strings.Contains(o.stdout, part) {
			t.Errorf("%q is missing in:\n%s", part, o.stdout)
		}
	}

	o = invoke(t, "", "check", "--json", "--cd", dir, "server.conf")
	if o.code != 1 || !strings.HasPrefix(o.stdout, "{\n  \"version\": 1,\n") {
		t.Fatalf("code %d, stdout %s", o.code, o.stdout)
	}
	var r struct {
		Starts  bool
		Refused int
		Lines   []struct {
			File, Option, Verdict, Why, Remedy string
			Line                               int
		}
	}
	if err := json.Unmarshal([]byte(o.stdout), &r); err != nil {
		t.Fatal(err)
	}
	if r.Starts || r.Refused != 4 || len(r.Lines) != 7 || r.Lines[0].Option != "dev" || r.Lines[0].Line != 1 || r.Lines[0].Verdict != "refused" || r.Lines[0].Remedy == "" {
		t.Errorf("%+v", r)
	}
}

func TestCheckUsage(t *testing.T) {
	for _, tc := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{[]string{"check"}, 2, "accepts 1 arg(s), received 0"},
		{[]string{"check", "/nowhere/server.conf"}, 1, "read configuration: open /nowhere/server.conf: no such file or directory"},
		{[]string{"check", "--cd", "/nowhere", "server.conf"}, 1, "/nowhere/server.conf"},
	} {
		if o := invoke(t, "", tc.args...); o.code != tc.code || !strings.Contains(o.stderr, tc.stderr) || o.stdout != "" {
			t.Errorf("%q: code %d, stderr %q, stdout %q", tc.args, o.code, o.stderr, o.stdout)
		}
	}
}

// A key in an inline block is never printed.
func TestCheckKeepsSecrets(t *testing.T) {
	dir := writeConf(t, map[string]string{"server.conf": "<key>\nSECRETSECRET\n</key>\n<port>\nSECRETSECRET\n</port>\n<frob>\nSECRETSECRET\n"})
	for _, args := range [][]string{{"check", filepath.Join(dir, "server.conf")}, {"check", "--json", filepath.Join(dir, "server.conf")}} {
		if o := invoke(t, "", args...); strings.Contains(o.stdout+o.stderr, "SECRET") {
			t.Errorf("%q prints the key:\n%s%s", args, o.stdout, o.stderr)
		}
	}
}
