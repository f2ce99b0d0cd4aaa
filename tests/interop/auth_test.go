// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"fmt"
	"strings"
	"testing"
)

// Scripts that let one user in. A password of 1,400 bytes is what single sign-on and
// tokens come to.
const (
	user     = "alice"
	byEnv    = "#!/bin/sh\n[ \"$username\" = alice ] && [ \"$password\" = \"$(cat \"${0%/*}/password\")\" ]\n"
	byFile   = "#!/bin/sh\n{ read -r u; read -r p; } <\"$1\"\n[ \"$u\" = alice ] && [ \"$p\" = \"$(cat \"${0%/*}/password\")\" ]\n"
	deferred = "#!/bin/sh\n{ read -r u; read -r p; } <\"$1\"\nanswer=0\n" +
		"[ \"$u\" = alice ] && [ \"$p\" = \"$(cat \"${0%/*}/password\")\" ] && answer=1\n" +
		"{ sleep 2; printf $answer >\"$auth_control_file\"; } >/dev/null 2>&1 &\nexit 2\n"
)

var longPassword = strings.Repeat("0123456789abcdef", 87) + "12345678"

// TestPassword asks clients for user name and password, beside the certificate or in its
// place, by every way a script can be given them.
func TestPassword(t *testing.T) {
	long(t)
	t.Parallel()
	for _, v := range []struct {
		name, release, password string
		certificate             bool
		script                  string
		lines                   []string
	}{
		{"via-env", "2.5", "open sesame", true, byEnv, []string{"auth-user-pass-verify ./verify via-env", "script-security 3"}},
		{"via-file long password", "2.6", longPassword, true, byFile, []string{"auth-user-pass-verify ./verify via-file", "script-security 2"}},
		{"no certificate", "2.7", `$(id) "quoted" \back`, false, byFile, []string{"auth-user-pass-verify ./verify via-file", "script-security 2",
			"verify-client-cert none", "username-as-common-name"}},
		{"no certificate 2.5", "2.5", longPassword, false, byFile, []string{"auth-user-pass-verify ./verify via-file", "script-security 2",
			"verify-client-cert none", "username-as-common-name"}},
		{"deferred", "2.6", "open sesame", true, deferred, []string{"auth-user-pass-verify ./verify via-file", "script-security 2"}},
		{"token", "2.7", "open sesame", true, byFile, []string{"auth-user-pass-verify ./verify via-file", "script-security 2",
			"auth-gen-token 3600 600", "reneg-sec 4"}},
		{"token 2.5", "2.5", "open sesame", true, byFile, []string{"auth-user-pass-verify ./verify via-file", "script-security 2",
			"auth-gen-token 3600 600", "reneg-sec 4"}},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			if serverKind(t) != ovpnXDP {
				// A stock server fails to write long ones to its file.
				v.password = v.password[:min(len(v.password), 300)]
			}
			d := newBed(t, 2)
			a := mustAuthority(t, p256)
			s := d.newServer(d.configure(a, transport{}, map[string]string{"verify": v.script, "password": v.password}, v.lines...))
			s.start()
			var id, other identity
			commonName := user
			if v.certificate {
				id, other = a.issue(t, "client", leaf{}), a.issue(t, "other", leaf{})
				commonName = "client"
			}
			credentials := func(password string) string { return inline("auth-user-pass", user+"\n"+password+"\n") }
			if v.release == "2.5" {
				// 2.5 takes them from a file only.
				dir := folder(t, fmt.Sprintf("%s-p%d", d.lab.ID(), serial.Add(1)))
				credentials = func(password string) string {
					return "auth-user-pass " + write(t, dir, fmt.Sprint(serial.Add(1)), user+"\n"+password+"\n")
				}
			}
			c := d.newClient(0, v.release, a, id, transport{}, credentials(v.password)).up()
			c.carries()
			awaitNames(t, s, commonName)
			// The one who does not know it is told so, and disturbs nobody.
			wrong := d.newClient(1, v.release, a, other, transport{}, credentials(v.password+"x")).start()
			wrong.says("AUTH_FAILED", 1)
			wrong.ended()
			if wrong.count(connected) > 0 {
				t.Error("a wrong password let a client in")
			}
			if strings.HasPrefix(v.name, "token") {
				// The password is gone: what is renewed is renewed by the token.
				write(t, s.settings().dir, "password", "changed")
				c.says("Control Channel: TLSv1", c.keyExchanges()+3)
			}
			if n := c.count(connected); n != 1 {
				t.Errorf("the tunnel came up %d times", n)
			}
			c.carries()
			if strings.Contains(s.log(), v.password) {
				t.Error("the server's log has the password")
			}
			s.stop()
		})
	}
}
