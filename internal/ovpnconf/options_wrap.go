// SPDX-License-Identifier: Apache-2.0

package ovpnconf

import (
	"strings"
	"time"

	"github.com/ovpn-xdp/ovpn-xdp/internal/control/wrap"
)

func wrapOptions() []OptionDoc {
	t := TopicWrap
	block := InFile | AsBlock
	return []OptionDoc{
		{Name: "tls-auth", Topic: t, Args: "FILE [0|1]", Min: 1, Max: 2, Place: block, read: readTLSAuth, Text: "control packets carry an HMAC; the direction is 0 on a server whose clients have 1"},
		{Name: "key-direction", Topic: t, Args: "0|1", Min: 1, Max: 1, read: readDirection, Text: "direction of tls-auth, for an inline block"},
		{Name: "tls-crypt", Topic: t, Args: "FILE", Min: 1, Max: 1, Place: block, read: func(r *reader, l Line) answer { return readSource(l, &r.tlsCrypt) }, Text: "control packets are encrypted with one key for all"},
		{Name: "tls-crypt-v2", Topic: t, Args: "FILE [force-cookie|allow-noncookie]", Min: 1, Max: 2, Place: block, read: readTLSCryptV2,
			Text: "control packets are encrypted with a key for each client; may stand beside tls-crypt or tls-auth. force-cookie turns clients before 2.6 away"},
		{Name: "tls-crypt-v2-verify", Topic: t, Args: `"COMMAND"`, Min: 1, Max: 1, read: command(func(c *Common) *Command { return &c.Wrap.V2Verify }),
			Text: "run with the metadata of a client's key, has to exit with 0. Needs script-security 2"},
		{Name: "tls-crypt-v2-max-age", Topic: t, Args: "DAYS", Min: 1, Max: 1, read: readMaxAge, Text: "client keys are refused so many days after they were made"},
		{Name: "auth", Topic: t, Args: "DIGEST", Min: 1, Max: 1, read: readAuth, Text: "digest of tls-auth, default SHA1; data is authenticated by its cipher"},
	}
}

func readTLSAuth(r *reader, l Line) answer {
	if len(l.Args) == 2 {
		if a := setDirection(r, l.Args[1]); a.verdict == Refused {
			return a
		}
	}
	return readSource(l, &r.tlsAuth)
}

func readDirection(r *reader, l Line) answer { return setDirection(r, l.Args[0]) }

func setDirection(r *reader, s string) answer {
	switch s {
	case "0":
		r.c.Wrap.Direction = Normal
	case "1":
		r.c.Wrap.Direction = Inverse
	default:
		return refuse("give 0 on the server and 1 on clients, or nothing on both", "%q is no direction", printable(s))
	}
	return fine
}

func readTLSCryptV2(r *reader, l Line) answer {
	r.c.Wrap.V2ForceCookie = false
	if len(l.Args) == 2 {
		switch l.Args[1] {
		case "force-cookie":
			r.c.Wrap.V2ForceCookie = true
		case "allow-noncookie":
		default:
			return refuse("force-cookie or allow-noncookie", "%q is not possible", printable(l.Args[1]))
		}
	}
	return readSource(l, &r.c.Wrap.V2)
}

func readMaxAge(r *reader, l Line) answer {
	// 36,500 days are 100 years and fit a time.Duration.
	n, err := parseInt(l.Args[0], 1, 36500)
	if err != nil {
		return refuse("give days", "%v", err)
	}
	r.c.Wrap.V2MaxAge = time.Duration(n) * 24 * time.Hour
	return fine
}

func readAuth(r *reader, l Line) answer {
	d, err := wrap.ParseDigest(l.Args[0])
	if err != nil {
		r.c.Wrap.Digest = strings.ToUpper(l.Args[0])
		if r.c.Wrap.Digest == "NONE" {
			return fine
		}
		return ignore("%q is no digest known here; it is of use for tls-auth only", printable(l.Args[0]))
	}
	r.c.Wrap.Digest = d.String()
	return fine
}

// wrapping puts tls-auth, tls-crypt and tls-crypt-v2 together.
func (r *reader) wrapping() {
	w := &r.c.Wrap
	switch {
	case given(r.tlsAuth) && given(r.tlsCrypt):
		r.amend("tls-crypt", refuse("remove one of them", "tls-auth is given too"))
	case given(r.tlsAuth):
		w.Mode, w.Key = WrapTLSAuth, r.tlsAuth
		if _, err := wrap.ParseDigest(w.Digest); err != nil {
			r.amend("auth", refuse("give a digest such as SHA256, the same as clients have", "tls-auth needs a digest"))
		}
	case given(r.tlsCrypt):
		w.Mode, w.Key = WrapTLSCrypt, r.tlsCrypt
	}
	if w.Mode != WrapTLSAuth && r.given("key-direction") {
		r.amend("key-direction", ignore("there is no tls-auth key that it could be for"))
	}
	for _, o := range []string{"tls-crypt-v2-verify", "tls-crypt-v2-max-age"} {
		if r.given(o) && !given(w.V2) {
			r.amend(o, refuse("add tls-crypt-v2 FILE, or remove it", "there is no tls-crypt-v2 key, so no client would be checked"))
		}
	}
}

// given says whether there is a file or an inline block.
func given(s Source) bool { return s.Path != "" || s.Inline != nil }
