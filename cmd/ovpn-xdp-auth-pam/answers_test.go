// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"testing"
)

// prompt is one question of a module's, and what it should hear.
type prompt struct {
	text   string
	hidden bool
	want   string // "none": no answer
}

func TestAnswers(t *testing.T) {
	plain := credentials{user: "joe", password: "pass"}
	challenged := credentials{user: "joe", password: "pass", response: "123456", challenged: true}
	const userPrompt, passPrompt, codePrompt = "login: ", "Password: ", "Verification code: "
	for name, c := range map[string]struct {
		answers answers
		prompts []prompt
	}{
		"by kind":      {answers{credentials: plain}, []prompt{{userPrompt, false, "joe"}, {passPrompt, true, "pass"}, {"LDAP Password: ", true, "pass"}}},
		"no challenge": {answers{credentials: plain}, []prompt{{passPrompt, true, "pass"}, {codePrompt, true, "pass"}}},
		"challenge":    {answers{credentials: challenged}, []prompt{{userPrompt, false, "joe"}, {passPrompt, true, "pass"}, {codePrompt, true, "123456"}, {passPrompt, true, "pass"}}},
		"no response":  {answers{credentials: credentials{user: "joe", password: "pass", challenged: true}}, []prompt{{passPrompt, true, "pass"}, {codePrompt, true, ""}}},
		"no prompt":    {answers{credentials: challenged}, []prompt{{"", true, "pass"}, {codePrompt, true, "123456"}}},
		"rules": {answers{credentials: challenged, commonName: "laptop", rules: []rule{{"login", "USERNAME"}, {"pass", "PASSWORD"}, {"Verification CODE", "OTP"}, {"domain", "example.com"}, {"token", "PASSWORD+OTP@COMMONNAME"}}},
			[]prompt{{userPrompt, false, "joe"}, {userPrompt, true, "joe"}, {"(current) Password: ", true, "none"}, {"  ** Password: ", true, "pass"}, {codePrompt, true, "123456"},
				{"Domain?", false, "example.com"}, {"Token:", true, "pass+123456@laptop"}, {"", true, "none"}, {"Log", false, "none"}}},
		"nothing replaced twice": {answers{credentials: credentials{user: "PASSWORD", password: "OTP", response: "USERNAME", challenged: true}, rules: []rule{{"x", "USERNAME PASSWORD OTP"}}},
			[]prompt{{"x", false, "PASSWORD OTP USERNAME"}}},
	} {
		for _, p := range c.prompts {
			got, err := c.answers.reply(p.text, p.hidden)
			if p.want == "none" {
				if !errors.Is(err, errNoAnswer) || got != "" {
					t.Errorf("%s: %q is answered with %q (%v), want no answer", name, p.text, got, err)
				}
				continue
			}
			if err != nil || got != p.want {
				t.Errorf("%s: %q is answered with %q (%v), want %q", name, p.text, got, err, p.want)
			}
		}
	}
}
