// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// handedOver is a file as auth-user-pass-verify via-file makes it.
func handedOver(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "up")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func environment(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

func TestRun(t *testing.T) {
	up := handedOver(t, "joe\nsecret\n")
	reason := handedOver(t, "what was there before, and is longer")
	var asked question
	says := func(err error) asker {
		return func(q question, info func(string)) error {
			asked = q
			info("two\nlines")
			return err
		}
	}
	for name, c := range map[string]struct {
		args   []string
		ask    asker
		code   int
		log    string
		reason string
	}{
		"let in":           {[]string{up}, says(nil), 0, `PAM says "two\nlines"`, ""},
		"refused":          {[]string{up}, says(errors.New("wrong")), 1, `user "joe" refused: wrong`, ""},
		"told":             {[]string{up}, says(refusal{errors.New("old"), "the password has expired"}), 1, "old", "the password has expired"},
		"panic":            {[]string{up}, func(question, func(string)) error { panic("oops") }, 1, "oops", ""},
		"no file":          {nil, says(nil), 1, "usage", ""},
		"service alone":    {[]string{"login"}, says(nil), 1, "no such file", ""},
		"path":             {[]string{"../login", up}, says(nil), 1, "no name of a service", ""},
		"hidden":           {[]string{".login", up}, says(nil), 1, "no name of a service", ""},
		"no service":       {[]string{"", up}, says(nil), 1, "no name of a service", ""},
		"half a rule":      {[]string{"login", "password", up}, says(nil), 1, `prompt "password" has no answer`, ""},
		"a file too large": {[]string{handedOver(t, strings.Repeat("x", 1<<20))}, says(nil), 1, "more than 8192 bytes", ""},
	} {
		if err := os.WriteFile(reason, []byte("before"), 0o600); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		code := run(c.args, environment(map[string]string{"auth_failed_reason_file": reason}), &log, c.ask)
		if code != c.code || !strings.Contains(log.String(), c.log) || strings.Contains(log.String(), "secret") {
			t.Errorf("%s: exit code %d, log %q", name, code, log.String())
		}
		if b, _ := os.ReadFile(reason); c.reason != "" && string(b) != c.reason || c.reason == "" && string(b) != "before" {
			t.Errorf("%s: the client is told %q", name, b)
		}
	}

	env := map[string]string{"untrusted_ip": "192.0.2.7", "common_name": "laptop", "auth_failed_reason_file": "/nonexistent/file"}
	var log bytes.Buffer
	if code := run([]string{"login", "pin", "OTP", up}, environment(env), &log, says(refusal{errors.New("x"), "y"})); code != 1 || !strings.Contains(log.String(), "write reason for the client") {
		t.Errorf("exit code %d, log %q", code, log.String())
	}
	want := question{service: "login", user: "joe", host: "192.0.2.7", answers: &answers{credentials: credentials{user: "joe", password: "secret"}, commonName: "laptop", rules: []rule{{"pin", "OTP"}}}}
	if !reflect.DeepEqual(asked, want) {
		t.Errorf("asked %+v, want %+v", asked, want)
	}
	if run([]string{up}, environment(nil), &log, says(nil)); asked.service != "openvpn" {
		t.Errorf("the service is %q unless one is given", asked.service)
	}
}

func TestHost(t *testing.T) {
	for want, env := range map[string]map[string]string{
		"192.0.2.1": {"untrusted_ip": "192.0.2.1"}, "2001:db8::1": {"untrusted_ip6": "2001:db8::1"},
		"192.0.2.2": {"untrusted_ip6": "::ffff:192.0.2.2"}, "": {"untrusted_ip": "$(id)"},
	} {
		if got := host(environment(env)); got != want {
			t.Errorf("%v: %q, want %q", env, got, want)
		}
	}
}
