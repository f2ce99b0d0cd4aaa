// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"strings"
	"testing"
)

func scrv1(password, response string) string {
	b64 := base64.StdEncoding.EncodeToString
	return "SCRV1:" + b64([]byte(password)) + ":" + b64([]byte(response))
}

func TestParseCredentials(t *testing.T) {
	long := strings.Repeat("x", 4095)
	for _, c := range []struct {
		text string
		want credentials
		bad  string // "": it can be used
	}{
		{"joe\nsecret\n", credentials{user: "joe", password: "secret"}, ""},
		{"joe\nsecret", credentials{user: "joe", password: "secret"}, ""},
		{"joe\n\n", credentials{user: "joe"}, ""},
		{"joe\n pass  word \t\n", credentials{user: "joe", password: " pass  word \t"}, ""},
		{"Jörg Müller\npässword\n", credentials{user: "Jörg Müller", password: "pässword"}, ""},
		{long + "\n" + long + "\n", credentials{user: long, password: long}, ""},
		{"joe\n" + scrv1("pass", "123456") + "\n", credentials{user: "joe", password: "pass", response: "123456", challenged: true}, ""},
		{"joe\n" + scrv1("", "") + "\n", credentials{user: "joe", challenged: true}, ""},
		{"joe\nSCRV1:me:too\n", credentials{user: "joe", password: "SCRV1:me:too"}, ""},
		{"joe\nSCRV1:cGFzcw==\n", credentials{user: "joe", password: "pass", challenged: true}, ""},
		{"", credentials{}, "two lines"},
		{"joe", credentials{}, "two lines"},
		{"joe\nsecret\nmore\n", credentials{}, "two lines"},
		{"\nsecret\n", credentials{}, "no user"},
		{"j\x00oe\nsecret\n", credentials{}, "control characters"},
		{"j\x1boe\nsecret\n", credentials{}, "control characters"},
		{"joe\nsec\x00ret\n", credentials{}, "control characters"},
		{"joe\n" + scrv1("p\x00q", "1") + "\n", credentials{}, "control characters"},
		{"joe\n" + strings.Repeat("x", maxFile), credentials{}, "more than 8192 bytes"},
	} {
		got, err := parseCredentials(c.text)
		if got != c.want || (err == nil) != (c.bad == "") || err != nil && !strings.Contains(err.Error(), c.bad) {
			t.Errorf("%.60q: %.200v (%v), want %.200v (%s)", c.text, got, err, c.want, c.bad)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the password is in the error %q", err)
		}
	}
}

func FuzzParseCredentials(f *testing.F) {
	for _, s := range []string{"joe\nsecret\n", "joe\n" + scrv1("pass", "1") + "\n", "joe\nSCRV1:::\n", "\n\n\n", "a\x00\nb"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseCredentials(text)
		if err != nil {
			if c != (credentials{}) {
				t.Fatalf("%+v beside the error %v", c, err)
			}
			return
		}
		if c.user == "" || strings.ContainsAny(c.user, "\n\x00\x1b") || strings.Contains(c.password+c.response, "\x00") {
			t.Fatalf("%+v", c)
		}
		if !c.challenged && (c.response != "" || !strings.Contains(text, c.password)) {
			t.Fatalf("%+v out of %q", c, text)
		}
	})
}
