// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"path/filepath"
	"strings"
	"time"
)

func authOptions() []OptionDoc {
	t := TopicAuth
	return append([]OptionDoc{
		{Name: "auth-user-pass-verify", Topic: t, Args: `"COMMAND" via-env|via-file`, Min: 2, Max: 2, read: readUserPassVerify,
			Text: "run for each client, has to exit with 0; 2 defers the answer. via-file hands over a file with two lines, via-env the environment, for which script-security 3 is needed"},
		{Name: "auth-user-pass-optional", Topic: t, read: toggle(func(s *Server) *bool { return &s.Auth.Optional }), Text: "clients without user and password are put to the command as well"},
		{Name: "username-as-common-name", Topic: t, read: toggle(func(s *Server) *bool { return &s.Auth.UsernameAsCN }), Text: "the username replaces the common name"},
		{Name: "auth-gen-token", Topic: t, Args: "[LIFETIME [RENEWAL] [external-auth]]", Max: 3, read: readGenToken, Text: "clients get a token, with which they can renegotiate without their password; times in seconds, 0 for no limit"},
		{Name: "auth-gen-token-secret", Topic: t, Args: "FILE", Min: 1, Max: 1, Place: InFile | AsBlock, read: source(func(s *Server) *Source { return &s.Auth.Token.Secret }), Text: "key that tokens are signed with, so that they outlive a restart"},
		{Name: "plugin", Topic: t, Args: "FILE ...", Min: 1, Max: -1, Verdict: Refused, read: readPlugin,
			Text:   "a static binary loads no shared objects, and a plugin left out could let anybody in",
			Remedy: "openvpn-plugin-auth-pam.so: auth-user-pass-verify /usr/lib/ovpn-xdp/auth-pam via-file; others: a command of your own"},
	}, refused(t, "OpenVPN removed it", "write verify-client-cert none, with auth-user-pass-verify", "client-cert-not-required")...)
}

func readUserPassVerify(r *reader, l Line) answer {
	switch l.Args[1] {
	case "via-env":
		r.s.Auth.ViaFile = false
	case "via-file":
		r.s.Auth.ViaFile = true
	default:
		return refuse("via-file, or via-env", "%q is not possible", printable(l.Args[1]))
	}
	return readCommand(l.Args[0], &r.s.Auth.Verify)
}

func readGenToken(r *reader, l Line) answer {
	t := &r.s.Auth.Token
	*t = Token{Enabled: true, Secret: t.Secret}
	times := []*time.Duration{&t.Lifetime, &t.Renewal}
	for i, arg := range l.Args {
		if arg == "external-auth" && i == len(l.Args)-1 && i > 0 {
			t.External = true
			continue
		}
		if i >= len(times) {
			return refuse("write auth-gen-token [LIFETIME [RENEWAL] [external-auth]]", "%q is not possible", printable(arg))
		}
		var err error
		if *times[i], err = parseSeconds(arg, 0); err != nil {
			return refuse("write auth-gen-token [LIFETIME [RENEWAL] [external-auth]]", "%v", err)
		}
	}
	return fine
}

// readPlugin names the way out for the plugins that are around.
func readPlugin(_ *reader, l Line) answer {
	const why = "a static binary loads no shared objects, and without this one anybody could pass its check"
	name := filepath.Base(l.Args[0])
	switch {
	case strings.Contains(name, "auth-pam"):
		return refuse("write auth-user-pass-verify "+pamHelper(l.Args[1:])+" via-file, and script-security 2", "%s", why)
	case strings.Contains(name, "down-root"):
		return refuse("write down \"COMMAND\": commands run with the gateway's rights", "a static binary loads no shared objects")
	case strings.Contains(name, "ldap"):
		return refuse("put PAM in front of LDAP (pam_ldap or pam_sss) and write auth-user-pass-verify /usr/lib/ovpn-xdp/auth-pam via-file", "%s", why)
	case strings.Contains(name, "radius"):
		return refuse("put PAM in front of RADIUS (pam_radius_auth) and write auth-user-pass-verify /usr/lib/ovpn-xdp/auth-pam via-file", "%s", why)
	}
	return refuse("do it in a command: auth-user-pass-verify, tls-verify, client-connect", "%s", why)
}

// pamHelper writes the command that takes the place of openvpn-plugin-auth-pam.so: its
// init string, a service and pairs of prompt and answer, becomes the helper's arguments.
func pamHelper(init []string) string {
	const helper = "/usr/lib/ovpn-xdp/auth-pam"
	var words []string
	for _, arg := range init {
		more, f := splitWords(arg)
		if f != nil || strings.ContainsAny(arg, "'\"\\") {
			return helper + " (and its arguments, see docs/auth-pam.md)"
		}
		words = append(words, more...)
	}
	if len(words) == 0 || len(words) == 1 && words[0] == "openvpn" {
		return helper
	}
	for i, w := range words {
		if w == "" || strings.Contains(w, " ") {
			words[i] = "'" + w + "'"
		}
	}
	return `"` + helper + " " + printable(strings.Join(words, " ")) + `"`
}

// checkAuth holds the options about users against each other.
func (r *reader) checkAuth() {
	s := r.s
	for _, o := range []string{"username-as-common-name", "auth-user-pass-optional"} {
		if s.Auth.Verify == nil && r.given(o) {
			r.amend(o, refuse("add auth-user-pass-verify", "nothing verifies users and passwords"))
		}
	}
	t := s.Auth.Token
	switch {
	case !t.Enabled:
		r.noteLine("auth-gen-token-secret", ignore("there is no auth-gen-token"))
	case s.RenegMax == 0:
		r.amend("auth-gen-token", refuse("give reneg-sec", "tokens are renewed at renegotiation, and reneg-sec is 0"))
	case t.Renewal > 0 && t.Renewal < 2*s.HandWindow:
		r.amend("auth-gen-token", refuse("raise it", "the renewal time has to be at least twice hand-window"))
	case s.Auth.Verify == nil:
		r.amend("auth-gen-token", note("no client gets a token: nothing verifies users and passwords"))
	}
}
