// SPDX-License-Identifier: Apache-2.0

//go:build pam

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/msteinert/pam/v2"

	"github.com/ovpn-xdp/ovpn-xdp/internal/testlab"
)

// services makes a folder of services, as /etc/pam.d is one, with a module of our own
// that asks what its arguments say.
func services(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	testlab.RequireTool(t, "cc")
	testlab.RequireFeature(t, "pam_start_confdir", func() error {
		if !pam.CheckPamHasStartConfdir() {
			return errors.New("not in this libpam")
		}
		return nil
	})
	dir = t.TempDir()
	module := filepath.Join(dir, "pam_ask.so")
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-o", module, "testdata/pam_ask.c", "-lpam").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, text := range files {
		text = strings.ReplaceAll(text, "pam_ask.so", module)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestPAM asks libpam with its own modules and one that holds conversations.
func TestPAM(t *testing.T) {
	const permit = "account required pam_permit.so\n"
	dir := services(t, map[string]string{
		"openvpn": "auth required pam_ask.so hide:Password:=pass\n" + permit,
		"twice":   "auth required pam_ask.so hide:Password:=pass\nauth required pam_ask.so hide:Password:=pass\n" + permit,
		"otp":     "auth required pam_ask.so hide:Password:=pass hide:Code:=123456\n" + permit,
		"pinfirst": "auth required pam_ask.so show:Login:=joe hide:Pin:=123456\n" +
			"auth required pam_ask.so hide:Password:=pass\n" + permit,
		"cn":      "auth required pam_ask.so show:Device:=laptop hide:Secret:=pass-123456\n" + permit,
		"talk":    "auth required pam_ask.so info:two_words\n" + permit,
		"host":    "auth required pam_ask.so rhost:192.0.2.9\n" + permit,
		"noempty": "auth required pam_ask.so nonull:\n" + permit,
		"permit":  "auth required pam_permit.so\n" + permit,
		"deny":    "auth required pam_deny.so\n" + permit,
		"account": "auth required pam_permit.so\naccount required pam_deny.so\n",
		"expired": "auth required pam_permit.so\naccount required pam_ask.so acct:expired\n",
		"renew":   "auth required pam_permit.so\naccount required pam_ask.so acct:renew\n",
		"broken":  "auth required pam_no_such_module.so\n" + permit,
		"empty":   "",
		"other":   "auth required pam_deny.so\naccount required pam_deny.so\n",
	})
	challenge := "joe\n" + scrv1("pass", "123456") + "\n"
	for _, c := range []struct {
		args   string
		up     string
		ok     bool
		log    string
		reason string
	}{
		{args: "", up: "joe\npass\n", ok: true},
		{args: "", up: "joe\nPass\n", log: `user "joe" refused: authenticate: `},
		{args: "", up: "joe\n\n", log: "authenticate"},
		{args: "twice", up: challenge, ok: true},
		{args: "otp", up: challenge, ok: true},
		{args: "otp", up: "joe\npass\n", log: "authenticate"},
		{args: "otp", up: "joe\n" + scrv1("pass", "123457") + "\n", log: "authenticate"},
		{args: "otp password PASSWORD code OTP", up: challenge, ok: true},
		{args: "otp password PASSWORD", up: challenge, log: `no answer to this prompt: "Code:"`},
		{args: "pinfirst", up: challenge, log: "authenticate"},
		{args: "pinfirst login USERNAME pin OTP password PASSWORD", up: challenge, ok: true},
		{args: "cn device COMMONNAME secret PASSWORD-OTP", up: challenge, ok: true},
		{args: "talk", up: "joe\npass\n", ok: true, log: `PAM says "two_words"`},
		{args: "host", up: "joe\npass\n", ok: true},
		{args: "noempty", up: "joe\n\n", ok: true},
		{args: "permit", up: "joe\nanything\n", ok: true},
		{args: "deny", up: "joe\npass\n", log: "authenticate"},
		{args: "account", up: "joe\npass\n", log: "account: "},
		{args: "expired", up: "joe\npass\n", log: "account: ", reason: "the account has expired"},
		{args: "renew", up: "joe\npass\n", log: "account: ", reason: "the password has expired"},
		{args: "broken", up: "joe\npass\n", log: "refused"},
		{args: "empty", up: "joe\npass\n", log: "refused"},
		{args: "nosuchservice", up: "joe\npass\n", log: "refused"},
	} {
		t.Run(c.args, func(t *testing.T) {
			reason := handedOver(t, "")
			env := environment(map[string]string{"common_name": "laptop", "untrusted_ip": "192.0.2.9", "auth_failed_reason_file": reason})
			ask := func(q question, info func(string)) error {
				return askPAMIn(dir, q, info)
			}
			var log bytes.Buffer
			code := run(append(strings.Fields(c.args), handedOver(t, c.up)), env, &log, ask)
			if (code == 0) != c.ok || code > exitRefused || !strings.Contains(log.String(), c.log) {
				t.Errorf("exit code %d, log %q", code, log.String())
			}
			if b, _ := os.ReadFile(reason); string(b) != c.reason {
				t.Errorf("the client is told %q", b)
			}
		})
	}
}
